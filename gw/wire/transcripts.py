"""Interim and final transcripts: building the events on the client's side, and turns on the server's side."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar
from zlib import crc32

from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    SpeechStarted,
    Transcript,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol

Result = TypeVar("Result", Interim, Final)


def transcribed(
    kind: type[Result], text: str, words: tuple[Word, ...], *, start_s: float = 0.0, end_s: float = 0.0,
    language: str | None = None, confidence: float | None = None, raw: str | None = None,
) -> Result:  # fmt: skip
    """Return an interim or final transcript. `start_s` and `end_s` count where there are no words."""
    if words:
        start_s, end_s = words[0].start_s, words[-1].end_s
    return kind(
        text=text, start_s=start_s, end_s=end_s, words=words, language=language, confidence=confidence, raw=raw
    )


UNKNOWN_CONFIDENCE = 0.0
"""Stands for an unknown confidence if a client insists on a number; Deepgram reports it of a transcript without words."""
_LEAST_CONFIDENCE = 1e-6  # its logarithm is a number


def mean_confidence(words: Sequence[Word]) -> float | None:
    """Return the mean confidence of the words that have one; None if none has."""
    known = [word.confidence for word in words if word.confidence is not None]
    return sum(known) / len(known) if known else None


def confidence_of(result: Interim | Final | Transcript) -> float | None:
    """Return what the vendor reports for the whole text, else the mean of its words or segments; None if it is unknown."""
    if result.confidence is not None:
        return result.confidence
    if (by_words := mean_confidence(result.words)) is not None or not isinstance(result, Transcript):
        return by_words
    known = [confidence for segment in result.segments if (confidence := confidence_of(segment)) is not None]
    return sum(known) / len(known) if known else None


def logprob_of(confidence: float | None) -> float | None:
    """Return a confidence as the logarithm of a probability."""
    return None if confidence is None else round(math.log(min(1.0, max(_LEAST_CONFIDENCE, confidence))), 4)


def confidence_from(logprob: float | None) -> float | None:
    """Return the logarithm of a probability as a confidence; None for a positive value, which is no logarithm of a probability."""
    return math.exp(logprob) if logprob is not None and logprob <= 0 else None


def unknown(raw: str | None) -> list[ListenEvent]:
    """Return the events of a frame that has no common meaning: a caller of the same dialect (`raw`) gets the frame."""
    return [] if raw is None else [VendorFrame(raw=raw)]


_SENTENCE_END = (".", "?", "!", "\u3002", "\uff1f", "\uff01")
_SEGMENT_PAUSE_S = 0.8
_SEGMENT_S = 7.0


def segments_of(transcript: Transcript) -> tuple[Final, ...]:
    """Return the segments of a transcript, made of its words where the vendor reports none.

    A segment ends with a sentence, before a pause or another speaker, and after seven seconds.
    """
    if transcript.segments:
        return transcript.segments
    segments: list[Final] = []
    words: list[Word] = []
    for n, word in enumerate(transcript.words):
        words.append(word)
        following = transcript.words[n + 1] if n + 1 < len(transcript.words) else None
        if (
            following is None or following.speaker != word.speaker or word.text.endswith(_SENTENCE_END)
            or following.start_s - word.end_s >= _SEGMENT_PAUSE_S or following.end_s - words[0].start_s > _SEGMENT_S
        ):  # fmt: skip
            text = " ".join(one.text for one in words)
            start_s, end_s = words[0].start_s, word.end_s
            segments.append(Final(text=text, start_s=start_s, end_s=end_s, words=tuple(words), speaker=word.speaker))
            words = []
    return tuple(segments)


def speaker_number(speaker: str) -> int:
    """Return a speaker as a number from 0 on: `2`, `speaker_2` and `C` are the third; any other name gets one of its own."""
    tail = speaker.removeprefix("speaker_")
    if tail.isascii() and tail.isdigit() and len(tail) < 5:
        return int(tail)
    if len(speaker) == 1 and "A" <= speaker <= "Z":
        return ord(speaker) - ord("A")
    return 1_000 + crc32(speaker.encode()) % 1_000_000


def speaker_letter(speaker: str) -> str:
    """Return a speaker as a letter from A on; a name that is no number stays."""
    number = speaker_number(speaker)
    return chr(ord("A") + number) if number < 26 else speaker


def speaker_id(speaker: str) -> str:
    """Return a speaker as `speaker_0`, `speaker_1` and so on; a name that is no number stays."""
    number = speaker_number(speaker)
    return f"speaker_{number}" if number < 1_000 else speaker


def timed_word(word: Word, **more: Any) -> dict[str, Any]:
    """Return the JSON object of a word, times in seconds."""
    return {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3), **more}


class TurnEncoder(ListenProtocol):
    """Server side of a protocol in which every update repeats the transcript of the turn so far.

    ======  ==========================================  =======================================
    Turn    Event                                       Frames
    ======  ==========================================  =======================================
    closed  SpeechStarted, Interim, Final               start of turn; the turn is open
    open    Interim                                     update: the turn's finals and the interim
    open    Final, no UtteranceEnd in the same list     update: the turn's finals
    open    UtteranceEnd, ListenEnd                     end of turn; the turn is closed
    ======  ==========================================  =======================================
    """

    def __init__(self) -> None:
        self._finals: list[Final] = []  # final transcripts of the open turn

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for n, event in enumerate(events):
            match event:
                case SpeechStarted(at_s=at_s):
                    frames += self._start_turn(at_s)
                case Interim() if event.text:
                    frames += self._start_turn(event.start_s)
                    frames.append(self._update([*self._finals, event]))
                case Final() if event.text:
                    frames += self._start_turn(event.start_s)
                    self._add(event)
                    if not any(isinstance(later, UtteranceEnd) for later in events[n + 1 :]):
                        frames.append(self._update(self._finals))
                case UtteranceEnd(at_s=at_s):
                    frames += self._end_turn(at_s)
                case ListenEnd():
                    frames += self._end_session()
        return frames

    def _add(self, final: Final) -> None:
        self._finals.append(final)

    @abstractmethod
    def _start_turn(self, at_s: float) -> list[str]: ...

    @abstractmethod
    def _update(self, results: Sequence[Interim | Final]) -> str: ...

    @abstractmethod
    def _end_turn(self, at_s: float | None) -> list[str]: ...

    def _end_session(self) -> list[str]:
        return self._end_turn(None)


def joined_text(results: Sequence[Interim | Final]) -> str:
    return " ".join(result.text for result in results)
