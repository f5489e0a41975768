"""A worker process whose keeper is this test."""

from __future__ import annotations

import socket
import sys

import pytest
import trio

from gw.config.parse import demo_settings
from gw.gateway import open_gateway
from gw.store.worker_journals import left_behind
from gw.workers.channel import Channel
from gw.workers.keeper_bank import KeeperBank
from gw.workers.messages import DrainStep, FromWorker, ListRunning, StartWork, WorkerConfig, pack_config
from gw.workers.shared_turns import SharedTurns
from gw.workers.worker_process import PROGRAM, WorkerProcess
from tests.fakes.ports import free_port

STARTS_S = 60


@pytest.mark.parametrize("message", [DrainStep(step="halt"), ListRunning(id=1, watched=False)], ids=["halt", "list"])
async def test_a_worker_that_has_nothing_left_to_do_takes_messages_until_its_end(message, tmp_path):
    """A second signal comes at any moment, also between the last request and the end of the process."""
    async with open_gateway(demo_settings(tmp_path)) as gateway, trio.open_nursery() as nursery:
        worker = WorkerProcess(gateway, KeeperBank(), SharedTurns())
        await nursery.start(worker.run)
        settings = gateway.settings
        config = pack_config(WorkerConfig(settings=settings, catalog=gateway.current.catalog, rates=gateway.book.rows))
        journal = str(tmp_path / "gw.db.worker-1")
        worker.start(StartWork("w1", journal, "127.0.0.1", free_port(), max_in_flight=10, journals=3, descriptors=1_000, config=config), 1)
        with trio.fail_after(STARTS_S), worker.connections:
            while worker.state == "starting":
                await worker.changed.wait()
            assert worker.state == "serving"
            worker.send(DrainStep(step="begin", within_s=10))
            while worker.state != "ended":
                worker.send(message)
                await trio.lowlevel.checkpoint()
            await worker.settled.wait()
        assert worker.exit_code == 0


async def test_a_worker_whose_keeper_has_ended_before_it_began_ends_too(tmp_path):
    """The next keeper may not know of it. It would share its port, and have no bank and nobody who reads its journal."""
    async with open_gateway(demo_settings(tmp_path)) as gateway:
        config = pack_config(WorkerConfig(settings=gateway.settings, catalog=gateway.current.catalog, rates=gateway.book.rows))
    start = StartWork(
        "w1", str(tmp_path / "gw.db.worker-1"), "127.0.0.1", free_port(), max_in_flight=10, journals=3, descriptors=1_000, config=config
    )
    (control, far_control), (connections, far_connections) = socket.socketpair(), socket.socketpair()
    with far_control, far_connections:
        with control, connections:
            channel: Channel[FromWorker] = Channel(control, FromWorker)
            channel.send(start)
        descriptors = (far_control.fileno(), far_connections.fileno())
        command = [sys.executable, "-c", PROGRAM, *map(str, descriptors)]
        with trio.fail_after(STARTS_S):
            worker = await trio.run_process(command, pass_fds=descriptors, capture_stderr=True, check=False)
    assert worker.returncode == 0
    assert b"worker_without_keeper_ended" in worker.stderr
    assert left_behind(tmp_path / "gw.db") == [tmp_path / "gw.db.worker-1"]  # which the next keeper reads
