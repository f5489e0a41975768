"""An engine in a process of its own, one request at a time: the gateway's side.

Both sides speak Wyoming over the process's pipes (`gw.wire.wyoming`). The engine says `info` once it has loaded its model,
or `error`; then it ends every request with one `transcript`, `audio-stop` or `error`, also one that is given up.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from gw.engines.process import EngineBroken, OwnedProcess, require, running
from gw.errors import ProviderFailed
from gw.wire import wyoming
from gw.wire.wyoming import Message

ANSWERS: Final = 64
"""Messages that wait for a request that does not read; then the engine waits too."""
WRITE_S: Final = 5.0
"""An engine reads at all times. One that does not for so long has hung, and half a message may stand in its pipe."""
_ENDS = (wyoming.WholeTranscript, wyoming.AudioStop, wyoming.Failed)


def command(module: str, options: Mapping[str, object]) -> list[str]:
    """How an engine of ours is started; `options` become `--name=value`."""
    return [sys.executable, "-m", module, *(f"--{name}={value}" for name, value in sorted(options.items()))]


def worker(module: str, options: Mapping[str, object]) -> Worker:
    """The engine of these options, started now where it does not run."""
    return running(command(module, options), Worker)


@asynccontextmanager
async def at_engine(
    module: str, needs: Sequence[str], extra: str, options: Mapping[str, object], provider: str
) -> AsyncIterator[Asking]:
    """One request at the engine of these options. Raises PluginMissing, ProviderFailed."""
    require(needs, extra, provider)
    async with worker(module, options).ask(provider) as asking:
        yield asking


class Worker(OwnedProcess):
    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.info = wyoming.Info()
        self._free = trio.Semaphore(1)
        self._writing = trio.Lock()
        self._stdin: trio.abc.SendStream | None = None
        self._asking: Asking | None = None
        self._lost = self._lose

    @asynccontextmanager
    async def ask(self, provider: str) -> AsyncIterator[Asking]:
        """The engine to oneself. Leaving before its answer has ended gives the request up. Raises ProviderFailed."""
        await self.wait_ready(provider)
        await self._free.acquire()
        if self.over:
            self._free.release()
            raise self.failure(provider)
        asking = self._asking = Asking(self, provider)
        try:
            yield asking
        finally:
            asking.close()
            if not asking.begun:
                self._done(asking)
            elif self._asking is asking:
                with trio.CancelScope(shield=True):
                    await self._write(asking, (wyoming.Abort(),))

    async def _write(self, asking: Asking, messages: Sequence[Message]) -> bool:
        """False when the engine is gone. Never left half-way: the next request's messages follow in the same pipe."""
        with trio.move_on_after(WRITE_S, shield=True):
            async with self._writing:
                if self._asking is not asking or self._stdin is None:
                    return not self.over
                try:
                    await self._stdin.send_all(b"".join(map(wyoming.encode, messages)))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
            return True
        self._end("its engine reads no more")
        return False

    def _done(self, asking: Asking) -> None:
        if self._asking is asking:
            self._asking = None
            self._free.release()

    def _lose(self) -> None:
        asking, self._stdin = self._asking, None
        if asking is not None:
            asking.lose()
            self._done(asking)

    async def _use(self, process: trio.Process) -> None:
        self._stdin = process.stdin
        assert process.stdout is not None
        decoder = wyoming.Decoder(lambda detail: EngineBroken(f"its engine speaks nonsense: {detail}"))
        async for data in process.stdout:
            for message in decoder.feed(bytes(data)):
                await self._told(message)

    async def _told(self, message: Message) -> None:
        if not self.ready.is_set():
            if isinstance(message, wyoming.Failed):
                self._end(f"its engine cannot load: {message.text[:200]}")
            elif isinstance(message, wyoming.Info):
                self.info = message
                self.ready.set()
            return
        asking = self._asking
        if asking is None:
            return
        await asking.put(message)
        if isinstance(message, _ENDS):
            self._done(asking)


class Asking:
    """One request at an engine."""

    def __init__(self, engine: Worker, provider: str) -> None:
        self.begun = False
        self._engine = engine
        self._provider = provider
        self._answers, self._reading = trio.open_memory_channel[Message](ANSWERS)

    async def send(self, *messages: Message) -> None:
        """Raises ProviderFailed."""
        self.begun = True
        if not await self._engine._write(self, messages):
            raise self._engine.failure(self._provider)

    async def receive(self) -> Message:
        """Raises ProviderFailed when the engine has ended."""
        try:
            return await self._reading.receive()
        except trio.EndOfChannel:
            raise self._failure() from None

    def _failure(self) -> ProviderFailed:
        return self._engine.failure(self._provider)

    async def put(self, message: Message) -> None:
        """From the engine; dropped where nobody reads."""
        try:
            await self._answers.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    def lose(self) -> None:
        """Nothing more will come."""
        self._answers.close()

    def close(self) -> None:
        self._reading.close()
