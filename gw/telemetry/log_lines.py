"""The log of the daemon as a stream that never waits and never raises: a bounded queue, and one thread that writes.

Whatever reads the log may be slow, stuck or gone, and the disk behind it full. Calls go on; lines that cannot be kept are counted.

    written ──the queue is full, or a write fails──▶ in trouble: lines are dropped ──a write succeeds──▶ written, after a line
    that says how many were lost
"""

from __future__ import annotations

import atexit
import os
import select
import threading
import time
from queue import Empty, SimpleQueue
from typing import Final, TextIO

MAX_LINES: Final = 10_000
MAX_BYTES: Final = 8 * 2**20  # of lines that wait
_AT_ONCE: Final = 256  # lines in one write
_PAUSE_S: Final = 0.2  # after a write that failed
FLUSH_S: Final = 1.0  # for the last lines, when the process ends
_LOOK_S: Final = 1.0  # between two looks at a descriptor that takes no more


class LogLines:
    """Used like a text stream: `write` takes complete lines, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        """Write to the descriptor of `stream`. The thread begins with the first line."""
        self._descriptor = stream.fileno()
        self._is_terminal = stream.isatty()
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._put = self._queue.put
        self._bytes_put = self._bytes_taken = 0
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._lost_since = 0
        self.dropped = 0
        """Lines that nobody can read, since the start."""
        self.trouble = ""
        """Why lines are dropped now; empty = they are not."""

    def isatty(self) -> bool:
        return self._is_terminal

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def write(self, text: str) -> None:
        """Queue a line, or drop it when too many wait. Never blocks or raises."""
        if self._queue.qsize() >= MAX_LINES or self._bytes_put - self._bytes_taken > MAX_BYTES:
            self.dropped += 1
            self.trouble = self.trouble or "nobody reads the log"
            return
        self._bytes_put += len(text)
        self._put(text)
        if self._thread is None:
            self._start()

    def close(self, within_s: float = FLUSH_S) -> None:
        """Write what waits, for at most so long."""
        self._put(None)
        if self._thread is not None:
            self._thread.join(within_s)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gw-log", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _run(self) -> None:
        open_ = True
        while open_:
            lines = [self._queue.get()]
            try:
                while len(lines) < _AT_ONCE and lines[-1] is not None:
                    lines.append(self._queue.get_nowait())
            except Empty:
                pass
            open_ = lines[-1] is not None
            self._write_lines([line for line in lines if line is not None])

    def _write_lines(self, lines: list[str]) -> None:
        self._bytes_taken += sum(map(len, lines))
        text = "".join(lines)
        if self.dropped > self._lost_since:
            text = _lost_line(self.dropped - self._lost_since) + text
        lost = self.dropped  # more may be dropped while this is written: then the trouble is not over
        try:
            self._write_all(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            self.dropped += len(lines)
            self.trouble = error.strerror or type(error).__name__
            time.sleep(_PAUSE_S)
        else:
            self._lost_since = lost
            if self.dropped == lost:
                self.trouble = ""

    def _write_all(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody has made the pipe non-blocking
                select.select((), (self._descriptor,), (), _LOOK_S)


def _lost_line(count: int) -> str:
    return f'{{"level":"error","event":"log_lines_dropped","lines":{count}}}\n'
