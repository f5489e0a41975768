"""Cartesia's error bodies: what an answer means for routing, and the bodies we write.

Source: cartesia 4.2.0 and the vendor's page on errors (November 2026). `{"error_code","title","message","request_id"}`, the
code null where there is none; older versions answer plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError, ProviderRejected
from gw.wire import openai_errors

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_OF_THE_CANDIDATE = re.compile(r"(?i)(model|voice|language|plan|subscription)_")
"""Codes about what another provider may have."""


class _Body(msgspec.Struct, gc=False):
    error_code: str | None = None
    title: str | None = None
    message: str | None = None


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
    error = openai_errors.classify(provider, status, retry_after, body, secrets, date)
    if isinstance(error, ProviderRejected) and _OF_THE_CANDIDATE.match(told.error_code or ""):
        error.fault = "candidate"
    return error


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    told = {"error_code": code, "title": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({**facts, **told})
