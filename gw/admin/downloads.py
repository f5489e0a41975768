"""Lists as CSV or JSON with all their rows: read a page at a time while they are sent, so memory does not grow with them.

Times are ISO 8601 in UTC. Text that a spreadsheet would run as a formula has a leading quote in CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Literal, cast

import msgspec

from gw.admin.request_models import one_of
from gw.store.chunked_body import in_pieces
from gw.types.printable import spreadsheet_cell

Format = Literal["csv", "json"]
FORMATS = ("csv", "json")
PAGE_ROWS = 500


class ExportPage(msgspec.Struct, frozen=True):
    """Encoded rows, without what stands between pages. `cursor` is the place of the last row; None = there are no more rows."""

    text: bytes
    cursor: str | None


ReadPage = Callable[[str | None, int], Awaitable[ExportPage]]
"""(cursor of the previous page, most rows) → the next page."""


class RowExport(AbstractAsyncContextManager[AsyncIterator[bytes]]):
    """The rows as a body to stream. Cancelling the answer ends the reading."""

    def __init__(self, read: ReadPage, form: Format, columns: Sequence[str], limit: int | None) -> None:
        """`limit` None = all rows."""
        self._read = read
        self._limit = limit
        self._between, self._end = (b",\n", b"\n]\n") if form == "json" else (b"", b"")
        self._begin = b"[\n" if form == "json" else csv_rows([tuple(columns)])
        self._first: ExportPage | None = None
        self._pieces = self._all()

    async def start(self) -> RowExport:
        """Read the first page, so that a wrong filter is an error and no broken file."""
        self._first = await self._page(None)
        return self

    async def _page(self, cursor: str | None) -> ExportPage:
        rows = PAGE_ROWS if self._limit is None else min(PAGE_ROWS, self._limit)
        page = await self._read(cursor, rows)
        if self._limit is not None:
            self._limit -= rows
        return ExportPage(page.text, None) if self._limit == 0 else page

    async def __aenter__(self) -> AsyncIterator[bytes]:
        self._pieces = self._all()
        return self._pieces

    async def __aexit__(self, *exc_info: object) -> None:
        await self._pieces.aclose()

    async def _all(self) -> AsyncGenerator[bytes, None]:
        page = self._first or await self._page(None)
        yield self._begin
        separator = b""
        while True:
            if page.text:
                yield separator
                for piece in in_pieces(page.text):
                    yield piece
                separator = self._between
            if page.cursor is None:
                break
            page = await self._page(page.cursor)
        yield self._end


def encoded(form: Format, columns: Sequence[str], rows: Iterable[msgspec.Struct], times: Sequence[str]) -> bytes:
    """Encode rows; the fields `times` are Unix seconds. CSV has the `columns`, JSON every field."""
    if form == "csv":
        return csv_rows(
            tuple(_cell(iso(getattr(row, name)) if name in times else getattr(row, name)) for name in columns) for row in rows
        )
    dated = ({**msgspec.structs.asdict(row), **{name: iso(getattr(row, name)) for name in times}} for row in rows)
    return b",\n".join(map(msgspec.json.encode, dated))


def checked_format(value: str) -> Format:
    """Return the parameter `format`. Raises RequestError."""
    return cast("Format", one_of("format", value, FORMATS))


def iso(seconds: float | None) -> str | None:
    """Return Unix seconds as a time in UTC, to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def csv_rows(rows: Iterable[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> str:
    """Format a cell. Text is made safe for spreadsheets; numbers are written in full; of a list it is the length."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.9f}".rstrip("0").rstrip(".")
        case int():
            return str(value)
        case list():
            return str(len(cast("list[object]", value)))
        case dict():
            return spreadsheet_cell(msgspec.json.encode(value).decode())
        case _:
            return spreadsheet_cell(str(value))
