"""Every failure of the control plane as an answer.

The body is the gateway's own (OpenAI-shaped, with the facts of the error as further members), made where the data plane
makes it, so that both planes agree. Only the status of a faulty request differs: 422 here, 400 there.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gw.dialects import error_bodies
from gw.errors import GwError
from gw.web.reply import Reply
from gw.wire import openai_chat

_log = structlog.get_logger("gw.web")


def gateway_error(error: GwError, request_id: str) -> Reply:
    headers = [*error_bodies.headers_of(error)]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return Reply(error_bodies.body_of(error, request_id), headers=headers, status=error.status)


def not_found(request_id: str) -> Reply:
    return Reply(_body("NotFound", "not_found", "Not Found", request_id), status=404)


def method_not_allowed(methods: Iterable[str], request_id: str) -> Reply:
    """`methods` are those that the path has."""
    allow = (b"allow", ", ".join(methods).encode())
    return Reply(_body("MethodNotAllowed", "method_not_allowed", "Method Not Allowed", request_id), headers=[allow], status=405)


def unexpected_error(error: BaseException, request_id: str) -> Reply:
    """Log a fault of ours with all details; the caller gets the id of the log line."""
    _log.error("request_failed", request_id=request_id, exc_info=error)
    message = "the gateway failed while handling this request"
    return Reply(_body("InternalError", "internal_error", message, request_id), status=500)


def _body(kind: str, code: str, message: str, request_id: str) -> bytes:
    return openai_chat.error_body(type=kind, code=code, message=message, request_id=request_id)
