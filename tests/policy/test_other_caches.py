"""Test what the phrase caches of several processes have together."""

from __future__ import annotations

from gw.policy.other_caches import CacheShare, ListedPhrase, PhraseFigures, merged
from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take, key_of, share_of
from gw.types.audio import PCM_16K


def listed(key: bytes, **fields: int) -> ListedPhrase:
    figures = {"takes": 1, "size": 10, "used": 0, "saved_nusd": 0, **fields}
    return ListedPhrase(key=key, project="shop", model_id="sim/tone", voice="", text=key.decode(), **figures)


def share(*phrases: ListedPhrase, **figures: int) -> CacheShare:
    return CacheShare(PhraseFigures(**figures), 1_000, phrases)


def test_figures_add_up():
    both = merged([share(phrases=1, bytes=2, hits=3, misses=4, evicted=5, saved_nusd=6), share(phrases=10, hits=30)], 9)
    assert (both.figures, both.max_bytes) == (PhraseFigures(phrases=11, bytes=2, hits=33, misses=4, evicted=5, saved_nusd=6), 2_000)


def test_a_phrase_of_several_processes_is_listed_once_as_far_in_front_as_one_of_them_has_it():
    first = share(listed(b"a"), listed(b"b"), listed(b"c", used=1, saved_nusd=5))
    other = share(listed(b"c", used=2, saved_nusd=7, takes=2, size=30), listed(b"d"))
    both = merged([first, other], 3)
    assert [phrase.key for phrase in both.latest] == [b"a", b"c", b"b"]
    assert both.latest[1] == listed(b"c", used=3, saved_nusd=12, takes=2, size=40)


def test_the_share_of_a_process_has_no_audio():
    cache = PhraseCache(1_000_000)
    for project in ("shop", "shop", "desk"):
        text = f"{project} {cache.figures.phrases}"
        phrase = KeptPhrase(project=project, model_id="m", voice="v", text=text, takes=[Take(PCM_16K, b"ab" * 50, ())], voice_key=b"k")
        cache.add(key_of(b"k", text), phrase, 1)
    own = share_of(cache, 9, "shop")
    assert [(phrase.text, phrase.takes) for phrase in own.latest] == [("shop 1", 1), ("shop 0", 1)]
    assert own.latest[0].size > 100
    assert (own.figures.phrases, own.max_bytes) == (3, 1_000_000)
    assert len(share_of(cache, 1, None).latest) == 1
