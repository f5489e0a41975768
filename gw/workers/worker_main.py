"""The process of a worker: `python -c "from gw.workers.worker_start import main; main()" CONTROL CONNECTIONS`.

The arguments are descriptors of two sockets to the keeper: for messages, and for connections that are given away. The process imports
all that it needs, then waits for `StartWork`; so a spare one stands ready in place of a worker that dies.

    open_worker_store
    └ open_gateway
      └ root nursery
        ├ drain on the keeper's word; on SIGTERM once the keeper is gone
        ├ data plane keepalive
        ├ report to the keeper, every second
        └ listener: every connection, of which those of the control plane go to the keeper
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
import msgspec
import structlog
import trio

from gw.config.secret_values import secrets_of
from gw.dialects.data_plane import DataPlane
from gw.gateway import Gateway, ProcessShare, open_gateway
from gw.relay.leases import Leases
from gw.relay.turn_reporter import TurnReporter
from gw.store.record_sender import SentBatch
from gw.store.worker_store import WorkerStore, open_worker_store
from gw.telemetry.clock import SystemClock
from gw.telemetry.log import setup_logging
from gw.telemetry.log_lines import LogLines
from gw.telemetry.process_limits import connections_possible, streams_possible, tune_interpreter
from gw.telemetry.run_clock import RunClock
from gw.types.secret import Secret
from gw.types.usage import Intent
from gw.types.worker_state import WorkerFigures
from gw.web.authorization import fenced
from gw.web.drain import Drain
from gw.web.http_server import HostedApp
from gw.web.http_server_head import Head
from gw.web.listener import Listener, bind, open_server, tls_context
from gw.web.server_limits import ServerLimits
from gw.workers.capture_forwarder import CaptureForwarder
from gw.workers.channel import receive_blocking
from gw.workers.connection_sender import ConnectionSender
from gw.workers.keeper_link import KeeperLink
from gw.workers.messages import (
    CallCompared,
    CannotListen,
    ConfigApplied,
    DrainStep,
    ForgetPhrases,
    FromKeeper,
    KeepPhrases,
    KeysWithSpeech,
    ListPhrases,
    ListRunning,
    ListSpeech,
    NewConfig,
    PhraseAnswer,
    PhraseQuestion,
    RecordsCommitted,
    RecordsSent,
    RunningRequests,
    SendPhrases,
    SendRecords,
    StartWork,
    TurnEvents,
    Unwatch,
    WorkerConfig,
    WorkerListens,
    WorkerReport,
    unpack_config,
)  # fmt: skip
from gw.workers.phrase_exchange import answer

Learn: TypeAlias = Callable[[Iterable[Secret]], None]

REPORT_S = 1.0
FAREWELL_S = 1.0  # for running requests to tell their callers that the gateway stops

_log = structlog.get_logger("gw.workers")


class Worker:
    """One run of a worker: what the keeper says, put into effect."""

    def __init__(self, start: StartWork, link: KeeperLink, lines: LogLines) -> None:
        self.start = start
        self.link = link
        self.turns = TurnReporter(lambda events, until: link.send(TurnEvents(events, until)), SystemClock())
        self.drain = Drain()
        self.gateway: Gateway | None = None
        self.store: WorkerStore | None = None
        self.sender: ConnectionSender | None = None
        self.listener: Listener | None = None
        self._lines = lines
        self._watched = start.watched
        self._nursery: trio.Nursery | None = None

    async def run(self, config: WorkerConfig, connections: socket.socket, learn: Learn) -> None:
        """Serve until the keeper, or a signal once it is gone, has ended it."""
        settings, clock = config.settings, SystemClock()
        tracking = settings.cost_tracking
        power = tracking.durability == "power"
        async with trio.open_nursery() as outer:  # the link outlives all that uses it
            outer.start_soon(self.link.run, self._take)
            captures = CaptureForwarder(self.link.send)
            outer.start_soon(captures.run)
            outer.start_soon(self.turns.run)
            async with open_worker_store(tracking.db_path, Path(self.start.journal), clock, self._send_batch, power=power) as store:
                if self.link.has_ended():  # the next keeper may have looked before this journal was locked, and would not end its writer
                    _log.warning("worker_without_keeper_ended")
                else:
                    self.store = store
                    self._watch(self._watched)
                    share = ProcessShare(
                        store=store, catalog=config.catalog, rates=config.rates, member=self.start.name, bank=self.link,
                        captures=captures if settings.secret else None, turns=self.turns,
                    )
                    async with open_gateway(settings, clock=clock, learn=learn, share=share) as gateway:
                        gateway.log_lines = self._lines
                        gateway.journals.divide(self.start.journals)
                        gateway.relay.shadows.count = lambda call: self.link.send(CallCompared(call=call))
                        self.gateway = gateway
                        await self._serve(gateway, connections)
                await captures.flush()
            outer.cancel_scope.cancel()

    async def _serve(self, gateway: Gateway, connections: socket.socket) -> None:
        plane, config = DataPlane(gateway), gateway.settings.serve
        self.sender = ConnectionSender(connections, partial(serves_alone, plane))
        descriptors = self.start.descriptors
        config = msgspec.structs.replace(config, max_in_flight=min(self.start.max_in_flight, streams_possible(descriptors)))
        limits = ServerLimits()
        limits = msgspec.structs.replace(limits, max_connections=min(limits.max_connections, connections_possible(descriptors)))
        gateway.background.occupancy = self.drain
        hosted = HostedApp(app=fenced(plane, gateway), counted=True, waits=True, websockets=True)
        try:
            listeners = await bind(self.start.host, self.start.port, shared=True)
        except OSError as error:
            self.link.send(CannotListen(errno=error.errno or 0, why=error.strerror or str(error)))
            return
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await nursery.start(self._stop_on_signal)
                nursery.start_soon(plane.run_keepalive)
                async with open_server(
                    dispatch=lambda method, path: hosted, config=config, drain=self.drain, limits=limits,
                    max_body_bytes=lambda: gateway.settings.serve.max_body_bytes(), other=self.sender,
                ) as server:  # fmt: skip
                    self.listener = Listener(server, tls_context(config))
                    self.link.send(WorkerListens())
                    nursery.start_soon(self._report)
                    await self.listener.run(listeners)
                    await self.drain.wait_idle()
            finally:
                self._nursery = None  # messages still arrive while it ends, and it takes no more tasks then
            nursery.cancel_scope.cancel()

    # ---- what the keeper says

    def _take(self, message: FromKeeper) -> None:
        match message:
            case RecordsCommitted():
                if self.store is not None:
                    self.store.sender.committed(message.number)
            case NewConfig():
                self._adopt(message)
            case DrainStep():
                self._step(message)
            case ListRunning():
                self._start_listing(message.id)
            case KeysWithSpeech():
                self.turns.wake(message.owners)
            case SendRecords():
                self.turns.flush(also_empty=True)
                if self.store is not None:
                    self.store.sender.send_now()
                self.link.send(RecordsSent(id=message.id))
            case ListPhrases() | ForgetPhrases() | ListSpeech() | SendPhrases() | KeepPhrases():
                self._answer(message)
            case Unwatch():
                self._watch(False)
            case _:
                raise AssertionError(f"a worker that runs cannot be sent {type(message).__name__}")

    def _answer(self, question: PhraseQuestion) -> None:
        gateway = self.gateway
        self.link.send(PhraseAnswer(question.id) if gateway is None else answer(question, gateway.relay, gateway.current.catalog))

    def _adopt(self, message: NewConfig) -> None:
        config = unpack_config(message.config)
        if self.gateway is not None:
            self.gateway.adopt_config(config.settings, config.catalog, config.rates)
        if self.sender is not None:
            self.sender.changes += 1
        if self._nursery is not None and self.gateway is not None and self.gateway.leases is not None:
            self._nursery.start_soon(self._confirm, self.gateway.leases, message.number)
        else:
            self.link.send(ConfigApplied(number=message.number))

    async def _confirm(self, leases: Leases, number: int) -> None:
        """Say that a configuration is in force, once the bank knows what was used until now: limits may be new."""
        with trio.move_on_after(REPORT_S):
            await leases.report()
        self.link.send(ConfigApplied(number=number))

    def _step(self, message: DrainStep) -> None:
        match message.step:
            case "announce":
                self.drain.announce()
            case "begin":
                self.drain.begin(message.within_s)
            case "stop":
                if self.gateway is not None:
                    self.gateway.relay.in_flight.stop()
            case "halt":
                if self._nursery is not None:
                    self._nursery.start_soon(self._halt)

    async def _halt(self) -> None:
        """End everything, once the requests that were stopped have told their callers."""
        with trio.move_on_after(FAREWELL_S):
            await self.drain.wait_idle()
        self.drain.halt()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def _watch(self, watched: bool) -> None:
        """Send intents, or no longer; a store that is not open yet learns it when it is."""
        self._watched = watched
        if self.store is not None:
            self.store.sender.sends_intents = watched

    def _start_listing(self, id_: int) -> None:
        """Send the requests that run, and from now on what begins."""
        if self.store is not None:
            self.store.sender.send_now()  # intents until now are in the list
        self._watch(True)
        if self.store is not None and self._nursery is not None:
            self._nursery.start_soon(self._list_running, self.store, id_)
        else:  # it does not serve yet, or no longer
            self.link.send(RunningRequests(id=id_, intents=b""))

    async def _list_running(self, store: WorkerStore, id_: int) -> None:
        running: list[Intent] = await store.running()
        self.link.send(RunningRequests(id=id_, intents=b"\n".join(map(msgspec.json.encode, running))))

    # ---- what it says itself

    def _send_batch(self, batch: SentBatch) -> bool:
        """Send finished records, after the words by which their turns are found."""
        self.turns.flush(also_empty=True)
        return self.link.send_batch(batch)

    async def _report(self) -> None:
        while True:
            self.link.send(WorkerReport(figures=self._figures()))
            await trio.sleep(REPORT_S)

    def _figures(self) -> WorkerFigures:
        gateway, store, sender, listener = self.gateway, self.store, self.sender, self.listener
        assert gateway is not None
        assert store is not None
        assert sender is not None
        assert listener is not None
        return WorkerFigures(
            in_flight=gateway.relay.in_flight.requests, connections=listener.open, accepted=listener.accepted,
            requests=store.counters.finished, handed_over=sender.given, cpu_s=round(time.process_time(), 3),
            records_waiting=store.queue_depth, journal_bytes=store.journal_bytes, keeps_records=store.accepting,
            records_dropped=store.counters.dropped, log_lines_dropped=self._lines.dropped, trouble=store.degraded,
            shadow_calls=gateway.relay.shadows.running,
            fleet_phrases={} if gateway.shared_phrases is None else attrs.asdict(gateway.shared_phrases.counters),
            gates={
                name: gate for name, gate in gateway.limits.view(trio.current_time()).items() if name == gate.provider or gate.is_notable
            },
        )  # fmt: skip

    async def _stop_on_signal(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stop at SIGTERM or SIGINT once the keeper is gone. Until then it says when: service managers signal all processes."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if self.link.is_gone and number != signal.SIGHUP:
                    break
            assert self.gateway is not None
            within_s = self.gateway.settings.serve.drain_s
            _log.info("draining", signal=signal.Signals(number).name, in_flight=self.drain.in_flight, drain_s=within_s)
            self.drain.begin(within_s)
            with trio.move_on_after(within_s):
                await anext(signals)
            self.gateway.relay.in_flight.stop()
            await self._halt()


def serves_alone(plane: DataPlane, head: Head) -> bool:
    """Return whether a worker answers a request by itself: one of the data plane for which nothing is kept in one process."""
    method, path = head.method, head.raw_path
    return plane.serves(method, path) and not plane.is_central(method, path)


def main() -> None:
    control, connections = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # until trio receives them
    start = receive_blocking(control, StartWork)
    if start is None:  # the keeper has ended
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines = LogLines(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115  # for as long as the process runs
    redactor = setup_logging(stream=lines)
    structlog.contextvars.bind_contextvars(worker=start.name)
    config = unpack_config(start.config)
    redactor.learn(secrets_of(config.settings))
    tune_interpreter()
    worker = Worker(start, KeeperLink(control), lines)
    trio.run(worker.run, config, connections, redactor.learn, clock=RunClock())
