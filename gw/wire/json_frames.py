"""JSON frames of live sessions: writing one, reading its type, and the error that a vendor reports in one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

import msgspec

from gw.errors import ProviderFailed
from gw.types.stt import ListenEvent
from gw.wire.json_codec import NO_TYPE, decode_client, decode_or
from gw.wire.vendor_errors import filtered

Frame = str | bytes
"""A text frame or a binary frame."""


class _Typed(TypedDict):
    type: str


_TYPED = msgspec.json.Decoder(_Typed)


def json_frame(members: object) -> str:
    return msgspec.json.encode(members).decode()


def typed_frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()


def frame_text(frame: Frame) -> str:
    """Return a frame as text; bytes that are not UTF-8 are replaced."""
    return frame if isinstance(frame, str) else frame.decode("utf-8", "replace")


def frame_type(frame: str) -> str:
    """Return the `type` of a client's JSON frame. Raises ClientProtocolError."""
    return decode_client(_TYPED, frame, NO_TYPE)["type"]


def type_or(frame: str, default: str) -> str:
    """Return the `type` of a frame, at most 40 characters of it; `default` for a frame without one."""
    return decode_or(_TYPED, frame, _Typed(type=default))["type"][:40]


def vendor_frames(events: list[ListenEvent]) -> list[Frame]:
    """Return the vendor's own frames among `events`: they go to a caller of the same dialect unchanged."""
    if len(events) == 1:
        raw = events[0].raw
        return [raw] if isinstance(raw, str) else [] if raw is None else [frame_text(raw)]
    return [raw if isinstance(raw := event.raw, str) else frame_text(raw) for event in events if event.raw is not None]


def session_failure(provider: str, message: str, code: str, secrets: Iterable[str]) -> ProviderFailed:
    """Return the error for an error frame inside a session; `message` is filtered."""
    message = filtered(message, secrets)
    detail = "an error inside the session" + (f" {code}" if code else "") + (f": {message}" if message else "")
    return ProviderFailed(provider=provider, detail=detail, upstream_status=101, upstream_code=code)
