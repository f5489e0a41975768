"""The log of requests: filtered, in pages, as JSON and as a spreadsheet's CSV.

What is shown of a page is made where it is read: a thousand records are some 20 ms of work.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import attrs
import msgspec

from gw.admin.reports import LOGS_DEFAULT, LOGS_MOST, STATUSES, Json, known_project, limit_of, log_record, one_of
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.chunked_body import Encoded
from gw.store.queries import NoSuchRecord
from gw.store.requests import LogFilter
from gw.store.store import Reader
from gw.types.ids import MODALITIES
from gw.types.usage import RequestRecord

EXPORT_DEFAULT, EXPORT_MOST = 1_000, 10_000

COLUMNS = (
    "id", "timestamp", "project", "modality", "model_id", "provider", "status", "cost_usd", "pricing_source",
    "input_units", "output_units", "cached_input_units", "unit", "ttfb_ms", "total_latency_ms", "gateway_ms",
    "fallback_from", "attempts", "error_code", "stream", "session_id", "turn_id", "key_id",
)  # fmt: skip
"""Of the CSV; `attempts` is their number."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = (int, float)


@attrs.frozen(kw_only=True)
class Query:
    """Filters as the caller wrote them; "" and None = any. `q` is how the request's id begins."""

    modality: str | None = None
    project: str | None = None
    status: str | None = None
    model: str | None = None
    provider: str | None = None
    error_code: str | None = None
    session: str | None = None
    turn: str | None = None
    q: str | None = None

    def filter(self, catalog: Catalog) -> LogFilter:
        """Raises RequestError, UnknownProjectError."""
        return LogFilter(
            modality=one_of("modality", self.modality, MODALITIES) if self.modality else None,
            project=known_project(catalog, self.project),
            status=one_of("status", self.status, STATUSES) if self.status else None,
            model_id=self.model or None,
            provider=self.provider or None,
            error_code=self.error_code or None,
            session_id=self.session or None,
            turn_id=self.turn or None,
            id_prefix=self.q or None,
        )


ALL = Query()


async def page(
    store: Reader, catalog: Catalog, query: Query = ALL, *, limit: str | int = LOGS_DEFAULT, before: str | None = None
) -> list[Json]:
    """Log records, the newest first. `before` is the id of the last record of the page that was read before."""
    count, wanted = limit_of(limit, LOGS_MOST), query.filter(catalog)
    try:
        return [log_record(record) for record in await store.logs(count, before or None, wanted)]
    except NoSuchRecord:
        raise _no_such(before) from None


def _no_such(before: str | None) -> RequestError:
    return RequestError(what="before must be the id of a record", param="before")


async def page_json(
    store: Reader, catalog: Catalog, query: Query = ALL, *, limit: str | int = LOGS_DEFAULT, before: str | None = None
) -> Encoded:
    """As `page`, encoded."""
    count, wanted = limit_of(limit, LOGS_MOST), query.filter(catalog)
    try:
        return await store.show(_encoded, queries.log, count, before or None, wanted)
    except NoSuchRecord:
        raise _no_such(before) from None


def _encoded(records: list[RequestRecord]) -> Encoded:
    body = b"[" + b",".join(msgspec.json.encode(log_record(record)) for record in records) + b"]"
    return Encoded((body,))


async def export(
    store: Reader, catalog: Catalog, query: Query = ALL, *, limit: str | int = EXPORT_DEFAULT, before: str | None = None
) -> Encoded:
    """CSV with a header, at most EXPORT_MOST records, read a page at a time."""
    left, wanted = limit_of(limit, EXPORT_MOST), query.filter(catalog)
    parts = [_csv([COLUMNS])]
    cursor = before or None
    while left:
        count = min(left, LOGS_MOST)
        try:
            text, found, cursor = await store.show(_csv_page, queries.log, count, cursor, wanted)
        except NoSuchRecord:
            if len(parts) == 1:
                raise _no_such(before) from None
            break  # the record we stopped at has just been forgotten, as all older ones
        parts.append(text)
        if found < count:
            break
        left -= count
    return Encoded(tuple(parts))


def _csv_page(records: list[RequestRecord]) -> tuple[bytes, int, str]:
    rows = [tuple(map(_cell, _row(log_record(record)))) for record in records]
    return _csv(rows), len(records), records[-1].id if records else ""


def _row(shown: Mapping[str, object]) -> list[object]:
    attempts = shown["attempts"]
    return [len(attempts) if name == "attempts" and isinstance(attempts, list) else shown[name] for name in COLUMNS]


def _csv(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> str:
    """Text that a spreadsheet would run as a formula gets a quote before it; numbers are written out in full."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.9f}".rstrip("0").rstrip(".")
        case int():
            return str(value)
        case _:
            text = str(value)
            return "'" + text if text.startswith(_FORMULA) else text
