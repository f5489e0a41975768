"""ElevenLabs' errors: what a body, a frame or a close frame means for routing.

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
    status: str | int | None = None
    code: str | int | None = None
    type: str | None = None
    message: str | None = None


class _Body(msgspec.Struct, gc=False):
    detail: _Detail | None = None


class _Frame(msgspec.Struct, gc=False):
    message: object = None
    error: object = None
    code: object = None


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
    code = str(detail.code or detail.status or detail.type or "")
    fault = msgspec.json.encode({"error": {"code": code, "message": detail.message or ""}})
    error = openai_errors.classify(provider, status, retry_after, fault, secrets, date)
    names = {code.lower(), str(detail.status or "").lower()}
    if status >= 400 and (spent := names & _NO_MONEY):
        return ProviderFailed(provider=provider, detail=error.detail, upstream_status=status, upstream_code=spent.pop())
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


def close_fault(provider: str, reason: str) -> ProviderError | None:
    """The error that the reason of a close frame names; None where it names none. The vendor's own text stays out."""
    told = reason.lower()
    for name in sorted(_NO_MONEY | _NO_ROOM | _OF_THE_CANDIDATE):
        if name in told:
            return named(provider, name, "")
    return None


def frame_fault(provider: str, frame: str | bytes, secrets: Iterable[str] = ()) -> ProviderError | None:
    """The error a frame of a speech socket tells; None for any other frame."""
    try:
        told = _FRAME.decode(frame)
    except _BAD_JSON:
        return None
    if not told.error:
        return None
    name = told.error.lower() if isinstance(told.error, str) else ""
    error = named(provider, name, told.message if isinstance(told.message, str) else "", secrets)
    if told.code == 1008 and type(error) is ProviderFailed and error.upstream_status == 500:
        return ProviderRejected(
            provider=provider, detail=error.detail.replace("HTTP 500", "HTTP 400"), upstream_status=400,
            upstream_code=error.upstream_code, fault="candidate",
        )  # fmt: skip
    return error
