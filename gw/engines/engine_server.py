"""An engine in a process of its own: the process's side. Plain threads, no trio; only `gw.wire.wyoming` is shared.

One thread reads requests and notes which of them are given up; the main one works on them, one after the other. When the
gateway's end of the pipe closes, the process is gone, whatever it does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Final

from gw.wire import wyoming
from gw.wire.wyoming import Message

_READ_BYTES: Final = 65_536
_MOST_AUDIO: Final = 512 * 2**20
"""Four and a half hours at 16 kHz."""
_ENDS = (wyoming.WholeTranscript, wyoming.AudioStop, wyoming.Failed)


class BadRequest(ValueError):
    """What was asked cannot be done; `code` says what of it (`voice`, `language`, `request`)."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Job:
    """A request, whole. `audio` for a transcription: 16-bit samples, 16 kHz, mono."""

    def __init__(self, asked: wyoming.Transcribe | wyoming.Synthesize, inbox: Inbox, number: int) -> None:
        self.asked = asked
        self.audio = bytearray()
        self._inbox = inbox
        self._number = number

    @property
    def given_up(self) -> bool:
        """Nobody waits for it any more."""
        return self._number <= self._inbox.given_up


Work = Callable[[Job], Iterator[Message]]
"""The answer in pieces, its end included. Raises BadRequest."""


class Inbox:
    """What was asked, in order."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        """Never more than one waits: the gateway asks again when the answer before has ended."""
        self.given_up = 0
        """Every request up to this number."""
        self._number = 0
        self._open: Job | None = None
        """Its audio still comes."""

    def put(self, message: Message) -> None:
        match message:
            case wyoming.Synthesize():
                self._number += 1
                self.jobs.put(Job(message, self, self._number))
            case wyoming.Transcribe():
                self._number += 1
                self._open = Job(message, self, self._number)
            case wyoming.AudioPiece(audio=data) if self._open is not None and len(self._open.audio) < _MOST_AUDIO:
                self._open.audio += data
            case wyoming.AudioStop():
                self._close()
            case wyoming.Abort():
                self.given_up = self._number
                self._close()

    def _close(self) -> None:
        job, self._open = self._open, None
        if job is not None:
            self.jobs.put(job)


class NotAnEvent(Exception):
    pass


def _read(descriptor: int, inbox: Inbox) -> None:
    """Until the gateway is gone; then so is this process."""
    try:
        decoder = wyoming.Decoder(NotAnEvent)
        while data := os.read(descriptor, _READ_BYTES):
            for message in decoder.feed(data):
                inbox.put(message)
    finally:
        os._exit(0)


def answers(job: Job, work: Work) -> Iterator[Message]:
    """What `work` says to a job, and exactly one end of it, whatever happens. What went wrong is told by its kind alone."""
    ended = False
    try:
        if not job.given_up:
            for message in work(job):
                ended = isinstance(message, _ENDS)
                yield message
                if ended or job.given_up:
                    break
    except BadRequest as error:
        yield wyoming.Failed(text=str(error), code=error.code)
    except Exception as error:
        yield wyoming.Failed(text=type(error).__name__, code="failed")
    else:
        if not ended:
            yield wyoming.Failed(text="given up", code="given_up")


def serve(load: Callable[[], tuple[Work, wyoming.Info]]) -> None:
    """Load, say so, then work on what is asked until the gateway is gone.

    Libraries that print must not speak into the pipe: standard output becomes standard error.
    """
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def say(message: Message) -> None:
        data = memoryview(wyoming.encode(message))
        while data:
            data = data[os.write(sink, data) :]

    inbox = Inbox()
    Thread(target=_read, args=(source, inbox), daemon=True).start()
    try:
        work, info = load()
    except Exception as error:
        say(wyoming.Failed(text=f"{type(error).__name__}: {error}"[:300]))
        return
    say(info)
    while True:
        job = inbox.jobs.get()
        for message in answers(job, work):
            say(message)


def options(arguments: Sequence[str]) -> dict[str, str]:
    """`--name=value` → name: value."""
    pairs = (argument.removeprefix("--").partition("=") for argument in arguments)
    return {name: value for name, _, value in pairs}
