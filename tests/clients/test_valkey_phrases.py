"""Phrases in a real Valkey server: kept as everywhere, sealed, and without harm to anybody while the server is away."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio
from glide import GlideClient, GlideClientConfiguration, NodeAddress

from gw.errors import BankUnreachable, FleetSecretDiffers
from gw.fleet.shared_phrases import MOST_BYTES, SharedPhrases
from gw.fleet.valkey_phrases import CLEARS, KEEP_S, PhraseClear, open_phrases
from gw.policy.phrase_cache import PhraseCache, key_of
from gw.store.phrase_store import PhraseStore
from gw.types.bank_address import BankAddress
from gw.types.secret import Secret
from gw.vault import ContentCipher
from tests.fakes.phrase_storage import CHECKS, LIMIT, VOICE, mark_of, phrase
from tests.fakes.records import HandClock
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients
SECRET = Secret("a long secret that nobody knows")
OTHER = Secret("another long secret that nobody knows")
KEY = key_of(VOICE, "Hello canary.")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    yield running
    running.kill()


class Member:
    """The phrases of one gateway. Its task is not run: the test says when it follows."""

    def __init__(self, server, fleet, *, secret=SECRET, previous="", max_bytes=10**8, wait_s=5.0, disk=None):
        self.forgotten = []
        connect = partial(open_phrases, BankAddress.parse(server.url), fleet)
        self.phrases = SharedPhrases(
            connect, secret, Secret(previous), max_bytes=max_bytes, wait_s=wait_s, forget=self._forget, disk=disk
        )

    async def _forget(self, which):
        self.forgotten.append(which)

    async def put(self, key, kept):
        self.phrases.put(key, kept)
        await self.sync()

    async def sync(self):
        """Follow, and store. A busy machine may be too late for the bound of a call."""
        while True:
            with suppress(BankUnreachable):
                return await self.phrases.sync()

    async def get(self, key):
        await self.sync()
        return await self.phrases.load(key) if self.phrases.may_have(key) else None


@asynccontextmanager
async def joined(*members):
    """Run the members; each has followed once."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(member.phrases.run)
            for member in members:
                while not (member.phrases.knows_all or member.phrases.trouble):  # noqa: ASYNC110  # its connection is made meanwhile
                    await trio.sleep(0.005)
            yield
            nursery.cancel_scope.cancel()


class FleetStorage:
    """One gateway puts, and another one gets."""

    def __init__(self, first, second):
        self._first, self._second = first, second

    async def put(self, key, kept):
        await self._first.put(key, kept)
        await self._second.sync()

    async def use(self, key):
        self._second.phrases.touch(key)
        await self._second.sync()

    async def get(self, key):
        return await self._second.get(key)

    async def begins(self, beginning):
        await self._second.sync()
        return self._second.phrases.may_begin(mark_of(beginning))

    async def clear(self, **which):
        count = await self._second.phrases.clear(**which)
        await self._first.sync()
        await self._second.sync()
        assert (len(self._first.forgotten), self._second.forgotten) == (len(self._first.forgotten), [])
        assert self._first.forgotten[-1] == PhraseClear(**which)
        return count

    def bytes(self):
        return self._second.phrases.totals.bytes


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_place_for_phrases(server, check):
    """The same checks as in tests/contract/test_phrase_storage.py."""
    first, second = (Member(server, check.__name__, max_bytes=LIMIT) for _ in range(2))
    async with joined(first, second):
        await check(FleetStorage(first, second))


async def test_the_server_has_neither_text_nor_audio_and_forgets_what_nobody_uses(server):
    member = Member(server, "sealed")
    async with joined(member):
        await member.put(KEY, phrase("Hello canary.", marks=(b"sound",)))
        assert await member.get(KEY) is not None
        client = await GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", server.port)]))
        try:
            keys = await client.custom_command(["KEYS", "gw:{sealed}:*"])
            assert len(keys) == 5
            for key in keys:
                dump = await client.custom_command(["DUMP", key])
                assert b"canary" not in dump
                assert b"soundsound" not in dump
                assert 0 < int(await client.custom_command(["PTTL", key])) <= KEEP_S * 1000
        finally:
            await client.close()


async def test_a_server_that_does_not_answer_costs_one_short_wait(tmp_path):
    server = ValkeyServer(tmp_path)
    member = Member(server, "away", wait_s=0.05)
    cache = PhraseCache(10_000_000)
    cache.stores = [member.phrases]
    try:
        async with joined(member):
            await member.put(KEY, phrase())
            server.freeze()
            before = trio.current_time()
            await cache.recall(KEY, 1)
            first = trio.current_time()
            for _ in range(1_000):
                await cache.recall(KEY, 1)
            assert first - before < 5  # the test's own bound: the wait itself is 0.05 s
            assert cache.find(KEY, 1) is None
            assert member.phrases.counters.unanswered == 1_001
            assert cache.is_elsewhere(KEY, 1)  # it is only not looked for
            with pytest.raises(BankUnreachable):
                await member.phrases.clear(project="another")  # it may have been sent, and then the server does it later
            member.phrases.put(b"k" * 32, phrase("Bye."))  # waits for the server
            while not member.phrases.trouble:  # noqa: ASYNC110
                await trio.sleep(0.01)
            server.thaw()
            while member.phrases.trouble:  # noqa: ASYNC110  # its task asks again
                await trio.sleep(0.01)
            while cache.find(KEY, 1) is None:  # a busy machine may be later than 0.05 s
                await member.sync()
                await cache.recall(KEY, 1)
    finally:
        server.kill()


async def test_a_server_that_has_lost_its_memory_begins_anew(tmp_path):
    server = ValkeyServer(tmp_path)
    first, second = Member(server, "anew"), Member(server, "anew")
    try:
        async with joined(first, second):
            await first.put(KEY, phrase())
            assert await second.get(KEY) is not None
            server.kill()
            server.start()
            for member in (first, second):
                await member.sync()
            assert not second.phrases.may_have(KEY)
            await first.put(KEY, phrase())
            assert await second.get(KEY) is not None
            assert (first.forgotten, second.forgotten) == ([], [])
    finally:
        server.kill()


async def test_what_was_put_before_a_clear_was_known_is_not_stored(server):
    first, second = Member(server, "late"), Member(server, "late")
    async with joined(first, second):
        first.phrases.put(KEY, phrase())  # with nothing in between, `run` has not stored it
        await second.phrases.clear(voice="v")
        await first.sync()
        assert first.phrases.counters.stored + first.phrases.counters.dropped == 1
        assert await second.get(KEY) is None
        await first.put(KEY, phrase())
        assert await second.get(KEY) is not None


async def test_takes_of_two_gateways(server):
    """A gateway with fewer takes gets those of another one, and does not replace them by fewer."""
    first, second = Member(server, "takes"), Member(server, "takes")
    cache = PhraseCache(10_000_000)
    async with joined(first, second):
        cache.stores = [second.phrases]
        cache.add(KEY, phrase(marks=(b"a",)), 2)
        await second.sync()
        await first.put(KEY, phrase(marks=(b"a", b"b")))
        await second.sync()
        assert cache.find(KEY, 2) is None
        assert cache.is_elsewhere(KEY, 2)
        await cache.recall(KEY, 2)
        assert [cache.find(KEY, 2).audio[:1] for _ in range(2)] == [b"a", b"b"]
        assert not cache.is_elsewhere(KEY, 2)
        await second.put(KEY, phrase(marks=(b"c",)))
        found = await first.get(KEY)
        assert [take.audio[:1] for take in found.takes] == [b"a", b"b"]


async def test_what_is_too_large_stays_at_this_gateway(server):
    member = Member(server, "large")
    async with joined(member):
        await member.put(KEY, phrase(size=MOST_BYTES))
        assert await member.get(KEY) is None
        assert (member.phrases.counters.too_large, member.phrases.counters.stored) == (1, 0)


async def test_another_secret_says_so_and_a_change_of_it_keeps_the_phrases(server):
    first, stranger = Member(server, "secrets"), Member(server, "secrets", secret=OTHER)
    async with joined(first):
        await first.put(KEY, phrase())
        async with joined(stranger):
            with pytest.raises(FleetSecretDiffers):
                await stranger.phrases.sync()
            assert "GW_SECRET" in stranger.phrases.trouble
            assert not stranger.phrases.may_have(KEY)
    async with joined(changing := Member(server, "secrets", secret=OTHER, previous=SECRET.reveal())):
        assert await changing.get(KEY) is not None
    async with joined(changed := Member(server, "secrets", secret=OTHER)):
        assert await changed.get(KEY) is not None


async def test_a_disk_follows_what_was_cleared_while_its_gateway_did_not_run(server, tmp_path):
    key = ContentCipher.new_key()

    async def read_key():
        return key

    async def following(member_of, *, put):
        """Run a gateway with a disk, which follows once, and return which clears it has followed."""
        disk = PhraseStore(tmp_path / "gw.db", HandClock(), max_bytes=10**6, key=read_key)
        async with trio.open_nursery() as nursery:
            await nursery.start(disk.run)
            member = member_of(disk)
            async with joined(member):
                if put:
                    disk.put(KEY, phrase())
                    await disk.flush()
                await member.sync()
            nursery.cancel_scope.cancel()
        return member.forgotten

    other = Member(server, "disk")
    async with joined(other):
        await other.phrases.clear(voice="before")
        assert await following(lambda disk: Member(server, "disk", disk=disk), put=True) == []  # its file was empty
        await other.phrases.clear(voice="meanwhile")
        assert await following(lambda disk: Member(server, "disk", disk=disk), put=False) == [
            PhraseClear(voice="before"), PhraseClear(voice="meanwhile"),
        ]  # fmt: skip
        assert await following(lambda disk: Member(server, "disk", disk=disk), put=False) == []
        for _ in range(CLEARS + 1):
            await other.phrases.clear(voice="")
        assert (await following(lambda disk: Member(server, "disk", disk=disk), put=False))[0] == PhraseClear()
