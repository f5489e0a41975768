"""Keeps phrases on a disk, away from the requests: a bounded queue, one task, and threads for the file.

    put ──▶ queue (QUEUED phrases, QUEUED_BYTES) ──GATHER_S──▶ thread: seal, insert, delete what was not used for longest
     └──▶ full: the phrase stays in memory only, and is counted
    load ──▶ thread: read, open

Which phrases are in the file is known in a fixed piece of memory (`gw.policy.phrase_index`), so that a text that is not there costs no
read. The file is read once at the start for that; until then every key may be there. A fault of the disk is logged once, and the
cache goes on with its memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import structlog
import trio

from gw.config.settings import Settings
from gw.errors import GwError
from gw.policy.phrase_cache import KeptPhrase
from gw.policy.phrase_index import PhraseIndex
from gw.store.phrase_file import PhraseFile, PhraseTotals, phrase_path
from gw.telemetry.clock import Clock
from gw.vault import PhraseCipher

T = TypeVar("T")

QUEUED = 500
QUEUED_BYTES = 32 * 2**20
BATCH = 20  # phrases in one transaction
TOUCHED = 10_000  # phrases whose use is still to be noted; the use of others is not
GATHER_S = 1.0
CLOSE_S = 3.0  # deadline for the last phrases at the end; what is not stored by then is spoken again
READERS = 4  # threads that read
BREATH_S = 0.0005  # pause after each portion of the thread that reads the file at the start, so that the event loop runs beside it
KEY_BITS = 2**25

_log = structlog.get_logger("gw.store")


@attrs.define
class PhraseCounters:
    """Phrases since the start. `dropped`: the queue was full; `failed`: they could not be written; `evicted`: for the limit."""

    stored: int = 0
    loaded: int = 0
    dropped: int = 0
    failed: int = 0
    evicted: int = 0


class PhraseStore:
    """`put` and `touch` are called on the event loop, never wait and never raise. `key`: the key of the content."""

    is_shared = False

    def __init__(self, db_path: Path, clock: Clock, *, max_bytes: int, key: Callable[[], Awaitable[bytes]]) -> None:
        self.path = phrase_path(db_path)
        self.max_bytes = max_bytes
        self.counters = PhraseCounters()
        self.totals = PhraseTotals(0, 0)
        self.trouble = ""
        self._clock = clock
        self._key = key
        self._cipher: PhraseCipher | None = None
        self._file: PhraseFile | None = None
        self._readers: list[PhraseFile] = []
        self._index = PhraseIndex(KEY_BITS)
        self._queue: deque[tuple[bytes, KeptPhrase]] = deque()
        self._queued_bytes = 0
        self._touched: set[bytes] = set()
        self._writing = trio.Lock()
        self._writer, self._reading = trio.CapacityLimiter(1), trio.CapacityLimiter(READERS)

    # ------------------------------------------------------------------ on the event loop

    def put(self, key: bytes, phrase: KeptPhrase) -> None:
        """Take a phrase over, to be stored soon."""
        if len(self._queue) >= QUEUED or self._queued_bytes + phrase.size > QUEUED_BYTES:
            self.counters.dropped += 1
            return
        self._queue.append((key, phrase))
        self._queued_bytes += phrase.size

    def touch(self, key: bytes) -> None:
        """Note that a phrase was used."""
        if len(self._touched) < TOUCHED:
            self._touched.add(key)

    def may_have(self, key: bytes) -> bool:
        """Return whether a phrase may be in the file."""
        return self._index.may_have(key)

    def may_begin(self, mark: bytes) -> bool:
        """Return whether a text in the file may begin as a mark says. Not before the file was read."""
        return self._index.may_begin(mark)

    @property
    def knows_all(self) -> bool:
        """Return whether the file was read."""
        return self._index.is_whole

    # ------------------------------------------------------------------ beside it

    async def load(self, key: bytes) -> KeptPhrase | None:
        """Return a phrase of the file; None if it has none, or cannot be read."""
        cipher = self._cipher
        if cipher is None:
            return None
        try:
            phrase = await trio.to_thread.run_sync(self._read, key, cipher, limiter=self._reading)
        except GwError as error:
            self._note_trouble(error.message)
            return None
        if phrase is not None:
            self.counters.loaded += 1
        return phrase

    def _read(self, key: bytes, cipher: PhraseCipher) -> KeptPhrase | None:
        file = self._readers.pop() if self._readers else PhraseFile(self.path, read_only=True)
        try:
            return file.read(key, cipher)
        finally:
            self._readers.append(file)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Store until cancelled; then store what is left. It is started once phrases can be stored and loaded."""
        try:
            try:
                self._cipher = self._index.hashes = PhraseCipher(await self._key())
                await self._in_thread(lambda file: None)
            except GwError as error:
                self._note_trouble(error.message)
            task_status.started()
            await self._learn_all()
            while True:
                await trio.sleep(GATHER_S)
                await self.flush()
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self.flush()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close, limiter=self._writer)

    async def _learn_all(self) -> None:
        """Learn what is in the file."""
        try:
            await self._in_thread(self._learn)
            self._index.is_whole = True
        except GwError as error:
            self._note_trouble(error.message)

    def _learn(self, file: PhraseFile) -> None:
        for rows in file.hashes():
            for key, marks in rows:
                self._index.note(key, marks)
            time.sleep(BREATH_S)
        self.totals = file.totals

    def _close(self) -> None:
        for file in (*self._readers, *([self._file] if self._file is not None else ())):
            file.close()

    async def flush(self) -> None:
        """Store everything that was put so far, and the uses that were noted."""
        async with self._writing:
            cipher = self._cipher
            while self._queue and cipher is not None:
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                self._queued_bytes = sum(phrase.size for _, phrase in self._queue)
                for key, phrase in batch:
                    self._index.note(cipher.hashed(key), b"".join(map(cipher.hashed_mark, phrase.marks())))
                await self._write(partial(_store, batch=batch, now=self._clock.now(), cipher=cipher, most_bytes=self.max_bytes), len(batch))
            if self._touched and cipher is not None:
                touched, self._touched = self._touched, set()
                await self._write(lambda file: _touch(file, touched, self._clock.now(), cipher), 0)

    async def _write(self, work: Callable[[PhraseFile], int], count: int) -> None:
        try:
            evicted, self.totals = await self._in_thread(lambda file: (work(file), file.totals))
        except GwError as error:
            self.counters.failed += count
            self._note_trouble(error.message)
            return
        self.counters.stored += count
        self.counters.evicted += evicted
        self.trouble = ""

    async def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int:
        """Delete the phrases of a project, a model or a voice, or all; return how many those were. Raises StoreUnavailable."""
        await self.flush()

        def run(file: PhraseFile) -> int:
            return file.clear(project=project, model_id=model_id, voice=voice)

        async with self._writing:
            deleted, self.totals = await self._in_thread(lambda file: (run(file), file.totals))
            if not self.totals.phrases:
                self._index.clear()
        return deleted

    async def seen_clears(self) -> int | None:
        """Return the number of the latest clear of the fleet that was followed; None if there are no phrases. Raises StoreUnavailable."""
        return await self._in_thread(lambda file: file.seen_clears())

    async def note_clears(self, number: int) -> None:
        """Note the number of the latest clear of the fleet that was followed. Raises StoreUnavailable."""
        await self._in_thread(lambda file: file.note_clears(number))

    def _note_trouble(self, why: str) -> None:
        if why != self.trouble:
            _log.error("phrases_not_stored", why=why)
        self.trouble = why

    async def _in_thread(self, work: Callable[[PhraseFile], T]) -> T:
        def run() -> T:
            if self._file is None:
                self._file = PhraseFile(self.path)
            return work(self._file)

        return await trio.to_thread.run_sync(run, limiter=self._writer)


def phrase_store_of(settings: Settings, clock: Clock, key: Callable[[], Awaitable[bytes]]) -> PhraseStore | None:
    """Return what keeps phrases on the disk by the settings; None where nothing is kept there."""
    most_bytes = int(settings.routing.phrase_cache_disk_mb * 1_000_000)
    if not most_bytes or not settings.secret:
        return None
    return PhraseStore(settings.cost_tracking.db_path, clock, max_bytes=most_bytes, key=key)


def _store(
    file: PhraseFile, *, batch: list[tuple[bytes, KeptPhrase]], now: float, cipher: PhraseCipher, most_bytes: int
) -> int:
    file.add(batch, now, cipher)
    return file.evict(most_bytes)


def _touch(file: PhraseFile, keys: set[bytes], now: float, cipher: PhraseCipher) -> int:
    file.touch(keys, now, cipher)
    return 0
