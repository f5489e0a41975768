"""Cartesia's turn-based transcription (`WS /stt/turns/websocket`): both sides.

Source: cartesia 4.2.0, `stt/auto_finalize`, pipecat-ai 1.14.0 and the vendor's page on turns (November 2026). `connected` comes
first; the transcript of a turn is the whole turn so far, and `turn.end` closes it. After `close` come the events that are
due, then the vendor closes the socket: there is no word for the end. A turn needs audio to end, if only silence. A provider
that does not tell where turns end has one per final transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.cartesia_listen import BY_TURNS, parse_query, silence
from gw.wire.cartesia_speak import decode, fault

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_MILLISECONDS = re.compile(r"([0-9]{1,5})(?:\.[0-9]*)?")
FLUSH_S = 1.0
"""Silence in place of a word for the end of a turn, which the vendor does not have."""


class _Frame(msgspec.Struct, gc=False):
    type: str = ""


class _Turn(msgspec.Struct, gc=False):
    type: str = ""
    transcript: str | None = None


_TURN = msgspec.json.Decoder(_Turn)


# ---- the client's side


class TurnsListener:
    """One session. The vendor tells no times: a turn begins and ends where the audio that was sent does."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self.speaking = False
        """A turn is open."""
        self._provider = provider
        self._format = request.format
        self._interims = request.interim_results
        self._secrets = tuple(secrets)
        self._sent_s = self._begun_s = 0.0
        self._said = ""

    def audio(self, data: bytes) -> bytes:
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> bytes:
        """Silence counts for no time of the session."""
        return silence(self._format, FLUSH_S)

    def passed(self, frame: str) -> None:
        """Nothing is passed on: the two addresses of the vendor have different words."""

    def finish(self) -> str:
        self.finishing = True
        return '{"type":"close"}'

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an `error`, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            told = _TURN.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        match told.type:
            case "turn.start":
                return self._begun()
            case "turn.update" | "turn.eager_end":
                return self._heard(told.transcript or "")
            case "turn.end":
                self._said = (told.transcript or "").strip()
                return self._over()
            case "error":
                raise fault(decode(frame, self._provider), self._provider, self._secrets)
        return []

    def closed(self) -> list[ListenEvent]:
        """The vendor has closed the socket in peace: the last events, or none when that is not how it ends."""
        if not self.finishing:
            return []
        self.ended = True
        return [*(self._over() if self._said else ()), ListenEnd()]

    def _begun(self) -> list[ListenEvent]:
        if self.speaking:
            return []
        self.speaking = True
        self._begun_s = self._sent_s
        return [SpeechStarted(at_s=self._begun_s)]

    def _heard(self, transcript: str) -> list[ListenEvent]:
        events = self._begun()
        text = transcript.strip()
        if text and text != self._said:
            self._said = text
            if self._interims:
                events.append(Interim(text=text, start_s=self._begun_s, end_s=self._sent_s))
        return events

    def _over(self) -> list[ListenEvent]:
        text, self._said, self.speaking = self._said, "", False
        ended = UtteranceEnd(at_s=self._sent_s)
        return [Final(text=text, start_s=self._begun_s, end_s=self._sent_s), ended] if text else [ended]


# ---- the server's side


def parse_turns_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`. The longest silence of a turn is what ends one at another vendor."""
    asked = parse_query(query)
    found = _MILLISECONDS.fullmatch(dict(asked.options).get("turn_end_timeout_ms", ""))
    return attrs.evolve(asked, endpointing_ms=int(found[1]) if found else None, options=(BY_TURNS, *asked.options))


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
