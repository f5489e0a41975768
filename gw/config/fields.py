"""Parsers of settings: from a node of the document to a value of the program.

`settings_of` makes the table of a section from its class, where each setting is declared once:

    class Serve:
        port: Annotated[Port, "where it listens"] = 8080      # type, bounds, meaning and default
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path as FilePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec

from gw.config.load import FromEnv
from gw.config.node import Node, Parser, Rejected, Setting, SettingTable, described, read, record, suggestion
from gw.pricing.price_document import price_from
from gw.pricing.units import AMOUNTS, UNITS
from gw.types.address import host_of, is_never_called
from gw.types.entities import Price
from gw.types.ids import ID_PATTERN, MODALITIES
from gw.types.secret import Secret

T = TypeVar("T")
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_HIGHEST = 1_000_000_000


def settings_of(
    kind: type, *, without: Collection[str] = (), renamed: Mapping[str, str] | None = None, **parsers: Parser
) -> dict[str, Setting]:
    """Return the settings that the annotated attributes of a class are.

    `renamed`: attribute → its key in the file. `parsers`: attribute → its parser, where the type has none.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {
        (renamed or {}).get(name, name): _setting(name, hint, parsers.get(name))
        for name, hint in hints.items()
        if name not in without
    }


def _setting(name: str, hint: Any, parser: Parser | None) -> Setting:
    description, bounds = "", msgspec.Meta()
    while (origin := get_origin(hint)) in (Annotated, Union, UnionType):
        if origin is Annotated:
            for extra in hint.__metadata__:
                if isinstance(extra, str):
                    description = extra
                elif isinstance(extra, msgspec.Meta):
                    bounds = extra
                else:
                    parser = parser or extra
            hint = hint.__origin__
        else:
            hint = next(option for option in get_args(hint) if option is not NoneType)
    return Setting(name, parser or _parser_of(hint, bounds), description)


def _parser_of(hint: Any, bounds: msgspec.Meta) -> Parser:
    high = _HIGHEST if bounds.le is None else bounds.le
    if hint is int:
        return Integer(int(bounds.ge or 0), int(high))
    if hint is float:
        return Number(bounds.gt or bounds.ge or 0, high, above=bounds.gt is not None)
    if get_origin(hint) is Literal:
        return Choice(get_args(hint))
    if get_origin(hint) is tuple:
        return texts
    if attrs.has(hint) or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return Section(hint, settings_of(hint))
    return _PARSERS[hint]


class Section(msgspec.Struct, frozen=True):
    """A mapping with these settings, which are the arguments of `kind`."""

    kind: Callable[..., Any]
    settings: SettingTable

    def __call__(self, node: Node) -> Any:
        return self.kind(**record(node, self.settings))


class Named(msgspec.Struct, frozen=True):
    """A mapping of id → entry. An entry with an invalid id is reported and left out. `id_attribute` gets the id."""

    section: Section
    id_attribute: str = ""

    def __call__(self, node: Node) -> dict[str, Any]:
        return by_id(node, self._entry)

    def _entry(self, name: str, node: Node) -> Any:
        values = record(node, self.section.settings)
        return self.section.kind(**({self.id_attribute: name} if self.id_attribute else {}), **values)


class ByName(msgspec.Struct, frozen=True):
    """A mapping of any name → value; None for an invalid value."""

    value: Parser

    def __call__(self, node: Node) -> dict[str, Any]:
        return {name: read(child, self.value, None) for name, child in node.items()}


class ListOf(msgspec.Struct, frozen=True):
    """A list of such values; None for an invalid one."""

    value: Parser

    def __call__(self, node: Node) -> list[Any]:
        return [read(element, self.value, None) for element in node.elements()]


def by_id(node: Node, parse: Callable[[str, Node], T]) -> dict[str, T]:
    entries: dict[str, T] = {}
    for name, child in node.items():
        if ID_PATTERN.fullmatch(name):
            entries[name] = parse(name, child)
        else:
            hint = "use up to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
            child.problem(f"{name[:80]!r} cannot be an id", hint, key=True)
    return entries


def by_modality(parser: Parser) -> SettingTable:
    return {modality: Setting(modality, parser) for modality in MODALITIES}


def text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise Rejected(f"{node.name} must be text, found {described(node)}", "put it in quotes")
    return str(node.value)


def secret(node: Node) -> Secret:
    value = text(node).strip()
    if not value.isprintable():  # nor are lone surrogates from the environment
        hint = "it contains a line end, another control character or broken text: copy it again"
        raise Rejected(f"{node.name} contains a character that no credential has", hint)
    return Secret(value)


def provider_key(node: Node) -> Secret:
    """Parse a key that is sent in a header."""
    value = secret(node)
    if not value.reveal().isascii():
        hint = "look for a typographic quote or dash: copy it again"
        raise Rejected(f"{node.name} contains a character that no API key has", hint)
    return value


class Required(msgspec.Struct, frozen=True):
    """A secret that must not be empty."""

    secret: Callable[[Node], Secret]

    def __call__(self, node: Node) -> Secret:
        value = self.secret(node)
        if not value:
            raise Rejected(f"{node.name} is empty")
        return value


def boolean(node: Node) -> bool:
    if isinstance(node.value, bool):
        return node.value
    if isinstance(node.value, FromEnv) and node.value.lower() in {"true", "false", "1", "0"}:
        return node.value.lower() in {"true", "1"}
    raise Rejected(f"{node.name} must be true or false, found {described(node)}")


class Number(msgspec.Struct, frozen=True):
    """A finite number from `low` (excluded when `above`) to `high`."""

    low: float = 0
    high: float = _HIGHEST
    above: bool = False

    def __call__(self, node: Node) -> float:
        value, low, high = _number(node, float), self.low, self.high
        if not math.isfinite(value) or value < low or value > high or (self.above and value == low):
            span = f"from {low:g} to {high:g}" if value > high else f"{low:g} or more"
            bound = f"more than {low:g}" if self.above and not value > high else span
            raise Rejected(f"{node.name} must be a number {bound}, found {described(node)}")
        return value


class NumberOrOff(Number, frozen=True):
    """A number, or `off`, which YAML reads as false."""

    def __call__(self, node: Node) -> Any:
        return "off" if node.value is False else super().__call__(node)


class Integer(msgspec.Struct, frozen=True):
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = _HIGHEST

    def __call__(self, node: Node) -> int:
        value = _number(node, int)
        if not self.low <= value <= self.high:
            span = f"from {self.low} to {self.high}"
            raise Rejected(f"{node.name} must be a whole number {span}, found {described(node)}")
        return value


def _number(node: Node, kind: Callable[[Any], T]) -> T:
    value = node.value
    words = "a whole number" if kind is int else "a number"
    if isinstance(value, FromEnv):
        try:
            return kind(value.strip())
        except ValueError:
            raise Rejected(f"{node.name} must be {words}; its environment variable holds something else") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (kind is int and not isinstance(value, int)):
        quoted = isinstance(value, str) and value.replace(".", "", 1).isdigit()
        hint = "write it without quotes" if quoted else ""
        raise Rejected(f"{node.name} must be {words}, found {described(node)}", hint)
    try:
        return kind(value)
    except OverflowError:
        raise Rejected(f"{node.name} is too large") from None


class Choice(msgspec.Struct, frozen=True):
    """One of `names`, or what `other` takes where the value is not text."""

    names: tuple[str, ...]
    other: Parser | None = None

    def __call__(self, node: Node) -> Any:
        if node.value is False and "off" in self.names:  # YAML reads a bare `off` as false
            return "off"
        if self.other is not None and not isinstance(node.value, str):
            return self.other(node)
        if node.value not in self.names:
            hint = suggestion(node.value, self.names, listed="choices") if isinstance(node.value, str) else ""
            raise Rejected(f"{node.name} must be {' or '.join(self.names)}, found {described(node)}", hint)
        return str(node.value)


def texts(node: Node) -> tuple[str, ...]:
    """Parse a list of texts without repetitions."""
    values: list[str] = []
    for element in node.elements():
        value = text(element)
        if value in values:
            element.problem(f"{value!r} appears twice in {node.name}")
        else:
            values.append(value)
    return tuple(values)


def colour(node: Node) -> str:
    if not isinstance(node.value, str) or not _COLOUR.fullmatch(node.value):
        hint = 'such as "#5b7fa6", in quotes'
        raise Rejected(f"{node.name} must be a colour of the form #rrggbb, found {described(node)}", hint)
    return node.value.lower()


def http_url(node: Node) -> str:
    """Parse `http(s)://host[:port][/path]` and drop a slash at the end."""
    return _url(node, "an http:// or https:// address", tcp=False)


def upstream_url(node: Node) -> str:
    """Parse an address as `http_url` does, or `tcp://host:port`."""
    return _url(node, "an http://, https:// or tcp:// address", tcp=True)


def _url(node: Node, expected: str, *, tcp: bool) -> str:
    value = text(node).strip()
    try:
        host = host_of(value, tcp=tcp)
    except ValueError as error:
        raise Rejected(f"{node.name} must be {expected}, found {described(node)}", str(error)) from None
    if is_never_called(host):
        raise Rejected(f"{node.name} is a link-local or metadata address, which is never called")
    return value.rstrip("/")


def file_path(node: Node) -> FilePath:
    """Parse a path relative to the folder of the configuration file."""
    value = text(node)
    if not value.strip():
        raise Rejected(f"{node.name} is empty")
    return FilePath(node.document.file).parent / FilePath(value).expanduser()


def day(node: Node) -> date:
    """Parse a day such as 2026-12-01."""
    value = node.value
    if isinstance(value, str):
        with suppress(ValueError):
            value = date.fromisoformat(value.strip())
    if type(value) is not date:  # a time of day is a date too
        raise Rejected(f"{node.name} must be a day, found {described(node)}", "such as 2026-12-01")
    return value


def prices(node: Node) -> tuple[Price, ...]:
    """Parse one price, or a list of prices that hold from different days on, and return them oldest first."""
    result = [price(element) for element in node.elements()] if isinstance(node.value, list) else [price(node)]
    if len({one.valid_from for one in result}) < len(result):
        raise Rejected(f"{node.name}: two prices hold from the same day", "give each its own valid_from")
    return tuple(sorted(result, key=lambda one: one.valid_from))


def price(node: Node) -> Price:
    """Parse `{unit: 1M_tokens, input: 2.5, output: 10}` or `{unit: minute, usd: 0.0043}`, in USD (`gw.pricing.units`)."""
    if not isinstance(node.value, dict):
        raise Rejected(f"{node.name} must be a mapping, found {described(node)}", "such as {unit: minute, usd: 0.0043}")
    before = len(node.document.problems)
    values = record(node, PRICE)
    if len(node.document.problems) > before:
        return Price()
    if "unit" not in values:
        raise Rejected(f"{node.name} needs a unit", f"one of {', '.join(UNITS)}")
    try:
        return price_from(values, source="config")
    except ValueError as error:
        raise Rejected(f"{node.name}: {error}") from None


_AMOUNT_DESCRIPTIONS = {
    "cache_write_long": "kept for longer than usual (Anthropic: one hour)",
    "input_audio": "audio tokens, where a model bills them separately",
    "input_image": "image tokens, where a model bills them separately",
    "cached_input_audio": "default: as cached_input",
    "cached_input_image": "default: as cached_input",
    "per_second": "used when the vendor reports no tokens",
    "per_search": "for each web search that the vendor makes, beside the tokens",
    "per_request": "beside the tokens",
    "per_message": "for each text message of a conversation, beside its duration",
    "min_seconds": "shortest audio billed for",
    "step_seconds": "audio is billed in steps of this length",
}


def _amounts(names: Iterable[str]) -> dict[str, Setting]:
    return {name: Setting(name, Number(), _AMOUNT_DESCRIPTIONS.get(name, "")) for name in sorted(names)}


TOKEN_RATES: SettingTable = {name: Setting(name, Number()) for name in AMOUNTS["1M_tokens"]}
steps = ListOf(Section(dict, {"tokens": Setting("tokens", Integer(1)), **TOKEN_RATES}))
tiers = ByName(Section(dict, {**TOKEN_RATES, "above": Setting("above", steps)}))
PRICE: SettingTable = {
    "unit": Setting("unit", Choice(UNITS), f"takes: {', '.join(AMOUNTS['1M_tokens'])}"),
    **_amounts({name for names in AMOUNTS.values() for name in names}),
    "above": Setting("above", steps, "rates of requests with more input tokens"),
    "tiers": Setting("tiers", tiers, "service tiers"),
    "regions": Setting("regions", ByName(Number(above=True)), "factors for processing in a region"),
    "addons": Setting("addons", ByName(Number()), "USD per unit on top, by option"),
    "valid_from": Setting("valid_from", day, "first day (UTC) of this price; default: always"),
}
_PARSERS: Mapping[object, Parser] = {
    str: text, bool: boolean, Secret: secret, FilePath: file_path,
}  # fmt: skip
