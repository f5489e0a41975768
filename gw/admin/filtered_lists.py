"""Filters of the lists of turns and sessions, and their pages in the order of a figure instead of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gw.admin.periods import read_period
from gw.admin.request_models import one_of, project_filter
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.store.group_starts import TROUBLES
from gw.store.queries import NoSuchRecord, TurnFilter
from gw.store.window_pieces import TimeWindow

T = TypeVar("T")

NEWEST = "-timestamp"
MOST_SORTED = 5_000
"""Rows that a page in the order of a figure is chosen from. More are refused: the half of them would be a wrong answer."""


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


def too_many(rows: str, order: str) -> RequestError:
    what = f"more than {MOST_SORTED} {rows}: choose a shorter period, a project or trouble to sort by {order.lstrip('-')}"
    return RequestError(what=what, param="sort")


def unknown_cursor(row: str) -> RequestError:
    return RequestError(what=f"before must be the id of a {row}'s first request", param="before")


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
