"""Deepgram's turn-based transcription (Flux, `WS /v2/listen`): client and server.

Source: deepgram-sdk 7.17.0, `listen/v2`, and the vendor's guides to Flux (CloseStream, ForceEndTurn, the state machine;
November 2026). `TurnInfo` repeats the whole turn so far: an `Update` may replace what an earlier one said, `EndOfTurn` is
final. After `CloseStream` come updates for the remaining audio but no end of the turn: the server just closes the socket, and
the last update is final. There is no keep-alive, and the seconds billed are not reported.

Of the server: LiveKit drops a transcript without words and anything before `StartOfTurn`; Pipecat waits for `Connected` before
it sends audio.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    Word,
)
from gw.wire import deepgram_listen, deepgram_settings
from gw.wire.deepgram_errors import session_error
from gw.wire.deepgram_listen import BY_TURNS, DeepgramListenClient, audio_fields, by_turns
from gw.wire.deepgram_listen_server import format_of
from gw.wire.json_codec import BAD_JSON, decode_client, decode_upstream
from gw.wire.json_frames import Frame, frame_text, frame_type, typed_frame, vendor_frames
from gw.wire.live_messages import Audio, ClientMessage, Control, DirectReply, Forward
from gw.wire.query import query_pairs
from gw.wire.transcripts import UNKNOWN_CONFIDENCE, TurnEncoder, joined_text, mean_confidence, timed_word, unknown
from gw.wire.vendor_errors import safe_code

FORCE_END_TURN = '{"type":"ForceEndTurn"}'
_MULTILINGUAL = "flux-general-multi"
_NO_HINT = ("", "multi")
_TURN_TIMEOUT_S = 5.0  # silence that ends a turn at the latest, unless `eot_timeout_ms` says another
_CERTAIN_END_S = 1.2  # silence after which a turn has probably ended, for a caller of another protocol


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float | None = None
    end: float | None = None
    confidence: float | None = None


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    event: str = ""
    audio_window_start: float = 0.0
    audio_window_end: float = 0.0
    transcript: str = ""
    words: list[_Word] = []
    languages: list[str] | None = None
    code: str | None = None
    description: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


# ---- client


def is_flux(model: str) -> bool:
    """Return whether a model transcribes by turns: those are served at `/v2/listen` only."""
    return model.startswith("flux-")


def path_of(request: ListenRequest, model: str) -> str:
    """Return path and query of a session.

    A caller of this protocol has all its settings passed on, one of `/v1/listen` those that both have. The silence that ends
    an utterance is not among them: the model itself finds the end of a turn.
    """
    pairs: list[tuple[str, str]] = [("model", model), *audio_fields(request.format), *deepgram_listen.settings(request, turns=True)]
    hint = (request.language or "").partition("-")[0]
    if model == _MULTILINGUAL and hint not in _NO_HINT and all(name != "language_hint" for name, _ in pairs):
        pairs.append(("language_hint", hint))
    if not by_turns(request):
        pairs += deepgram_settings.from_common(request, model)
    return "/v2/listen?" + urlencode(pairs)


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due: updates come several times a second, the end of a turn is a decision."""
    own = dict(request.options).get("eot_timeout_ms", "") if by_turns(request) else ""
    timeout_s = int(own) / 1000 if own.isascii() and own.isdigit() and len(own) < 7 else _TURN_TIMEOUT_S
    return ListenPace(
        endpoint_s=timeout_s, ends_on_flush=True, flush_is_seen=by_turns(request), utterance_end_s=min(timeout_s, _CERTAIN_END_S)
    )  # fmt: skip


class FluxListenClient(DeepgramListenClient):
    """One session. `Connected` is never passed on: the caller has been sent one by the gateway."""

    def __init__(
        self, provider: str, *, keep_raw: bool = False, interims: bool = True, secrets: Iterable[str] = ()
    ) -> None:
        super().__init__(provider, keep_raw=keep_raw, interims=interims, secrets=secrets)
        self._last: _Message | None = None  # last update of the open turn
        self._turn_start_s: float | None = None

    def flush(self) -> list[str]:
        return [FORCE_END_TURN]

    def forward(self, frame: str) -> list[str]:
        """Return a control frame of this protocol, such as `Configure`. `KeepAlive` and those of `/v1/listen` are dropped."""
        if not self._keep_raw:
            return []
        try:
            return [] if _MESSAGE.decode(frame).type == "KeepAlive" else [frame]
        except BAD_JSON:
            return []

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for `Error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        raw = frame_text(frame) if self._keep_raw else None
        match message.type:
            case "TurnInfo":
                return self._turn(message, raw)
            case "Connected":
                return []
            case "Error":
                code = safe_code(message.code, self._secrets)
                raise session_error(self._provider, message.description or "", code, self._secrets)
        return unknown(raw)

    def closed(self) -> list[ListenEvent]:
        """Return the last events after the vendor closed the socket normally: the last update of the open turn is final."""
        if not self._finishing:
            return []
        self.ended = True
        return [*self._end_of_turn(self._last, None), ListenEnd()]

    def _turn(self, message: _Message, raw: str | None) -> list[ListenEvent]:
        first = message.words[0].start if message.words else None
        start_s = message.audio_window_start if first is None else first
        if self._turn_start_s is None and (message.transcript or message.event == "StartOfTurn"):
            self._turn_start_s = start_s
        if message.event == "EndOfTurn":
            return self._end_of_turn(message, raw) or unknown(raw)
        events: list[ListenEvent] = []
        if message.event == "StartOfTurn":
            events.append(SpeechStarted(at_s=start_s, raw=raw))
        if message.transcript:
            self._last = message
            if self._interims:
                events.append(self._result(Interim, message, None if events else raw))
        return events or unknown(raw)

    def _end_of_turn(self, message: _Message | None, raw: str | None) -> list[ListenEvent]:
        if message is None:
            return []
        events: list[ListenEvent] = [self._result(Final, message, raw)] if message.transcript else []
        events.append(UtteranceEnd(at_s=message.audio_window_end, raw=None if events else raw))
        self._last = self._turn_start_s = None
        return events

    def _result(self, kind: type[Interim | Final], message: _Message, raw: str | None) -> Interim | Final:
        """Build a transcript. A word without times has those of the turn; the confidence is the mean of the words'."""
        end_s = message.audio_window_end
        turn_s = message.audio_window_start if self._turn_start_s is None else self._turn_start_s
        words = tuple(
            Word(
                text=word.word, start_s=turn_s if word.start is None else word.start,
                end_s=end_s if word.end is None else word.end, confidence=word.confidence
            )
            for word in message.words
        )
        return kind(
            text=message.transcript,
            start_s=words[0].start_s if words else message.audio_window_start,
            end_s=words[-1].end_s if words and kind is Interim else end_s,
            words=words,
            language=message.languages[0] if message.languages else None,
            confidence=mean_confidence(words),
            raw=raw,
        )


# ---- server


class _Configure(msgspec.Struct, gc=False):
    thresholds: dict[str, float | int] = {}
    keyterms: list[str] = []


_CONFIGURE = msgspec.json.Decoder(_Configure)


def parse_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`. Several language hints do not name the language."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    hints = [value for name, value in pairs if name == "language_hint" and value]
    return ListenRequest(
        model=fields.get("model", ""), format=format_of(fields), language=hints[0] if len(hints) == 1 else None,
        **deepgram_settings.to_common(pairs), dialect="deepgram", options=(BY_TURNS, *pairs)
    )  # fmt: skip


class FluxListenServer(TurnEncoder):
    binary_is_audio = True

    def __init__(self, *, request_id: str) -> None:
        super().__init__()
        self._id = request_id
        self._sequence = 0
        self._turn = 0
        self._open = False
        self._start_s = self._end_s = 0.0
        self._forced = False

    def opening(self) -> Sequence[Frame]:
        return (self._frame("Connected"),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            return (Audio(frame),) if frame else ()
        match frame_type(frame):
            case "ForceEndTurn":
                self._forced = self._open
                return (Control.FLUSH,)
            case "CloseStream":
                return (Control.FINISH,)
            case "Configure":
                return (Forward(frame), DirectReply(self._configured(frame)))
        return (Forward(frame),)

    def _configured(self, frame: str) -> str:
        settings = decode_client(_CONFIGURE, frame, "Configure must have thresholds by name and a list of keyterms")
        return self._frame("ConfigureSuccess", thresholds=settings.thresholds, keyterms=settings.keyterms)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        """Encode events as frames. The state follows even where the vendor's own frames are passed on, because another
        provider may continue in the middle of a turn."""
        sequence = self._sequence
        frames = super().encode(events)
        if not (passed := vendor_frames(events)):
            return frames
        self._sequence = sequence + len(passed)
        return passed

    def _add(self, final: Final) -> None:
        super()._add(final)
        self._end_s = final.end_s

    def _start_turn(self, at_s: float) -> list[str]:
        if self._open:
            return []
        self._open = True
        self._start_s = self._end_s = at_s
        return [self._turn_info("StartOfTurn", [])]

    def _update(self, results: Sequence[Interim | Final]) -> str:
        self._end_s = max(self._end_s, results[-1].end_s)
        return self._turn_info("Update", results)

    def _end_turn(self, at_s: float | None) -> list[str]:
        if not self._open:
            return []
        self._end_s = max(at_s or 0.0, self._end_s)
        frame = self._turn_info("EndOfTurn", self._finals, trigger="manual" if self._forced else "model")
        self._open = self._forced = False
        self._finals = []
        self._turn += 1
        return [frame]

    def _turn_info(self, event: str, results: Sequence[Interim | Final], **more: str) -> str:
        languages = list(dict.fromkeys(result.language for result in results if result.language))
        return self._frame(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._start_s, 3),
            audio_window_end=round(self._end_s, 3),
            transcript=joined_text(results),
            words=[word for result in results for word in _words(result)],
            end_of_turn_confidence=1.0 if event == "EndOfTurn" else 0.0,
            **({"languages": languages} if languages else {}),
            **more,
        )

    def _frame(self, kind: str, **members: Any) -> str:
        frame = typed_frame(kind, request_id=self._id, sequence_id=self._sequence, **members)
        self._sequence += 1
        return frame


def _words(result: Final | Interim) -> list[dict[str, Any]]:
    """Return the words. Without any, those of the text: without times, which are optional here."""
    confidence = UNKNOWN_CONFIDENCE if result.confidence is None else result.confidence
    return [
        timed_word(word, confidence=confidence if word.confidence is None else word.confidence) for word in result.words
    ] or [{"word": word, "confidence": confidence} for word in result.text.split()]
