"""Every failure of the control plane as status, headers and body; one place.

The body is the gateway's own (OpenAI-shaped, with the facts of the error as further members), made where the data plane
makes it, so that both planes say the same. Only the status of a faulty request differs: 422 here, 400 there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gw.dialects import error_bodies
from gw.errors import GwError
from gw.types.asgi import Send
from gw.wire import openai_chat_server

if TYPE_CHECKING:
    from werkzeug.exceptions import HTTPException

_log = structlog.get_logger("gw.web")

JSON = b"application/json"
Headers = list[tuple[bytes, bytes]]
Answer = tuple[int, Headers, bytes]
"""Status, headers without content-length, body."""

_TYPES = {404: "NotFound", 405: "MethodNotAllowed", 413: "TooLarge"}
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


def of_gateway(error: GwError, request_id: str) -> Answer:
    headers: Headers = [(b"content-type", JSON), *error_bodies.headers_of(error)]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, headers, error_bodies.body_of(error, request_id)


def of_http(error: HTTPException, request_id: str) -> Answer:
    """What routing and parsing inside Quart raise: unknown path, wrong method, body too large."""
    status = error.code or 500
    headers: Headers = [(b"content-type", JSON)]
    for name, value in error.get_headers():
        if name.lower() in ("allow", "location"):
            headers.append((name.lower().encode(), value.encode("latin-1")))
    body = openai_chat_server.error_body(
        type=_TYPES.get(status, "RequestError"),
        code=_CODES.get(status, "invalid_request"),
        message=error.name,
        param=None,
        request_id=request_id,
    )
    return status, headers, body


def of_unexpected(error: BaseException, request_id: str) -> Answer:
    """A fault of ours: the log gets everything, the caller the id under which it stands there."""
    _log.error("request_failed", request_id=request_id, exc_info=error)
    body = openai_chat_server.error_body(
        type="InternalError",
        code="internal_error",
        message="the gateway failed while handling this request",
        param=None,
        request_id=request_id,
    )
    return 500, [(b"content-type", JSON)], body


async def send_answer(send: Send, answer: Answer) -> None:
    status, headers, body = answer
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
