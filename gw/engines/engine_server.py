"""The process's side of an engine in a child process. Plain threads, no trio; only `gw.wire.wyoming` is shared.

One thread reads requests and notes which of them are aborted; the main thread serves them, one after the other. When the
gateway's end of the pipe closes, the process exits, whatever it is doing.
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
_MOST_AUDIO: Final = 512 * 2**20  # four and a half hours at 16 kHz
_ENDS = (wyoming.FinalTranscript, wyoming.AudioStop, wyoming.ErrorMessage)


class BadRequest(ValueError):
    """A request that this engine cannot serve; its text is the code of the reason (`voice`, `language`, `request`)."""


class Job:
    """A complete request. `audio` of a transcription: 16-bit samples, 16 kHz, mono."""

    def __init__(self, request: wyoming.Transcribe | wyoming.Synthesize, inbox: Inbox, number: int) -> None:
        self.request = request
        self.audio = bytearray()
        self._inbox = inbox
        self._number = number

    @property
    def aborted(self) -> bool:
        return self._number <= self._inbox.aborted


Work = Callable[[Job], Iterator[Message]]
"""Returns the answer in pieces, its end included. Raises BadRequest."""


class Inbox:
    """Requests in order."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        """At most one waits: the gateway sends the next request after the answer has ended."""
        self.aborted = 0  # number of the last aborted request; all before it have ended
        self._number = 0
        self._open: Job | None = None  # request whose audio is still arriving

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
                self.aborted = self._number
                self._close()

    def _close(self) -> None:
        job, self._open = self._open, None
        if job is not None:
            self.jobs.put(job)


def _read(descriptor: int, inbox: Inbox) -> None:
    """Read requests until the gateway is gone, then exit this process."""
    try:
        decoder = wyoming.WyomingDecoder(ValueError)
        while data := os.read(descriptor, _READ_BYTES):
            for message in decoder.feed(data):
                inbox.put(message)
    finally:
        os._exit(0)


def answers(job: Job, work: Work) -> Iterator[Message]:
    """Yield the answer to a job, with exactly one end, whatever happens. Errors are reported by their class name alone."""
    ended = False
    try:
        if not job.aborted:
            for message in work(job):
                ended = isinstance(message, _ENDS)
                yield message
                if ended or job.aborted:
                    break
    except BadRequest as error:
        yield wyoming.ErrorMessage(text=str(error), code=str(error))
    except Exception as error:
        yield wyoming.ErrorMessage(text=type(error).__name__, code="failed")
    else:
        if not ended:
            yield wyoming.ErrorMessage(text="aborted", code="aborted")


def serve(load: Callable[[], tuple[Work, wyoming.Info]]) -> None:
    """Load, send `info`, then serve requests until the gateway is gone.

    Standard output becomes standard error, so that libraries that print do not write into the pipe.
    """
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def send(message: Message) -> None:
        data = memoryview(wyoming.encode(message))
        while data:
            data = data[os.write(sink, data) :]

    inbox = Inbox()
    Thread(target=_read, args=(source, inbox), daemon=True).start()
    try:
        work, info = load()
    except Exception as error:
        send(wyoming.ErrorMessage(text=f"{type(error).__name__}: {error}"[:300]))
        return
    send(info)
    while True:
        job = inbox.jobs.get()
        for message in answers(job, work):
            send(message)


def options(arguments: Sequence[str]) -> dict[str, str]:
    """Return `--name=value` arguments as name → value."""
    pairs = (argument.removeprefix("--").partition("=") for argument in arguments)
    return {name: value for name, _, value in pairs}
