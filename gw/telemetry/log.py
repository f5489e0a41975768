"""Structured logs: one line per event, to stderr, as JSON unless stderr is a terminal; in a program, to its `logging`.

Every event, including those of libraries that use `logging`, is redacted just before it is rendered, after exceptions have
become text. Tracebacks never show local variables.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TextIO, cast

import msgspec
import structlog

from gw.errors import ConfigError, Problem
from gw.telemetry.log_lines import LogLines
from gw.types.printable import escaped
from gw.types.secret import Secret

LEVELS: Mapping[str, int] = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
_Event = MutableMapping[str, Any]
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
      | (?<=[?&])(?:token|access_token|api_key|single_use_token|key)=[^&\s"']+
      | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*      # a JSON web token""",
    re.VERBOSE | re.IGNORECASE,
)
_HEX_KEY = re.compile(r"\b[0-9a-fA-F]{32,}\b")
_DEPTH = 6  # levels of nesting; deeper values are shown as text


def setup_logging(env: Mapping[str, str] | None = None, stream: TextIO | LogLines | None = None) -> Redactor:
    """Route all logging of the process to `stream` (stderr) and return the redactor, which can `learn` secrets.

    `GW_LOG_LEVEL`: debug, info (default), warning, error. `GW_LOG_FORMAT`: json or text; default text on a terminal,
    else json. Raises ConfigError for other values. May be called again: the last call wins.
    """
    env = os.environ if env is None else env
    stream = stream or sys.stderr
    level = _choice(env, "GW_LOG_LEVEL", tuple(LEVELS), "info")
    style = _choice(env, "GW_LOG_FORMAT", ("json", "text"), "text" if stream.isatty() else "json")
    colors = stream.isatty() and not env.get("NO_COLOR")
    to_text = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    redactor = Redactor()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.ExceptionRenderer(),  # type, text and lines; no local variables
            _redaction(redactor),
            _json_line if style == "json" else to_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", stream)),
        cache_logger_on_first_use=False,  # loggers made at import time must follow a later call of this function
    )
    _stop_forwarding()
    root = logging.getLogger()
    root.addHandler(_Forward())
    root.setLevel(max(LEVELS[level], logging.INFO))  # the libraries' debug output has headers and bodies
    return redactor


def log_to_program() -> Redactor:
    """Forward gw's log events to `logging`, under the logger `gw`, with secrets removed. Returns the redactor.

    A program that has configured structlog itself keeps its configuration.
    """
    if not structlog.is_configured():
        _stop_forwarding()
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.add_log_level,
                structlog.processors.ExceptionRenderer(),
                _redaction(_program_redactor),
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
    return _program_redactor


def _stop_forwarding() -> None:
    """Stop forwarding `logging` to structlog: together with forwarding in the other direction it would never end."""
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _Forward)]:
        root.removeHandler(handler)


def _choice(env: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = env.get(name, "").strip().lower() or default
    if value not in allowed:
        raise ConfigError(problems=(Problem(where=name, what=f"{name} must be one of {', '.join(allowed)}"),))
    return value


def _redaction(redactor: Redactor) -> Callable[[Any, str, _Event], _Event]:
    return lambda _logger, _method, event: redactor.event(event)


def _json_line(_logger: Any, _method: str, event: _Event) -> str:
    first = {name: event[name] for name in ("timestamp", "level", "event") if name in event}
    try:
        return msgspec.json.encode(first | dict(event)).decode()
    except (TypeError, ValueError):  # half a surrogate pair, from a client's JSON, is not UTF-8
        return json.dumps(first | dict(event), default=str)


class _Forward(logging.Handler):
    """Forwards the records of libraries that use `logging` to structlog, so that they are redacted too."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            fields["exc_info"] = record.exc_info
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit their format must not fail the caller
            text = str(record.msg)
        structlog.get_logger().log(max(record.levelno, logging.DEBUG), text, **fields)


# ---- redaction
#
# Three layers, since each has gaps: values registered with `learn` are replaced wherever they occur; fields with the name of a
# credential lose their value; text that looks like a key of a known vendor or an `Authorization` value is cut out.


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
        """Return `value` without secrets and with unsafe characters escaped. `keep_hex` keeps our own ids."""
        for secret in self._secrets:
            if secret in value:
                value = value.replace(secret, REDACTED)
        value = _KEY_LOOKS.sub(REDACTED, value)
        if not keep_hex:
            value = _HEX_KEY.sub(REDACTED, value)
        return escaped(value, newlines=newlines)

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


_program_redactor = Redactor()
