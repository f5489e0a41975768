"""The rules: which of them are broken, from a snapshot of the gateway. Pure functions; each rule is one function of the table.

A rule whose incident is open already is judged by a milder limit (`_MILDER`), so that a figure that swings around the limit does not
open and close it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import attrs

from gw.config.alert_settings import AlertSettings
from gw.store.alert_queries import RecordFacts
from gw.types.alerts import AlertRule, IncidentKey, Severity, Sighting
from gw.types.gate_view import BreakerState
from gw.types.usage import NANO

_MILDER = 0.8
_DAY_S = 86_400
_LAST_DAYS = 3.0  # a certificate or key that ends so soon is critical
_MENTIONED_DAYS = 7.0  # an expired key that nobody has revoked
_MOST_NAMED = 20
_BREAKERS: Mapping[BreakerState, str] = {
    "open": "open: it is not called", "half_open": "half open: one call at a time shows if it answers again", "closed": "closed",
}  # fmt: skip
_FEWEST_BUSY = 5  # of a provider in one window: fewer are a burst


@attrs.frozen(kw_only=True)
class BudgetFact:
    """A budget that is set. `owner`: `project shop` or `key till`; `blocks`: requests are refused once it is spent."""

    owner: str
    period: str
    budget_nusd: int
    spent_nusd: int
    blocks: bool


@attrs.frozen(kw_only=True)
class GateFact:
    """A provider as this gateway calls it now. `models`: breakers that are not closed; `places`: calls at once, None = any number.

    `full`: models whose vendor has no slot free, as its answers say.
    """

    provider: str
    breaker: BreakerState
    models: Mapping[str, BreakerState]
    in_flight: int
    places: int | None
    full: Collection[str] = ()


@attrs.frozen(kw_only=True)
class Expiry:
    """Something that ends. `what`: for people, such as the file of a certificate; `since`: when it began, 0 = not known."""

    rule: AlertRule
    subject: str
    what: str
    at: float
    since: float = 0.0


@attrs.frozen(kw_only=True)
class AlertFacts:
    """Facts of one moment (`now`, Unix seconds). `records`: None while the database cannot be read."""

    now: float
    instance: str = ""
    """Name of this gateway among those with the same database; it is part of the subjects that are its own."""
    budgets: Collection[BudgetFact] = ()
    gates: Collection[GateFact] = ()
    records: RecordFacts | None = None
    table_days: Mapping[str, int] = attrs.field(factory=dict)
    """Provider type → age of its price table."""
    expiries: Collection[Expiry] = ()
    degraded: str = ""
    """Why records are not stored."""
    waiting_records: int = 0
    journal_bytes: int = 0
    journal_mb: int = 0
    """Size up to which the journals may grow."""
    problems: Mapping[str, str] = attrs.field(factory=dict)
    """Other problems of the gateway: code → a sentence."""


FROM_RECORDS: frozenset[AlertRule] = frozenset(("error_rate", "fallback_rate", "first_audio_slow", "unpriced_models"))
"""Rules of which nothing is known while the records cannot be read."""


def sightings(snapshot: AlertFacts, settings: AlertSettings, open_keys: Collection[IncidentKey]) -> list[Sighting]:
    """Return what is wrong. `open_keys`: incidents that are open already."""
    judge = _Judge(snapshot, settings, frozenset(open_keys))
    sightings = [sighting for rule in _RULES for sighting in rule(judge)]
    return [sighting for sighting in sightings if sighting.rule not in settings.disabled]


@attrs.frozen
class _Judge:
    snapshot: AlertFacts
    settings: AlertSettings
    open_keys: frozenset[IncidentKey]

    def own(self, subject: str) -> str:
        """Return a subject that is this gateway's own."""
        return f"{subject} {self.snapshot.instance}".strip()

    def exceeds(self, value: float, limit: float, rule: AlertRule, subject: str) -> bool:
        return value >= limit * (_MILDER if (rule, subject) in self.open_keys else 1.0)


def _budgets(judge: _Judge) -> Iterator[Sighting]:
    for fact in judge.snapshot.budgets:
        subject, share = f"{fact.owner} {fact.period}", fact.spent_nusd / fact.budget_nusd
        words = f"{fact.owner} has spent {_usd(fact.spent_nusd)} of its budget of {_usd(fact.budget_nusd)} ({fact.period})"
        if share >= 1:
            effect = "requests are refused" if fact.blocks else "requests go on, since budget_action is warn"
            yield Sighting(rule="budget_exceeded", subject=subject, severity="critical", text=f"{words}: {effect}.")
        if share >= judge.settings.budget_warning:
            yield Sighting(rule="budget_warning", subject=subject, severity="warning", text=f"{words}.")


def _providers(judge: _Judge) -> Iterator[Sighting]:
    records = judge.snapshot.records
    calls = {} if records is None else records.providers
    gates = {gate.provider: gate for gate in judge.snapshot.gates}
    for name in sorted({*gates, *calls}):
        text = ""
        gate, of_records = gates.get(name), calls.get(name)
        if gate is not None and gate.breaker != "closed":
            text = f"The circuit breaker of {name} is {_BREAKERS[gate.breaker]}."
        elif gate is not None and gate.models:
            words = _BREAKERS["open" if "open" in gate.models.values() else "half_open"]
            text = f"The circuit breaker of {_listed(gate.models)} is {words}."
        elif of_records is not None and of_records.calls >= judge.settings.min_requests:
            share = of_records.failed / of_records.calls
            if judge.exceeds(share, judge.settings.provider_failures, "provider_failing", name):
                text = f"{of_records.failed} of {of_records.calls} calls of {name} failed in {_minutes(judge.settings.window_s)}."
        if text:
            yield Sighting(rule="provider_failing", subject=name, severity="critical", text=text)


def _slots(judge: _Judge) -> Iterator[Sighting]:
    records = judge.snapshot.records
    calls = {} if records is None else records.providers
    full = {gate.provider for gate in judge.snapshot.gates if gate.places is not None and gate.in_flight >= gate.places}
    learnt = {gate.provider: gate.full for gate in judge.snapshot.gates if gate.full}
    full |= {name for name, of_records in calls.items() if of_records.busy >= _FEWEST_BUSY} | set(learnt)
    for name in sorted(full):
        why = "max_concurrent allows" if name not in learnt else f"its vendor allows for {_listed(learnt[name])}"
        text = f"{name} has as many calls at once as {why}: requests wait, or go to the next candidate."
        yield Sighting(rule="slots_full", subject=name, severity="warning", text=text)


def _rates(judge: _Judge) -> Iterator[Sighting]:
    records, settings = judge.snapshot.records, judge.settings
    if records is None or records.requests < settings.min_requests:
        return
    rated: tuple[tuple[AlertRule, Severity, int, float, str], ...] = (
        ("error_rate", "critical", records.errors, settings.error_rate, "failed"),
        ("fallback_rate", "warning", records.fallbacks, settings.fallback_rate, "were answered by another candidate than the first"),
    )
    for rule, severity, count, limit, what in rated:
        share = count / records.requests
        if judge.exceeds(share, limit, rule, ""):
            time = _minutes(settings.window_s)
            text = f"{count} of {records.requests} requests ({share:.0%}) {what} in {time}; the limit is {limit:.0%}."
            yield Sighting(rule=rule, subject="", severity=severity, text=text)


def _first_audio(judge: _Judge) -> Iterator[Sighting]:
    records, settings = judge.snapshot.records, judge.settings
    if records is None or records.first_audio_p95_ms is None or records.turns < settings.min_requests:
        return
    p95 = records.first_audio_p95_ms
    if judge.exceeds(p95, settings.first_audio_ms, "first_audio_slow", ""):
        text = (
            f"The p95 of first audio is {p95:.0f} ms over {records.turns} turns in {_minutes(settings.window_s)}; "
            f"the limit is {settings.first_audio_ms:.0f} ms."
        )
        yield Sighting(rule="first_audio_slow", subject="", severity="warning", text=text)


def _prices(judge: _Judge) -> Iterator[Sighting]:
    if judge.snapshot.records is not None and (unpriced := judge.snapshot.records.unpriced):
        text = f"Requests were answered today by models without a price: {_listed(unpriced)}."
        yield Sighting(rule="unpriced_models", subject="", severity="warning", text=text)
    for kind, days in judge.snapshot.table_days.items():
        if days > judge.settings.price_days:
            text = f"The prices of {kind} were last verified {days} days ago: take a newer version of gw, or `gw prices update`."
            yield Sighting(rule="prices_old", subject=kind, severity="warning", text=text)


def _expiries(judge: _Judge) -> Iterator[Sighting]:
    for expiry in judge.snapshot.expiries:
        days, warned_s = (expiry.at - judge.snapshot.now) / _DAY_S, judge.settings.expiry_days * _DAY_S
        is_short = expiry.at - expiry.since < 2 * warned_s  # made to end soon: nobody has to be reminded
        if days > judge.settings.expiry_days or is_short or (days < -_MENTIONED_DAYS and expiry.rule == "key_expiring"):
            continue
        when = "has expired" if days <= 0 else f"expires in {days:.0f} days" if days >= 2 else f"expires in {days * 24:.0f} hours"
        severity: Severity = "critical" if days <= _LAST_DAYS and expiry.rule == "certificate_expiring" else "warning"
        subject = judge.own(expiry.subject) if expiry.rule == "certificate_expiring" else expiry.subject
        yield Sighting(rule=expiry.rule, subject=subject, severity=severity, text=f"{expiry.what} {when}.")


def _gateway(judge: _Judge) -> Iterator[Sighting]:
    snapshot = judge.snapshot
    if snapshot.degraded:
        text = f"Records are not stored: {snapshot.degraded}."
        yield Sighting(rule="records_not_stored", subject=judge.own(""), severity="critical", text=text)
    if judge.exceeds(snapshot.waiting_records, judge.settings.waiting_records, "journal_growing", judge.own("")):
        size = f"{snapshot.journal_bytes / 1e6:.0f} of {snapshot.journal_mb} MB (cost_tracking.journal_mb)"
        text = f"{snapshot.waiting_records} records wait in the journal for the database; it has {size}."
        yield Sighting(rule="journal_growing", subject=judge.own(""), severity="critical", text=text)
    for code, text in snapshot.problems.items():
        yield Sighting(rule="gateway_degraded", subject=judge.own(code), severity="critical", text=text)


_RULES: tuple[Callable[[_Judge], Iterator[Sighting]], ...] = (
    _budgets, _providers, _rates, _first_audio, _prices, _expiries, _gateway, _slots,
)  # fmt: skip


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:_MOST_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _usd(nusd: int) -> str:
    return "$" + f"{nusd / NANO:.6f}".rstrip("0").rstrip(".")


def _minutes(seconds: float) -> str:
    return f"the last {seconds / 60:g} minutes"
