"""Messages between a client of live transcription and the gateway, common to all dialects.

Each dialect's server (`ListenProtocol`) turns the client's frames into these messages, and transcription events into frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol, TypeAlias

import msgspec

from gw.types.stt import ListenEvent
from gw.wire.json_frames import Frame


class Audio(msgspec.Struct, frozen=True):
    """Audio to transcribe."""

    data: bytes


class Forward(msgspec.Struct, frozen=True):
    """A control frame to pass unchanged to an upstream of the same dialect."""

    frame: str


class DirectReply(msgspec.Struct, frozen=True):
    """A frame to send to the client at once."""

    frame: Frame


class DelayedReply(msgspec.Struct, frozen=True):
    """Frames to send after a pause; `frames` is called then."""

    frames: Callable[[], Sequence[Frame]]


class Control(Enum):
    """Commands that carry no data."""

    FLUSH = auto()
    """Make the transcript of the audio so far final."""
    FINISH = auto()
    """No more audio will come."""


ClientMessage: TypeAlias = Audio | Forward | DirectReply | DelayedReply | Control


class ListenProtocol(Protocol):
    """Server side of a dialect, for one session."""

    def opening(self) -> Sequence[Frame]:
        """Return the frames sent right after the handshake."""
        return ()

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        """Encode events as frames. Frames of an upstream of the same dialect (`raw`) are passed on unchanged."""
