"""Cartesia's error bodies: what an answer means for routing, and the bodies we write.

Source: cartesia 4.2.0 (November 2026). `{"error_code","title","message","request_id"}`; older versions answer plain text.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError
from gw.wire import openai_errors

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Body(msgspec.Struct, gc=False):
    error_code: str = ""
    title: str = ""
    message: str = ""


_BODY = msgspec.json.Decoder(_Body)


def classify(
    provider: str,
    status: int,
    retry_after: bytes | None,
    body: bytes,
    secrets: Iterable[str] = (),
    date: bytes | None = None,
) -> ProviderError:
    """The error that `status` and `body` of an answer stand for; never raises. As `openai_errors.classify`."""
    try:
        told = _BODY.decode(body)
    except _BAD_JSON:
        told = _Body()
    if told.error_code or told.message or told.title:
        fault = {"code": told.error_code, "message": told.message or told.title}
        body = msgspec.json.encode({"error": fault})
    return openai_errors.classify(provider, status, retry_after, body, secrets, date)


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    told = {"error_code": code, "title": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({**facts, **told})
