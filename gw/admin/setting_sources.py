"""Where a setting is from: its line in gw.yaml, the environment, the API, or the built-in default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from gw.admin.reports import Json
from gw.config.settings import Serve, Settings
from gw.types.secret import Secret

SECTIONS = ("serve", "routing", "cost_tracking", "auth", "mcp", "latency", "rate_limiting", "stacks", "voices")
"""Those that have no page of their own."""
_FROM_ELSEWHERE: Mapping[tuple[str | int, ...], tuple[object, str]] = {
    ("serve", "host"): (Serve().host, "command line"),
    ("serve", "port"): (Serve().port, "command line or PORT"),
    ("cost_tracking", "db_path"): (None, "GW_DB_PATH or default"),
}
"""Path of a setting → its default, and where another value is from when it is not from the file."""


class Origin:
    def __init__(self, settings: Settings) -> None:
        self._lines = settings.lines
        self._file = settings.path.name if settings.path else ""

    def line(self, *path: str | int) -> str:
        """`gw.yaml:12`, or "" for what does not stand in the file."""
        found = self._lines.get(path)
        return f"{self._file}:{found}" if self._file and found else ""

    def of(self, source: str, *path: str | int) -> str:
        """Where an entry of the catalog is from; an entry that stands in a list has its own line as well."""
        if source == "db":
            return "API"
        return self.line(*path) or ("built in" if not self._file else self._file)


def settings_page(settings: Settings, *, version: str, started_at: float, warnings: tuple[str, ...]) -> Json:
    """The configuration in force with the origin of each value. Secrets are masked. `warnings`: of the database."""
    origin = Origin(settings)
    return {
        "version": version,
        "started_at": started_at,
        "file": str(settings.path) if settings.path else None,
        "warnings": [*settings.warnings, *warnings],
        "sections": [
            {"name": name, "values": list(_values(getattr(settings, name), (name,), origin))} for name in SECTIONS
        ],
    }


def _values(value: object, path: tuple[str | int, ...], origin: Origin) -> Iterator[Json]:
    """The leaves below `value`, in the order of their declaration."""
    kind: Any = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield from _values(getattr(value, field.name), (*path, field.name), origin)
    elif isinstance(value, Mapping):
        for name, child in value.items():
            yield from _values(child, (*path, str(name)), origin)
    elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
        for number, child in enumerate(value):
            yield from _values(child, (*path, number), origin)
    else:
        yield {"name": ".".join(map(str, path[1:])), "value": _shown(value), "origin": _origin(value, path, origin)}


def _shown(value: object) -> str | int | float | bool | list[str] | None:
    if isinstance(value, Secret):
        return value.masked or None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None


def _origin(value: object, path: tuple[str | int, ...], origin: Origin) -> str:
    default, elsewhere = _FROM_ELSEWHERE.get(path, (value, ""))
    return origin.line(*path) or (elsewhere if value != default else "default")
