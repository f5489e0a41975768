"""Messages from a client of live speech to the gateway, common to all dialects."""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias

import msgspec

from gw.types.tts import SpeakLiveRequest
from gw.wire.listen_messages import DirectReply


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
