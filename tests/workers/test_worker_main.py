"""A worker process whose keeper is this test."""

from __future__ import annotations

import socket
import sys

import httpx2
import pytest
import trio

from gw.config.parse import demo_settings
from gw.gateway import open_gateway
from gw.store.worker_journals import left_behind
from gw.types.usage import Intent, RequestRecord
from gw.workers.channel import Channel
from gw.workers.keeper_bank import KeeperBank
from gw.workers.messages import DrainStep, FromWorker, ListRunning, StartWork, WorkerConfig, pack_config
from gw.workers.shared_turns import SharedTurns
from gw.workers.worker_process import PROGRAM, WorkerProcess
from tests.fakes.ports import free_port

STARTS_S = 60


def started(journal: str, port: int, config: bytes) -> StartWork:
    """Return the message by which a worker begins, which nobody watches."""
    return StartWork(
        "w1", journal, "127.0.0.1", port, max_in_flight=10, journals=3, descriptors=1_000, watched=False, config=config
    )  # fmt: skip


@pytest.mark.parametrize("message", [DrainStep(step="halt"), ListRunning(id=1)], ids=["halt", "list"])
async def test_a_worker_that_has_nothing_left_to_do_takes_messages_until_its_end(message, tmp_path):
    """A second signal comes at any moment, also between the last request and the end of the process."""
    async with open_gateway(demo_settings(tmp_path)) as gateway, trio.open_nursery() as nursery:
        worker = WorkerProcess(gateway, KeeperBank(), SharedTurns())
        await nursery.start(worker.run)
        settings = gateway.settings
        config = pack_config(WorkerConfig(settings=settings, catalog=gateway.current.catalog, rates=gateway.book.rows))
        journal = str(tmp_path / "gw.db.worker-1")
        worker.start(started(journal, free_port(), config), 1)
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


class Watcher:
    """Notes the ids of what begins and of what finishes."""

    def __init__(self) -> None:
        self.ids: list[tuple[str, str]] = []

    def began(self, intent: Intent) -> None:
        self.ids.append(("began", intent.id))

    def finished(self, record: RequestRecord) -> None:
        self.ids.append(("finished", record.id))


async def test_a_worker_that_is_watched_before_it_serves_reports_what_begins(tmp_path):
    async with open_gateway(demo_settings(tmp_path)) as gateway, trio.open_nursery() as nursery:
        worker, port = WorkerProcess(gateway, KeeperBank(), SharedTurns()), free_port()
        await nursery.start(worker.run)
        config = pack_config(WorkerConfig(settings=gateway.settings, catalog=gateway.current.catalog, rates=gateway.book.rows))
        worker.start(started(str(tmp_path / "gw.db.worker-1"), port, config), 1)
        with trio.fail_after(STARTS_S), worker.connections:
            gateway.store.watcher = watcher = Watcher()
            assert await worker.running() == []
            while worker.state == "starting":
                await worker.changed.wait()
            chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "word"}]}
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                answer = await client.post("/v1/chat/completions", json=chat)
            assert answer.status_code == 200
            worker.send(DrainStep(step="begin", within_s=10))
            await worker.settled.wait()
        id_ = answer.headers["x-request-id"]
        assert watcher.ids == [("began", id_), ("finished", id_)]


async def test_a_worker_whose_keeper_has_ended_before_it_began_ends_too(tmp_path):
    """The next keeper may not know of it. It would share its port, and have no bank and nobody who reads its journal."""
    async with open_gateway(demo_settings(tmp_path)) as gateway:
        config = pack_config(WorkerConfig(settings=gateway.settings, catalog=gateway.current.catalog, rates=gateway.book.rows))
    start = started(str(tmp_path / "gw.db.worker-1"), free_port(), config)
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
