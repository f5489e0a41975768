"""Deepgram's transcription: what its server's messages hold, live and of recordings, and a client's query (deepgram-sdk 7.17.0)."""

from __future__ import annotations

import msgspec

from gw.types import stt


class AlternativeWord(msgspec.Struct, gc=False):
    word: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    punctuated_word: str | None = None
    speaker: int | None = None


class Alternative(msgspec.Struct, gc=False):
    """A transcript, live or of a recording."""

    transcript: str = ""
    confidence: float | None = None
    words: list[AlternativeWord] = []
    languages: list[str] | None = None

    @property
    def common_words(self) -> tuple[stt.Word, ...]:
        return tuple(map(_common, self.words))


class AnswerChannel(msgspec.Struct, gc=False):
    alternatives: list[Alternative] = []
    detected_language: str | None = None
    language_confidence: float | None = None


class ListenMessage(msgspec.Struct, gc=False):
    type: str = ""
    channel: AnswerChannel | list[int] | None = None
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


def _common(word: AlternativeWord) -> stt.Word:
    return stt.Word(
        text=word.punctuated_word or word.word, start_s=word.start, end_s=word.end, confidence=word.confidence,
        speaker=None if word.speaker is None else str(word.speaker)
    )  # fmt: skip


MESSAGE = msgspec.json.Decoder(ListenMessage)


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The request in a query, and which frames the client wants besides `Results`."""

    request: stt.ListenRequest
    vad_events: bool
    utterance_end: bool
