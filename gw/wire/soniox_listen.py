"""Soniox's live transcription, `WS /transcribe-websocket`: both roles.

Source: soniox 2.10.0 (`types/realtime.py`, `realtime/stt.py`), livekit-plugins-soniox 1.8.9, pipecat-ai 1.14.0, and the vendor's
pages on its WebSocket API, endpoint detection, manual finalization, keepalive and errors (November 2026).

========================  ======================================================================================
Client sends              Server answers
========================  ======================================================================================
the configuration (JSON)  nothing; an error, if it refuses it
binary frame: audio       tokens: final ones once, and with each answer all that are not final yet
`finalize`                the tokens of the audio so far as final ones, then the token `<fin>`
`keepalive`               nothing
an empty text frame       the remaining tokens, then an answer with `finished`; the vendor closes the socket
========================  ======================================================================================

A token is a part of a word; one that begins a word begins with a space. The token `<end>` marks an endpoint, which a pause of
at most `max_endpoint_delay_ms` makes. An error is an answer with `error_code`, an HTTP status, before the vendor closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.speech_settings import DETECT
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    TranscribeRequest,
    UtteranceEnd,
)
from gw.wire.bounds import seconds
from gw.wire.json_codec import NO_TYPE, decode_client, decode_upstream
from gw.wire.json_frames import Frame, json_frame, typed_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.query import bare_language
from gw.wire.transcripts import Result, transcribed
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts, error_of

ENCODINGS: dict[Encoding, str] = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "mulaw": "mulaw", "alaw": "alaw"}
_SERVED = {name: encoding for encoding, name in ENCODINGS.items()}
PATH = "/transcribe-websocket"
KEEPALIVE = typed_frame("keepalive")
_FINALIZE = typed_frame("finalize")
_END = ""
_ENDPOINT, _FINALIZED = "<end>", "<fin>"
_DELAY_MS = (500, 3_000)
"""Shortest and longest `max_endpoint_delay_ms` that the vendor accepts."""
_USUAL_DELAY_MS = 2_000
_CERTAIN_END_S = 1.2  # silence after which a turn has probably ended, where nobody has set one
_LANGUAGES = (
    " af ar az be bg bn bs ca cs cy da de el en es et eu fa fi fr gl gu he hi hr hu id it ja kk kn ko lt lv mk ml mr ms nl no pa pl"
    " pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur vi zh "
)
"""pipecat-ai 1.14.0, `services/soniox/stt.py`."""
ERRORS = ErrorDialect(
    code=("error_type",), message=("message", "error_message"), is_candidate_fault=lambda status, facts: status == 400
)
"""Errors of the REST API: `{"status_code", "error_type", "message", "validation_errors", "request_id"}`. A 400 is about the model
or the configuration, which the gateway makes: another candidate may do better."""


class SonioxToken(msgspec.Struct, gc=False):
    text: str = ""
    start_ms: float | None = None
    end_ms: float | None = None
    confidence: float | None = None
    is_final: bool | None = None
    speaker: str | None = None
    language: str | None = None
    translation_status: str | None = None


class _Answer(msgspec.Struct, gc=False):
    tokens: list[SonioxToken] | None = None
    final_audio_proc_ms: float | None = None
    finished: bool = False
    error_code: int | None = None
    error_message: str | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


# ---- client


def takes_language(language: str | None) -> bool:
    """Return whether the vendor transcribes this language, or is to detect it."""
    return language == DETECT or f" {bare_language(language)} " in _LANGUAGES


def configuration(request: ListenRequest, model: str) -> str:
    """Return the first frame of a session."""
    fmt = request.format
    members: dict[str, Any] = {
        "model": model, "audio_format": ENCODINGS.get(fmt.encoding, "pcm_s16le"), "sample_rate": fmt.sample_rate_hz,
        "num_channels": fmt.channels, "enable_endpoint_detection": True,
    }  # fmt: skip
    if request.endpointing_ms is not None:
        members["max_endpoint_delay_ms"] = _delay_ms(request)
    return json_frame(members | settings_of(request))


def settings_of(request: ListenRequest | TranscribeRequest) -> dict[str, Any]:
    """Return the settings that live sessions and recordings have in common."""
    members: dict[str, Any] = {}
    if request.language == DETECT:
        members["enable_language_identification"] = True
    elif language := bare_language(request.language):
        members |= {"language_hints": [language], "language_hints_strict": True}
    context: dict[str, Any] = {}
    if request.keyterms:
        context["terms"] = list(request.keyterms)
    if request.prompt:
        context["text"] = request.prompt
    if context:
        members["context"] = context
    if request.diarize:
        members["enable_speaker_diarization"] = True
    return members


def _delay_ms(request: ListenRequest) -> int:
    shortest_ms, longest_ms = _DELAY_MS
    return _USUAL_DELAY_MS if request.endpointing_ms is None else min(longest_ms, max(shortest_ms, request.endpointing_ms))


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due."""
    delay_s = _delay_ms(request) / 1000
    end_s = _CERTAIN_END_S if request.endpointing_ms is None else delay_s
    return ListenPace(endpoint_s=delay_s, ends_on_flush=True, utterance_end_s=end_s)


class SonioxListenClient:
    """One session: audio and commands to frames, frames to events.

    Final tokens are collected until an endpoint, the answer to a flush, or the end: only then is a sentence complete.
    """

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._interims = request.interim_results
        self._final: list[SonioxToken] = []
        self._final_s = 0.0

    def audio(self, data: bytes) -> bytes:
        return data

    def flush(self) -> str:
        return _FINALIZE

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> list[Frame]:
        self.finishing = True
        return [_END]

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        answer = decode_upstream(_ANSWER, frame, self._provider)
        if answer.error_code is not None or answer.error_message:
            raise self._error(answer)
        self._final_s = max(self._final_s, _seconds(answer.final_audio_proc_ms))
        events: list[ListenEvent] = []
        guessed: list[SonioxToken] = []
        for token in answer.tokens or ():
            if token.translation_status == "translation":
                continue
            if token.text in (_ENDPOINT, _FINALIZED):
                events += self._end_utterance()
            elif token.is_final:
                self._final.append(token)
            else:
                guessed.append(token)
        self.ended = answer.finished and self.finishing
        if self.ended and self._final:
            events += self._end_utterance()
        if self._interims and (guessed or (self._final and not events)):
            events += self._transcript(Interim, [*self._final, *guessed])
        return [*events, ListenEnd()] if self.ended else events

    def _end_utterance(self) -> list[ListenEvent]:
        """Return what was collected as a final transcript. The end of an utterance comes also without one: it answers a flush."""
        finals = self._transcript(Final, self._final)
        self._final = []
        return [*finals, UtteranceEnd(at_s=finals[0].end_s if finals else self._final_s)]

    def _transcript(self, kind: type[Result], tokens: Sequence[SonioxToken]) -> list[Result]:
        words = words_of(tokens)
        text = "".join(token.text for token in tokens).strip()
        if not text:
            return []
        language = next((token.language for token in tokens if token.language), None)
        return [transcribed(kind, text, words, start_s=self._final_s, end_s=self._final_s, language=language)]

    def _error(self, answer: _Answer) -> ProviderError:
        facts = ErrorFacts(message=answer.error_message or "")
        return error_of(self._provider, answer.error_code or 500, facts, self._secrets, dialect=ERRORS)


def _seconds(milliseconds: float | None) -> float:
    """Return a time in seconds; 0.0 for none, and for one that cannot be."""
    return 0.0 if milliseconds is None else seconds(milliseconds / 1000) or 0.0


def words_of(tokens: Iterable[SonioxToken]) -> tuple[stt.Word, ...]:
    """Join the tokens to words: one that begins with a space begins a word, and so does the first, and another speaker's."""
    words: list[list[SonioxToken]] = []
    for token in tokens:
        begins = not words or token.text[:1].isspace() or token.speaker != words[-1][-1].speaker
        if begins and token.text.strip():
            words.append([token])
        elif words:
            words[-1].append(token)
    return tuple(_word(parts) for parts in words)


def _word(parts: Sequence[SonioxToken]) -> stt.Word:
    known = [part.confidence for part in parts if part.confidence is not None]
    start_s = _seconds(parts[0].start_ms)
    end_s = max(start_s, *(_seconds(part.end_ms) for part in parts))
    return stt.Word(
        text="".join(part.text for part in parts).strip(), start_s=start_s, end_s=end_s,
        confidence=sum(known) / len(known) if known else None, speaker=parts[0].speaker,
    )  # fmt: skip


# ---- server


class _Context(msgspec.Struct, gc=False):
    terms: list[str] | None = None
    text: str | None = None


class _Configuration(msgspec.Struct, gc=False):
    model: str
    audio_format: str = "auto"
    sample_rate: int | None = None
    num_channels: int | None = None
    language_hints: list[str] | None = None
    context: _Context | None = None
    enable_speaker_diarization: bool | None = None
    enable_language_identification: bool | None = None
    max_endpoint_delay_ms: int | None = None


_CONFIGURATION = msgspec.json.Decoder(_Configuration)


def parse_configuration(frame: Frame) -> ListenRequest:
    """Decode the first frame of a client. Raises ClientProtocolError."""
    configuration = decode_client(_CONFIGURATION, frame, "the first frame must be the configuration", "model")
    encoding = _SERVED.get(configuration.audio_format)
    if encoding is None or configuration.sample_rate is None or configuration.num_channels is None:
        raise ClientProtocolError(what="raw audio needs audio_format, sample_rate and num_channels", param="audio_format")
    delay_ms, (shortest_ms, longest_ms) = configuration.max_endpoint_delay_ms, _DELAY_MS
    if delay_ms is not None and not shortest_ms <= delay_ms <= longest_ms:
        raise ClientProtocolError(what="max_endpoint_delay_ms is out of range", param="max_endpoint_delay_ms")
    context = configuration.context or _Context()
    hints = configuration.language_hints or [DETECT if configuration.enable_language_identification else ""]
    return ListenRequest(
        model=configuration.model,
        format=AudioFormat(
            encoding=encoding, sample_rate_hz=configuration.sample_rate, channels=configuration.num_channels
        ),
        language=hints[0] or None, keyterms=tuple(context.terms or ()), prompt=context.text,
        diarize=bool(configuration.enable_speaker_diarization), endpointing_ms=delay_ms, dialect="soniox",
    )


class SonioxListenServer(ListenProtocol):
    """One session of a client, after its configuration."""

    def __init__(self, request: ListenRequest) -> None:
        self._format = request.format
        self._audio_s = 0.0
        self._flushes = 0  # not answered yet
        self._first = True

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            self._audio_s += self._format.seconds(len(frame))
            return (Audio(frame),) if frame else ()
        if frame == _END:
            return (Control.FINISH,)
        match decode_client(_TYPED, frame, NO_TYPE).type:
            case "finalize":
                self._flushes += 1
                return (Control.FLUSH,)
            case "keepalive":
                return ()
        return (Forward(frame),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, Interim | Final):
                frames.append(self._answer(self._tokens(event, final=isinstance(event, Final))))
            elif isinstance(event, UtteranceEnd):
                frames.append(self._answer([{"text": _ENDPOINT, "is_final": True}]))
            elif isinstance(event, ListenEnd):
                frames.append(self._answer([], finished=True))
        return frames

    def flushed(self) -> Sequence[Frame]:
        """Return the answer to a `finalize`, after the transcripts that it brought."""
        self._flushes = max(0, self._flushes - 1)
        return (self._answer([{"text": _FINALIZED, "is_final": True}]),)

    def _tokens(self, result: Interim | Final, *, final: bool) -> list[dict[str, Any]]:
        words = result.words or (stt.Word(text=result.text, start_s=result.start_s, end_s=result.end_s),)
        tokens = [token | {"is_final": final} for token in encode_tokens(words, first=self._first)]
        self._first = self._first and not final
        return tokens

    def _answer(self, tokens: list[dict[str, Any]], **more: Any) -> str:
        processed_ms = round(self._audio_s * 1000)
        return json_frame({"tokens": tokens, "final_audio_proc_ms": processed_ms, "total_audio_proc_ms": processed_ms, **more})


def encode_tokens(words: Iterable[stt.Word], *, first: bool = True) -> list[dict[str, Any]]:
    """Return a token for each word; all but the `first` of a session begin with a space."""
    tokens: list[dict[str, Any]] = []
    for word in words:
        text = f" {word.text}" if tokens or not first else word.text
        token = {"text": text, "start_ms": round(word.start_s * 1000), "end_ms": round(word.end_s * 1000)}
        token["confidence"] = 0.99 if word.confidence is None else word.confidence
        tokens.append(token | ({"speaker": word.speaker} if word.speaker else {}))
    return tokens


def error_frame(status: int, message: str) -> str:
    return json_frame({"tokens": [], "error_code": status, "error_message": message})


def error_body(status: int, kind: str, message: str) -> bytes:
    """Return an error of the REST API, and of a refused handshake."""
    members = {"status_code": status, "error_type": kind, "message": message, "validation_errors": [], "request_id": "r"}
    return json_frame(members).encode()


class _Typed(msgspec.Struct, gc=False):
    type: str


_TYPED = msgspec.json.Decoder(_Typed)
