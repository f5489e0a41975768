"""The gateway's side of Presidio: a process that is started by the first text, and used from one thread.

    none ──text──▶ starting ──first line──▶ ready ──text, answer──▶ ready
                      └────── too late, ended, error ──────┴──▶ failed ──RETRY_S and a text──▶ starting

A text that cannot be examined is not stored, so the thread may wait for the process: nothing else waits for this thread.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gw.engines.environment import child_environment

START_S: Final = 60.0  # a large model takes some seconds to load
ANSWER_S: Final = 20.0  # for the texts of one request, 400,000 characters at most
RETRY_S: Final = 60.0  # after a failure; until then every text fails at once
STOP_S: Final = 2.0
_READ_BYTES: Final = 2**16


class PresidioFailed(Exception):
    """Texts could not be examined, so they must not be stored. The message has no word of them."""


class _Answer(msgspec.Struct):
    texts: list[str] = []
    error: str = ""


class Presidio:
    """The process of one spaCy model. All methods block and belong to one thread."""

    def __init__(self, model: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.model = model
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = bytearray()
        self._not_before = 0.0
        self._why = ""

    def replace(self, texts: Sequence[str]) -> list[str]:
        """Return the texts with what Presidio recognises replaced. Raises PresidioFailed."""
        if self._process is None:
            self._start()
        answer = self._ask(msgspec.json.encode(list(texts)) + b"\n", ANSWER_S)
        if answer.error:
            raise PresidioFailed(f"Presidio with {self.model}: {answer.error}")
        if len(answer.texts) != len(texts):
            raise self._failed("answered with another number of texts")
        return answer.texts

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._buffer.clear()
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _start(self) -> None:
        if self._clock() < self._not_before:
            raise PresidioFailed(self._why)
        command = [sys.executable, "-m", "gw.engines.presidio_server", self.model]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=child_environment()
            )
        except OSError as error:
            raise self._failed(f"cannot be started: {error.strerror}") from None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        if why := self._ask(b"", START_S).error:
            raise self._failed(why)

    def _ask(self, data: bytes, patience_s: float) -> _Answer:
        """Send a line and return the answer. Both at once, because both pipes are bounded."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        until, unsent = self._clock() + patience_s, memoryview(data)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if unsent:
                selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while (end := self._buffer.find(b"\n")) < 0:
                ready = selector.select(max(0.0, until - self._clock()))
                if not ready:
                    raise self._failed(f"did not answer within {patience_s:g} s")
                for key, _ in ready:
                    if key.fileobj is self._process.stdout:
                        self._read()
                        continue
                    unsent = self._send(unsent)
                    if not unsent:
                        selector.unregister(self._process.stdin)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return msgspec.json.decode(line, type=_Answer)
        except msgspec.MsgspecError:
            raise self._failed("sent an invalid answer") from None

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), _READ_BYTES)
        if not data:
            raise self._failed("has ended")
        self._buffer += data

    def _send(self, unsent: memoryview) -> memoryview:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            return unsent[os.write(self._process.stdin.fileno(), unsent[:_READ_BYTES]) :]
        except OSError:
            raise self._failed("has ended") from None

    def _failed(self, why: str) -> PresidioFailed:
        """End the process, and start none for a while."""
        self._why = f"Presidio with {self.model}: {why}"
        self._not_before = self._clock() + RETRY_S
        self.close()
        return PresidioFailed(self._why)
