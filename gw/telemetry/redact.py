"""Redaction of secrets in log events: by value, by field name, and by pattern.

Three layers, since each has gaps: values registered with `learn` are replaced wherever they occur; fields with the name of
a credential lose their value; text that looks like a key of a known vendor or an `Authorization` value is cut out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gw.types.secret import Secret

REDACTED = "[redacted]"
_SHORTEST_SECRET = 6  # shorter secrets are not replaced by value: they occur in ordinary words

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
_DEPTH = 6  # levels of nesting; deeper values are shown as text


class Redactor:
    """Makes log events safe to write."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()

    def learn(self, secrets: Iterable[Secret]) -> None:
        """Replace these values from now on, wherever they occur. Earlier ones stay registered: a log line may be late."""
        values = {s.reveal() for s in secrets} | set(self._secrets)
        usable = (v for v in values if len(v) >= _SHORTEST_SECRET)
        self._secrets = tuple(sorted(usable, key=len, reverse=True))  # the longest first: one may contain another

    def event(self, event: Mapping[str, object]) -> dict[str, object]:
        """Return a redacted copy of `event`."""
        return {self.text(name): self._field(name, value, _DEPTH) for name, value in event.items()}

    def text(self, value: str, *, keep_hex: bool = False, newlines: bool = False) -> str:
        """Return `value` without secrets and with control characters escaped. `keep_hex` keeps our own ids."""
        for secret in self._secrets:
            if secret in value:
                value = value.replace(secret, REDACTED)
        value = _KEY_LOOKS.sub(REDACTED, value)
        if not keep_hex:
            value = _HEX_KEY.sub(REDACTED, value)
        return (_CONTROL_BUT_NEWLINE if newlines else _CONTROL).sub(_escape, value)

    def _field(self, name: str, value: object, depth: int) -> object:
        if isinstance(value, bool | int | float) or value is None:
            return value
        if isinstance(value, Secret) or _SECRET_FIELD.search(name):
            return REDACTED
        if isinstance(value, Mapping) and depth:
            return {self.text(str(k)): self._field(str(k), v, depth - 1) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset) and depth:
            return self._items(name, list(value), depth)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        return self.text(str(value), keep_hex=bool(_ID_FIELD.search(name)), newlines=name == "exception")

    def _items(self, name: str, values: list[object], depth: int) -> object:
        if len(values) == 2 and isinstance(values[0], bytes | str) and _SECRET_FIELD.search(_plain(values[0])):
            return [_plain(values[0]), REDACTED]  # a (name, value) pair of headers
        return [self._field(name, v, depth - 1) for v in values]


def _plain(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
