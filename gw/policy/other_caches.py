"""Answers of the phrase caches of several processes of a gateway; `gw.policy.phrase_cache.OtherCaches` has the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import msgspec

from gw.policy.recent_speech import AppSpeech


class PhraseFigures(msgspec.Struct, frozen=True):
    """Size of a cache, and what it has done since the start."""

    phrases: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    evicted: int = 0
    saved_nusd: int = 0

    def __add__(self, other: PhraseFigures) -> PhraseFigures:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return PhraseFigures(*[a + b for a, b in zip(mine, theirs, strict=True)])


class ListedPhrase(msgspec.Struct, frozen=True):
    """A text in one voice, without its audio. `takes`: number of its recordings; `size`: in bytes."""

    key: bytes
    project: str
    model_id: str
    voice: str
    text: str
    takes: int
    size: int
    used: int
    saved_nusd: int


class CacheShare(msgspec.Struct, frozen=True):
    """Contents of the cache of one process: its figures, its memory for phrases, and the phrases used last, the latest first."""

    figures: PhraseFigures
    max_bytes: int
    latest: Sequence[ListedPhrase]


class SpeechChoice(msgspec.Struct, frozen=True):
    """A text, and the kinds of speech in which it is wanted: those of a project, and of a model and a voice if these are given."""

    text: str
    project: str
    model_id: str | None = None
    voice: str | None = None


class KnownSpeech(msgspec.Struct, frozen=True):
    """Kinds of speech by the keys of their voices, and how many takes of the text a process has in them, by the keys of phrases."""

    kinds: Mapping[bytes, AppSpeech]
    takes: Mapping[bytes, int]


def merged(shares: Sequence[CacheShare], count: int) -> CacheShare:
    """Return what processes have together. A phrase of several is listed once, as far in front as the first of them has it."""
    listed: dict[bytes, ListedPhrase] = {}
    for row in zip_longest(*[share.latest for share in shares]):
        for phrase in row:
            if phrase is not None:
                known = listed.get(phrase.key)
                listed[phrase.key] = phrase if known is None else _together(known, phrase)
    figures = sum((share.figures for share in shares), PhraseFigures())
    return CacheShare(figures, sum(share.max_bytes for share in shares), list(listed.values())[:count])


def _together(one: ListedPhrase, other: ListedPhrase) -> ListedPhrase:
    return msgspec.structs.replace(
        one, takes=max(one.takes, other.takes), size=one.size + other.size, used=one.used + other.used,
        saved_nusd=one.saved_nusd + other.saved_nusd,
    )  # fmt: skip
