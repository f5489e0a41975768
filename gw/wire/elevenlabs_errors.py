"""ElevenLabs' errors: what a body or a frame means for routing, and the ones we write.

Source: the vendor's error page and elevenlabs 2.78.0 (November 2026). Three shapes: `{"detail":{"status","message"}}`, the newer
`{"detail":{"type","code","message","status","request_id"}}`, and of validation `{"detail":[{"loc","msg","type"}]}`. The frame
of a speech socket is `{"message","error","code"}`, where `code` is that of the close frame which follows.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected
from gw.wire import openai_errors

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NO_MONEY = frozenset({"quota_exceeded", "payment_required", "insufficient_credits"})
"""With status 401, as if the key were wrong."""
_NO_ROOM = frozenset(
    {
        "too_many_concurrent_requests", "concurrent_limit_exceeded", "rate_limit_exceeded", "rate_limited", "system_busy",
        "resource_exhausted",
    }
)  # fmt: skip
_OF_THE_CANDIDATE = frozenset(
    {
        "voice_not_found", "voice_does_not_exist", "voice_id_does_not_exist", "model_not_found", "model_does_not_exist",
        "model_id_does_not_exist", "unsupported_model", "unsupported_language", "invalid_output_format",
        "output_format_not_allowed", "max_character_limit_exceeded", "text_too_long", "invalid_api_key",
        "missing_permissions", "detected_unusual_activity", "unaccepted_terms",
    }
)  # fmt: skip
"""Words of a 400 that another vendor, voice or plan would not say."""


class _Detail(msgspec.Struct, gc=False):
    status: str | None = None
    code: str | None = None
    type: str | None = None
    message: str | None = None


class _Body(msgspec.Struct, gc=False):
    detail: _Detail | None = None


class _Frame(msgspec.Struct, gc=False):
    message: str | None = None
    error: str | None = None
    code: int | None = None


_BODY = msgspec.json.Decoder(_Body)
_FRAME = msgspec.json.Decoder(_Frame)


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
        detail = _BODY.decode(body).detail
    except _BAD_JSON:  # a text, or the list of a validation, which the common reader takes
        return openai_errors.classify(provider, status, retry_after, body, secrets, date)
    if detail is None:
        return openai_errors.classify(provider, status, retry_after, body, secrets, date)
    code = detail.code or detail.status or detail.type or ""
    fault = msgspec.json.encode({"error": {"code": code, "message": detail.message or ""}})
    error = openai_errors.classify(provider, status, retry_after, fault, secrets, date)
    names = {code.lower(), (detail.status or "").lower()}
    if names & _NO_MONEY and status >= 400:
        return ProviderFailed(provider=provider, detail=error.detail, upstream_status=status, upstream_code=code)
    if isinstance(error, ProviderRejected) and names & _OF_THE_CANDIDATE:
        error.fault = "candidate"
    return error


def named(provider: str, name: str, message: str, secrets: Iterable[str] = ()) -> ProviderError:
    """The error of a live session by the vendor's word for it. Key, voice, model and settings are this candidate's own."""
    if name in _NO_MONEY:
        status = 402
    elif name in _NO_ROOM:
        status = 429
    elif name in _OF_THE_CANDIDATE:
        status = 400
    else:
        status = 500
    body = msgspec.json.encode({"detail": {"code": name, "message": message}})
    return classify(provider, status, None, body, secrets)


def frame_fault(provider: str, frame: str | bytes, secrets: Iterable[str] = ()) -> ProviderError | None:
    """The error a frame of a speech socket tells; None for any other frame."""
    try:
        told = _FRAME.decode(frame)
    except _BAD_JSON:
        return None
    if not told.error:
        return None
    error = named(provider, told.error.lower(), told.message or "", secrets)
    if told.code == 1008 and type(error) is ProviderFailed and error.upstream_status == 500:
        return ProviderRejected(
            provider=provider, detail=error.detail.replace("HTTP 500", "HTTP 400"), upstream_status=400,
            upstream_code=error.upstream_code, fault="candidate",
        )  # fmt: skip
    return error


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    """Older clients read `status`, newer ones `code`."""
    told = {"type": "gateway_error", "code": code, "status": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({"detail": {**facts, **told}})


def error_frame(code: str, message: str, close_code: int, context: str | None = None) -> str:
    """Of a speech socket."""
    told: dict[str, object] = {"message": message, "error": code, "code": close_code}
    if context is not None:
        told |= {"contextId": context, "context_id": context}
    return msgspec.json.encode(told).decode()
