"""Keeps phrases in the server of a fleet, so that what one gateway has had spoken is a hit at all of them.

    put ──▶ queue (QUEUED phrases, QUEUED_BYTES) ──▶ run: seal, store
     └──▶ full, or larger than MOST_BYTES: the phrase stays at this gateway, and is counted
    load ──▶ server, `wait_s` at most; no answer: a miss, and no more questions until `run` has had an answer again
    run ──▶ every FOLLOW_S: which phrases others have stored, what was cleared, which phrases were used here

Each gateway knows by itself which phrases the server has (`gw.policy.phrase_index`), so a text that is not there costs no question. A
phrase is sealed by the key of its generation, which the first gateway makes and the server keeps, sealed by GW_SECRET. A server that has
lost its memory begins another generation.
"""

from __future__ import annotations

import base64
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import NamedTuple, Protocol

import attrs
import msgspec
import structlog
import trio

from gw.errors import BankUnreachable, FleetSecretDiffers, GwError, KeyDecryptError
from gw.fleet.valkey_phrases import CLEARS, FleetPhrase, FleetPhraseNews, PhraseClear, ValkeyPhrases
from gw.policy.phrase_cache import KeptPhrase
from gw.policy.phrase_index import PhraseIndex
from gw.types.secret import Secret
from gw.vault import ContentCipher, PhraseCipher, Vault

MOST_BYTES = 1_000_000
"""Size of the largest phrase: 20 s of 24 kHz samples. A larger one would take too long on its way."""
QUEUED, QUEUED_BYTES = 200, 16 * 2**20
TOUCHED = 1_000  # phrases whose use is noted in one round; the use of others is not
FOLLOW_S = 1.0
CLOSE_S = 1.0  # deadline for the last phrases at the end; what is not stored by then is spoken again elsewhere
_KEY_BITS, _MARK_BITS = 2**23, 2**25
_KEY_OF = "phrases of a fleet"

_log = structlog.get_logger("gw.fleet")


@attrs.define
class FleetPhraseCounters:
    """Phrases since the start. `unanswered`: they could not be looked for; `too_large` and `dropped` ones (the queue was full, or others
    have cleared something meanwhile) are not stored; `evicted`: they left for the limit, or were not used for long."""

    stored: int = 0
    loaded: int = 0
    unanswered: int = 0
    too_large: int = 0
    dropped: int = 0
    evicted: int = 0


@attrs.frozen
class FleetPhraseTotals:
    """Phrases on the server, and their bytes."""

    phrases: int
    bytes: int


class SeenClears(Protocol):
    """Phrases on the disk of a gateway, which remember over a restart which clears of the fleet they have followed."""

    async def seen_clears(self) -> int | None:
        """Return the number of the latest clear that was followed; None if there are no phrases. Raise StoreUnavailable."""

    async def note_clears(self, number: int) -> None:
        """Note the number of the latest clear that was followed. Raise StoreUnavailable."""


class _Queued(NamedTuple):
    key: bytes
    phrase: KeptPhrase
    size: int
    clears: int
    """Clears of the fleet that were known when the phrase was put."""


class SharedPhrases:
    """`put`, `touch`, `may_have` and `may_begin` are called on the event loop, never wait and never raise.

    `connect` opens a connection and raises BankUnreachable; `wait_s`: longest wait of a request; `forget` makes this gateway forget
    phrases that another one has cleared; `disk`: the phrases on its disk, if it has any there.
    """

    is_shared = True

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[ValkeyPhrases]], secret: Secret, previous: Secret, *, max_bytes: int,
        wait_s: float, forget: Callable[[PhraseClear], Awaitable[None]], disk: SeenClears | None = None,
    ) -> None:  # fmt: skip
        self.max_bytes = max_bytes
        self.counters, self.totals = FleetPhraseCounters(), FleetPhraseTotals(0, 0)
        self.trouble = ""
        self._connect, self._wait_s, self._forget, self._disk = connect, wait_s, forget, disk
        self._vault = Vault(secret, (previous,) if previous else ())
        self._server: ValkeyPhrases | None = None
        self._is_away = True
        self._generation, self._number, self._clears = "", 0, 0
        self._own_clears: set[int] = set()
        self._cipher: PhraseCipher | None = None
        self._index = PhraseIndex(_KEY_BITS, _MARK_BITS)
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._touched: set[bytes] = set()
        self._wake, self._syncing = trio.Event(), trio.Lock()

    # ------------------------------------------------------------------ on the event loop

    def put(self, key: bytes, phrase: KeptPhrase) -> None:
        """Take a phrase over, to be stored soon."""
        if phrase.size > min(MOST_BYTES, self.max_bytes):
            self.counters.too_large += 1
        elif len(self._queue) >= QUEUED or self._queued_bytes + phrase.size > QUEUED_BYTES:
            self.counters.dropped += 1
        else:
            self._queue.append(_Queued(key, phrase, phrase.size, self._clears))
            self._queued_bytes += phrase.size
            self._wake.set()

    def touch(self, key: bytes) -> None:
        """Note that a phrase was used."""
        if len(self._touched) < TOUCHED:
            self._touched.add(key)

    def may_have(self, key: bytes) -> bool:
        """Return whether the server may have a phrase."""
        return self._index.may_have(key)

    def may_begin(self, mark: bytes) -> bool:
        """Return whether a text that the server has may begin as a mark says. Not before all of them are known."""
        return self._index.may_begin(mark)

    @property
    def knows_all(self) -> bool:
        """Return whether everything is known that the server has."""
        return self._index.is_whole

    # ------------------------------------------------------------------ beside it

    async def load(self, key: bytes) -> KeptPhrase | None:
        """Return a phrase of the server; None if it has none, or does not answer in time."""
        cipher, server = self._cipher, self._server
        if cipher is None:
            return None
        hashed, body, answered = cipher.hashed(key), None, False
        if server is not None and not self._is_away:
            with suppress(BankUnreachable), trio.move_on_after(self._wait_s):
                body = await server.get(hashed)
                answered = True
            self._is_away = not answered
        self.counters.unanswered += not answered
        if body is None:
            return None
        try:
            phrase = cipher.open(body, hashed)
        except (ValueError, msgspec.MsgspecError):
            return None  # it is of another generation, which `run` comes to know
        self.counters.loaded += 1
        return phrase

    async def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int:
        """Delete the phrases of a project, a model or a voice, or all, at all gateways; return how many the server had.

        Raise BankUnreachable: the server keeps what it has, or deletes it when it answers again, if the command has reached it.
        """
        if self._server is None:
            raise BankUnreachable(address="fleet.valkey", why=self.trouble or "there is no connection yet")
        number, count = await self._server.clear(PhraseClear(project, model_id, voice))
        self._own_clears.add(number)
        return count

    async def run(self) -> None:
        """Store and follow until cancelled; then store what is left. A server that is away is tried again: no failure ends it."""
        while True:
            try:
                async with self._connect() as server:
                    await self._serve(server)
            except BankUnreachable as error:
                self._note_trouble(error.message)
            await trio.sleep(FOLLOW_S)

    async def _serve(self, server: ValkeyPhrases) -> None:
        self._server = server
        try:
            while True:
                try:
                    await self.sync()
                except GwError as error:
                    self._note_trouble(error.message)
                    await trio.sleep(FOLLOW_S)
                with trio.move_on_after(FOLLOW_S):
                    await self._wake.wait()
        finally:
            with trio.move_on_after(CLOSE_S, shield=True), suppress(GwError):
                await self._flush(server)
            self._server, self._is_away = None, True

    async def sync(self) -> None:
        """Learn what has changed on the server, and store what was put. Raise BankUnreachable, StoreUnavailable, FleetSecretDiffers."""
        async with self._syncing:
            server = self._server
            if server is None:
                raise BankUnreachable(address="fleet.valkey", why=self.trouble or "there is no connection yet")
            self._wake = trio.Event()
            try:
                await self._follow(server)
                await self._flush(server)
            except GwError:
                self._is_away = True
                raise
            self._is_away, self.trouble = False, ""

    def _note_trouble(self, why: str) -> None:
        if why != self.trouble:
            _log.error("phrases_not_shared", why=why)
        self.trouble = why

    # ------------------------------------------------------------------ what others do

    async def _follow(self, server: ValkeyPhrases) -> None:
        """Learn what has changed on the server."""
        is_last = False
        while not is_last:
            news = await server.news(self._generation, self._number, self._clears, None)
            if news is None:
                news = await server.news(self._generation, self._number, self._clears, await self._begin())
                assert news is not None
            if news.generation != self._generation:
                await self._begin_generation(server, news)
                continue
            await self._apply_clears(news)
            for hashed, marks in news.added:
                self._index.note(hashed, marks)
            self._number, is_last = news.number, news.is_last
            self.totals = FleetPhraseTotals(news.phrases, news.stored_bytes)
        self._index.is_whole = True

    async def _begin(self) -> tuple[str, bytes]:
        """Return the name of a new generation, and its sealed key."""
        key = Secret(base64.b64encode(ContentCipher.new_key()).decode())
        sealed = await trio.to_thread.run_sync(lambda: self._vault.encrypt(key, provider=_KEY_OF, origin=""))
        return secrets.token_hex(8), sealed

    async def _begin_generation(self, server: ValkeyPhrases, news: FleetPhraseNews) -> None:
        """Begin to know what the server has. Raise BankUnreachable, StoreUnavailable, and FleetSecretDiffers if the key cannot be read."""
        self._cipher = self._index.hashes = None
        self._index.is_whole = False
        try:
            key = await trio.to_thread.run_sync(lambda: self._vault.decrypt(news.sealed_key, provider=_KEY_OF, origin=""))
        except KeyDecryptError:
            raise FleetSecretDiffers from None
        if len(self._vault.secrets) > 1:  # from now on the secret that GW_SECRET replaces is not needed
            await server.replace_key(news, await trio.to_thread.run_sync(lambda: self._vault.rotate(news.sealed_key, provider=_KEY_OF)))
        seen = None if self._generation or self._disk is None else await self._disk.seen_clears()
        self._index.clear()
        self._cipher = self._index.hashes = PhraseCipher(base64.b64decode(key.reveal()))
        self._generation, self._number = news.generation, 0
        self._clears = news.clears if seen is None else min(seen, news.clears)
        self._queue = deque(queued._replace(clears=news.clears) for queued in self._queue)

    async def _apply_clears(self, news: FleetPhraseNews) -> None:
        """Forget what other gateways have cleared. Raise StoreUnavailable."""
        if news.clears - self._clears > CLEARS:
            await self._forget(PhraseClear())
        for number, which in news.cleared:
            if number not in self._own_clears:
                await self._forget(which)
        self._own_clears = {number for number in self._own_clears if number > news.clears}
        if self._disk is not None and news.clears != self._clears:
            await self._disk.note_clears(news.clears)
        self._clears = news.clears

    # ------------------------------------------------------------------ what this gateway does

    async def _flush(self, server: ValkeyPhrases) -> None:
        """Store everything that was put so far, and the uses that were noted. Raise BankUnreachable."""
        cipher = self._cipher
        while self._queue and cipher is not None:
            queued = self._queue[0]
            await self._store(server, cipher, queued.key, queued.phrase, queued.clears)
            self._queue.popleft()  # only now: one that could not be stored is tried again
            self._queued_bytes -= queued.size
        if self._touched and cipher is not None:
            touched, self._touched = self._touched, set()
            self.counters.evicted += await server.touch([cipher.hashed(key) for key in touched], self.max_bytes)

    async def _store(self, server: ValkeyPhrases, cipher: PhraseCipher, key: bytes, phrase: KeptPhrase, clears: int) -> None:
        hashed, marks = cipher.hashed(key), b"".join(map(cipher.hashed_mark, phrase.marks()))
        sealed = FleetPhrase(
            hashed=hashed, takes=len(phrase.takes), project=phrase.project, model_id=phrase.model_id, voice=phrase.voice, marks=marks,
            body=cipher.seal(phrase, hashed),
        )  # fmt: skip
        stored, evicted = await server.put(sealed, self._generation, clears, self.max_bytes)
        if stored:
            self._index.note(hashed, marks)
        self.counters.stored += stored
        self.counters.dropped += not stored
        self.counters.evicted += evicted

