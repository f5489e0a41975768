"""Azure Speech's live transcription, `WS /speech/recognition/conversation/cognitiveservices/v1`: the client's side.

The server's is `gw.wire.azure_speech_listen_server`.

Source: azure-cognitiveservices-speech 1.53.0 (frames that it sends and takes), microsoft-cognitiveservices-speech-sdk 1.52.0
(`common.speech/ServiceRecognizerBase.js`, `ServiceMessages`), and the vendor's page "How to recognize
speech" (silence). November 2026.

============================  ============================================================================
Client sends                  Server answers
============================  ============================================================================
`speech.config`, once         nothing
`speech.context`              nothing; it begins a turn, as does the header of a WAV in the first `audio`
`audio` with samples          `turn.start`, then for each phrase `speech.hypothesis` and `speech.phrase`
`audio` without a body        the remaining phrases, and `turn.end`
============================  ============================================================================

Silence ends a phrase. The vendor may end a turn by itself: the client begins the next one on the same socket. Times count from the
beginning of the turn's audio, in units of 100 nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types import stt
from gw.types.audio import Encoding
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
)
from gw.wire import wav
from gw.wire.azure_speech_messages import binary_prefix, parse_message, text_frame
from gw.wire.azure_speech_recordings import ERRORS, locale_of
from gw.wire.bounds import seconds
from gw.wire.convert import silence
from gw.wire.json_codec import decode_upstream
from gw.wire.json_frames import Frame
from gw.wire.transcripts import transcribed
from gw.wire.vendor_errors import ErrorFacts, error_of

PATH = "/speech/recognition/conversation/cognitiveservices/v1"
ENCODINGS: frozenset[Encoding] = frozenset({"pcm_s16le", "mulaw", "alaw"})
RATES_HZ = frozenset({8_000, 16_000})
USUAL_LOCALE = "en-US"
"""The language of a session that names none."""
_USUAL_SILENCE_MS = 650
_SILENCE_MS = (100, 5_000)
"""Shortest and longest silence that the vendor takes as the end of a phrase."""
_CERTAIN_END_S = 1.2  # silence after which a turn has probably ended, where nobody has set one
_FLUSH_MARGIN_S = 0.35
_WITHOUT_INTERIMS_S = 20.0
TICKS = 10_000_000
"""Units of the vendor's times in a second."""
_MOST_SILENCES = 64
_STATUSES = {"TooManyRequests": 429, "Forbidden": 401, "BadRequest": 400, "Error": 500}
"""`RecognitionStatus` of an error → HTTP status of the same meaning (`EnumTranslation.js`)."""


class _Word(msgspec.Struct, gc=False, rename="pascal"):
    word: str
    offset: float = 0.0
    duration: float = 0.0
    confidence: float | None = None


class _Best(msgspec.Struct, gc=False, rename="pascal"):
    display: str = ""
    confidence: float | None = None
    words: list[_Word] | None = None
    display_words: list[_Word] | None = None


class _Phrase(msgspec.Struct, gc=False, rename="pascal"):
    recognition_status: str = ""
    display_text: str = ""
    offset: float = 0.0
    duration: float = 0.0
    n_best: list[_Best] = msgspec.field(default_factory=list, name="NBest")


class _Hypothesis(msgspec.Struct, gc=False, rename="pascal"):
    text: str
    offset: float = 0.0
    duration: float = 0.0


class _Detected(msgspec.Struct, gc=False, rename="pascal"):
    offset: float = 0.0


_PHRASE, _HYPOTHESIS = msgspec.json.Decoder(_Phrase), msgspec.json.Decoder(_Hypothesis)
_DETECTED = msgspec.json.Decoder(_Detected)


def _silence_ms(request: ListenRequest) -> int:
    shortest_ms, longest_ms = _SILENCE_MS
    return _USUAL_SILENCE_MS if request.endpointing_ms is None else min(longest_ms, max(shortest_ms, request.endpointing_ms))


def flush_s(request: ListenRequest) -> float:
    """Return the length of the silence that ends a phrase, for which the vendor has no command."""
    return _silence_ms(request) / 1_000 + _FLUSH_MARGIN_S


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due."""
    silence_s = _silence_ms(request) / 1_000
    end_s = max(silence_s, _CERTAIN_END_S) if request.endpointing_ms is None else silence_s
    running_s = 2.5 if request.interim_results else _WITHOUT_INTERIMS_S
    return ListenPace(endpoint_s=silence_s, running_s=running_s, ends_on_flush=True, utterance_end_s=end_s)


def path_of(request: ListenRequest) -> str:
    """Return the path of a session, with its language and the form of results."""
    fields = {
        "language": _locale(request), "format": "detailed", "wordLevelTimestamps": "true", "wordLevelConfidence": "true",
        "profanity": "masked" if request.profanity_filter else "raw",
    }  # fmt: skip
    return f"{PATH}?{urlencode(fields)}"


def _locale(request: ListenRequest) -> str:
    return locale_of(request) or USUAL_LOCALE


class AzureSpeechListenClient:
    """One session: audio and commands to frames, frames to events.

    `session_id`: 32 hexadecimal digits, of which the ids of turns are made. `timestamp`: returns the time in ISO 8601, which the
    vendor expects in every message; it is taken once for each turn.
    """

    def __init__(
        self, provider: str, request: ListenRequest, session_id: str, timestamp: Callable[[], str], secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._finishing = False
        self._provider = provider
        self._request = request
        self._id = int(session_id, 16)
        self._timestamp = timestamp
        self._secrets = tuple(secrets)
        self._turns = 0
        self._open = False  # the vendor has not ended the turn
        self._audio = b""  # what comes before the samples in the frames of this turn
        self._sent_s = 0.0  # of the caller's audio
        self._from_s = 0.0  # where the turn's audio begins in the session
        self._turn_s = 0.0  # audio of this turn, with silence
        self._silences: list[tuple[float, float]] = []
        """Start in the turn, and length, of each silence sent beside the caller's audio."""
        self._speaking = False  # speech without its phrase yet

    def opening(self) -> list[Frame]:
        """Return the frames that open the session, and its first turn."""
        config = {"context": {"system": {"name": "gw", "version": "1", "build": "gw", "lang": "Python"}}}
        return [text_frame("speech.config", config, ("X-Timestamp", self._timestamp())), *self._begin_turn()]

    def _begin_turn(self) -> list[Frame]:
        self._turns, self._open = self._turns + 1, True
        self._from_s, self._turn_s, self._silences = self._sent_s, 0.0, []
        headers = (("X-RequestId", f"{(self._id + self._turns) % 16**32:032x}"), ("X-Timestamp", self._timestamp()))
        self._audio = binary_prefix("audio", *headers)
        riff = wav.header(self._request.format, 0)
        first = binary_prefix("audio", *headers, ("Content-Type", "audio/x-wav")) + riff[:4] + bytes(4) + riff[8:]  # of unknown length
        return [text_frame("speech.context", _settings(self._request), *headers), first]

    def audio(self, data: bytes) -> list[Frame]:
        frames = [] if self._open else self._begin_turn()
        length_s = self._request.format.seconds(len(data))
        self._sent_s += length_s
        self._turn_s += length_s
        return [*frames, self._audio + data]

    def flush(self) -> list[Frame]:
        """Return silence that ends the phrase, which does not count as time of the session."""
        frames = [] if self._open else self._begin_turn()
        length_s = flush_s(self._request)
        self._silences.append((self._turn_s, length_s))
        self._forget_silences(0.0)
        self._turn_s += length_s
        return [*frames, self._audio + silence(self._request.format, length_s)]

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> list[Frame]:
        self._finishing = True
        return [*([] if self._open else self._begin_turn()), self._audio]

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        message = parse_message(frame)
        if message is None:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the message expected")
        match message.path:
            case "speech.hypothesis":
                return self._hypothesis(decode_upstream(_HYPOTHESIS, message.body, self._provider))
            case "speech.phrase":
                return self._phrase(decode_upstream(_PHRASE, message.body, self._provider))
            case "speech.startdetected":
                return [SpeechStarted(at_s=self._at(decode_upstream(_DETECTED, message.body, self._provider).offset))]
            case "turn.end":
                return self._end_of_turn()
        return []

    def _at(self, ticks: float) -> float:
        """Return a time of the turn as one of the session, which has no silence but the caller's."""
        turn_s = seconds(ticks / TICKS) or 0.0
        added_s = sum(min(length_s, max(0.0, turn_s - at_s)) for at_s, length_s in self._silences)
        return max(0.0, self._from_s + turn_s - added_s)

    def _forget_silences(self, ticks: float) -> None:
        """Make silences that ended before a time, which no later event lies before, part of where the turn begins."""
        while self._silences and (len(self._silences) > _MOST_SILENCES or sum(self._silences[0]) * TICKS <= ticks):
            self._from_s -= self._silences.pop(0)[1]

    def _hypothesis(self, hypothesis: _Hypothesis) -> list[ListenEvent]:
        self._speaking = True
        if not self._request.interim_results or not hypothesis.text:
            return []
        start_s, end_s = self._at(hypothesis.offset), self._at(hypothesis.offset + hypothesis.duration)
        return [Interim(text=hypothesis.text, start_s=start_s, end_s=end_s)]

    def _phrase(self, phrase: _Phrase) -> list[ListenEvent]:
        if (status := _STATUSES.get(phrase.recognition_status)) is not None:
            raise self._error(status, phrase.recognition_status)
        self._speaking = False
        self._forget_silences(phrase.offset)
        best = phrase.n_best[0] if phrase.n_best else _Best()
        text = best.display or phrase.display_text
        end_s = self._at(phrase.offset + phrase.duration)
        if phrase.recognition_status != "Success" or not text:
            return [UtteranceEnd(at_s=end_s)]
        words = tuple(map(self._word, best.display_words or best.words or ()))
        final = transcribed(Final, text, words, start_s=self._at(phrase.offset), end_s=end_s, confidence=best.confidence)
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _word(self, word: _Word) -> stt.Word:
        start_s, end_s = self._at(word.offset), self._at(word.offset + word.duration)
        return stt.Word(text=word.word, start_s=start_s, end_s=end_s, confidence=word.confidence)

    def _end_of_turn(self) -> list[ListenEvent]:
        """End the session if that was asked for. A turn that the vendor ends is followed by another one, unless speech is lost."""
        self._open = False
        if self._finishing:
            self.ended = True
            return [ListenEnd()]
        if self._speaking:
            raise UpstreamCut(provider=self._provider, detail="ended the turn in the middle of a phrase")
        return []

    def _error(self, status: int, name: str) -> ProviderError:
        return error_of(self._provider, status, ErrorFacts(code=name), self._secrets, dialect=ERRORS)


def _settings(request: ListenRequest) -> dict[str, Any]:
    """Return the body of `speech.context`: settings of a turn."""
    profanity = "masked" if request.profanity_filter else "raw"
    detection: dict[str, Any] = {"language": _locale(request), "enrichment": {"profanity": profanity}, "mode": "CONVERSATION"}
    if request.endpointing_ms is not None:
        detection["CONVERSATION"] = {"segmentation": {"segmentationSilenceTimeoutMs": _silence_ms(request), "mode": "Custom"}}
    context: dict[str, Any] = {
        "phraseDetection": detection,
        "phraseOutput": {"format": "Detailed", "detailed": {"options": ["WordTimings", "WordConfidence"]}},
    }  # fmt: skip
    if request.keyterms:
        items = [{"Text": term} for term in request.keyterms]
        context["dgi"] = {"Groups": [{"Type": "Generic", "Items": items}], "bias": 1.0}
    return context
