"""Deepgram's transcription by turns (Flux, `WS /v2/listen`): the server's side, for an endpoint (or a fake vendor).

Source: deepgram-sdk 7.17.0, `listen/v2` (November 2026), and what its users insist on: LiveKit drops a transcript without
words, and whatever comes before `StartOfTurn`; Pipecat waits for `Connected` before it sends audio.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd, Word
from gw.wire.deepgram_listen_client import BY_TURNS
from gw.wire.deepgram_listen_server import (
    Audio,
    ClientFrame,
    CloseStream,
    Finalize,
    OtherFrame,
    format_of,
    keyterms_of,
    pairs_of,
)

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Frame(msgspec.Struct, gc=False):
    type: str


class _Configure(msgspec.Struct, gc=False):
    thresholds: dict[str, float | int] = {}
    keyterms: list[str] = []


_FRAME = msgspec.json.Decoder(_Frame)


def parse_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`. Of several language hints none is the language."""
    pairs = pairs_of(query)
    fields = dict(pairs)
    hints = [value for name, value in pairs if name == "language_hint" and value]
    return ListenRequest(
        model=fields.get("model", ""),
        format=format_of(fields),
        language=hints[0] if len(hints) == 1 else None,
        keyterms=keyterms_of(pairs),
        dialect="deepgram",
        options=(BY_TURNS, *pairs),
    )


class FluxServer:
    """One session. `receive` reads what the client says, `encode` says what was heard, turn by turn.

    A turn lasts until an `UtteranceEnd`; its transcript is told whole every time.
    """

    def __init__(self, *, request_id: str) -> None:
        self._id = request_id
        self._sequence = 0
        self._turn = 0
        self._open = False
        self._begins_s = 0.0
        self._ends_s = 0.0
        self._said: list[Final] = []
        """Of the turn that is open."""
        self._forced = False

    # ---- in

    def receive(self, frame: str | bytes) -> ClientFrame:
        """`ForceEndTurn` is a `Finalize`. Raises ClientProtocolError for what is no frame of this protocol."""
        if isinstance(frame, bytes):
            return Audio(data=frame)
        try:
            kind = _FRAME.decode(frame).type
        except _BAD_JSON:
            raise ClientProtocolError(what="a text frame must be a JSON object with a type") from None
        match kind:
            case "ForceEndTurn":
                self._forced = self._open
                return Finalize()
            case "CloseStream":
                return CloseStream()
        return OtherFrame(raw=frame)

    # ---- out

    def connected(self) -> str:
        return self._frame("Connected")

    def configured(self, frame: str) -> str:
        """The answer to a `Configure`. Raises ClientProtocolError."""
        try:
            told = msgspec.json.decode(frame, type=_Configure)
        except _BAD_JSON:
            raise ClientProtocolError(what="a Configure has thresholds by name and a list of keyterms") from None
        return self._frame("ConfigureSuccess", thresholds=told.thresholds, keyterms=told.keyterms)

    def not_configured(self, code: str, message: str) -> str:
        return self._frame("ConfigureFailure", code=code, description=message)

    def error(self, code: str, message: str) -> str:
        """Said before the session is closed."""
        return self._frame("Error", code=code, description=message)

    def encode(self, events: list[ListenEvent]) -> list[str | bytes]:
        """What was heard, as frames. Where the upstream speaks this protocol, its own go out as they came; the state is
        kept either way, because another one may go on in the middle of a turn."""
        sequence = self._sequence
        frames: list[str | bytes] = []
        for n, event in enumerate(events):
            match event:
                case SpeechStarted(at_s=at_s):
                    frames += self._begin(at_s)
                case Interim() if event.text:
                    frames += self._begin(event.start_s)
                    frames.append(self._turn_info("Update", event))
                case Final() if event.text:
                    frames += self._begin(event.start_s)
                    self._said.append(event)
                    self._ends_s = event.end_s
                    if not any(isinstance(later, UtteranceEnd) for later in events[n + 1 :]):
                        frames.append(self._turn_info("Update", None))
                case UtteranceEnd(at_s=at_s):
                    frames += self._end(at_s)
                case ListenEnd():
                    frames += self._end(self._ends_s)
        passed = [event.raw for event in events if event.raw is not None]
        if not passed:
            return frames
        self._sequence = sequence + len(passed)
        return list(passed)

    def _begin(self, at_s: float) -> list[str]:
        if self._open:
            return []
        self._open = True
        self._begins_s = self._ends_s = at_s
        return [self._turn_info("StartOfTurn", None)]

    def _end(self, at_s: float) -> list[str]:
        if not self._open:
            return []
        self._ends_s = max(at_s, self._ends_s)
        told = self._turn_info("EndOfTurn", None, trigger="manual" if self._forced else "model")
        self._open = self._forced = False
        self._said = []
        self._turn += 1
        return [told]

    def _turn_info(self, event: str, guess: Interim | None, **more: str) -> str:
        """`guess`: what is said after the finals of this turn, perhaps."""
        said: list[Final | Interim] = [*self._said, guess] if guess is not None else [*self._said]
        languages = [one.language for one in said if one.language]
        if guess is not None:
            self._ends_s = max(self._ends_s, guess.end_s)
        return self._frame(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._begins_s, 3),
            audio_window_end=round(self._ends_s, 3),
            transcript=" ".join(one.text for one in said),
            words=[word for one in said for word in _words(one)],
            end_of_turn_confidence=1.0 if event == "EndOfTurn" else 0.0,
            **({"languages": list(dict.fromkeys(languages))} if languages else {}),
            **more,
        )

    def _frame(self, kind: str, **members: Any) -> str:
        told = {"type": kind, "request_id": self._id, "sequence_id": self._sequence, **members}
        self._sequence += 1
        return msgspec.json.encode(told).decode()


def _words(said: Final | Interim) -> list[dict[str, Any]]:
    """Where no words were told, those of the text: without times, which are optional here."""
    confidence = 0.99 if said.confidence is None else said.confidence
    return [_told(word, confidence) for word in said.words] or [
        {"word": word, "confidence": confidence} for word in said.text.split()
    ]


def _told(word: Word, confidence: float) -> dict[str, Any]:
    return {
        "word": word.text,
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
        "confidence": confidence if word.confidence is None else word.confidence,
    }
