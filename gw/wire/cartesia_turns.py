"""Cartesia's turn-based transcription (`WS /stt/turns/websocket`): client and server.

Source: cartesia 4.2.0, `stt/auto_finalize`, pipecat-ai 1.14.0 and the vendor's page on turns (November 2026). `connected` comes
first; every update repeats the turn so far, and `turn.end` closes it. After `close` come the remaining events, then the vendor
closes the socket: there is no last frame. A turn needs audio to end, if only silence. For a provider that does not report the
end of turns, each final transcript is a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import msgspec

from gw.errors import ClientProtocolError
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.cartesia_listen import BY_TURNS, parse_query, silence
from gw.wire.cartesia_speak import VENDOR_MESSAGE
from gw.wire.json_codec import BAD_JSON, decode_upstream
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.live_messages import Audio, ClientMessage, Control, ListenProtocol
from gw.wire.transcripts import TurnEncoder, joined_text

_MILLISECONDS = re.compile(r"([0-9]{1,5})(?:\.[0-9]*)?")
FLUSH_S = 1.0
"""Silence sent to end a turn: the vendor has no command for it."""


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    transcript: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


# ---- client


class CartesiaTurnsClient:
    """One session. The vendor reports no times: a turn begins and ends with the audio sent until then."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self.speaking = False
        """Whether a turn is open."""
        self._provider = provider
        self._format = request.format
        self._interims = request.interim_results
        self._secrets = tuple(secrets)
        self._sent_s = self._start_s = 0.0
        self._transcript = ""

    def audio(self, data: bytes) -> bytes:
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> bytes:
        """Return silence, which does not count as time of the session."""
        return silence(self._format, FLUSH_S)

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: the vendor's two paths have different control frames."""

    def finish(self) -> str:
        self.finishing = True
        return '{"type":"close"}'

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an `error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        match message.type:
            case "turn.start":
                return self._start()
            case "turn.update" | "turn.eager_end":
                return self._update((message.transcript or "").strip())
            case "turn.end":
                self._transcript = (message.transcript or "").strip()
                return self._end()
            case "error":
                raise decode_upstream(VENDOR_MESSAGE, frame, self._provider).error_for(self._provider, self._secrets)
        return []

    def closed(self) -> list[ListenEvent]:
        """Return the last events after the vendor closed the socket normally; none if `close` was not sent."""
        if not self.finishing:
            return []
        self.ended = True
        return [*(self._end() if self._transcript else ()), ListenEnd()]

    def _start(self) -> list[ListenEvent]:
        if self.speaking:
            return []
        self.speaking = True
        self._start_s = self._sent_s
        return [SpeechStarted(at_s=self._start_s)]

    def _update(self, text: str) -> list[ListenEvent]:
        events = self._start()
        if text and text != self._transcript:
            self._transcript = text
            if self._interims:
                events.append(Interim(text=text, start_s=self._start_s, end_s=self._sent_s))
        return events

    def _end(self) -> list[ListenEvent]:
        text, self._transcript, self.speaking = self._transcript, "", False
        end = UtteranceEnd(at_s=self._sent_s)
        return [Final(text=text, start_s=self._start_s, end_s=self._sent_s), end] if text else [end]


# ---- server


def parse_turns_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`. `turn_end_timeout_ms` is the silence that ends an utterance elsewhere."""
    request = parse_query(query)
    match = _MILLISECONDS.fullmatch(dict(request.options).get("turn_end_timeout_ms", ""))
    endpointing_ms = int(match[1]) if match else None
    return attrs.evolve(request, endpointing_ms=endpointing_ms, options=(BY_TURNS, *request.options))


class CartesiaTurnsServer(TurnEncoder, ListenProtocol):
    """One session of a client."""

    def __init__(self, request_id: str) -> None:
        super().__init__()
        self._id = request_id
        self._open = False

    def opening(self) -> Sequence[Frame]:
        return (self._frame("connected"),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame; of the commands only `close` has an effect. Raises ClientProtocolError."""
        if isinstance(frame, bytes):
            return (Audio(frame),) if frame else ()
        try:
            kind = _MESSAGE.decode(frame).type
        except BAD_JSON:
            raise ClientProtocolError(what="a text frame must be a JSON object with a type") from None
        return (Control.FINISH,) if kind == "close" else ()

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._encode_turns(events)

    def _start_turn(self, at_s: float) -> list[str]:
        if self._open:
            return []
        self._open = True
        return [self._frame("turn.start")]

    def _update(self, results: Sequence[Interim | Final]) -> str:
        return self._frame("turn.update", transcript=joined_text(results))

    def _end_turn(self, at_s: float | None) -> list[str]:
        if not self._finals:
            return []
        frame = self._frame("turn.end", transcript=joined_text(self._finals))
        self._open, self._finals = False, []
        return [frame]

    def _frame(self, kind: str, **members: Any) -> str:
        return typed_frame(kind, **members, request_id=self._id)
