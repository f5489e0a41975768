"""ElevenLabs' errors of live sessions: a frame or a close frame → the ProviderError that decides about the next candidate.

Source: the vendor's error page and elevenlabs 2.78.0 (November 2026). The frame of a speech socket is
`{"message","error","code"}`, where `code` is that of the close frame which follows. For HTTP bodies see `vendor_errors`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected
from gw.wire.json_codec import decode_or
from gw.wire.vendor_errors import ELEVENLABS, ELEVENLABS_CANDIDATE, ELEVENLABS_OUT_OF_MONEY, ErrorFacts, error_of

_RATE_LIMITS = frozenset({
    "too_many_concurrent_requests", "concurrent_limit_exceeded", "rate_limit_exceeded", "rate_limited", "system_busy",
    "resource_exhausted",
})  # fmt: skip
_STATUSES = {
    **dict.fromkeys(ELEVENLABS_CANDIDATE, 400),
    **dict.fromkeys(_RATE_LIMITS, 429),
    **dict.fromkeys(ELEVENLABS_OUT_OF_MONEY, 402),
}
"""Error code → the HTTP status that a request would get."""


class _Frame(msgspec.Struct, gc=False):
    message: object = None
    error: object = None
    code: object = None


_FRAME = msgspec.json.Decoder(_Frame)


def session_error(provider: str, code: str, message: str, secrets: Iterable[str] = ()) -> ProviderError:
    """Return the error of a live session for the vendor's code. Key, voice, model and settings are the candidate's."""
    return error_of(provider, _STATUSES.get(code, 500), ErrorFacts(code=code, message=message), secrets, dialect=ELEVENLABS)


def close_error(provider: str, reason: str) -> ProviderError | None:
    """Return the error that a close frame's reason names; None if it names none. The vendor's text is left out."""
    reason = reason.lower()
    for code in sorted(_STATUSES):
        if code in reason:
            return session_error(provider, code, "")
    return None


def frame_error(provider: str, frame: str | bytes, secrets: Iterable[str] = ()) -> ProviderError | None:
    """Return the error in a frame of a speech socket; None for any other frame."""
    decoded = decode_or(_FRAME, frame, _Frame())
    if not decoded.error:
        return None
    code = decoded.error.lower() if isinstance(decoded.error, str) else ""
    error = session_error(provider, code, decoded.message if isinstance(decoded.message, str) else "", secrets)
    if decoded.code == 1008 and type(error) is ProviderFailed and error.upstream_status == 500:
        return as_rejection(error, error.upstream_code)
    return error


def as_rejection(error: ProviderError, code: str) -> ProviderRejected:
    """Return `error`, classified as an unknown failure, as a refusal that another candidate may not repeat."""
    return ProviderRejected(
        provider=error.provider, detail=error.detail.replace("HTTP 500", "HTTP 400"), upstream_status=400,
        upstream_code=code, fault="candidate",
    )  # fmt: skip
