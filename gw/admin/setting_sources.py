"""Origins of settings: a line of gw.yaml, the environment, the API, or the built-in default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import attrs
from msgspec import Meta

from gw.admin.schemas import Schema, UnixSeconds
from gw.config.settings import Serve, Settings
from gw.types.secret import Secret

SECTIONS = ("serve", "routing", "cost_tracking", "auth", "mcp", "latency", "rate_limiting", "stacks", "voices")
"""Sections that no other page shows."""
_FROM_ELSEWHERE: Mapping[tuple[str | int, ...], tuple[object, str]] = {
    ("serve", "host"): (Serve().host, "command line"),
    ("serve", "port"): (Serve().port, "command line or PORT"),
    ("cost_tracking", "db_path"): (None, "GW_DB_PATH or default"),
}
"""Path of a setting → its default, and the origin of another value that is not in the file."""

EntryOrigin = Annotated[str, Meta(description="`gw.yaml:12`, `API` or `built in`")]


class SettingValue(Schema):
    """`origin`: `gw.yaml:12`, the name of a variable, or `default`."""

    name: str
    value: str | float | bool | list[str] | None
    origin: str


class SettingSection(Schema):
    name: str
    values: list[SettingValue]


class SettingsPage(Schema):
    version: str
    started_at: UnixSeconds
    file: str | None
    warnings: list[str]
    sections: list[SettingSection]


class Origins:
    """Origins of the settings and of the catalog's entries."""

    def __init__(self, settings: Settings) -> None:
        self._lines = settings.lines
        self._file = settings.path.name if settings.path else ""

    def line(self, *path: str | int) -> str:
        """Return `gw.yaml:12`, or "" for a path that is not in the file."""
        number = self._lines.get(path)
        return f"{self._file}:{number}" if self._file and number else ""

    def of(self, source: str, *path: str | int) -> str:
        """Return the origin of a catalog entry; entries of a list have their own lines."""
        if source == "db":
            return "API"
        return self.line(*path) or ("built in" if not self._file else self._file)


def settings_page(settings: Settings, *, version: str, started_at: float, warnings: tuple[str, ...]) -> SettingsPage:
    """Return the configuration in force with the origin of each value; secrets are masked. `warnings`: of the database."""
    origins = Origins(settings)
    return SettingsPage(
        version=version,
        started_at=started_at,
        file=str(settings.path) if settings.path else None,
        warnings=[*settings.warnings, *warnings],
        sections=[SettingSection(name=n, values=list(_values(getattr(settings, n), (n,), origins))) for n in SECTIONS],
    )


def _values(value: object, path: tuple[str | int, ...], origins: Origins) -> Iterator[SettingValue]:
    """Yield the leaves below `value`, in the order of their declaration."""
    kind = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield from _values(getattr(value, field.name), (*path, field.name), origins)
    elif isinstance(value, Mapping):
        for name, child in value.items():
            yield from _values(child, (*path, str(name)), origins)
    elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
        for number, child in enumerate(value):
            yield from _values(child, (*path, number), origins)
    else:
        name = ".".join(map(str, path[1:]))
        default, elsewhere = _FROM_ELSEWHERE.get(path, (value, ""))
        origin = origins.line(*path) or (elsewhere if value != default else "default")
        yield SettingValue(name=name, value=_shown(value), origin=origin)


def _shown(value: object) -> str | int | float | bool | list[str] | None:
    if isinstance(value, Secret):
        return value.masked or None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None
