from __future__ import annotations

import attrs
import msgspec

from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take, key_of, voice_key_of
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.entities import Provider
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest, WordTiming

PROVIDER = Provider(id="cartesia", type="cartesia", location="cloud")
REQUEST = SpeakRequest(model="cartesia/sonic-3", text="Hello.", format=PCM_16K)


def take(mark=b"a", size=10_000):
    return Take(PCM_16K, mark * size, (WordTiming(word="Hello.", start_s=0.0, end_s=0.3),))


def phrase(*takes, project="p", model="cartesia/sonic-3", voice="v", text="Hello."):
    return KeptPhrase(project, model, voice, text, list(takes))


def test_a_phrase_is_found_as_it_was_kept():
    cache = PhraseCache(1_000_000)
    assert cache.find(b"k", 1) is None
    cache.add(b"k", phrase(take()), 1)
    found = cache.find(b"k", 1)
    assert found.events() == [
        WordTiming(word="Hello.", start_s=0.0, end_s=0.3), AudioChunk(data=b"a" * 10_000), SpeakEnd(),
    ]  # fmt: skip
    assert (cache.figures.phrases, cache.figures.hits, cache.figures.misses) == (1, 1, 1)


def test_takes_are_made_first_and_then_played_in_turn():
    cache = PhraseCache(1_000_000)
    for mark in (b"a", b"b", b"c"):
        assert cache.find(b"k", 3) is None
        cache.add(b"k", phrase(take(mark)), 3)
    cache.add(b"k", phrase(take(b"d")), 3)
    assert [cache.find(b"k", 3).audio[:1] for _ in range(6)] == [b"a", b"b", b"c", b"a", b"b", b"c"]


def test_memory_is_bounded_and_what_was_not_used_for_longest_leaves():
    cache = PhraseCache(500_000)
    for number in range(2_000):
        cache.add(b"%d" % number, phrase(take()), 1)
        assert cache.find(b"0", 1) is not None
        assert cache.figures.bytes <= 500_000
    assert cache.find(b"1999", 1) is not None
    assert cache.find(b"1000", 1) is None
    assert cache.figures.evicted == 2_000 - cache.figures.phrases
    cache.limit(0)
    assert (cache.figures.phrases, cache.figures.bytes) == (0, 0)


def test_one_that_is_larger_than_the_memory_leaves_the_others_in_place():
    cache = PhraseCache(50_000)
    cache.add(b"k", phrase(take()), 1)
    cache.add(b"large", phrase(take(size=60_000)), 1)
    assert cache.find(b"k", 1) is not None


def test_phrases_of_a_project_a_model_or_a_voice_are_forgotten():
    cache = PhraseCache(10_000_000)
    for number, (project, model, voice) in enumerate([("a", "m", "v"), ("a", "m", "w"), ("b", "m", "v"), ("b", "n", "")]):
        cache.add(b"%d" % number, phrase(take(), project=project, model=model, voice=voice), 1)
    assert [p.project for _, p in cache.latest(10, project="b")] == ["b", "b"]
    assert len(cache.latest(3)) == 3
    assert cache.clear(project="a", voice="w") == 1
    assert cache.clear(voice="") == 1
    assert cache.clear(model_id="m") == 2
    assert cache.clear() == 0
    assert cache.figures.bytes == 0


def test_everything_that_changes_the_sound_changes_the_key():
    made = {
        key_of(voice_key_of(project, provider, name, voice, request), request.text)
        for project, provider, name, voice, request in (
            ("p", PROVIDER, "sonic-3", "v", REQUEST),
            ("q", PROVIDER, "sonic-3", "v", REQUEST),
            ("p", attrs.evolve(PROVIDER, base_url="https://other.test"), "sonic-3", "v", REQUEST),
            ("p", PROVIDER, "sonic-3-2026", "v", REQUEST),
            ("p", PROVIDER, "sonic-3", "w", REQUEST),
            *[("p", PROVIDER, "sonic-3", "v", attrs.evolve(REQUEST, **change)) for change in (
                {"text": "Hello!"}, {"language": "de"}, {"speed": 1.1}, {"instructions": "happy"}, {"want_timings": True},
                {"format": MULAW_8K}, {"extra": {"seed": msgspec.Raw(b"1")}}, {"extra": {"seed": msgspec.Raw(b"2")}},
            )],
        )
    }  # fmt: skip
    assert len(made) == 13
    same = attrs.evolve(REQUEST, model="alias", dialect="elevenlabs")
    assert key_of(voice_key_of("p", PROVIDER, "sonic-3", "v", same), " Hello. ") in made
