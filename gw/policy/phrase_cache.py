"""KeptPhrase cache: speech of texts that projects say again and again, kept in memory so that no vendor speaks them twice.

An entry is one text in one voice: every setting that changes its sound is part of its key, the vendor's model and address too, so
that a change of any of them finds nothing. It has up to `takes` recordings, which are used in turn. Entries that were not used
for longest leave when the memory is full. Nothing is written to a disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from gw.types.audio import AudioFormat
from gw.types.entities import Provider
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest, WordTiming

_ENTRY_BYTES = 1_500  # of an entry beside its text and audio, objects included
_WORD_BYTES = 150


class Take(msgspec.Struct, frozen=True, eq=False):
    """One recording of a text: the audio as one piece, and the times of its words."""

    format: AudioFormat
    audio: bytes
    words: tuple[WordTiming, ...]

    @property
    def size(self) -> int:
        return len(self.audio) + _WORD_BYTES * len(self.words)

    def events(self) -> list[SpeakEvent]:
        return [*self.words, AudioChunk(data=self.audio), SpeakEnd()]


class KeptPhrase(msgspec.Struct, eq=False):
    """A text in one voice. `used`: hits since it was kept; `saved_nusd`: what its vendor would have charged for them."""

    project: str
    model_id: str
    voice: str
    text: str
    takes: list[Take]
    used: int = 0
    saved_nusd: int = 0

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + 4 * len(self.text) + sum(take.size for take in self.takes)


class PhraseFigures(msgspec.Struct, frozen=True):
    """Size of the cache, and what it has done since the start."""

    phrases: int
    bytes: int
    hits: int
    misses: int
    evicted: int
    saved_nusd: int


class PhraseCache:
    """The phrases of all projects of one process."""

    def __init__(self, most_bytes: int = 0) -> None:
        self._most_bytes = most_bytes
        self._phrases: OrderedDict[bytes, KeptPhrase] = OrderedDict()
        self._bytes = self._hits = self._misses = self._evicted = self._saved_nusd = 0

    @property
    def figures(self) -> PhraseFigures:
        return PhraseFigures(len(self._phrases), self._bytes, self._hits, self._misses, self._evicted, self._saved_nusd)

    @property
    def most_bytes(self) -> int:
        return self._most_bytes

    def limit(self, most_bytes: int) -> None:
        """Set the memory for phrases."""
        self._most_bytes = most_bytes
        self._shrink()

    def find(self, key: bytes, takes: int) -> Take | None:
        """Return the take of a phrase whose turn it is; None as long as it has fewer than `takes`."""
        phrase = self._phrases.get(key)
        if phrase is None or len(phrase.takes) < takes:
            self._misses += 1
            return None
        self._phrases.move_to_end(key)
        self._hits += 1
        phrase.used += 1
        return phrase.takes[(phrase.used - 1) % len(phrase.takes)]

    def note_saved(self, key: bytes, nusd: int) -> None:
        """Note what the vendor would have charged for a hit."""
        self._saved_nusd += nusd
        if (phrase := self._phrases.get(key)) is not None:
            phrase.saved_nusd += nusd

    def add(self, key: bytes, phrase: KeptPhrase, takes: int) -> None:
        """Keep a phrase with one take, or add that to those of the same phrase. One that alone is too large is not kept."""
        if phrase.size > self._most_bytes:
            return
        known = self._phrases.get(key)
        if known is None:
            self._phrases[key] = phrase
            self._bytes += phrase.size
        elif len(known.takes) < takes:
            known.takes += phrase.takes
            self._bytes += sum(take.size for take in phrase.takes)
            self._phrases.move_to_end(key)
        self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._most_bytes:
            _, oldest = self._phrases.popitem(last=False)
            self._bytes -= oldest.size
            self._evicted += 1

    def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int:
        """Forget the phrases of a project, a model or a voice, or all; return how many those were."""
        chosen = [key for key, phrase in self._phrases.items() if _is_of(phrase, project, model_id, voice)]
        for key in chosen:
            self._bytes -= self._phrases.pop(key).size
        return len(chosen)

    def latest(self, count: int, *, project: str | None = None) -> Sequence[KeptPhrase]:
        """Return the phrases that were used last, the latest first."""
        newest: list[KeptPhrase] = []
        for phrase in reversed(self._phrases.values()):
            if len(newest) == count:
                break
            if _is_of(phrase, project, None, None):
                newest.append(phrase)
        return newest


def _is_of(phrase: KeptPhrase, project: str | None, model_id: str | None, voice: str | None) -> bool:
    return (
        (project is None or phrase.project == project)
        and (model_id is None or phrase.model_id == model_id)
        and (voice is None or phrase.voice == voice)
    )


def key_of(project: str, provider: Provider, model_name: str, voice: str, request: SpeakRequest) -> bytes:
    """Return the key of a text that a project has spoken by a model in a voice, with everything that changes its sound."""
    extra = sorted((name, bytes(value)) for name, value in request.extra.items())
    facts = (
        project, provider.id, provider.type, provider.base_url, model_name, voice, request.text, request.language, request.speed,
        request.instructions, request.want_timings, request.want_events, request.format, request.dialect if extra else "", extra,
    )  # fmt: skip
    return sha256(msgspec.msgpack.encode(facts)).digest()
