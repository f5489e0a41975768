"""The snapshot that the rules judge: from the gateway's memory, its committed records, and a few files that are read once an hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import structlog
import trio

from gw.admin.budget_use import BUDGETS
from gw.alerts.conditions import AlertFacts, BudgetFact, Expiry, GateFact
from gw.config.fleet_rules import member_name
from gw.errors import StoreError
from gw.gateway import Gateway, HealthProblem
from gw.policy.spend_periods import BudgetPeriod
from gw.pricing.price_document import EPOCH_DAY
from gw.pricing.rate_tables import own_folder, tables_verified
from gw.registry.catalog import Catalog
from gw.store.alert_queries import RecordFacts, record_facts
from gw.telemetry.clock import utc_day
from gw.types.entities import Project
from gw.types.ids import KeyLimits

_FILES_S = 3_600.0  # certificate and price tables change rarely
_log = structlog.get_logger()

_PROBLEMS: Mapping[HealthProblem, str] = {
    "reload_failed": "The last reload of gw.yaml failed: the configuration before it is in force.",
    "retention_held": "Old records are not deleted: the clock has leapt ahead.",
    "capture_not_written": "What projects capture cannot be written.",
    "phrases_not_stored": "Speech of the phrase cache cannot be kept on the disk.",
    "phrases_not_shared": "Speech of the phrase cache cannot be kept for the other gateways of the fleet.",
    "fleet_unreachable": "The server that the fleet shares cannot be reached.",
    "changes_not_received": "Changes that other gateways make may be unknown here: the connection to the database is lost.",
    "log_not_written": "The log cannot be written.",
    "telemetry_not_exported": "Telemetry does not reach the collector: spans wait, and the oldest are dropped.",
}
"""Problems of /health except `records_not_stored`, which is a rule of its own."""


class FactReader:
    """Takes snapshots of one gateway."""

    def __init__(self, gateway: Gateway, *, shared: bool) -> None:
        """`shared`: other gateways have the same database, so that subjects name this one."""
        self._gateway = gateway
        self._instance = member_name(gateway.settings) if shared else ""
        self._files_at: float | None = None
        self._table_days: Mapping[str, int] = {}
        self._certificate_ends: float | None = None

    async def snapshot(self, *, records: bool = True) -> AlertFacts:
        """Take a snapshot, with figures from the database or not. Reads once an hour the certificate and the price tables."""
        gateway = self._gateway
        now, workers = gateway.clock.now(), gateway.workers()
        await self._read_files(now)
        return AlertFacts(
            now=now, instance=self._instance, budgets=list(self._budgets()), gates=list(self._gates()),
            records=await self._records(now) if records else None,
            table_days=self._table_days, expiries=list(self._expiries()),
            degraded=gateway.store.degraded or next((worker.figures.trouble for worker in workers if worker.figures.trouble), ""),
            waiting_records=gateway.journals.records_waiting,
            journal_bytes=gateway.journals.bytes, journal_mb=gateway.settings.cost_tracking.journal_mb,
            problems={code: _PROBLEMS[code] for code in gateway.problems if code in _PROBLEMS},
        )  # fmt: skip

    async def _records(self, now: float) -> RecordFacts | None:
        try:
            return await self._gateway.store.read(record_facts, now, self._gateway.settings.alerts.window_s)
        except StoreError:
            return None

    def _budgets(self) -> Iterator[BudgetFact]:
        ledger, catalog = self._gateway.ledger, self._gateway.current.catalog
        for project in catalog.projects.values():
            blocks = project.budget_action == "block"
            for period, budget in _set_budgets(project):
                spent = ledger.spent_in(project.id, period)
                yield BudgetFact(owner=f"project {project.id}", period=period, budget_nusd=budget, spent_nusd=spent, blocks=blocks)
        for key_id, limits in self._limited_keys(catalog):
            for period, budget in _set_budgets(limits):
                spent = ledger.key_spent(key_id, period)
                yield BudgetFact(owner=f"key {key_id}", period=period, budget_nusd=budget, spent_nusd=spent, blocks=True)

    def _limited_keys(self, catalog: Catalog) -> Iterator[tuple[str, KeyLimits]]:
        for number, key in enumerate(self._gateway.settings.auth.keys, start=1):
            if key.limits is not None:
                yield key.id(number), key.limits
        for stored in catalog.keys:
            if stored.limits is not None:
                yield stored.id, stored.limits

    def _gates(self) -> Iterator[GateFact]:
        providers = self._gateway.current.catalog.providers
        for name, view in self._gateway.limits.view(trio.current_time()).items():
            provider = providers.get(view.provider)
            places = None if provider is None else provider.max_concurrent
            full = [key for key, slots in view.slots.items() if slots.in_use >= slots.most]
            yield GateFact(
                provider=name, breaker=view.breaker, models=view.models, in_flight=view.in_flight, places=places, full=full
            )

    def _expiries(self) -> Iterator[Expiry]:
        if (ends := self._certificate_ends) is not None:
            path = str(self._gateway.settings.serve.tls_cert)
            yield Expiry(rule="certificate_expiring", subject="", what=f"The certificate {path}", at=ends)
        for key in self._gateway.current.catalog.keys:
            if key.expires_at is not None:
                what = f"The key {key.name or key.id} of project {key.project}"
                yield Expiry(rule="key_expiring", subject=key.id, what=what, at=key.expires_at, since=key.created_at)

    async def _read_files(self, now: float) -> None:
        if self._files_at is not None and 0 <= now - self._files_at < _FILES_S:
            return
        settings, providers = self._gateway.settings, self._gateway.current.catalog.providers.values()
        kinds = {provider.type for provider in providers if provider.configured and provider.location == "cloud"}
        today = utc_day(now)
        try:
            verified = await trio.to_thread.run_sync(tables_verified, own_folder(settings.cost_tracking.db_path))
            self._table_days = {kind: today + EPOCH_DAY - day.toordinal() for kind, day in verified.items() if kind in kinds}
            if settings.serve.tls_cert is not None:
                self._certificate_ends = await trio.to_thread.run_sync(partial(certificate_ends, settings.serve.tls_cert))
        except (OSError, ValueError) as error:  # what was read before stays
            _log.warning("alert_facts_not_read", why=str(error))
        self._files_at = now  # not before: the first snapshot is cancelled where this gateway is the one that sends


def _set_budgets(owner: Project | KeyLimits) -> Iterator[tuple[BudgetPeriod, int]]:
    for period, name in BUDGETS:
        if budget := int(getattr(owner, f"{name}_nusd")):
            yield period, budget


def certificate_ends(path: Path) -> float:
    """Return when the first certificate of a PEM file expires, in Unix seconds. Blocks. Raises OSError, ValueError."""
    from cryptography import x509  # takes longer to load than to use

    return min(one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(path.read_bytes()))
