"""Checks of the arguments of reports, as the caller wrote them. A bad one is a RequestError that names its parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.telemetry.clock import utc_day

PERIODS: Mapping[str, int | None] = {"today": 1, "week": 7, "month": 30, "all": None}  # UTC days, including today
SHORT_PERIODS = ("today", "week", "month")


def first_day(period: str, now: float, allowed: Iterable[str] = tuple(PERIODS)) -> int | None:
    """Return the first UTC day of the period; None is the beginning of all records."""
    days = PERIODS[one_of("period", period, tuple(allowed))]
    return None if days is None else utc_day(now) - days + 1


def one_of(param: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is allowed, else raise RequestError."""
    if value not in allowed:
        raise RequestError(what=f"{param} must be one of {', '.join(allowed)}", param=param)
    return value


def whole_number(value: str | int, param: str, least: int, most: int) -> int:
    """Parse decimal digits only; `least` to `most`."""
    text = str(value)
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if not least <= number <= most:
        raise RequestError(what=f"{param} must be a whole number from {least} to {most}", param=param)
    return number


def page_size(value: str | int, most: int) -> int:
    """Parse the parameter `limit`: 1 to `most`."""
    return whole_number(value, "limit", 1, most)


def project_filter(catalog: Catalog, project: str | None) -> str | None:
    """Return the project's id, or None for no filter. Raises UnknownProjectError."""
    return catalog.project(project).id if project else None
