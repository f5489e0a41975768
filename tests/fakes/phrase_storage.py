"""Checks of every place that keeps phrases, which memory, a disk and the server of a fleet pass alike."""

from __future__ import annotations

from typing import Protocol

from gw.policy.phrase_cache import KeptPhrase, Take, key_of
from gw.types.audio import PCM_16K
from gw.types.tts import WordTiming

VOICE = b"v" * 32
SIZE = 3_000
LIMIT = 60_000
"""Limit of a storage that is opened for a check: room for some phrases."""


def mark_of(beginning: str) -> bytes:
    """Return what stands for the beginning of a text in VOICE."""
    return phrase(beginning).marks()[-1]


class PhraseStorage(Protocol):
    """One place, as one gateway fills it and, where it is shared, another one reads it."""

    async def put(self, key: bytes, phrase: KeptPhrase) -> None: ...

    async def use(self, key: bytes) -> None: ...

    async def get(self, key: bytes) -> KeptPhrase | None: ...

    async def begins(self, beginning: str) -> bool:
        """Return whether a text in VOICE may begin like this."""

    async def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int: ...

    def bytes(self) -> int:
        """Return how many bytes it has."""


def phrase(text="Hello.", *, marks=(b"a",), project="p", model="cartesia/sonic-3", voice="v", size=SIZE):
    words = (WordTiming(word="Hello.", start_s=0.0, end_s=0.3),)
    return KeptPhrase(project, model, voice, text, [Take(PCM_16K, mark * size, words) for mark in marks], VOICE)


async def what_is_put_comes_back(storage: PhraseStorage) -> None:
    key = key_of(VOICE, "Hello.")
    assert await storage.get(key) is None
    await storage.put(key, phrase(marks=(b"a", b"b")))
    found = await storage.get(key)
    assert found is not None
    assert (found.project, found.model_id, found.voice, found.text) == ("p", "cartesia/sonic-3", "v", "Hello.")
    words = (WordTiming(word="Hello.", start_s=0.0, end_s=0.3),)
    assert [(take.format, take.audio, take.words) for take in found.takes] == [(PCM_16K, mark * SIZE, words) for mark in (b"a", b"b")]
    assert (await storage.begins("Hel"), await storage.begins("Hallo")) == (True, False)
    assert await storage.get(key_of(VOICE, "Hello!")) is None


async def it_is_bounded_and_a_use_counts(storage: PhraseStorage) -> None:
    keys = [key_of(VOICE, f"Text {number}") for number in range(40)]
    for number, key in enumerate(keys):
        await storage.put(key, phrase(f"Text {number}"))
        await storage.use(keys[0])
        assert storage.bytes() <= LIMIT
    assert [await storage.get(keys[n]) is not None for n in (0, 1, 39)] == [True, False, True]


async def a_longer_phrase_takes_the_place_of_a_shorter_one(storage: PhraseStorage) -> None:
    key = key_of(VOICE, "Hello.")
    await storage.put(key, phrase())
    before = storage.bytes()
    await storage.put(key, phrase(marks=(b"a", b"b")))
    found = await storage.get(key)
    assert found is not None
    assert [take.audio[:1] for take in found.takes] == [b"a", b"b"]
    assert SIZE <= storage.bytes() - before < 1.2 * SIZE


async def phrases_of_a_project_a_model_or_a_voice_are_cleared(storage: PhraseStorage) -> None:
    kinds = [("a", "m", "v"), ("a", "m", "w"), ("b", "m", "v"), ("b", "n", "")]
    keys = [b"%d" % number * 32 for number in range(4)]
    for key, (project, model, voice) in zip(keys, kinds, strict=True):
        await storage.put(key, phrase(project=project, model=model, voice=voice))

    async def present():
        return [await storage.get(key) is not None for key in keys]

    assert await storage.clear(project="a", voice="w") == 1
    assert await present() == [True, False, True, True]
    assert await storage.clear(voice="") == 1
    assert await storage.clear(model_id="n") == 0
    assert await present() == [True, False, True, False]
    assert await storage.clear(model_id="m") == 2
    assert await present() == [False] * 4
    await storage.put(keys[0], phrase())
    assert await storage.clear() == 1
    assert (await present(), storage.bytes()) == ([False] * 4, 0)
    await storage.put(keys[0], phrase())
    assert (await present())[0]


CHECKS = (
    what_is_put_comes_back, it_is_bounded_and_a_use_counts, a_longer_phrase_takes_the_place_of_a_shorter_one,
    phrases_of_a_project_a_model_or_a_voice_are_cleared,
)  # fmt: skip
