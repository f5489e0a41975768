"""Captured words and sound of a request whose project has `capture`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from gw.types.audio import Encoding

PieceKind = Literal["text", "audio"]
CaptureState = Literal["stored", "incomplete", "dropped"]
"""All of a request was handed to the store, or only a part, or nothing, for lack of room."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of what was said. `role`: of a message, or `answer`, `transcript`, `speech` (text to speak)."""

    role: str
    text: str
    at_s: float | None = None
    """Seconds since the session began, where that is known."""


class CapturedText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The words of one request, in their order, personal data replaced."""

    said: tuple[Said, ...]
    cut: bool = False
    """There was more than is kept of one request."""


class Piece(msgspec.Struct, frozen=True, eq=False):
    """A piece of a request on its way to the capture store."""

    request_id: str
    project: str
    at: float
    """Unix seconds at which the request began."""
    expires_at: float
    kind: PieceKind
    part: int
    """Counts from 0 within the request and the kind."""
    size: int
    """Bytes in memory, about."""
    make: Callable[[], bytes]
    """Returns the content in clear, personal data replaced. Called in the thread of the store's writer."""
    presidio: str = ""
    """The spaCy model with which Presidio examines the texts of the content before it is stored; "" = it does not."""


class CapturedPiece(msgspec.Struct, frozen=True):
    """A piece as it is read back."""

    request_id: str
    project: str
    at: float
    kind: PieceKind
    part: int
    content: bytes


class CaptureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Size of what is stored."""

    requests: int
    pieces: int
    bytes: int
    oldest_at: float | None
    """Unix seconds."""


class CapturedSound(msgspec.Struct, frozen=True, array_like=True):
    """A part of the sound of a request. `seconds`: of a part that is a file in itself; None: all parts are one stream."""

    encoding: Encoding
    sample_rate_hz: int
    channels: int
    seconds: float | None
    data: bytes
