"""The base of the tree of errors, and those of the configuration."""

from __future__ import annotations

from typing import ClassVar, Self, dataclass_transform

import attrs
import msgspec


@dataclass_transform(kw_only_default=True)
class GwError(Exception):
    """Base of the tree. The arguments of a class statement are facts of the class, annotations are fields of an error.

    attrs completes a class when its first error is made: doing so for all of them took a twenty-fifth of the daemon's start.
    """

    status: ClassVar[int] = 500
    """HTTP status."""
    code: ClassVar[str] = "internal_error"
    """Stable machine-readable name."""

    def __init_subclass__(cls, **facts: int | str) -> None:
        super().__init_subclass__()
        for name, value in facts.items():
            setattr(cls, name, value)

    def __new__(cls, **_fields: object) -> Self:
        if "__attrs_attrs__" not in vars(cls):
            for each in reversed(cls.__mro__):
                if issubclass(each, GwError) and each is not GwError and "__attrs_attrs__" not in vars(each):
                    attrs.define(each, kw_only=True, auto_exc=True, slots=False, str=False)
        return super().__new__(cls)

    @property
    def message(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return self.message

    def facts(self) -> dict[str, object]:
        """Return the fields as JSON-ready values, for error bodies and logs."""
        return {name: value for name, raw in vars(self).items() if (value := _plain(raw)) is not None}


def _plain(value: object) -> object:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(v, (str, int, float)) for v in value):
        return list(value)
    return None


def install_extra(extra: str) -> str:
    """Return how to install an extra of gw. It is not on a package index, so only a checkout or a wheel can be named."""
    return f"install gw with its extra {extra!r}: pip install '.[{extra}]' in a checkout"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with the configuration. `line` and `column` count from 1; 0 = no position known."""

    what: str
    where: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        text = place + self.what + (f"; {self.hint}" if self.hint else "")
        if not self.excerpt:
            return text
        return f"{text}\n    {self.excerpt}\n    {' ' * (self.column - 1)}^"


class ConfigError(GwError, code="config_invalid"):
    """Raised with all problems at once, or with the places that were searched for a file."""

    problems: tuple[Problem, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if self.searched:
            return "no config file was found; looked at " + ", ".join(self.searched) + ". Run `gw init` to write one"
        count = len(self.problems)
        head = f"configuration validation failed ({count} problem{'s' if count != 1 else ''})"
        return "\n".join([head, *(f"  {p}".replace("\n", "\n  ") for p in self.problems)])


class DescribedError(GwError):
    """An error whose message is a field."""

    what: str

    @property
    def message(self) -> str:
        return self.what
