"""gw's log inside another program: forwarded to that program's logging."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import structlog

from gw.telemetry.log import stop_forwarding
from gw.telemetry.redact import Redactor

_redactor = Redactor()


def log_to_program() -> Redactor:
    """Forward gw's log events to `logging`, under the logger `gw`, with secrets removed. Returns the redactor.

    A program that has configured structlog itself keeps its configuration.
    """
    if not structlog.is_configured():
        stop_forwarding()
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.add_log_level,
                structlog.processors.ExceptionRenderer(),  # type, text and lines; no local variables
                _redacted,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
    return _redactor


def _redacted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return _redactor.event(event)
