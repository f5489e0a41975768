"""Cartesia's turn-based transcription (`WS /stt/turns/websocket`): the server's side, for an endpoint.

Source: cartesia 4.2.0, `stt/auto_finalize` (November 2026). `connected` comes first; the transcript of a turn is the whole turn
so far, and `turn.end` closes it. A provider that does not tell where turns end has one per final transcript.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, SpeechStarted, UtteranceEnd

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Frame(msgspec.Struct, gc=False):
    type: str = ""


def command_of(frame: str) -> str:
    """`config` or `close`. Raises ClientProtocolError."""
    try:
        return msgspec.json.decode(frame, type=_Frame).type
    except _BAD_JSON:
        raise ClientProtocolError(what="a text frame must be a JSON object with a type") from None


class TurnsServer:
    """One session: events in, frames out."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._open = False
        self._said = ""
        """Finals of the turn that is open."""

    def connected(self) -> str:
        return self._frame("connected")

    def encode(self, events: list[ListenEvent]) -> list[str]:
        frames: list[str] = []
        for n, event in enumerate(events):
            match event:
                case SpeechStarted():
                    frames += self._begin()
                case Interim(text=text) if text:
                    frames += [*self._begin(), self._frame("turn.update", transcript=self._joined(text))]
                case Final(text=text) if text:
                    frames += self._begin()
                    self._said = self._joined(text)
                    if not any(isinstance(later, UtteranceEnd) for later in events[n + 1 :]):
                        frames.append(self._frame("turn.update", transcript=self._said))
                case UtteranceEnd() | ListenEnd():
                    frames += self._end()
        return frames

    def _joined(self, text: str) -> str:
        return f"{self._said} {text}" if self._said else text

    def _begin(self) -> list[str]:
        if self._open:
            return []
        self._open = True
        return [self._frame("turn.start")]

    def _end(self) -> list[str]:
        if not self._said:
            return []
        told = self._frame("turn.end", transcript=self._said)
        self._open, self._said = False, ""
        return [told]

    def _frame(self, kind: str, **members: Any) -> str:
        return msgspec.json.encode({"type": kind, **members, "request_id": self._id}).decode()
