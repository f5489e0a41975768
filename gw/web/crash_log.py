"""The log lines of a connection or a request that failed by a fault of ours."""

from __future__ import annotations

import traceback

import structlog

log = structlog.get_logger("gw.web")


def log_crash(event: str, error: BaseException, **facts: object) -> None:
    """Log where it failed, without the exception's text: that may quote a request."""
    log.error(event, exc_type=_type_names(error), traceback="".join(_frames(error)), **facts)


def _type_names(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_type_names(inner) for inner in error.exceptions)
    return type(error).__name__


def _frames(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [line for inner in error.exceptions for line in _frames(inner)]
    return traceback.format_tb(error.__traceback__)[-20:]
