"""The lists of turns and sessions: filters, pages in the order of time or of a figure, and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

from gw.admin.downloads import ExportPage, RowExport, checked_format, encoded
from gw.admin.periods import read_period
from gw.admin.request_models import one_of, page_size, project_filter
from gw.admin.schemas import Schema
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.store.group_starts import TROUBLES
from gw.store.queries import NoSuchRecord, TurnFilter
from gw.store.store import Reader
from gw.store.window_pieces import TimeWindow

T = TypeVar("T")
F = TypeVar("F")
R = TypeVar("R", bound=Schema)

NEWEST = "-timestamp"


def orders(*figures: str) -> tuple[str, ...]:
    """Return the values of `sort`: the newest first, or a figure, with `-` the largest first."""
    return (NEWEST, *(sign + name for name in figures for sign in ("-", "")))


def time_window(now: float, filters: Mapping[str, str | None]) -> TimeWindow:
    """Return the times that the caller chose; without a period, nor `since` and `until`, all times. Raises RequestError."""
    period, since, until = filters.get("period"), filters.get("since"), filters.get("until")
    if (period, since, until) == (None, None, None):
        return TimeWindow()
    return read_period(now, period=period, since=since, until=until).window


def turn_filter(catalog: Catalog, filters: Mapping[str, str | None], now: float) -> TurnFilter:
    """Check filters as the caller wrote them. Raises RequestError, UnknownProjectError."""
    window = time_window(now, filters)
    if (trouble := filters.get("trouble")) is not None:
        one_of("trouble", trouble, tuple(TROUBLES))
    project = project_filter(catalog, filters.get("project"))
    return TurnFilter(project=project, since=window.since, until=window.until, trouble=trouble)


def check_file_order(order: str | None) -> None:
    if order not in (None, NEWEST):
        raise RequestError(what="a file has the newest first; sort it where you open it", param="sort")


def page_in_order(
    rows: Sequence[T], figure: Callable[[T], float | None], first_request: Callable[[T], str], *,
    order: str, count: int, before: str | None,
) -> list[T]:  # fmt: skip
    """Return the `count` rows after the one at `before`; those without the figure come last, else newer ones first.

    Raises NoSuchRecord.
    """
    sign = -1 if order.startswith("-") else 1
    figures = [figure(row) for row in rows]
    places = sorted(range(len(rows)), key=lambda n: (figures[n] is None, sign * (figures[n] or 0)))
    first = 0
    if before is not None:
        at = next((at for at, n in enumerate(places) if first_request(rows[n]) == before), None)
        if at is None:
            raise NoSuchRecord(before)
        first = at + 1
    return [rows[n] for n in places[first : first + count]]


class FilteredList(msgspec.Struct, Generic[F, T, R], frozen=True, kw_only=True):
    """A list of what requests are part of. The store may call the functions in another process, so they belong to modules."""

    row: str
    """Word for a row in messages, such as `turn`."""
    default: int
    """Rows of a page."""
    most: int
    orders: tuple[str, ...]
    columns: tuple[str, ...]
    """Columns of a file."""
    check: Callable[[Catalog, Mapping[str, str | None], float], F]
    """Check the filters as the caller wrote them."""
    newest: Callable[..., list[T]]
    every: Callable[..., list[T] | None]
    """The query of all rows; None if there are more than can be sorted."""
    most_sorted: int = 5_000
    """Rows that a page in the order of a figure is chosen from. More are refused: the half of them would be a wrong answer."""
    rows: Callable[[list[T]], list[R]]
    first_request: Callable[[R], str] = attrgetter("first_request_id")
    """The id by which a caller names the row where a page continues."""
    in_order: Callable[..., list[R] | None]

    async def page(
        self, store: Reader, catalog: Catalog, now: float, *,
        limit: str | int | None = None, before: str | None = None, sort: str | None = None, **filters: str | None,
    ) -> list[R]:  # fmt: skip
        """Return a page, the newest first or in the order of a figure. `before`: first request of the last row seen."""
        count = page_size(self.default if limit is None else limit, self.most)
        return await self._read(store, count, before, NEWEST if sort is None else sort, self.check(catalog, filters, now))

    async def _read(self, store: Reader, count: int, before: str | None, sort: str, wanted: F) -> list[R]:
        order = one_of("sort", sort, self.orders)
        try:
            if order == NEWEST:
                return await store.read_as(self.rows, self.newest, count, before or None, wanted)
            ordered = partial(self.in_order, order=order, count=count, before=before or None)
            result = await store.read_as(ordered, self.every, self.most_sorted, wanted)
        except NoSuchRecord:
            raise RequestError(what=f"before must be the id of a {self.row}'s first request", param="before") from None
        if result is None:
            narrower = "choose a shorter period, a project or trouble"
            what = f"more than {self.most_sorted} {self.row}s: {narrower} to sort by {order.lstrip('-')}"
            raise RequestError(what=what, param="sort")
        return result

    async def export(
        self, store: Reader, catalog: Catalog, now: float, form: str, *,
        limit: str | int | None = None, before: str | None = None, sort: str | None = None, **filters: str | None,
    ) -> RowExport:  # fmt: skip
        """Return all rows that pass the filters as CSV or JSON, newest first; `limit` = at most so many."""
        kind, wanted = checked_format(form), self.check(catalog, filters, now)
        most = None if limit is None else page_size(limit, 10**12)
        check_file_order(sort)

        async def read_page(cursor: str | None, rows: int) -> ExportPage:
            result = await self._read(store, rows, cursor or before, NEWEST, wanted)
            cursor = self.first_request(result[-1]) if len(result) == rows else None
            return ExportPage(encoded(kind, self.columns, result, ("timestamp",)), cursor)

        return await RowExport(read_page, kind, self.columns, most).start()
