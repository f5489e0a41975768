"""Takes captured pieces from a worker to the keeper, which stores them: a bounded queue, one task, a thread that makes the content."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec
import structlog
import trio

from gw.store.capture_writer import QUEUED, QUEUED_BYTES
from gw.types.captured import Piece
from gw.workers.messages import CapturedContent

_log = structlog.get_logger("gw.workers")


class CaptureForwarder:
    """Implements `gw.relay.accounting.CaptureSink`."""

    def __init__(self, send: Callable[[msgspec.Struct], bool]) -> None:
        """`send` returns False when nobody takes messages any more."""
        self.lost = 0
        """Pieces that were taken over and could not be passed on."""
        self._send = send
        self._queue: deque[Piece] = deque()
        self._queued_bytes = 0
        self._wake = trio.Event()
        self._passing_on = trio.Lock()

    def put(self, piece: Piece) -> bool:
        """Take over a piece; return whether there was room. Never waits."""
        if len(self._queue) >= QUEUED or self._queued_bytes + piece.size > QUEUED_BYTES:
            return False
        self._queue.append(piece)
        self._queued_bytes += piece.size
        self._wake.set()
        return True

    async def run(self) -> None:
        """Pass on until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await self.flush()

    async def flush(self) -> None:
        """Pass on everything that was put so far."""
        async with self._passing_on:
            while self._queue:
                piece = self._queue.popleft()
                self._queued_bytes -= piece.size
                content = await trio.to_thread.run_sync(piece.make)
                message = CapturedContent(
                    request_id=piece.request_id, project=piece.project, at=piece.at, expires_at=piece.expires_at, kind=piece.kind,
                    part=piece.part, content=content, presidio=piece.presidio,
                )  # fmt: skip
                if not self._send(message):
                    self._note_lost()

    def _note_lost(self) -> None:
        if not self.lost:
            _log.error("capture_not_written", why="the keeper process is gone")
        self.lost += 1
