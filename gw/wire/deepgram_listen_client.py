"""Deepgram's live transcription (`WS /v1/listen`): the client's side. The server's: `deepgram_listen_serve`.

Source: deepgram-sdk 7.17.0, `listen/v1` (November 2026). Audio goes in binary frames, orders in text frames. `Results` with
`is_final` stand, `speech_final` says that the speaker has paused; times count from the first audio. `CloseStream` is
answered by what is left, then `Metadata`, which tells the seconds that are billed.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import AudioFormat
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
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.vendor_errors import filtered, safe_code

FINALIZE = '{"type":"Finalize"}'
CLOSE_STREAM = '{"type":"CloseStream"}'
KEEP_ALIVE = '{"type":"KeepAlive"}'
ENCODINGS = {"pcm_s16le": "linear16", "pcm_f32le": "linear32", "mulaw": "mulaw", "alaw": "alaw"}
"""Of raw audio, ours → theirs. What is in a container names none."""
BY_TURNS = ("/v2/listen", "")
"""Among a request's options: its caller speaks the protocol of that path, which has other frames and settings."""
_OURS = frozenset({"model", "encoding", "sample_rate", "channels", BY_TURNS[0]})
_OF_BOTH = frozenset({"tag", "mip_opt_out", "numerals", "profanity_filter", "redact"})
"""Settings that mean the same at `/v1/listen` and `/v2/listen`."""
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    punctuated_word: str | None = None
    speaker: int | None = None


class _Alternative(msgspec.Struct, gc=False):
    transcript: str = ""
    confidence: float | None = None
    words: list[_Word] = []
    languages: list[str] = []


class _Channel(msgspec.Struct, gc=False):
    alternatives: list[_Alternative] = []


class _Frame(msgspec.Struct, gc=False):
    type: str = ""
    channel: _Channel | list[int] | None = None
    start: float = 0.0
    duration: float | None = None
    is_final: bool = False
    speech_final: bool = False
    timestamp: float = 0.0
    last_word_end: float = 0.0
    channels: int = 1
    description: str = ""
    message: str = ""
    code: str | None = None
    variant: str | None = None


_FRAME = msgspec.json.Decoder(_Frame)


def path_of(request: ListenRequest, model: str) -> str:
    """Path and query of a session. A caller who speaks this dialect has its own settings passed on."""
    pairs: list[tuple[str, str]] = [("model", model), *audio_fields(request.format), *settings(request, turns=False)]
    if request.dialect == "deepgram" and not by_turns(request):
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += [("smart_format", "true"), ("punctuate", "true"), ("vad_events", "true")]
    if request.interim_results:
        pairs += [("interim_results", "true"), ("utterance_end_ms", "1000")]
    if request.language:
        pairs.append(("language", request.language))
    if request.endpointing_ms is not None:
        pairs.append(("endpointing", str(request.endpointing_ms)))
    if request.diarize:
        pairs.append(("diarize", "true"))
    pairs += [("keyterm", term) for term in request.keyterms]
    return "/v1/listen?" + urlencode(pairs)


def by_turns(request: ListenRequest) -> bool:
    """Whether the caller speaks the protocol of `/v2/listen`."""
    return request.dialect == "deepgram" and BY_TURNS in request.options


def settings(request: ListenRequest, *, turns: bool) -> list[tuple[str, str]]:
    """What a caller of this dialect has set, as far as a session has it. `turns`: one of `/v2/listen`."""
    if request.dialect != "deepgram":
        return []
    same = by_turns(request) == turns
    return [(name, value) for name, value in request.options if name in _OF_BOTH or (same and name not in _OURS)]


def default_language(language: str | None, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The language that is configured for a model, where a caller's own settings name none."""
    named = any(name in ("language", "detect_language") for name, _ in pairs)
    return [("language", language)] if language and not named else []


def audio_fields(fmt: AudioFormat) -> list[tuple[str, str]]:
    """The query fields of raw audio; nothing for what is in a container."""
    encoding = ENCODINGS.get(fmt.encoding)
    if encoding is None:
        return []
    fields = [("encoding", encoding), ("sample_rate", str(fmt.sample_rate_hz))]
    return fields if fmt.channels == 1 else [*fields, ("channels", str(fmt.channels))]


class DeepgramListener:
    """One session: frames in, events out. `keep_raw`: the caller speaks this dialect, so events carry their frame."""

    def __init__(self, provider: str, *, keep_raw: bool = False, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self._provider = provider
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._speaking = False
        """Words since the last end of an utterance."""
        self._finishing = False

    # ---- out

    def audio(self, data: bytes) -> bytes:
        return data

    def flush(self) -> list[str | bytes]:
        return [FINALIZE]

    def passed(self, frame: str) -> list[str | bytes]:
        return [frame]

    def keep_alive(self) -> list[str | bytes]:
        return [] if self._finishing else [KEEP_ALIVE]

    def finish(self) -> list[str | bytes]:
        self._finishing = True
        return [CLOSE_STREAM]

    # ---- in

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an `Error` frame, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            text = frame if isinstance(frame, str) else frame.decode()
            told = _FRAME.decode(text)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = text if self._keep_raw else None
        match told.type:
            case "Results":
                return self._results(told, raw)
            case "SpeechStarted":
                return [SpeechStarted(at_s=told.timestamp, raw=raw)]
            case "UtteranceEnd" if self._speaking:
                self._speaking = False
                return [UtteranceEnd(at_s=told.last_word_end, raw=raw)]
            case "Metadata":
                return self._metadata(told, raw)
            case "Error":
                raise self._error(told)
        return [VendorFrame(raw=raw)] if raw is not None else []

    def _results(self, told: _Frame, raw: str | None) -> list[ListenEvent]:
        found = told.channel.alternatives if isinstance(told.channel, _Channel) else []
        best = found[0] if found else _Alternative()
        end_s = told.start + (told.duration or 0.0)
        events: list[ListenEvent] = []
        if best.transcript:
            self._speaking = True
            kind = Final if told.is_final else Interim
            events.append(
                kind(
                    text=best.transcript,
                    start_s=best.words[0].start if best.words else told.start,
                    end_s=end_s if told.is_final or not best.words else best.words[-1].end,
                    words=tuple(map(_word, best.words)),
                    language=best.languages[0] if best.languages else None,
                    confidence=best.confidence,
                    raw=raw,
                )
            )
        elif raw is not None:
            events.append(VendorFrame(raw=raw))
        if told.speech_final and self._speaking:
            self._speaking = False
            events.append(UtteranceEnd(at_s=end_s))
        return events

    def _metadata(self, told: _Frame, raw: str | None) -> list[ListenEvent]:
        """The last frame, after `CloseStream`; some servers send one at the beginning as well."""
        if not self._finishing:
            return [VendorFrame(raw=raw)] if raw is not None else []
        self.ended = True
        length_s = seconds(told.duration)
        billed = None if length_s is None else length_s * max(1, told.channels)
        return [ListenEnd(usage=None if billed is None else Usage(audio_seconds=billed, source="vendor"), raw=raw)]

    def _error(self, told: _Frame) -> ProviderError:
        words = filtered(told.description or told.message, self._secrets)
        code = safe_code(told.code, self._secrets) or safe_code(told.variant, self._secrets)
        detail = "an error inside the session" + (f" {code}" if code else "") + (f": {words}" if words else "")
        return ProviderFailed(provider=self._provider, detail=detail, upstream_status=101, upstream_code=code)


def _word(word: _Word) -> Word:
    return Word(
        text=word.punctuated_word or word.word,
        start_s=word.start,
        end_s=word.end,
        confidence=word.confidence,
        speaker=None if word.speaker is None else str(word.speaker),
    )
