"""Phrases go to the disk beside the requests, come back after a restart, and no fault of the disk reaches a request."""

from __future__ import annotations

import os
import tracemalloc
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from gw.config.parse import parse
from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take, key_of
from gw.store import phrase_store
from gw.store.phrase_store import PhraseStore, phrase_store_of
from gw.types.audio import PCM_16K
from tests.fakes.records import HandClock

KEY = os.urandom(32)
VOICE = b"v" * 32


def phrase(text, size=1_000):
    return KeptPhrase("p", "cartesia/sonic-3", "v", text, [Take(PCM_16K, b"a" * size, ())], VOICE)


async def read_key():
    return KEY


@asynccontextmanager
async def running(folder, most_bytes=10**9, clock=None):
    store = PhraseStore(folder / "gw.db", clock or HandClock(), max_bytes=most_bytes, key=read_key)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        yield store
        nursery.cancel_scope.cancel()


def cache_of(store):
    cache = PhraseCache(10_000_000)
    cache.stores = [store]
    return cache


async def known(store):
    """Wait until the store knows what is in its file."""
    while not store.knows_all:
        await trio.testing.wait_all_tasks_blocked()


async def test_a_phrase_comes_back_after_a_restart(tmp_path):
    key = key_of(VOICE, "Hello.")
    async with running(tmp_path) as store:
        await known(store)
        cache = cache_of(store)
        assert not cache.is_elsewhere(key, 1)
        cache.add(key, phrase("Hello."), 1)
        await store.flush()
        assert (store.counters.stored, store.totals.phrases) == (1, 1)
    async with running(tmp_path) as store:
        await known(store)
        cache = cache_of(store)
        assert cache.is_elsewhere(key, 1)
        assert not cache.is_elsewhere(key_of(VOICE, "Bye."), 1)
        assert (cache.may_have(VOICE, "Hel"), cache.may_have(VOICE, "Hallo")) == (True, False)
        await cache.recall(key, 1)
        assert not cache.is_elsewhere(key, 1)
        assert cache.find(key, 1).audio == b"a" * 1_000
        await cache.recall(key, 1)
        assert (cache.figures.phrases, store.counters.loaded) == (1, 1)


async def test_what_is_put_last_is_stored_at_the_end(tmp_path):
    async with running(tmp_path) as store:
        await known(store)
        store.put(b"k", phrase("Hello."))
    async with running(tmp_path) as store:
        await known(store)
        assert (await store.load(b"k")).text == "Hello."


async def test_the_disk_is_bounded_and_a_use_counts(tmp_path):
    clock = HandClock()
    async with running(tmp_path, 12_000, clock) as store:
        await known(store)
        for number in range(20):
            store.put(b"%d" % number, phrase(f"Text {number}"))
            store.touch(b"0")
            clock.time += 1
            await store.flush()
        assert store.totals.bytes <= 12_000
        assert store.counters.evicted == 20 - store.totals.phrases > 0
        assert [(await store.load(key)) is not None for key in (b"0", b"1", b"19")] == [True, False, True]


async def test_a_full_queue_keeps_nobody_waiting(tmp_path):
    async with running(tmp_path) as store:
        await known(store)
        for number in range(phrase_store.QUEUED + 5):
            store.put(b"%d" % number, phrase("Hello.", size=10))
        assert store.counters.dropped == 5
        await store.flush()
        assert store.totals.phrases == phrase_store.QUEUED


async def test_clearing_clears_what_is_on_its_way_too(tmp_path):
    async with running(tmp_path) as store:
        await known(store)
        store.put(b"k", phrase("Hello."))
        assert await store.clear(project="other") == 0
        assert store.may_have(b"k")
        store.put(b"l", phrase("Bye."))
        assert await store.clear() == 2
        assert not store.may_have(b"k")
        assert await store.load(b"k") is None


async def test_a_file_that_cannot_be_used_is_reported_and_nothing_fails(tmp_path, capsys):
    (tmp_path / "gw.db.phrases").write_bytes(b"this is no database" * 100)
    async with running(tmp_path) as store:
        while not store.trouble:
            await trio.testing.wait_all_tasks_blocked(0.01)
        store.put(b"k", phrase("Hello."))
        await store.flush()
        assert await store.load(b"k") is None
        assert store.counters.failed == 1
        assert "phrases" in store.trouble


async def test_memory_does_not_grow_with_the_phrases_on_the_disk(tmp_path):
    """A small form of `bench/phrase_cache.py --entries`."""
    async with running(tmp_path) as store:
        await known(store)

        async def add(first, count):
            for number in range(first, first + count):
                store.put(key_of(VOICE, f"This is sentence {number}."), phrase(f"This is sentence {number}.", size=200))
                if number % 200 == 199:
                    await store.flush()
            await store.flush()

        await add(0, 400)  # fills what stays the same size from now on
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await add(400, 2_000)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert store.totals.phrases == 2_400
        assert (after - before) / 2_000 < 20


@pytest.mark.parametrize(("text", "secret", "kept"), [("64", "s", True), ("0", "s", False), ("64", "", False)])
def test_only_where_it_is_wanted_and_can_be_encrypted(tmp_path, text, secret, kept):
    yaml = f"providers: {{}}\nmodels: {{}}\nrouting: {{phrase_cache_disk_mb: {text}}}"
    settings = parse(yaml, file="gw.yaml", env={"GW_SECRET": secret}, data_dir=tmp_path)
    store = phrase_store_of(settings, HandClock(), read_key)
    assert (store is not None) == kept
    assert store is None or store.max_bytes == 64_000_000
