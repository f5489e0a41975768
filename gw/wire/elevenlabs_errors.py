"""Errors inside live sessions of ElevenLabs: a frame, or the close frame that follows it, with the same `code`.

Source: elevenlabs 2.78.0, and the vendor's error page (November 2026).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError, ProviderFailed
from gw.wire.json_codec import decode_or
from gw.wire.vendor_errors import (
    ELEVENLABS,
    ELEVENLABS_CANDIDATE,
    ELEVENLABS_OUT_OF_MONEY,
    ErrorFacts,
    as_rejection,
    error_of,
)

_LIMITS = frozenset({
    "too_many_concurrent_requests", "concurrent_limit_exceeded", "rate_limit_exceeded", "rate_limited", "system_busy",
    "resource_exhausted",
})  # fmt: skip
_STATUSES = {
    **dict.fromkeys(ELEVENLABS_CANDIDATE, 400),
    **dict.fromkeys(_LIMITS, 429),
    **dict.fromkeys(ELEVENLABS_OUT_OF_MONEY, 402),
}
"""Error code → the HTTP status that a request would get."""


class _ErrorFrame(msgspec.Struct, gc=False):
    message: object = None
    error: object = None
    code: object = None


_FRAME = msgspec.json.Decoder(_ErrorFrame)


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
    decoded = decode_or(_FRAME, frame, _ErrorFrame())
    if not decoded.error:
        return None
    code = decoded.error.lower() if isinstance(decoded.error, str) else ""
    error = session_error(provider, code, decoded.message if isinstance(decoded.message, str) else "", secrets)
    if decoded.code == 1008 and type(error) is ProviderFailed and error.upstream_status == 500:
        return as_rejection(error, error.upstream_code)
    return error
