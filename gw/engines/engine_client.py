"""The gateway's side of an engine in a child process, which serves one request at a time.

Both sides speak Wyoming over the process's pipes (`gw.wire.wyoming`). The engine sends `info` once it has loaded its model,
or `error`; then it ends every request, also an aborted one, with one `transcript`, `audio-stop` or `error`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol

import structlog
import trio

from gw.engines.process import EngineBroken, OwnedProcess, process_of, require
from gw.wire import wyoming
from gw.wire.wyoming import Message

_log = structlog.get_logger("gw.engines")
MESSAGES: Final = 64  # messages that wait for a request that does not read; when full, the engine waits too
WRITE_S: Final = 5.0
"""An engine reads at all times. One that does not for this long has hung, with half a message in its pipe."""
ABORTED_S: Final = 60.0
"""For an engine to end an aborted request: it looks between two pieces of its work. One that does not has hung."""
_ENDS = (wyoming.FinalTranscript, wyoming.AudioStop, wyoming.ErrorMessage)


class EngineModule(Protocol):
    """Constants of a module run as a process: name, libraries, the extra that installs them, options of an entry."""

    MODULE: str
    NEEDS: tuple[str, ...]
    EXTRA: str
    OPTIONS: tuple[str, ...]


def engine_process(module: EngineModule, options: Mapping[str, object], provider: str) -> EngineProcess:
    """Return the engine with these options, started if it is not running. Raises PluginMissing."""
    require(module.NEEDS, module.EXTRA, provider)
    arguments = (f"--{name}={options[name]}" for name in sorted(module.OPTIONS) if name in options)
    return process_of([sys.executable, "-m", module.MODULE, *arguments], EngineProcess)


def engine_request(
    module: EngineModule, options: Mapping[str, object], provider: str
) -> AbstractAsyncContextManager[EngineRequest]:
    """Make one request to the engine with these options. Raises PluginMissing; when entered ProviderFailed."""
    return engine_process(module, options, provider).request(provider)


class EngineProcess(OwnedProcess):
    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.info = wyoming.Info()
        self._free = trio.Semaphore(1)
        self._writing = trio.Lock()
        self._stdin: trio.abc.SendStream | None = None
        self._current: EngineRequest | None = None
        self._aborted = trio.Event()

    @asynccontextmanager
    async def request(self, provider: str) -> AsyncIterator[EngineRequest]:
        """Reserve the engine. Leaving before its answer has ended aborts the request. Raises ProviderFailed."""
        await self.wait_ready(provider)
        await self._free.acquire()
        if self.over:
            self._free.release()
            raise self.failure(provider)
        request = self._current = EngineRequest(self, provider)
        try:
            yield request
        finally:
            request.messages.close()
            if not request.sent:
                self._release(request)
            elif self._current is request:
                with trio.CancelScope(shield=True):
                    await self.write(request, (wyoming.Abort(),))
                request.aborted_at = trio.current_time()
                self._aborted.set()

    async def write(self, request: EngineRequest, messages: Sequence[Message]) -> bool:
        """Write all of `messages`; return False if the engine has ended.

        Never left half-way: the next request's messages follow in the same pipe.
        """
        with trio.move_on_after(WRITE_S, shield=True):
            async with self._writing:
                if self._current is not request or self._stdin is None:
                    return not self.over
                try:
                    await self._stdin.send_all(b"".join(map(wyoming.encode, messages)))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
            return True
        self._end("its engine no longer reads requests")
        return False

    def _release(self, request: EngineRequest) -> None:
        if self._current is request:
            self._current = None
            self._free.release()

    def _on_end(self) -> None:
        request, self._stdin = self._current, None
        if request is not None:
            request.to_reader.close()
            self._release(request)

    async def _use(self, process: trio.Process) -> None:
        self._stdin = process.stdin
        assert process.stdout is not None
        decoder = wyoming.WyomingDecoder(lambda detail: EngineBroken(f"its engine sent an invalid message: {detail}"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_if_hung)
            async for data in process.stdout:
                for message in decoder.feed(bytes(data)):
                    await self._receive(message)
            nursery.cancel_scope.cancel()

    async def _end_if_hung(self) -> None:
        """End the process when it does not end an aborted request: the requests that wait for it get another."""
        while True:
            await self._aborted.wait()
            self._aborted = trio.Event()
            request = self._current
            if request is None or request.aborted_at is None:
                continue
            await trio.sleep_until(request.aborted_at + ABORTED_S)
            if self._current is request:
                _log.warning("engine_hung", engine=self._command[2])
                self._end("its engine no longer answers")
                return

    async def _receive(self, message: Message) -> None:
        if not self.ready.is_set():
            if isinstance(message, wyoming.ErrorMessage):
                self._end(f"its engine cannot load: {message.text[:200]}")
            elif isinstance(message, wyoming.Info):
                self.info = message
                self.ready.set()
            return
        request = self._current
        if request is None:
            return
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):   # nothing reads any more
            await request.to_reader.send(message)
        if isinstance(message, _ENDS):
            self._release(request)


class EngineRequest:
    """One request to an engine."""

    def __init__(self, engine: EngineProcess, provider: str) -> None:
        self.sent = False  # something has been sent
        self.aborted_at: float | None = None  # on trio's clock
        self._engine = engine
        self._provider = provider
        self.to_reader, self.messages = trio.open_memory_channel[Message](MESSAGES)

    async def send(self, *messages: Message) -> None:
        """Raises ProviderFailed."""
        self.sent = True
        if not await self._engine.write(self, messages):
            raise self._engine.failure(self._provider)

    async def receive(self) -> Message:
        """Raises ProviderFailed when the engine has ended."""
        try:
            return await self.messages.receive()
        except trio.EndOfChannel:
            raise self._engine.failure(self._provider) from None
