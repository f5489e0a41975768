"""A child process that outlives the request that needed it first: started on first use, stopped when the gateway ends.

Its owner is a system task of trio, because no nursery of a request may own it. Whatever happens to the process, that task
ends quietly, and the next request gets the failure. The process ends by itself when the gateway dies, since its standard
input closes.

    starting ──ready──▶ in use ──┐
        └──────── fault ─────────┴──▶ over   (the next request starts another)
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final, TypeVar

import structlog
import trio

from gw.engines.environment import child_environment
from gw.errors import PluginMissing, ProviderFailed

STOP_S: Final = 2.0  # between the request to end and the kill
_log = structlog.get_logger("gw.engines")
P = TypeVar("P", bound="OwnedProcess")


class OwnedProcess(ABC):
    """A process and its state. `ready` is set once it can be used or is over; `fault` says why, in words for a record."""

    def __init__(self, command: Sequence[str]) -> None:
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.fault = ""
        self._command = list(command)
        self._scope = trio.CancelScope()

    @property
    def over(self) -> bool:
        return self.ended.is_set()

    @abstractmethod
    async def _use(self, process: trio.Process) -> None:
        """Use the process until it ends. Raises OSError, trio.BrokenResourceError, EngineBroken."""

    def _on_end(self) -> None:  # noqa: B027  # most have nothing to release
        """Release what waits for the process. Called once."""

    async def wait_ready(self, provider: str) -> None:
        """Raises ProviderFailed if it could not be started, or has ended."""
        await self.ready.wait()
        if self.over:
            raise self.failure(provider)

    def failure(self, provider: str) -> ProviderFailed:
        return ProviderFailed(provider=provider, upstream_status=500, detail=self.fault or "its engine has ended")

    async def run(self) -> None:
        """Own the process: start it, use it, stop it."""
        try:
            process = await trio.lowlevel.open_process(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                env=child_environment(),
            )  # fmt: skip
        except OSError as error:
            self._end(f"its engine cannot be started: {error.strerror}")
            return
        try:
            with self._scope:
                await self._use(process)
        except EngineBroken as error:
            self._end(str(error))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except Exception:
            _log.exception("engine_failed")
        finally:
            self._end("")
            await _stop(process)

    def _end(self, fault: str) -> None:
        if not self.over:
            self.fault = self.fault or fault
            self.ended.set()
            self.ready.set()
            self._scope.cancel()
            self._on_end()


class EngineBroken(Exception):
    """The process sent something that is not of its protocol."""


async def _stop(process: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.aclose()
        with trio.move_on_after(STOP_S):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stdout.aclose()


def require(modules: Sequence[str], extra: str, provider: str) -> None:
    """Raise PluginMissing for the first of `modules` that is not installed. Nothing is imported."""
    for module in modules:
        if find_spec(module) is None:
            raise PluginMissing(provider=provider, module=module, extra=extra)


_processes: trio.lowlevel.RunVar[dict[tuple[str, ...], OwnedProcess]] = trio.lowlevel.RunVar("gw.engines")
"""By command: entries with the same settings share one."""


def process_of(command: Sequence[str], kind: Callable[[Sequence[str]], P]) -> P:
    """Return the process of this command, started now if it is not running."""
    try:
        processes = _processes.get()
    except LookupError:
        processes = {}
        _processes.set(processes)
    process = processes.get(tuple(command))
    if process is None or process.over:
        started = kind(command)
        processes[tuple(command)] = started
        trio.lowlevel.spawn_system_task(started.run)
        return started
    return process  # type: ignore[return-value]  # one command is always of one kind
