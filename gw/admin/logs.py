"""The log of requests: filtered, in pages and as a file; and the log of changes made through the API.

Pages are encoded in the report process: a thousand records take about 20 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

import msgspec

from gw.admin.downloads import ExportPage, Format, RowExport, checked_format, encoded
from gw.admin.filtered_lists import NEWEST, check_file_order, orders, time_window
from gw.admin.periods import read_period
from gw.admin.request_models import one_of, page_size, project_filter, whole_number
from gw.admin.schemas import Schema, UnixSeconds, from_attributes, usd, usd_or_none
from gw.errors import RequestError, UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.chunked_body import Encoded
from gw.store.queries import NoSuchRecord
from gw.store.requests import LogFilter, seconds_and_characters
from gw.store.store import Reader
from gw.types.captured import CaptureState
from gw.types.entities import Action, AuditEntry, EntityType
from gw.types.ids import MODALITIES, Modality
from gw.types.usage import UNIT_OF, AttemptRecord, CacheUse, RequestRecord, Status, Unit, Usage

STATUSES = ("success", "error", "fallback", "cancelled")
DEFAULT_RECORDS, MAX_RECORDS = 100, 1_000
DEFAULT_ENTRIES, MAX_ENTRIES = 50, 500
MOST_SORTED = 50_000
"""Records that a page in the order of a figure is chosen from; more are refused."""
SORTS = {order: order.replace("cost_usd", "cost_nusd") for order in orders("ttfb_ms", "total_latency_ms", "cost_usd")}
"""Value of `sort` → the column, with its sign."""

CSV_COLUMNS = (
    "id", "timestamp", "project", "modality", "model_id", "provider", "status", "cost_usd", "pricing_source",
    "input_units", "output_units", "cached_input_units", "unit", "ttfb_ms", "total_latency_ms", "gateway_ms",
    "fallback_from", "attempts", "error_code", "stream", "session_id", "turn_id", "key_id",
)  # fmt: skip
"""`attempts` is their number."""

_FILTER_FIELDS = {"model": "model_id", "session": "session_id", "turn": "turn_id", "q": "id_part"}
"""Name of a filter → field of `LogFilter`, where they differ."""


class UnknownRequestError(UnknownNameError, code="request_not_found", kind="request"):
    """No record has this id: it never existed, or was deleted after `retention_days`."""


class LoggedAttempt(Schema):
    """One upstream call, or a candidate that was skipped; then `detail` says why. Times count from the request's start.
    `ignored_settings` are those of the request that this vendor did without. `voice` is the one requested from it where that is
    not the caller's ("" for its own default). After several attempts each vendor that may
    charge has its own part of the units and the cost, with a `pricing_source`; all are null or 0 for a single attempt, whose
    part is the request's."""

    model_id: str
    outcome: str
    started_ms: float
    duration_ms: float
    ttfb_ms: float | None
    error_code: str | None
    upstream_status: int | None
    detail: str
    ignored_settings: list[str]
    voice: str | None
    text_characters: int | None
    """Characters of the caller's text, where pronunciations changed it: the units are those of the text that was sent."""
    input_units: float | None
    output_units: float | None
    cost_usd: float | None
    pricing_source: str
    estimated_usd: float
    wasted_usd: float | None
    cache: CacheUse
    """Whether the phrase cache had the speech; "" where it was not asked."""
    saved_usd: float
    """Price of the vendor for speech from the cache."""
    route: str
    """Route of gw.yaml that chose it for the request, "" without one."""
    routing: str
    """Why the route chose it."""
    lost_s: float | None
    """Seconds of speech that a live transcription could not hear again, because they had left the bounded buffer."""


class LogRecord(Schema):
    """`cost_usd` is null where no price is known; `estimated_usd` is what the parts of unknown cost count against the budget.
    Of the units and of the cost, `wasted_units` and `wasted_usd` reached nobody. `refused`: by a budget or a limit, or because the
    request was wrong; sums count it apart from errors."""

    id: str
    timestamp: UnixSeconds
    project: str
    modality: Modality
    model_id: str
    provider: str
    cost_usd: float | None
    total_latency_ms: float
    ttfb_ms: float | None
    gateway_ms: float | None
    status: Status
    input_units: float
    output_units: float
    cached_input_units: float
    unit: Unit
    wasted_units: float
    wasted_usd: float | None
    pricing_source: str
    estimated_usd: float
    fallback_from: str | None
    attempts: list[LoggedAttempt]
    error_code: str | None
    refused: bool
    stream: bool
    session_id: str | None
    turn_id: str | None
    key_id: str | None


class RequestDetail(LogRecord):
    """`usage` is billed; `measured_usage` is the gateway's own count where `usage` is the vendor's."""

    requested_model: str
    endpoint: str
    usage: Usage
    measured_usage: Usage | None
    captured: CaptureState | None
    """Fate of its words and sound where the project has `capture`: `incomplete` or `dropped` for lack of room."""


def log_record(record: RequestRecord) -> LogRecord:
    """Return a record as the log shows it, with the units of its modality. Only language models have output units."""
    usage, (seconds, characters) = record.usage, seconds_and_characters(record)
    units: Mapping[Modality, tuple[float, float, float]] = {
        "llm": (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens),
        "stt": (seconds, 0, 0),
        "tts": (characters, 0, 0),
    }
    input_units, output_units, cached_units = units[record.modality]
    return from_attributes(
        LogRecord,
        record,
        cost_usd=usd_or_none(record.cost_nusd),
        wasted_usd=usd_or_none(record.wasted_nusd),
        input_units=input_units,
        output_units=output_units,
        cached_input_units=cached_units,
        unit=UNIT_OF[record.modality],
        estimated_usd=usd(record.estimated_nusd),
        attempts=[_logged(attempt, record.modality) for attempt in record.attempts],
    )


def _logged(attempt: AttemptRecord, modality: Modality) -> LoggedAttempt:
    has_part = bool(attempt.pricing_source)
    units: Mapping[Modality, float | None] = {
        "llm": attempt.input_tokens, "stt": attempt.audio_seconds, "tts": attempt.characters,
    }  # fmt: skip
    return from_attributes(
        LoggedAttempt,
        attempt,
        input_units=(units[modality] or 0) if has_part else None,
        output_units=attempt.output_tokens if has_part else None,
        cost_usd=usd_or_none(attempt.cost_nusd),
        estimated_usd=usd(attempt.estimated_nusd),
        wasted_usd=usd_or_none(attempt.wasted_nusd),
        saved_usd=usd(attempt.saved_nusd),
    )


async def request_detail(store: Reader, record_id: str) -> RequestDetail:
    """Return one log record with the requested model and both counts of its usage. Raises UnknownRequestError."""
    record = await store.request(record_id)
    if record is None:
        raise UnknownRequestError(name=record_id)
    shown = msgspec.structs.asdict(log_record(record))
    return from_attributes(RequestDetail, record, **shown, measured_usage=record.measured)


def _log_filter(catalog: Catalog, filters: Mapping[str, str | None], now: float) -> LogFilter:
    """Check filters as the caller wrote them; None matches all, and so does "" for text. Raises RequestError, UnknownProjectError."""
    values: dict[str, Any] = {_FILTER_FIELDS.get(name, name): value or None for name, value in filters.items()}
    for name, allowed in (("modality", MODALITIES), ("status", STATUSES)):
        if (value := filters.get(name)) is not None:
            one_of(name, value, allowed)
    values.pop("period", None)
    period, since, until = filters.get("period"), filters.get("since"), filters.get("until")
    if period is not None or since is not None or until is not None:
        window = read_period(now, period=period, since=since, until=until).window
        values |= {"since": window.since, "until": window.until}
    return LogFilter(**values | {"project": project_filter(catalog, values.get("project"))})


async def page(
    store: Reader, catalog: Catalog, now: float = 0.0, *,
    limit: str | int = DEFAULT_RECORDS, before: str | None = None, sort: str | None = None, **filters: str | None,
) -> Encoded:  # fmt: skip
    """Encode a JSON array of log records, newest first or in the order of a figure. `before` is the id of the previous page's last record.

    `now` is needed for a `period`; without one, nor `since` and `until`, records of all times are listed.
    """
    count, wanted = page_size(limit, MAX_RECORDS), _log_filter(catalog, filters, now)
    order = one_of("sort", NEWEST if sort is None else sort, tuple(SORTS))
    try:
        if order == NEWEST:
            return await store.read_as(_encoded, queries.log, count, before or None, wanted)
        arguments = (count, before or None, wanted, SORTS[order], MOST_SORTED)
        result = await store.read_as(_encoded_if_found, queries.log_in_order, *arguments)
    except NoSuchRecord:
        raise _unknown_cursor() from None
    if result is None:
        what = f"more than {MOST_SORTED} requests: choose a shorter period or another filter to sort by {order.lstrip('-')}"
        raise RequestError(what=what, param="sort")
    return result


def _unknown_cursor() -> RequestError:
    return RequestError(what="before must be the id of a record", param="before")


def _encoded_if_found(records: list[RequestRecord] | None) -> Encoded | None:
    return None if records is None else _encoded(records)


def _encoded(records: list[RequestRecord]) -> Encoded:
    return Encoded((b"[" + b",".join(msgspec.json.encode(log_record(record)) for record in records) + b"]",))


async def export(
    store: Reader, catalog: Catalog, now: float, form: str, *, limit: str | int | None = None, before: str | None = None,
    sort: str | None = None, **filters: str | None,
) -> RowExport:  # fmt: skip
    """Return all records that pass the filters, newest first, as CSV or JSON; `limit` = at most so many."""
    check_file_order(sort)
    wanted, kind, most = _log_filter(catalog, filters, now), checked_format(form), _most(limit)
    encode = partial(_exported, form=kind)

    async def read_page(cursor: str | None, rows: int) -> ExportPage:
        first = cursor is None
        try:
            return await store.read_as(partial(encode, rows=rows), queries.log, rows, cursor or before or None, wanted)
        except NoSuchRecord:
            if first:
                raise _unknown_cursor() from None
            return ExportPage(b"", None)  # the last record of the page before was just deleted, like all older ones

    return await RowExport(read_page, kind, CSV_COLUMNS, most).start()


def _most(limit: str | int | None) -> int | None:
    return None if limit is None else whole_number(limit, "limit", 1, 10**12)


def _exported(records: list[RequestRecord], form: Format, rows: int) -> ExportPage:
    text = encoded(form, CSV_COLUMNS, map(log_record, records), ("timestamp",))
    return ExportPage(text, records[-1].id if len(records) == rows else None)


async def audit_page(
    store: Reader, now: float = 0.0, *, limit: str | int = DEFAULT_ENTRIES, before: str | None = None, **filters: str | None
) -> Sequence[AuditEntry]:
    """Return the newest entries that pass every filter: `entity_type`, `entity_id`, `action`, and the period. Raises RequestError.

    `now` is needed for a `period`.
    """
    for name, allowed in (("entity_type", get_args(EntityType)), ("action", get_args(Action))):
        if (value := filters.get(name)) is not None:
            one_of(name, value, allowed)
    last = None if before is None else whole_number(before, "before", 0, 10**18 - 1)
    window, named = time_window(now, filters), {name: filters.get(name) for name in ("entity_type", "entity_id", "action")}
    return await store.audit_log(page_size(limit, MAX_ENTRIES), before=last, since=window.since, until=window.until, **named)


AUDIT_COLUMNS = ("id", "timestamp", "entity_type", "entity_id", "action", "source", "actor", "changes")


async def audit_export(
    store: Reader, now: float, form: str, *, limit: str | int | None = None, before: str | None = None, **filters: str | None
) -> RowExport:
    """Return all entries that pass every filter, newest first, as CSV or JSON; `limit` = at most so many. Raises RequestError."""
    kind, most = checked_format(form), _most(limit)

    async def read_page(cursor: str | None, rows: int) -> ExportPage:
        entries = await audit_page(store, now, limit=rows, before=cursor or before, **filters)
        text = encoded(kind, AUDIT_COLUMNS, entries, ("timestamp",))
        return ExportPage(text, str(entries[-1].id) if len(entries) == rows else None)

    return await RowExport(read_page, kind, AUDIT_COLUMNS, most).start()
