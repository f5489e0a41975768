"""What a setting takes: small parsers from a place in the document to a value.

A parser returns the value or raises `Rejected`; `record` turns a mapping into values by a table of parsers, notes every
rejection with its position, and goes on, so that one run reports everything.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, TypeVar

import attrs

from gw.config.excerpt import secret_value
from gw.config.load import Document, FromEnv, Path, dotted
from gw.pricing.book import Price
from gw.pricing.units import AMOUNTS, UNITS, price_in
from gw.types.address import host_of, is_never_called
from gw.types.ids import ID_PATTERN
from gw.types.secret import Secret

T = TypeVar("T")
_LISTED = 30  # names shown of a longer list
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")


class Rejected(Exception):
    """The value is not what the setting takes."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@attrs.frozen
class Place:
    """A value and where it stands."""

    document: Document
    path: Path
    value: object

    @property
    def name(self) -> str:
        return dotted(self.path)

    def problem(self, what: str, hint: str = "", *, key: bool = False) -> None:
        self.document.problem(self.path, what, hint, key=key)

    def items(self) -> Iterator[tuple[str, Place]]:
        """The entries of a mapping; nothing for an empty value; anything else is a problem."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                yield key, Place(self.document, (*self.path, key), value)
        elif self.value is not None:
            self.problem(f"{self.name or 'the file'} must be a mapping, found {found(self)}")

    def elements(self) -> Iterator[Place]:
        if not isinstance(self.value, list):
            hint = "write it as [a, b], or one per line with '- '"
            raise Rejected(f"{self.name} must be a list, found {found(self)}", hint)
        for index, value in enumerate(self.value):
            yield Place(self.document, (*self.path, index), value)


Parser = Callable[[Place], Any]
Fields = Mapping[str, Parser]


def found(place: Place) -> str:
    """The value in words, without showing a secret."""
    match place.value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() as value:
            hidden = isinstance(value, FromEnv) or secret_value(place.path, value) or len(value) > 60
            return "text" if hidden else f"the text {value!r}"
        case bool() as value:
            return str(value).lower()
        case value:
            return "a number" if secret_value(place.path, str(value)) else str(value)


def suggestion(name: str, known: Collection[str], *, listed: str = "known") -> str:
    """`did you mean 'x'?`, else the list of what there is."""
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    names = list(known)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{listed}: {', '.join(names[:_LISTED])}{more}" if names else f"{listed}: none"


def read(place: Place, parser: Callable[[Place], T], default: T) -> T:
    """The parsed value; a rejection becomes a problem and gives `default`."""
    try:
        return parser(place)
    except Rejected as rejected:
        place.problem(rejected.what, rejected.hint)
        return default


def record(place: Place, fields: Fields) -> dict[str, Any]:
    """The values of a mapping that are there and good. Unknown keys and rejected values become problems."""
    values: dict[str, Any] = {}
    for key, child in place.items():
        parser = fields.get(key)
        if parser is None:
            child.problem(f"unknown key {child.name!r}", suggestion(key, list(fields), listed="known keys"), key=True)
            continue
        if child.value is None:
            continue
        try:
            values[key] = parser(child)
        except Rejected as rejected:
            child.problem(rejected.what, rejected.hint)
    return values


def text(place: Place) -> str:
    if not isinstance(place.value, str):
        raise Rejected(f"{place.name} must be text, found {found(place)}", "put it in quotes")
    return str(place.value)


def secret(place: Place) -> Secret:
    value = text(place).strip()
    if not value.isprintable():  # lone surrogates from the environment are not, either
        hint = "a line end, another control character or a broken one stands in it: copy it again"
        raise Rejected(f"{place.name} holds a character that no credential has", hint)
    return Secret(value)


def provider_key(place: Place) -> Secret:
    """A key that goes out in a header."""
    value = secret(place)
    if not value.reveal().isascii():
        hint = "look for a typographic quote or dash: copy it again"
        raise Rejected(f"{place.name} holds a character that no API key has", hint)
    return value


def required_secret(place: Place) -> Secret:
    return _required(place, secret(place))


def required_provider_key(place: Place) -> Secret:
    return _required(place, provider_key(place))


def _required(place: Place, value: Secret) -> Secret:
    if not value:
        raise Rejected(f"{place.name} is empty")
    return value


def boolean(place: Place) -> bool:
    if isinstance(place.value, bool):
        return place.value
    if isinstance(place.value, FromEnv) and place.value.lower() in {"true", "false", "1", "0"}:
        return place.value.lower() in {"true", "1"}
    raise Rejected(f"{place.name} must be true or false, found {found(place)}")


@attrs.frozen
class Number:
    """A finite number from `low` (excluded when `above`) to `high`."""

    low: float
    high: float
    above: bool

    def __call__(self, place: Place) -> float:
        value, low, high = _number(place, float), self.low, self.high
        if not math.isfinite(value) or value < low or value > high or (self.above and value == low):
            span = f"from {low:g} to {high:g}" if value > high else f"{low:g} or more"
            bound = f"more than {low:g}" if self.above and not value > high else span
            raise Rejected(f"{place.name} must be a number {bound}, found {found(place)}")
        return value


def number(low: float = 0, high: float = 1e9, *, above: bool = False) -> Number:
    return Number(low, high, above)


@attrs.frozen
class Integer:
    """A whole number from `low` to `high`."""

    low: int
    high: int

    def __call__(self, place: Place) -> int:
        value = _number(place, int)
        if not self.low <= value <= self.high:
            raise Rejected(f"{place.name} must be a whole number from {self.low} to {self.high}, found {found(place)}")
        return value


def integer(low: int = 0, high: int = 1_000_000_000) -> Integer:
    return Integer(low, high)


def _number(place: Place, kind: Callable[[Any], T]) -> T:
    value = place.value
    words = "a whole number" if kind is int else "a number"
    if isinstance(value, FromEnv):
        try:
            return kind(value.strip())
        except ValueError:
            raise Rejected(f"{place.name} must be {words}; its environment variable holds something else") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (kind is int and not isinstance(value, int)):
        quoted = isinstance(value, str) and value.replace(".", "", 1).isdigit()
        hint = "write it without quotes" if quoted else ""
        raise Rejected(f"{place.name} must be {words}, found {found(place)}", hint)
    try:
        return kind(value)
    except OverflowError:
        raise Rejected(f"{place.name} is too large") from None


@attrs.frozen
class Choice:
    """One of `names`."""

    names: tuple[str, ...]

    def __call__(self, place: Place) -> str:
        names = self.names
        if place.value not in names:
            hint = suggestion(place.value, names, listed="choices") if isinstance(place.value, str) else ""
            raise Rejected(f"{place.name} must be {' or '.join(names)}, found {found(place)}", hint)
        return str(place.value)


def choice(*names: str) -> Choice:
    return Choice(names)


def identifier(name: str) -> None:
    """Raises Rejected when `name` cannot be an id."""
    if not ID_PATTERN.fullmatch(name):
        hint = "use up to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
        raise Rejected(f"{name[:80]!r} cannot be an id", hint)


def texts(place: Place) -> tuple[str, ...]:
    """A list of texts, without repetitions."""
    values: list[str] = []
    for element in place.elements():
        value = text(element)
        if value in values:
            element.problem(f"{value!r} stands twice in {place.name}")
        else:
            values.append(value)
    return tuple(values)


def colour(place: Place) -> str:
    if not isinstance(place.value, str) or not _COLOUR.fullmatch(place.value):
        hint = 'such as "#5b7fa6", in quotes'
        raise Rejected(f"{place.name} must be a colour of the form #rrggbb, found {found(place)}", hint)
    return place.value.lower()


def http_url(place: Place) -> str:
    """`http(s)://host[:port][/path]`, without a slash at the end."""
    return _url(place, "an http:// or https:// address", bare=False)


def upstream_url(place: Place) -> str:
    """As `http_url`, or `tcp://host:port`."""
    return _url(place, "an http://, https:// or tcp:// address", bare=True)


def _url(place: Place, expected: str, *, bare: bool) -> str:
    value = text(place).strip()
    try:
        host = host_of(value, bare=bare)
    except ValueError as error:
        what = f"{place.name} must be {expected}, found {found(place)}"
        raise Rejected(what, str(error)) from None
    if is_never_called(host):
        raise Rejected(f"{place.name} is a link-local or metadata address, which is never called")
    return value.rstrip("/")


def file_path(place: Place) -> FilePath:
    """Relative to the folder of the configuration file."""
    value = text(place)
    if not value.strip():
        raise Rejected(f"{place.name} is empty")
    return FilePath(place.document.file).parent / FilePath(value).expanduser()


def price(place: Place) -> Price:
    """`{unit: 1M_tokens, input: 2.5, output: 10}`, `{unit: minute, usd: 0.0043}` …: USD, by `gw.pricing.units`."""
    if not isinstance(place.value, dict):
        raise Rejected(f"{place.name} must be a mapping, found {found(place)}", "such as {unit: minute, usd: 0.0043}")
    before = len(place.document.problems)
    values = record(place, PRICE)
    if len(place.document.problems) > before:
        return Price()
    if "unit" not in values:
        raise Rejected(f"{place.name} needs a unit", f"one of {', '.join(UNITS)}")
    unit = values.pop("unit")
    try:
        # A float's shortest text is what was written in the file, so the decimal is exact.
        return price_in(unit, {name: Decimal(repr(value)) for name, value in values.items()}, source="config")
    except ValueError as error:
        raise Rejected(f"{place.name}: {error}") from None


PRICE: Fields = {
    "unit": choice(*UNITS),
    **dict.fromkeys(sorted({name for names in AMOUNTS.values() for name in names}), number()),
}
