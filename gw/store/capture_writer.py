"""Takes captured pieces to the capture file, away from the requests: a bounded queue, one task, one thread.

    put ──▶ queue (QUEUED pieces, QUEUED_BYTES) ──GATHER_S or flush──▶ thread: make, seal, insert, delete the oldest beyond max_mb
     └──▶ full: the piece is dropped and counted, and the request's record says so        every PRUNE_EVERY_S: delete what is due

Nothing here may fail a request. A fault of the disk drops what was being written, is counted, logged once and shown as
the problem `capture_not_written`. The file is opened when the first piece comes, or if it exists, because what is in it
is deleted on time also by a gateway that captures nothing any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import structlog
import trio

from gw.config.settings import Settings
from gw.errors import GwError
from gw.store.capture_content import Contents
from gw.store.capture_file import CaptureFile, capture_path
from gw.telemetry.clock import Clock
from gw.types.captured import CapturedPiece, CaptureSummary, Piece, PieceKind
from gw.vault import ContentCipher

T = TypeVar("T")

QUEUED = 2_000
QUEUED_BYTES = 32 * 2**20
BATCH = 50  # pieces in one transaction
GATHER_S = 0.25
PRUNE_EVERY_S = 60.0
CLOSE_S = 3.0  # deadline for the last pieces at the end; what is not stored by then is lost, and counted

_log = structlog.get_logger("gw.store")


@attrs.define
class CaptureCounters:
    """Pieces since the start. `dropped`: the queue was full; `failed`: they could not be written; `evicted`: for max_mb."""

    stored: int = 0
    dropped: int = 0
    failed: int = 0
    expired: int = 0
    evicted: int = 0
    forgotten: int = 0


class CaptureStore:
    """`put` is called on the event loop, never waits and never raises. `key`: the key of the content, asked for once."""

    def __init__(
        self, db_path: Path, clock: Clock, *, max_bytes: int, key: Callable[[], Awaitable[bytes]],
        keep_s: Callable[[], Mapping[str, float]],
    ) -> None:  # fmt: skip
        self.path = capture_path(db_path)
        self.max_bytes = max_bytes
        self.counters = CaptureCounters()
        self.trouble = ""
        self._clock = clock
        self._key = key
        self._keep_s = keep_s
        self._file: CaptureFile | None = None
        self._contents = Contents()
        self._cipher: ContentCipher | None = None
        self._queue: deque[Piece] = deque()
        self._queued_bytes = 0
        self._sleeping: trio.CancelScope | None = None
        self._limiter = trio.CapacityLimiter(1)
        self._writing = trio.Lock()

    def put(self, piece: Piece) -> bool:
        """Take over a piece; return whether there was room."""
        if len(self._queue) >= QUEUED or self._queued_bytes + piece.size > QUEUED_BYTES:
            self.counters.dropped += 1
            return False
        self._queue.append(piece)
        self._queued_bytes += piece.size
        if len(self._queue) == 1 and self._sleeping is not None:  # not woken now: the request goes first
            self._sleeping.deadline = min(self._sleeping.deadline, trio.current_time() + GATHER_S)
        return True

    @property
    def depth(self) -> int:
        return len(self._queue)

    @property
    def bytes(self) -> int:
        """Return the size of what is stored, as far as the file was opened."""
        return 0 if self._file is None else self._file.bytes

    async def run(self) -> None:
        """Store and delete until cancelled; then store what is left."""
        try:
            while True:
                await self.prune()
                due = trio.current_time() + PRUNE_EVERY_S
                while trio.current_time() < due:
                    with trio.CancelScope(deadline=trio.current_time() + GATHER_S if self._queue else due) as self._sleeping:
                        await trio.sleep_forever()
                    self._sleeping = None
                    await self.flush()
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self.flush()
            if self._queue:
                _log.warning("capture_left_out", pieces=len(self._queue))
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close, limiter=self._limiter)

    def _close(self) -> None:
        self._contents.close()
        if self._file is not None:
            self._file.close()

    async def flush(self) -> None:
        """Store everything that was put so far."""
        async with self._writing:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                self._queued_bytes -= sum(piece.size for piece in batch)
                await self._store(batch)

    async def _store(self, batch: list[Piece]) -> None:
        try:
            cipher = await self._opened_cipher()
            add = partial(_add, batch=batch, cipher=cipher, content_of=self._contents.of, max_bytes=self.max_bytes)
            stored, evicted = await self._in_thread(add)
        except GwError as error:
            self.counters.failed += len(batch)
            self._note_trouble(error.message)
            return
        self._note_trouble(self._contents.trouble)
        self.counters.stored += stored
        self.counters.failed += len(batch) - stored
        self.counters.evicted += evicted

    async def prune(self) -> None:
        """Delete what is due."""
        if self._file is None and not self.path.exists():
            return
        try:
            now, keep_s = self._clock.now(), dict(self._keep_s())
            self.counters.expired += await self._in_thread(lambda file: file.prune(now, keep_s))
        except GwError as error:
            self._note_trouble(error.message)

    def _note_trouble(self, why: str) -> None:
        if why and why != self.trouble:
            _log.error("capture_not_written", why=why)
        self.trouble = why

    async def _opened_cipher(self) -> ContentCipher:
        if self._cipher is None:
            self._cipher = ContentCipher(await self._key())
        return self._cipher

    async def _in_thread(self, work: Callable[[CaptureFile], T]) -> T:
        def run() -> T:
            if self._file is None:
                self._file = CaptureFile(self.path)
            return work(self._file)

        return await trio.to_thread.run_sync(run, limiter=self._limiter)

    # ------------------------------------------------------------------ what was stored

    async def read(self, request_ids: Collection[str], kind: PieceKind) -> list[CapturedPiece]:
        """Return what was captured of these requests until now. Raises StoreUnavailable, KeyDecryptError."""
        await self.flush()
        if not self.path.exists():
            return []
        cipher, now = await self._opened_cipher(), self._clock.now()
        return await self._in_thread(lambda file: file.read(request_ids, kind, now, cipher))

    async def known(self, request_ids: Collection[str]) -> dict[str, set[PieceKind]]:
        """Return which of these requests have something stored, and of which kinds. Raises StoreUnavailable."""
        await self.flush()
        if not self.path.exists():
            return {}
        now = self._clock.now()
        return await self._in_thread(lambda file: file.known(request_ids, now))

    async def texts_before(self, before: int | None, limit: int) -> list[tuple[int, CapturedPiece]]:
        """Return the newest texts stored before the one with this number, with their numbers. Raises StoreUnavailable."""
        if not self.path.exists():
            return []
        cipher, now = await self._opened_cipher(), self._clock.now()
        return await self._in_thread(lambda file: file.texts_before(before, limit, now, cipher))

    async def forget(self, request_ids: Collection[str]) -> int:
        """Delete what was captured of these requests until now; return how many pieces that were. Raises StoreUnavailable."""
        await self.flush()
        if not self.path.exists():
            return 0
        deleted = await self._in_thread(lambda file: file.forget(request_ids))
        self.counters.forgotten += deleted
        return deleted

    async def summary(self) -> CaptureSummary:
        await self.flush()
        if not self.path.exists():
            return CaptureSummary(requests=0, pieces=0, bytes=0, oldest_at=None)
        return await self._in_thread(CaptureFile.summary)


def _add(
    file: CaptureFile, *, batch: list[Piece], cipher: ContentCipher, content_of: Callable[[Piece], bytes], max_bytes: int
) -> tuple[int, int]:
    return file.add(batch, cipher, content_of), file.evict(max_bytes)


def capture_store_of(
    settings: Settings, clock: Clock, key: Callable[[], Awaitable[bytes]], keep_s: Callable[[], Mapping[str, float]]
) -> CaptureStore | None:
    """Return what keeps captured content by the settings; None without a secret to encrypt it with."""
    if not settings.secret:
        return None
    most_bytes = int(settings.capture.max_mb * 1_000_000)
    return CaptureStore(settings.cost_tracking.db_path, clock, max_bytes=most_bytes, key=key, keep_s=keep_s)
