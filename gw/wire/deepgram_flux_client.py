"""Deepgram's transcription by turns (Flux, `WS /v2/listen`): the client's side. The server's: `deepgram_flux_serve`.

Source: deepgram-sdk 7.17.0, `listen/v2`, and the vendor's guides to Flux (CloseStream, ForceEndTurn, the state machine;
November 2026). `TurnInfo` tells the whole turn so far: an `Update` may replace what the one before said, `EndOfTurn` stands.
After `CloseStream` come updates for what was heard, but no end of the turn: the socket is closed without a word, and the
last update is what was said. There is no keep-alive, and what is billed is not told.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire.deepgram_listen_client import CLOSE_STREAM, audio_fields, by_turns, settings
from gw.wire.vendor_errors import filtered, safe_code

FORCE_END_TURN = '{"type":"ForceEndTurn"}'
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MULTILINGUAL = "flux-general-multi"
_NO_HINT = ("", "multi")


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float | None = None
    end: float | None = None
    confidence: float | None = None


class _Frame(msgspec.Struct, gc=False):
    type: str = ""
    event: str = ""
    audio_window_start: float = 0.0
    audio_window_end: float = 0.0
    transcript: str = ""
    words: list[_Word] = []
    languages: list[str] | None = None
    code: str | None = None
    description: str | None = None


_FRAME = msgspec.json.Decoder(_Frame)


def is_flux(model: str) -> bool:
    """Whether a model listens by turns: those are served at `/v2/listen` alone."""
    return model.startswith("flux-")


def path_of(request: ListenRequest, model: str) -> str:
    """Path and query of a session. A caller who speaks this protocol has its own settings passed on, one of `/v1/listen`
    those that both have. Silence that ends an utterance is none of them: the model itself finds the end of a turn."""
    pairs: list[tuple[str, str]] = [("model", model), *audio_fields(request.format), *settings(request, turns=True)]
    hint = (request.language or "").partition("-")[0]
    if model == _MULTILINGUAL and hint not in _NO_HINT and all(name != "language_hint" for name, _ in pairs):
        pairs.append(("language_hint", hint))
    if not by_turns(request):
        pairs += [("keyterm", term) for term in request.keyterms]
    return "/v2/listen?" + urlencode(pairs)


class FluxListener:
    """One session: frames in, events out. `keep_raw`: the caller speaks this protocol, so events carry their frame.

    `Connected` is never passed on: whoever answers a caller has said so itself.
    """

    def __init__(
        self, provider: str, *, keep_raw: bool = False, interims: bool = True, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._keep_raw = keep_raw
        self._interims = interims
        self._secrets = tuple(secrets)
        self._finishing = False
        self._last: _Frame | None = None
        """What the turn that is open said last."""
        self._begins_s: float | None = None
        """Of that turn."""

    # ---- out

    def audio(self, data: bytes) -> bytes:
        return data

    def flush(self) -> list[str | bytes]:
        return [FORCE_END_TURN]

    def passed(self, frame: str) -> list[str | bytes]:
        """`Configure`, and what has come since; that of `/v1/listen` is another. There is no `KeepAlive` here."""
        if not self._keep_raw:
            return []
        try:
            return [] if _FRAME.decode(frame).type == "KeepAlive" else [frame]
        except _BAD_JSON:
            return []

    def finish(self) -> list[str | bytes]:
        self._finishing = True
        return [CLOSE_STREAM]

    # ---- in

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an `Error` frame, UpstreamProtocolError for what is no frame of this protocol."""
        try:
            text = frame if isinstance(frame, str) else frame.decode()
            told = _FRAME.decode(text)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = text if self._keep_raw else None
        match told.type:
            case "TurnInfo":
                return self._turn(told, raw)
            case "Connected":
                return []
            case "Error":
                raise self._error(told)
        return [VendorFrame(raw=raw)] if raw is not None else []

    def closed(self) -> list[ListenEvent]:
        """The vendor has closed the socket in peace: what the open turn said last stands."""
        if not self._finishing:
            return []
        self.ended = True
        return [*self._end_of_turn(self._last, None), ListenEnd()]

    def _turn(self, told: _Frame, raw: str | None) -> list[ListenEvent]:
        events: list[ListenEvent] = []
        if self._begins_s is None and (told.transcript or told.event == "StartOfTurn"):
            self._begins_s = _begin_of(told)
        if told.event == "EndOfTurn":
            events = self._end_of_turn(told, raw)
        else:
            if told.event == "StartOfTurn":
                events.append(SpeechStarted(at_s=_begin_of(told), raw=raw))
            if told.transcript:
                self._last = told
                if self._interims:
                    events.append(self._interim(told, None if events else raw))
        return events or ([VendorFrame(raw=raw)] if raw is not None else [])

    def _interim(self, told: _Frame, raw: str | None) -> Interim:
        words = self._words(told)
        return Interim(
            text=told.transcript,
            start_s=words[0].start_s if words else told.audio_window_start,
            end_s=words[-1].end_s if words else told.audio_window_end,
            words=words,
            language=told.languages[0] if told.languages else None,
            confidence=_confidence(told),
            raw=raw,
        )

    def _end_of_turn(self, told: _Frame | None, raw: str | None) -> list[ListenEvent]:
        if told is None:
            return []
        events: list[ListenEvent] = []
        if told.transcript:
            words = self._words(told)
            events.append(
                Final(
                    text=told.transcript,
                    start_s=words[0].start_s if words else told.audio_window_start,
                    end_s=told.audio_window_end,
                    words=words,
                    language=told.languages[0] if told.languages else None,
                    confidence=_confidence(told),
                    raw=raw,
                )
            )
        events.append(UtteranceEnd(at_s=told.audio_window_end, raw=None if events else raw))
        self._last = self._begins_s = None
        return events

    def _words(self, told: _Frame) -> tuple[Word, ...]:
        """A word that tells no time has that of the turn."""
        begins_s = told.audio_window_start if self._begins_s is None else self._begins_s
        return tuple(
            Word(
                text=word.word,
                start_s=begins_s if word.start is None else word.start,
                end_s=told.audio_window_end if word.end is None else word.end,
                confidence=word.confidence,
            )
            for word in told.words
        )

    def _error(self, told: _Frame) -> ProviderError:
        words, code = filtered(told.description or "", self._secrets), safe_code(told.code, self._secrets)
        detail = "an error inside the session" + (f" {code}" if code else "") + (f": {words}" if words else "")
        return ProviderFailed(provider=self._provider, detail=detail, upstream_status=101, upstream_code=code)


def _begin_of(told: _Frame) -> float:
    first = told.words[0].start if told.words else None
    return told.audio_window_start if first is None else first


def _confidence(told: _Frame) -> float | None:
    """Flux has one for words alone: their mean."""
    known = [word.confidence for word in told.words if word.confidence is not None]
    return sum(known) / len(known) if known else None
