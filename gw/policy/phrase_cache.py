"""Phrase cache: speech of texts that projects say again and again, kept so that no vendor speaks them twice.

An entry is one text in one voice: every setting that changes its sound is part of its key, the vendor's model and address too, so
that a change of any of them finds nothing. Space around a text is not part of it. It has up to `takes` recordings, which are used in
turn. The beginnings of texts are known as well, so that live speech whose text is still to come is held back only while it may be a
kept one. Entries that were not used for longest leave when the memory is full. They are kept in `stores` as well, which are a disk and
the server of a fleet: what memory does not have comes from these with `recall`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from itertools import islice
from typing import Protocol

import msgspec

from gw.policy.other_caches import CacheShare, ListedPhrase, PhraseFigures, SpeechChoice
from gw.policy.phrase_parts import beginning_of, beginnings
from gw.policy.recent_speech import AppSpeech, RecentSpeech
from gw.types.audio import AudioFormat
from gw.types.entities import Provider
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming

_ENTRY_BYTES = 1_500  # of an entry beside its text and audio, objects included
_WORD_BYTES = 150
_BEGINNING_BYTES = 120


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
    voice_key: bytes = b""
    """Key of the voice, by which texts that begin alike are found."""
    used: int = 0
    saved_nusd: int = 0

    @property
    def size(self) -> int:
        own = _ENTRY_BYTES + 4 * len(self.text) + _BEGINNING_BYTES * len(beginnings(len(self.text)))
        return own + sum(take.size for take in self.takes)

    def marks(self) -> list[bytes]:
        """Return what stands for each beginning of the text in this voice."""
        return [_mark(self.voice_key, self.text[:size]) for size in beginnings(len(self.text))]


class PhraseKeeper(Protocol):
    """Phrases in another place than the memory of this process. Only `load` takes time."""

    is_shared: bool
    """Other gateways keep phrases there, too, so it may have more takes of a phrase than memory has."""

    def put(self, key: bytes, phrase: KeptPhrase) -> None: ...

    def touch(self, key: bytes) -> None:
        """Note that a phrase was used."""

    def may_have(self, key: bytes) -> bool: ...

    def may_begin(self, mark: bytes) -> bool:
        """Return whether a text may begin as a mark says."""

    async def load(self, key: bytes) -> KeptPhrase | None: ...


class OtherCaches(Protocol):
    """The caches of the other processes. One that does not answer in time is left out of what is returned."""

    async def shares(self, count: int, project: str | None) -> Sequence[CacheShare]:
        """Return what each has, with `count` phrases at most."""

    async def clear(self, *, project: str | None, model_id: str | None, voice: str | None) -> Sequence[int]:
        """Have each forget phrases; return how many those were."""

    async def collect(self, cache: PhraseCache, choice: SpeechChoice) -> Mapping[bytes, AppSpeech]:
        """Return the kinds of speech that the others know, and take the phrases of which they have more takes into `cache`."""

    async def keep(self, phrases: Mapping[bytes, KeptPhrase]) -> None:
        """Have each keep these phrases as well."""


class PhraseCache:
    """The phrases of all projects of one process."""

    def __init__(self, most_bytes: int = 0) -> None:
        self.recent = RecentSpeech()
        self.stores: Sequence[PhraseKeeper] = ()
        """Keepers of phrases beside memory, in the order in which a phrase is looked for."""
        self.elsewhere: OtherCaches | None = None
        """Caches of the other processes of this gateway, in the process that answers for all of them."""
        self._most_bytes = most_bytes
        self._phrases: OrderedDict[bytes, KeptPhrase] = OrderedDict()
        self._beginnings: dict[bytes, int] = {}  # number of phrases for each mark
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

    def has(self, key: bytes, takes: int) -> bool:
        """Return whether a phrase has all its takes."""
        return self.takes_of(key) >= takes

    def takes_of(self, key: bytes) -> int:
        """Return how many takes of a phrase are in memory."""
        phrase = self._phrases.get(key)
        return 0 if phrase is None else len(phrase.takes)

    def may_have(self, voice_key: bytes, beginning: str) -> bool:
        """Return whether a phrase in this voice begins like this, as far as the marks tell."""
        mark = _mark(voice_key, beginning_of(beginning))
        return mark in self._beginnings or any(store.may_begin(mark) for store in self.stores)

    def is_elsewhere(self, key: bytes, takes: int) -> bool:
        """Return whether a store may have a phrase that memory does not have, or has with fewer takes."""
        return any(self._may_add(store, key, takes) for store in self.stores)

    def _may_add(self, store: PhraseKeeper, key: bytes, takes: int) -> bool:
        phrase = self._phrases.get(key)
        return (phrase is None or (store.is_shared and len(phrase.takes) < takes)) and store.may_have(key)

    async def recall(self, key: bytes, takes: int) -> None:
        """Take a phrase from the stores into memory, as far as they have it."""
        for store in self.stores:
            if self._may_add(store, key, takes) and (phrase := await store.load(key)) is not None:
                self.take_over(key, phrase)

    def get(self, key: bytes) -> KeptPhrase | None:
        """Return a phrase that is in memory; it does not count as used."""
        return self._phrases.get(key)

    def take_over(self, key: bytes, phrase: KeptPhrase) -> None:
        """Have a phrase of a store, or of another process, in memory, in place of one with fewer takes."""
        known = self._phrases.get(key)
        if known is not None and len(known.takes) >= len(phrase.takes):
            return
        if known is not None:
            phrase.used, phrase.saved_nusd = known.used, known.saved_nusd
            self._remove(key)
        self._remember(key, phrase)
        self._shrink()

    def note_miss(self) -> None:
        self._misses += 1

    def find(self, key: bytes, takes: int) -> Take | None:
        """Return the take of a phrase whose turn it is; None as long as it has fewer than `takes`."""
        phrase = self._phrases.get(key)
        if phrase is None or len(phrase.takes) < takes:
            self.note_miss()
            return None
        self._phrases.move_to_end(key)
        for store in self.stores:
            store.touch(key)
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
            self._remember(key, phrase)
        elif len(known.takes) < takes:
            known.takes += phrase.takes
            self._bytes += sum(take.size for take in phrase.takes)
            self._phrases.move_to_end(key)
        for store in self.stores:
            store.put(key, self._phrases[key])
        self._shrink()

    def _remember(self, key: bytes, phrase: KeptPhrase) -> None:
        self._phrases[key] = phrase
        self._bytes += phrase.size
        for mark in phrase.marks():
            self._beginnings[mark] = self._beginnings.get(mark, 0) + 1

    def _shrink(self) -> None:
        while self._bytes > self._most_bytes:
            self._remove(next(iter(self._phrases)))
            self._evicted += 1

    def _remove(self, key: bytes) -> None:
        phrase = self._phrases.pop(key)
        self._bytes -= phrase.size
        for mark in phrase.marks():
            self._beginnings[mark] -= 1
            if not self._beginnings[mark]:
                del self._beginnings[mark]

    def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int:
        """Forget the phrases of a project, a model or a voice, or all; return how many those were."""
        chosen = [key for key, phrase in self._phrases.items() if _is_of(phrase, project, model_id, voice)]
        for key in chosen:
            self._remove(key)
        return len(chosen)

    def latest(self, count: int, *, project: str | None = None) -> Sequence[tuple[bytes, KeptPhrase]]:
        """Return the phrases that were used last with their keys, the latest first."""
        chosen = (item for item in reversed(self._phrases.items()) if _is_of(item[1], project, None, None))
        return list(islice(chosen, count))


def share_of(cache: PhraseCache, count: int, project: str | None) -> CacheShare:
    latest = [
        ListedPhrase(
            key, phrase.project, phrase.model_id, phrase.voice, phrase.text, len(phrase.takes), phrase.size, phrase.used, phrase.saved_nusd
        )
        for key, phrase in cache.latest(count, project=project)
    ]  # fmt: skip
    return CacheShare(cache.figures, cache.most_bytes, latest)


def _is_of(phrase: KeptPhrase, project: str | None, model_id: str | None, voice: str | None) -> bool:
    return (
        (project is None or phrase.project == project)
        and (model_id is None or phrase.model_id == model_id)
        and (voice is None or phrase.voice == voice)
    )


def voice_key_of(project: str, provider: Provider, model_name: str, voice: str, request: SpeakRequest | SpeakLiveRequest) -> bytes:
    """Return the key of everything but the text that changes the sound of speech, for a project, a model and a voice."""
    own = _own_settings(request)
    facts = (
        project, provider.id, provider.type, provider.base_url, model_name, voice, request.language, request.speed,
        request.instructions, request.want_timings, isinstance(request, SpeakRequest) and request.want_events, request.format,
        request.dialect if own else "", own,
    )  # fmt: skip
    return sha256(msgspec.msgpack.encode(facts)).digest()


def _own_settings(request: SpeakRequest | SpeakLiveRequest) -> list[tuple[str, bytes]]:
    """Return the settings of the caller's dialect that may change the sound. A live request has others as well."""
    if isinstance(request, SpeakRequest):
        return sorted((name, bytes(value)) for name, value in request.extra.items())
    own = set(request.ignorable)
    return sorted((name, value.encode()) for name, value in request.options if {name, name.partition(":")[2]} & own)


def key_of(voice_key: bytes, text: str, sent: str | None = None) -> bytes:
    """Return the key of a text in a voice. `sent`: the text as the vendor gets it, where pronunciations may change it.

    A text that was changed has its own words in the times of its take, so both count.
    """
    both = text.strip() if sent is None or sent.strip() == text.strip() else f"{text.strip()}\0{sent.strip()}"
    return sha256(voice_key + both.encode("utf-8", "surrogatepass")).digest()


def _mark(voice_key: bytes, beginning: str) -> bytes:
    return blake2b(beginning.encode("utf-8", "surrogatepass"), digest_size=8, key=voice_key).digest()
