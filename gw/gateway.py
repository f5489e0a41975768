"""The running gateway as one object, and the one place that builds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, Protocol

import attrs
import msgspec
import trio

from gw import __version__
from gw.admin.registrar import Registrar
from gw.config.alert_rules import check_alerts
from gw.config.capture_rules import check_capture
from gw.config.fleet_rules import member_name
from gw.config.reload_rules import reloaded
from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, one_error
from gw.net.http1 import Pool
from gw.policy.end_of_turn import EndOfTurn, WordsEndTurn
from gw.policy.form_order import FormOrder
from gw.policy.spend_periods import PeriodSpend
from gw.policy.turn_finder import TurnFinder
from gw.pricing.book import PriceBook, RateRow
from gw.pricing.rate_tables import own_folder, own_rows, shipped_rows
from gw.registry.catalog import Catalog, CurrentCatalog
from gw.registry.credentials import Credentials, ExpiringSet
from gw.registry.merge import build
from gw.relay.accounting import Accounting, CaptureSink
from gw.relay.admission import Ledger
from gw.relay.background_work import Background
from gw.relay.candidates import CandidatePlanner
from gw.relay.dead_members import take_out_workers
from gw.relay.fleet_notices import FleetNotices
from gw.relay.key_limits import KeyUse
from gw.relay.leases import Leases
from gw.relay.limits import ProviderLimits
from gw.relay.relay import Relay
from gw.relay.shared_limits import share_limits
from gw.store.capture_writer import CaptureStore, capture_store_of
from gw.store.configured import open_configured, open_configured_readonly
from gw.store.journal_use import JournalUse
from gw.store.phrase_store import PhraseStore, phrase_store_of
from gw.store.store import Store
from gw.telemetry.clock import Clock, RequestIds, SystemClock, utc_day
from gw.telemetry.log_lines import LogLines
from gw.telemetry.metrics import Metrics
from gw.types.bank import Bank, BankReader
from gw.types.notices import NoticeBoard
from gw.types.secret import Secret
from gw.types.span_counts import SpanExporter
from gw.types.worker_state import WorkerState

if TYPE_CHECKING:
    from gw.fleet.shared_phrases import SharedPhrases
    from gw.fleet_turns import FleetTurns

HealthProblem = Literal[
    "records_not_stored", "reload_failed", "retention_held", "log_not_written", "capture_not_written", "fleet_unreachable",
    "changes_not_received", "telemetry_not_exported", "phrases_not_stored", "phrases_not_shared",
]

_LEAVE_S = 1.0
_MAX_ENDED_SESSIONS = 10_000  # when full, the session that was logged out first is forgotten


@attrs.define(kw_only=True, eq=False)
class Gateway:
    """One running gateway. All its state hangs on this object: two in one process do not share any."""

    settings: Settings
    """Current settings; `reload` replaces them."""
    current: CurrentCatalog
    store: Store
    captures: CaptureStore | None = None
    """None: there is no secret to encrypt captured content with, so nothing is captured."""
    phrase_store: PhraseStore | None = None
    """Keeps phrases of the phrase cache on the disk; None: none are kept there."""
    shared_phrases: SharedPhrases | None = None
    """Keeps them in the server of a fleet; None: none are kept there."""
    telemetry: SpanExporter | None = None
    """Exports committed records by OTLP; None: nothing is exported."""
    relay: Relay
    leases: Leases | None = None
    """Parts of the limits of a fleet that this gateway may give away; None: it runs alone."""
    bank: FleetBank | None = None
    """Says what all gateways of the fleet have."""
    fleet_turns: FleetTurns | None = None
    """Finds turns without ids among the requests of all gateways of the fleet; None: the gateways share no database, or it runs alone."""
    workers: Callable[[], Sequence[WorkerState]] = tuple
    """Returns the worker processes of this gateway; none: this process serves apps itself."""
    ledger: Ledger
    limits: ProviderLimits
    metrics: Metrics
    clock: Clock
    book: PriceBook
    pool: Pool
    started_at: float
    """Unix seconds."""
    registrar: Registrar
    credentials: Credentials
    request_ids: RequestIds
    version: str = __version__
    started: float = attrs.field(init=False, factory=trio.current_time)
    """On trio's clock, which nobody sets."""
    log_lines: LogLines | None = attrs.field(init=False, default=None)
    """The log, where this process writes its own."""
    failed_reload: str = attrs.field(init=False, default="")
    """Why the last reload changed nothing; empty = it did, or there was none."""
    journals: JournalUse = attrs.field(init=False)
    """Room for records that wait for the database, in all processes."""
    background: Background = attrs.field(init=False, factory=Background)
    """Work whose request has been answered already."""
    run_id: str = attrs.field(init=False, factory=partial(token_hex, 8))
    """Tells this run of the gateway from those before it on the same database."""
    end_of_turn: EndOfTurn = attrs.field(factory=WordsEndTurn)
    """Judges in realtime conversations whether a speaker who pauses has finished."""
    form_order: FormOrder = attrs.field(init=False, factory=FormOrder)
    ended_sessions: ExpiringSet = attrs.field(init=False, factory=lambda: ExpiringSet(_MAX_ENDED_SESSIONS))
    """Sessions of the dashboard that were logged out."""

    def __attrs_post_init__(self) -> None:
        self.journals = JournalUse(self.store, lambda: self.workers(), self.settings.cost_tracking.journal_bytes)

    @property
    def uptime_s(self) -> float:
        return round(trio.current_time() - self.started, 3)

    @property
    def requests_in_flight(self) -> int:
        """Return the number of requests of apps that run, in all processes of this gateway."""
        return self.relay.in_flight.requests + sum(worker.figures.in_flight for worker in self.workers())

    @property
    def problems(self) -> list[HealthProblem]:
        """Codes of what an operator should look at."""
        result: tuple[tuple[HealthProblem, object], ...] = (
            ("records_not_stored", self.store.degraded),
            ("reload_failed", self.failed_reload),
            ("retention_held", self.store.retention_held),
            ("capture_not_written", self.captures is not None and self.captures.trouble),
            ("phrases_not_stored", self.phrase_store is not None and self.phrase_store.trouble),
            ("phrases_not_shared", self.shared_phrases is not None and self.shared_phrases.trouble),
            ("fleet_unreachable", self.leases is not None and self.leases.is_alone),
            ("changes_not_received", self.store.changes_lost),
            ("telemetry_not_exported", self.telemetry is not None and self.telemetry.trouble),
            ("log_not_written", self.log_lines is not None and self.log_lines.trouble),
        )
        return [name for name, present in result if present]

    async def reload(self, settings: Settings) -> tuple[str, ...]:
        """Put other settings, and the price tables as they are now, in force for requests that begin from now on.

        Returns the names of changed settings that need a restart; they keep their old values. Raises ConfigError.
        """
        check_capture(settings)
        check_alerts(settings)
        settings, unchanged = reloaded(self.settings, settings)
        rates = _rates(settings)
        await self.registrar.reload(settings)
        self.settings = settings
        self.journals.limit(settings.cost_tracking.journal_bytes)
        self.book.replace(rates)
        self.relay.configure(settings.routing, settings.shadow)
        self.limits.configure(settings.routing.breaker)
        await self.registrar.spread()
        return unchanged

    def adopt_config(self, settings: Settings, catalog: Catalog, rates: Sequence[RateRow]) -> None:
        """Put in force what another process has read and merged, for requests that begin from now on."""
        is_reload, self.settings = settings != self.settings, settings
        self.registrar.adopt(settings, catalog)
        self.book.replace(rates)
        if is_reload:
            self.journals.limit(settings.cost_tracking.journal_bytes)
            self.relay.configure(settings.routing, settings.shadow)
            self.limits.configure(settings.routing.breaker)


def _model_labels(catalog: Catalog, book: PriceBook) -> list[str]:
    """Return the ids that metrics may have as labels: the listed models, and for each wildcard the names that have a price.

    Names that callers make up count together as `other`.
    """
    listed = [model.id for model in catalog.models.values() if not model.is_wildcard]
    priced = [
        f"{provider_id}/{name}"
        for wildcards in catalog.wildcards.values() for provider_id in wildcards
        for name in book.names(catalog.provider(provider_id).type)
    ]
    return list(dict.fromkeys((*listed, *priced)))


def _rates(settings: Settings) -> list[RateRow]:
    """Read the installation's own price tables. Raise ConfigError naming the file."""
    folder = own_folder(settings.cost_tracking.db_path)
    try:
        return own_rows(folder)
    except ValueError as error:
        raise ConfigError(problems=(Problem(file=str(folder), what=str(error)),)) from None


class SharedBank(Bank, NoticeBoard, Protocol):
    """Counts for several processes, and passes notices between them."""


class FleetBank(SharedBank, BankReader, Protocol):
    """The server of a fleet."""


class FrontBank(SharedBank, Protocol):
    """A bank in this process, which can leave its work to the bank of a fleet of gateways."""

    def use(self, fleet: SharedBank) -> None: ...


class ProcessShare(msgspec.Struct, frozen=True, kw_only=True):
    """Store, configuration and bank of a process that is one of several of a gateway; another one has the database."""

    store: Store
    catalog: Catalog
    rates: Sequence[RateRow]
    member: str
    """Name of the process in the bank."""
    bank: SharedBank
    captures: CaptureSink | None
    turns: TurnFinder


@asynccontextmanager
async def open_gateway(
    settings: Settings, *, clock: Clock | None = None, make_pool: Callable[[], Pool] = Pool,
    learn: Callable[[Iterable[Secret]], None] = lambda secrets: None, processes: bool = False,
    read_only: bool = False, spares: int = 0, front_bank: FrontBank | None = None, share: ProcessShare | None = None,
) -> AsyncIterator[Gateway]:  # fmt: skip
    """Build everything. The store is opened first and closes last.

    `learn` receives every secret that must not get into a log; `processes`: write and make reports in processes
    of their own; `spares`: segments of the journal to reserve for a full disk. With `read_only` another gateway may hold the
    database, stored provider keys are not decrypted and nothing can be recorded. `front_bank`: counts for several processes, or
    lets the server of the settings do so. `share`: of a process that is one of several and has no database. Raise ConfigError,
    DatabaseLocked (another gateway writes this database), StoreUnavailable.
    """
    clock = clock or SystemClock()
    book = PriceBook(_rates(settings) if share is None else share.rates, shipped_rows)
    current = CurrentCatalog(build(settings) if share is None else share.catalog)
    async with AsyncExitStack() as opened:
        telemetry = None if share is not None or read_only else await _telemetry(opened, settings)
        store = share.store if share is not None else await opened.enter_async_context(
            _store(settings, clock, processes=processes, read_only=read_only, spares=spares, telemetry=telemetry)
        )  # fmt: skip
        leases, notices, fleet = await _shared_limits(opened, settings, front_bank, share, read_only=read_only)
        ledger = Ledger(clock, {}, leases=leases) if share is not None else await _ledger(clock, store, leases, settings)
        limits, metrics = ProviderLimits(settings.routing.breaker, leases, None if notices is None else notices.announce), Metrics()

        def follow(catalog: Catalog) -> None:
            _follow(catalog, limits, metrics, book)
            share_limits(ledger, catalog, registrar.settings.auth, only_used=share is not None)

        registrar = Registrar(settings, current=current, store=store, clock=clock, learn=learn, follow=follow)
        if share is None:
            await registrar.load(decrypt=not read_only)
        else:
            registrar.adopt(settings, share.catalog)
        pool = make_pool()
        keeps = not read_only and share is None
        captures = capture_store_of(settings, clock, registrar.capture_key, registrar.capture_keep_s) if keeps else None
        accounting = Accounting(
            clock=clock, book=book, ledger=ledger, records=store, observer=metrics, captures=share.captures if share else captures
        )
        planner = CandidatePlanner(current, pool, limits, accounting, settings.routing, settings.cost_tracking)
        if share is None:
            planner.hedge_budget.load(utc_day(clock.now()), await store.hedges(utc_day(clock.now())))
        fleet_turns = None if fleet is None else await _fleet_turns(opened, settings, store, clock)
        relay = Relay(planner, fleet_turns if share is None else share.turns, settings.shadow)
        phrase_store = phrase_store_of(settings, clock, registrar.capture_key) if keeps else None
        shared_phrases = None if read_only else _keep_phrases(settings, relay, phrase_store)
        gateway = Gateway(
            settings=settings, current=current, registrar=registrar, credentials=Credentials(clock), store=store, captures=captures,
            phrase_store=phrase_store, shared_phrases=shared_phrases, telemetry=telemetry, relay=relay, leases=leases, bank=fleet,
            fleet_turns=fleet_turns, ledger=ledger, limits=limits, metrics=metrics, book=book, pool=pool, clock=clock,
            started_at=clock.now(), request_ids=accounting.request_ids,
        )  # fmt: skip
        async with _running(gateway, notices, read_only=read_only):
            yield gateway


@asynccontextmanager
async def _running(gateway: Gateway, notices: FleetNotices | None, *, read_only: bool) -> AsyncIterator[None]:
    """Run the tasks of a gateway. At the end give its leases back and close its pool."""
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.relay.run)
                if gateway.captures is not None:
                    nursery.start_soon(gateway.captures.run)
                if gateway.phrase_store is not None:
                    await nursery.start(gateway.phrase_store.run)
                if gateway.shared_phrases is not None:
                    nursery.start_soon(gateway.shared_phrases.run)
                if gateway.leases is not None:
                    await nursery.start(gateway.leases.run)
                    if gateway.bank is not None:
                        await take_out_workers(gateway.bank, gateway.leases.member)
                if notices is not None:
                    nursery.start_soon(notices.run, gateway.limits.heed)
                if gateway.fleet_turns is not None:
                    nursery.start_soon(gateway.fleet_turns.run)
                nursery.start_soon(gateway.background.run)
                if not read_only:
                    nursery.start_soon(gateway.store.follow_changes, gateway.registrar.refresh)
                yield
                nursery.cancel_scope.cancel()
    finally:
        if gateway.leases is not None:
            with trio.move_on_after(_LEAVE_S, shield=True):
                await gateway.leases.leave()
        await gateway.pool.aclose()


async def _shared_limits(
    opened: AsyncExitStack, settings: Settings, front_bank: FrontBank | None, share: ProcessShare | None, *, read_only: bool
) -> tuple[Leases | None, FleetNotices | None, FleetBank | None]:
    """Return what shares limits with other processes or gateways; three times None for a process that shares none.

    A connection to the server of a fleet is closed with `opened`. Raise ConfigError.
    """
    shared: SharedBank | None = front_bank if share is None else share.bank
    fleet: FleetBank | None = None
    if share is None and not read_only and settings.fleet.valkey:
        from gw.fleet.fleet_configured import open_configured_bank  # one gateway alone imports nothing of it

        fleet = await opened.enter_async_context(open_configured_bank(settings))
        shared = front_bank or fleet
        if front_bank is not None:
            front_bank.use(fleet)
    if shared is None:
        return None, None, None
    member = member_name(settings) if share is None else share.member
    return Leases(shared, member, settings.fleet.wait_ms / 1000), FleetNotices(shared, member), fleet


async def _fleet_turns(opened: AsyncExitStack, settings: Settings, store: Store, clock: Clock) -> FleetTurns | None:
    from gw.fleet_turns import open_fleet_turns  # as above

    return await opened.enter_async_context(open_fleet_turns(settings, store, clock))


def _keep_phrases(settings: Settings, relay: Relay, disk: PhraseStore | None) -> SharedPhrases | None:
    """Have the phrase cache kept on the disk and in the fleet; return what keeps it in the fleet."""
    shared = None
    if settings.fleet.valkey:
        from gw.fleet.fleet_configured import configured_phrases  # as above

        shared = configured_phrases(settings, relay.phrases, disk)
    relay.phrases.stores = [store for store in (disk, shared) if store is not None]
    return shared


async def _ledger(clock: Clock, store: Store, leases: Leases | None, settings: Settings) -> Ledger:
    """Return the spend of today and before, as the records have it. In a fleet it is this gateway's, since each reports its own."""
    day, in_fleet = utc_day(clock.now()), bool(settings.fleet.valkey)
    spent = await (store.spend_of_instance if in_fleet else store.spend)(day)
    owners = await (store.owner_spend_of_instance if in_fleet else store.owner_spend)(day)
    estimated = {project: spend.estimated for project, spend in spent.items()}
    return Ledger(
        clock, {project: spend.total for project, spend in spent.items()}, estimated, leases,
        {project: spend.earlier for project, spend in owners.projects.items()},
        {key: KeyUse(PeriodSpend(spend.today, spend.earlier)) for key, spend in owners.keys.items()},
    )  # fmt: skip


def _store(
    settings: Settings, clock: Clock, *, processes: bool, read_only: bool, spares: int, telemetry: SpanExporter | None
) -> AbstractAsyncContextManager[Store]:
    if read_only:
        return open_configured_readonly(settings, clock=clock)
    on_committed = None if telemetry is None else telemetry.put
    return open_configured(settings, clock=clock, processes=processes, spares=spares, on_committed=on_committed)


def _follow(catalog: Catalog, limits: ProviderLimits, metrics: Metrics, book: PriceBook) -> None:
    """Adjust what has state per provider or model to a new catalog."""
    limits.keep(catalog.providers, catalog.models)
    book.prepare(catalog.provider(model.provider).type for model in catalog.models.values() if not model.prices)
    metrics.know(models=_model_labels(catalog, book), providers=list(catalog.providers))


async def _telemetry(opened: AsyncExitStack, settings: Settings) -> SpanExporter | None:
    """Start the exporter before the store, whose last records it sends after the store has closed. Raise ConfigError."""
    if settings.telemetry.otlp is None:
        return None
    from gw.otel.otlp_configured import open_configured_exporter  # a gateway without it imports nothing of it

    return await opened.enter_async_context(open_configured_exporter(settings))
