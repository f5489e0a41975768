"""Memory and a disk keep phrases alike; tests/clients/test_valkey_phrases.py has the server of a fleet do the same."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from gw.policy.phrase_cache import PhraseCache, PhraseFigures
from gw.store.phrase_store import PhraseStore
from gw.vault import ContentCipher
from tests.fakes.phrase_storage import CHECKS, LIMIT, VOICE, mark_of
from tests.fakes.records import HandClock


class MemoryStorage:
    def __init__(self):
        self._cache = PhraseCache(LIMIT)
        self._put = {}

    async def put(self, key, phrase):
        known = self._put.setdefault(key, phrase) if await self.get(key) is not None else phrase
        if known is not phrase:
            phrase.takes = phrase.takes[len(known.takes) :]
        else:
            self._put[key] = phrase
        self._cache.add(key, phrase, 9)

    async def use(self, key):
        assert self._cache.find(key, 1) is not None

    async def get(self, key):
        kept = self._cache.latest(1_000)
        return next((phrase for _, phrase in kept if phrase is self._put.get(key)), None)

    async def begins(self, beginning):
        return self._cache.may_have(VOICE, beginning)

    async def clear(self, **which):
        return self._cache.clear(**which)

    def bytes(self):
        figures: PhraseFigures = self._cache.figures
        return figures.bytes


class DiskStorage:
    def __init__(self, store, clock):
        self._store, self._clock = store, clock

    async def put(self, key, phrase):
        self._clock.time += 1
        self._store.put(key, phrase)
        await self._store.flush()

    async def use(self, key):
        self._store.touch(key)
        await self._store.flush()

    async def get(self, key):
        return await self._store.load(key) if self._store.may_have(key) else None

    async def begins(self, beginning):
        return self._store.may_begin(mark_of(beginning))

    async def clear(self, **which):
        return await self._store.clear(**which)

    def bytes(self):
        return self._store.totals.bytes


@asynccontextmanager
async def in_memory(folder):
    yield MemoryStorage()


@asynccontextmanager
async def on_disk(folder):
    key = ContentCipher.new_key()

    async def read_key():
        return key

    clock = HandClock()
    store = PhraseStore(folder / "gw.db", clock, max_bytes=LIMIT, key=read_key)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        with trio.fail_after(10):
            while not store.knows_all:  # noqa: ASYNC110  # a thread sets it
                await trio.sleep(0.001)
        yield DiskStorage(store, clock)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("opened", [in_memory, on_disk])
async def test_a_place_for_phrases(tmp_path, opened, check):
    async with opened(tmp_path) as storage:
        await check(storage)
