"""A value of the document with its position, and the reporting of what is wrong with it.

A parser (`gw.config.fields`) returns a value or raises `Rejected`. `record` parses a mapping by a table of settings, reports
every rejection with its position, and continues, so that one run reports all problems.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from gw.config.load import Document, FromEnv, Path, dotted, secret_value

T = TypeVar("T")
_MOST_SUGGESTED = 30


class Rejected(Exception):
    """The value is not valid for the setting."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class Node(msgspec.Struct, frozen=True):
    """A value and its path in the document."""

    document: Document
    path: Path
    value: object

    @property
    def name(self) -> str:
        return dotted(self.path)

    def problem(self, what: str, hint: str = "", *, key: bool = False) -> None:
        self.document.problem(self.path, what, hint, key=key)

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the entries of a mapping, none for an empty value; anything else is reported."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                yield key, Node(self.document, (*self.path, key), value)
        elif self.value is not None:
            self.problem(f"{self.name or 'the file'} must be a mapping, found {described(self)}")

    def elements(self) -> Iterator[Node]:
        if not isinstance(self.value, list):
            hint = "write it as [a, b], or one per line with '- '"
            raise Rejected(f"{self.name} must be a list, found {described(self)}", hint)
        for index, value in enumerate(self.value):
            yield Node(self.document, (*self.path, index), value)


Parser = Callable[[Node], Any]


class Setting(msgspec.Struct, frozen=True):
    """One key of a mapping. `attribute` is its name in the class, `description` its meaning, for people."""

    attribute: str
    parser: Parser
    description: str = ""


SettingTable = Mapping[str, Setting]
"""Key → setting."""


def described(node: Node) -> str:
    """Describe the value without showing a secret."""
    match node.value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() as value:
            hidden = isinstance(value, FromEnv) or secret_value(node.path, value) or len(value) > 60
            return "text" if hidden else f"the text {value!r}"
        case bool() as value:
            return str(value).lower()
        case value:
            return "a number" if secret_value(node.path, str(value)) else str(value)


def suggestion(name: str, known: Collection[str], *, listed: str = "known") -> str:
    """Return `did you mean 'x'?`, or the known names when none is similar."""
    if close := difflib.get_close_matches(name, known, 1):
        return f"did you mean {close[0]!r}?"
    names = list(known)
    more = f" and {len(names) - _MOST_SUGGESTED} more" if len(names) > _MOST_SUGGESTED else ""
    return f"{listed}: {', '.join(names[:_MOST_SUGGESTED])}{more}" if names else f"{listed}: none"


def read(node: Node, parser: Callable[[Node], T], default: T) -> T:
    """Parse a value; a rejection is reported and gives `default`."""
    try:
        return parser(node)
    except Rejected as rejected:
        node.problem(rejected.what, rejected.hint)
        return default


_REMOVED = {
    "max_upload_mb": "remove it: max_body_mb limits every request body, uploads too",
    "hedge_after_ms": "write hedge, with the same number of milliseconds",
}
"""Former settings, and what to do."""


def record(node: Node, settings: SettingTable) -> dict[str, Any]:
    """Return attribute → value of the valid entries of a mapping. Unknown keys and invalid values are reported."""
    values: dict[str, Any] = {}
    for key, child in node.items():
        setting = settings.get(key)
        if setting is None:
            hint = _REMOVED.get(key) or suggestion(key, list(settings), listed="known keys")
            child.problem(f"unknown key {child.name!r}", hint, key=True)
        elif child.value is not None:
            try:
                values[setting.attribute] = setting.parser(child)
            except Rejected as rejected:
                child.problem(rejected.what, rejected.hint)
    return values
