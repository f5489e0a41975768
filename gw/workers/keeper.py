"""The keeper: the process that `gw serve` started, where it has workers.

    workers   accept, serve the data plane, keep a journal and upstream connections of their own
    keeper    counts money, rates and slots (bank), writes the database, serves the control plane and the live views, and replaces a
              worker that dies. It answers the connections that workers give it, whichever plane their requests belong to

All listen on one port by SO_REUSEPORT; the keeper reserves it and accepts nothing itself. One process more stands ready, with all
modules imported, so that a worker is replaced within moments.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import msgspec
import structlog
import trio

from gw.config.fleet_rules import member_name
from gw.dialects.data_plane import DataPlane
from gw.gateway import Gateway
from gw.policy.turn_events import Owner
from gw.store.worker_journals import journal_path
from gw.telemetry.process_limits import connections_possible, streams_possible
from gw.types.notices import GateNotice
from gw.types.usage import Intent
from gw.types.worker_state import WorkerState
from gw.web.dispatcher import Dispatcher
from gw.web.drain import Drain
from gw.web.listener import bind, open_server, url_of
from gw.web.server_limits import ServerLimits
from gw.workers.arrivals import Arrivals
from gw.workers.keeper_bank import KeeperBank
from gw.workers.messages import (
    DrainStep,
    KeysWithSpeech,
    NewConfig,
    NoticeArrived,
    StartWork,
    Unwatch,
    WorkerConfig,
    pack_config,
)
from gw.workers.phrase_exchange import WorkerCache, WorkerCaches
from gw.workers.shared_turns import SharedTurns
from gw.workers.worker_process import WorkerProcess

APPLY_S = 1.0
"""For workers to put a change in force, while its caller waits."""
READY_S = 120.0
"""For the first workers to listen."""
CLOSE_S = 8.0
"""For workers to end: requests take leave for 1 s, records are committed for 5 s."""
LEAVE_S = 1.0
"""For workers that have ended to be taken out of the bank, when the gateway stops."""
_SHORT_LIFE_S = 5.0
_PAUSES_S = (0.0, 0.0, 0.5, 1.0, 2.0, 5.0)
"""Before a worker is started again that has lived for a short time, again and again."""
_LOOK_S = 1.0
HUNG_S = 10.0
"""Silence of a worker, which otherwise reports every second, after which it is ended: its event loop does not turn."""

_log = structlog.get_logger("gw.workers")


@attrs.define(eq=False)
class _Place:
    """A worker's place in the team: one process after another."""

    number: int
    process: WorkerProcess | None = None
    starts: int = 0


class Keeper:
    """The workers of a gateway. `serve` must run for them to begin."""

    def __init__(self, gateway: Gateway, bank: KeeperBank, count: int, descriptors: int, nursery: trio.Nursery) -> None:
        self._gateway = gateway
        self._bank = bank
        self.turns = SharedTurns() if gateway.fleet_turns is None else gateway.fleet_turns
        self._descriptors = descriptors
        self._nursery = nursery
        self._places = [_Place(number) for number in range(1, count + 1)]
        self._alive: set[WorkerProcess] = set()
        self._in_bank: set[WorkerProcess] = set()
        """Workers that the bank may know."""
        self._spare: WorkerProcess | None = None
        self._run = secrets.token_hex(3)
        self._config_number = 1
        self._reserved: list[socket.socket] = []
        self._drain: Drain | None = None
        self._arrivals: Arrivals | None = None
        self._connections: trio.Nursery | None = None
        self._stopping = trio.Event()
        self._changed = trio.Event()

    @property
    def states(self) -> Sequence[WorkerState]:
        """Return what is known of each worker."""
        return [
            WorkerState(worker=place.number, pid=0, state="starting", starts=place.starts)
            if place.process is None or place.process.state == "spare"
            else WorkerState(
                worker=place.number, pid=place.process.pid, state=place.process.state, starts=place.starts,
                figures=place.process.figures,
            )
            for place in self._places
        ]  # fmt: skip

    # ---- serving

    async def serve(
        self, drain: Drain, stop: trio.CancelScope, *, task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the workers and serve what they give away; return (and cancel `stop`) when a drain has ended all.

        Raises OSError when the address cannot be bound, also by the workers.
        """
        gateway, self._drain = self._gateway, drain
        plane = DataPlane(gateway)
        limits = ServerLimits()
        limits = msgspec.structs.replace(limits, max_connections=min(limits.max_connections, connections_possible(self._descriptors)))
        config = msgspec.structs.replace(gateway.settings.serve, max_in_flight=min(self._share(), streams_possible(self._descriptors)))
        gateway.background.occupancy = drain
        dispatcher = Dispatcher(gateway, plane, plane.serves, drain)
        drain.follow = self._follow_drain
        self._follow_drain()  # it may have begun
        async with trio.open_nursery() as nursery:
            nursery.start_soon(plane.run)
            nursery.start_soon(dispatcher.load_soon)
            async with (
                open_server(
                    dispatch=dispatcher, config=config, drain=drain, limits=limits,
                    max_body_bytes=lambda: gateway.settings.serve.max_body_bytes(),
                ) as server,
                trio.open_nursery() as self._connections,
            ):  # fmt: skip
                self._arrivals = Arrivals(server)
                task_status.started(await self._start_workers())
                nursery.start_soon(self._look_after)
                await drain.wait_begun()
                await self._wait_ended()
            await drain.wait_idle()  # what goes on after its request was answered
            nursery.cancel_scope.cancel()
        stop.cancel()

    async def _start_workers(self) -> list[str]:
        """Reserve the port, start the first workers and return the addresses once all listen."""
        serve = self._gateway.settings.serve
        # Fails where another program listens, also one that shares the port. It must not listen: who connected would be cut off.
        for probe in await bind(serve.host, serve.port, listens=False):
            port = probe.getsockname()[1]
            probe.close()
        self._reserved = await bind(serve.host, port, shared=True, listens=False)
        for place in self._places:
            self._nursery.start_soon(self._keep, place)
        try:
            with trio.fail_after(READY_S):
                await self._wait_listening()
        except trio.TooSlowError:
            raise OSError(errno.ETIMEDOUT, f"the worker processes did not listen within {READY_S:g} s") from None
        return [url_of(sock, tls=serve.tls_cert is not None) for sock in self._reserved]

    async def _wait_listening(self) -> None:
        while not self._stopping.is_set() and any(
            place.process is None or place.process.state != "serving" for place in self._places
        ):
            for place in self._places:
                if place.process is not None and (refused := place.process.refused) is not None:
                    raise OSError(refused.errno, refused.why)
            await self._changed.wait()

    def _share(self) -> int:
        """Return how many of the requests in flight one process may have."""
        return math.ceil(self._gateway.settings.serve.max_in_flight / len(self._places))

    # ---- processes

    async def _keep(self, place: _Place) -> None:
        """Have a process at a place until the gateway stops."""
        short_lives = 0
        while not self._stopping.is_set():
            process = self._spare if self._spare is not None else await self._spawn()
            self._spare = None
            if self._stopping.is_set():
                return  # `_wait_ended` ends the process, which has not begun
            began = trio.current_time()
            self._begin(process, place)
            while process.state != "ended":
                self._note_change()
                await process.changed.wait()
            self._note_change()
            self._nursery.start_soon(self._take_out, process, place)
            if self._stopping.is_set():
                return
            short_lives = short_lives + 1 if trio.current_time() < began + _SHORT_LIFE_S else 0
            await trio.sleep(_PAUSES_S[min(short_lives, len(_PAUSES_S) - 1)])

    async def _spawn(self) -> WorkerProcess:
        process = WorkerProcess(self._gateway, self._bank, self.turns)
        self._alive.add(process)
        await self._nursery.start(self._run_process, process)
        self._note_change()
        assert self._arrivals is not None
        assert self._connections is not None
        self._connections.start_soon(self._arrivals.run, process.connections, self._connections)
        return process

    async def _run_process(self, process: WorkerProcess, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            await process.run(task_status)
        finally:
            self._alive.discard(process)
            self._note_change()

    def _begin(self, process: WorkerProcess, place: _Place) -> None:
        place.starts += 1
        place.process = process
        self._in_bank.add(process)
        name = f"{self._run}-{place.number}-{place.starts}"
        settings = self._gateway.settings
        start = StartWork(
            name=f"{member_name(settings)}/{name}", journal=str(journal_path(settings.cost_tracking.db_path, name)),
            host=settings.serve.host, port=self._reserved[0].getsockname()[1], max_in_flight=self._share(),
            journals=self._gateway.journals.processes, descriptors=self._descriptors,
            watched=self._gateway.store.watcher is not None, config=self._packed_config(),
        )  # fmt: skip
        process.start(start, self._config_number)

    async def _take_out(self, process: WorkerProcess, place: _Place) -> None:
        """See to what a process has left."""
        await process.settled.wait()
        level = _log.info if self._stopping.is_set() and not process.exit_code else _log.error
        level("worker_ended", worker=place.number, pid=process.pid, exit_code=process.exit_code, starts=place.starts)
        await process.leave_bank()
        self._in_bank.discard(process)
        self._note_change()

    async def _look_after(self) -> None:
        """Have a process stand ready, stop watching what nobody looks at, and end processes that hang."""
        hung: set[WorkerProcess] = set()
        while True:
            if self._spare is None and not self._stopping.is_set():
                self._spare = await self._spawn()
            elif self._spare is not None and self._spare.state == "ended":
                self._spare = None
            if self._gateway.store.watcher is None:
                self._send_to_all(Unwatch())
            hung = self._end_hung(hung)
            await trio.sleep(_LOOK_S)

    def _end_hung(self, before: set[WorkerProcess]) -> set[WorkerProcess]:
        """End the processes that were silent for HUNG_S now and at the last look, between which this process has read its messages."""
        now = trio.current_time()
        serving = [process for process in self._alive if process.state in ("serving", "draining")]
        hung = {process for process in serving if process.last_message_at < now - HUNG_S}
        for process in hung & before:
            _log.error("worker_hung", pid=process.pid, silent_s=round(now - process.last_message_at, 1))
            process.kill_now()
        return hung

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wait_ended(self) -> None:
        while self._alive:
            for process in self._alive:
                if process.state == "spare":
                    process.kill()
            await self._changed.wait()

    async def close(self) -> None:
        """End what still runs, and wait until all that it has left is committed, and counted once. The caller bounds that."""
        self._stopping.set()
        self._send_to_all(DrainStep(step="stop"))
        self._send_to_all(DrainStep(step="halt"))
        await self._wait_ended()
        with trio.move_on_after(LEAVE_S):
            while self._in_bank:
                await self._changed.wait()
        for sock in self._reserved:
            sock.close()

    # ---- what concerns all workers

    def _send_to_all(self, message: DrainStep | Unwatch | NewConfig | NoticeArrived | KeysWithSpeech) -> None:
        for process in self._alive:
            if process.state in ("starting", "serving", "draining"):
                process.send(message)

    def pass_on(self, notice: GateNotice) -> None:
        """Tell the workers what has been learnt about a vendor."""
        self._send_to_all(NoticeArrived(notice=notice))

    def spread_speech(self, owners: Sequence[Owner]) -> None:
        """Tell the workers which keys have requests about speech."""
        self._send_to_all(KeysWithSpeech(owners=owners))

    def _packed_config(self) -> bytes:
        gateway = self._gateway
        return pack_config(WorkerConfig(settings=gateway.settings, catalog=gateway.current.catalog, rates=gateway.book.rows))

    async def spread(self) -> None:
        """Put settings, catalog and prices in force in all workers; wait until they are, for APPLY_S at most."""
        self._config_number += 1
        number = self._config_number
        self._send_to_all(NewConfig(number=number, config=self._packed_config()))
        with trio.move_on_after(APPLY_S):
            for process in list(self._alive):
                while process.state in ("starting", "serving", "draining") and process.config_applied < number:
                    await process.changed.wait()
            if self._gateway.leases is not None:
                await self._gateway.leases.report()  # new limits begin with what was used of them before
            return
        _log.warning("change_spreads_late", number=number)

    def _follow_drain(self) -> None:
        assert self._drain is not None
        within_s = self._drain.deadline - trio.current_time()
        if self._drain.draining:
            self._stopping.set()
            self._note_change()  # also while the first workers start
            self._send_to_all(DrainStep(step="begin", within_s=within_s) if within_s > 0 else DrainStep(step="halt"))
        elif self._drain.leaving:
            self._send_to_all(DrainStep(step="announce"))

    def stop_requests(self) -> None:
        """End the requests that still run, here and in the workers."""
        self._gateway.relay.in_flight.stop()
        self._send_to_all(DrainStep(step="stop"))

    async def gather(self) -> None:
        """Commit what requests have recorded in the workers until now, for a report; a worker that is stuck is not waited for."""
        async with trio.open_nursery() as nursery:
            for process in self._alive:
                if process.state in ("serving", "draining"):
                    nursery.start_soon(process.gather)

    async def running(self) -> list[Intent]:
        """Return the requests that run in the workers."""
        intents: list[Intent] = []

        async def add(process: WorkerProcess) -> None:
            intents.extend(await process.running())

        async with trio.open_nursery() as nursery:
            for process in self._alive:
                if process.state in ("starting", "serving", "draining"):
                    nursery.start_soon(add, process)
        return intents

    def caches(self) -> list[WorkerCache]:
        """Return the phrase caches of the workers that serve."""
        return [process.phrases for process in self._alive if process.state in ("serving", "draining")]


@asynccontextmanager
async def open_keeper(gateway: Gateway, bank: KeeperBank, count: int, descriptors: int) -> AsyncIterator[Keeper]:
    """Yield the keeper of `count` workers; on exit end them, and commit what they have left."""
    async with trio.open_nursery() as nursery:
        keeper = Keeper(gateway, bank, count, descriptors, nursery)
        gateway.workers = lambda: keeper.states
        gateway.journals.divide(count + 1)
        gateway.limits.elsewhere = lambda: [worker.figures.gates for worker in keeper.states]
        bank.follow = keeper.pass_on
        gateway.relay.turns = keeper.turns
        keeper.turns.follow = keeper.spread_speech
        if isinstance(keeper.turns, SharedTurns):  # the gateway runs those of a fleet
            nursery.start_soon(keeper.turns.run)
        gateway.registrar.follower = keeper.spread
        gateway.store.running_elsewhere = keeper.running
        gateway.store.gather_elsewhere = keeper.gather
        gateway.relay.phrases.elsewhere = WorkerCaches(keeper.caches)
        try:
            yield keeper
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await keeper.close()
            nursery.cancel_scope.cancel()


def worker_count(setting: int | str) -> int:
    """Return how many workers `serve.workers` means; 1: one process does everything."""
    if setting != "auto":
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
