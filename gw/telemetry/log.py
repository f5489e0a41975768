"""Structured logs: one line per event, to stderr, as JSON unless stderr is a terminal; in a program, to its `logging`.

Every event, including those of libraries that use `logging`, is redacted just before it is rendered, after exceptions have
become text. Tracebacks never show local variables.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO

import msgspec
import structlog

from gw.errors import ConfigError, Problem
from gw.telemetry.redact import Redactor

LEVELS: Mapping[str, int] = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
_Event = MutableMapping[str, Any]


def setup_logging(env: Mapping[str, str] | None = None, stream: TextIO | None = None) -> Redactor:
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
        logger_factory=structlog.WriteLoggerFactory(file=stream),
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


_program_redactor = Redactor()


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
    return msgspec.json.encode(first | dict(event)).decode()


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
