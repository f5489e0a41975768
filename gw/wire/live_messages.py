"""Messages from a client of live transcription or live speech to the gateway, common to all dialects.

Each dialect's server (for transcription a `listen_protocol.ListenProtocol`) turns the client's frames into these, and events
into frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from gw.types.tts import SpeakLiveRequest
from gw.wire.json_frames import Frame


class DirectReply(msgspec.Struct, frozen=True):
    """A frame to send to the client at once."""

    frame: Frame


# ---- transcription


class Audio(msgspec.Struct, frozen=True):
    """Audio to transcribe."""

    data: bytes


class Forward(msgspec.Struct, frozen=True):
    """A control frame to pass unchanged to an upstream of the same dialect."""

    frame: str


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


# ---- speech


class Text(msgspec.Struct, frozen=True):
    """Text to speak, after the text before it."""

    text: str


class TtsCommand(Enum):
    """Commands that carry no data."""

    FLUSH = auto()
    """Speak the text so far without waiting for more."""
    FINISH = auto()
    """The utterance is complete."""
    CLEAR = auto()
    """Drop all text and audio not yet sent."""
    CLOSE = auto()
    """The client is done with the socket."""


class OpenSession(msgspec.Struct, frozen=True):
    """Settings of the utterances to come; `fallback` lists the models that the client itself names next."""

    request: SpeakLiveRequest
    fallback: tuple[str, ...] = ()
    fallback_voices: tuple[str, ...] = ()
    """The voice of each of these, "" where the client names none."""


class ContextText(msgspec.Struct, frozen=True, kw_only=True):
    """Text for one of several contexts, of which each is an utterance of its own."""

    context: str
    text: str = ""
    flush: bool = False
    finish: bool = False
    """No more text of this context follows."""
    request: SpeakLiveRequest | None = None
    """The context's settings, where each frame repeats them."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings that the frame adds to the socket's, as options of a request."""


class CancelContext(msgspec.Struct, frozen=True):
    """Drop a context with its text and audio."""

    context: str


SpeakMessage: TypeAlias = Text | TtsCommand | DirectReply | OpenSession
"""Message of a protocol that speaks one utterance after the other."""
