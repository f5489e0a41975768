"""Keeps secrets out of log events: by value, by field name, and by the look of a string.

Three nets, since each has holes: values that were announced with `learn` are replaced wherever they stand; fields whose
name says that they hold a credential lose their value; what looks like a key of a known vendor or like an
`Authorization` value is cut out of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gw.types.secret import Secret

GONE = "[redacted]"
_SHORTEST_LEARNT = 6
"""Shorter secrets are not replaced by value: they would punch holes into ordinary words."""

_SECRET_FIELD = re.compile(
    r"(?:^|[-_.])(?:authorization|api[-_]?key|apikey|xi[-_]api[-_]key|secret|passwd|password|token|cookie|credentials?)$",
    re.IGNORECASE,
)
_ID_FIELD = re.compile(r"(?:^|_)id$")
_KEY_LOOKS = re.compile(
    r"""\b(?:bearer|token|basic)\s+[A-Za-z0-9+/=._~-]{8,}           # an Authorization value
      | \b(?:gwk|sk|gsk|pk|xai|rk|AIza|key)[-_][A-Za-z0-9_-]{8,}    # prefixed keys
      | \bAIza[A-Za-z0-9_-]{20,}
      | \bgAAAA[A-Za-z0-9_=-]{20,}                                  # a Fernet token
      | (?<=[?&])(?:token|access_token|api_key|single_use_token)=[^&\s"']+
      | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*      # a JSON web token""",
    re.VERBOSE | re.IGNORECASE,
)
_HEX_KEY = re.compile(r"\b[0-9a-fA-F]{32,}\b")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_DEPTH = 6
"""Nesting beyond this is shown as text."""


class Redactor:
    """`event` makes a log event safe to write; it leaves the given mapping alone."""

    def __init__(self) -> None:
        self._learnt: tuple[str, ...] = ()

    def learn(self, secrets: Iterable[Secret]) -> None:
        """Replace these values from now on, wherever they occur. Those learnt before stay: a log line may be late."""
        values = {s.reveal() for s in secrets} | set(self._learnt)
        usable = (v for v in values if len(v) >= _SHORTEST_LEARNT)
        self._learnt = tuple(sorted(usable, key=len, reverse=True))  # the longest first: one may contain another

    def event(self, event: Mapping[str, object]) -> dict[str, object]:
        return {self.text(name): self._field(name, value, _DEPTH) for name, value in event.items()}

    def text(self, value: str, *, keep_hex: bool = False, newlines: bool = False) -> str:
        """`value` without secrets and with control characters escaped. `keep_hex` spares ids of our own making."""
        for secret in self._learnt:
            if secret in value:
                value = value.replace(secret, GONE)
        value = _KEY_LOOKS.sub(GONE, value)
        if not keep_hex:
            value = _HEX_KEY.sub(GONE, value)
        return (_CONTROL_BUT_NEWLINE if newlines else _CONTROL).sub(_escape, value)

    def _field(self, name: str, value: object, depth: int) -> object:
        if isinstance(value, bool | int | float) or value is None:
            return value
        if isinstance(value, Secret) or _SECRET_FIELD.search(name):
            return GONE
        if isinstance(value, Mapping) and depth:
            return {self.text(str(k)): self._field(str(k), v, depth - 1) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset) and depth:
            return self._items(name, list(value), depth)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        return self.text(str(value), keep_hex=bool(_ID_FIELD.search(name)), newlines=name == "exception")

    def _items(self, name: str, values: list[object], depth: int) -> object:
        if len(values) == 2 and isinstance(values[0], bytes | str) and _SECRET_FIELD.search(_plain(values[0])):
            return [_plain(values[0]), GONE]  # a (name, value) pair of headers
        return [self._field(name, v, depth - 1) for v in values]


def _plain(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
