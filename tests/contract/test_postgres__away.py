"""A gateway whose PostgreSQL server is away for long: what the journal holds, when new work should go elsewhere, and the way back."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from tests.fakes import databases
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import NOON, SetClock

YAML = """
providers: {sim: {latency_ms: 0}}
models: {llm: {sim/echo: {price: {unit: 1M_tokens, input: 1000, output: 1000}}}}
projects: {strict: {daily_budget: 1000, budget_action: block}}
cost_tracking: {database: 'URL', journal_mb: 10}
"""
CHAT_USD = 0.004
SEGMENT, LIMIT = 20_000, 100_000


@pytest.fixture(params=databases.POSTGRES)
def url(request):
    yield databases.fresh_url()
    databases.remove_server()


@asynccontextmanager
async def opened(folder: Path, url: str) -> Any:
    """Run a gateway, the segments of whose journal are small."""
    async with open_running(folder, YAML.replace("URL", url), SetClock(NOON)) as running:
        journal = running.gateway.store._journal
        assert journal.limit_bytes == 10_000_000
        journal._segment_bytes = journal.current.room = SEGMENT
        yield running, [await chat(running)]


@asynccontextmanager
async def server_away(running: Any) -> Any:
    server = databases.server()
    await trio.to_thread.run_sync(server.stop)
    try:
        with capture_logs():
            yield
    finally:
        await trio.to_thread.run_sync(server.start)


async def ask(running: Any, project: str = "default") -> Any:
    running.clock.at += 0.25
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}
    return await running.ask("POST", "/v1/chat/completions", body, x_gw_project=project)


async def chat(running: Any, project: str = "default") -> str:
    answer = await ask(running, project)
    assert answer.status == 200, answer.body
    return str(answer.headers["x-request-id"])


async def until_not_ready(running: Any) -> list[str]:
    """Send chats until new ones should go elsewhere; return the ids of those that were answered."""
    ids = []
    while (await running.get("/ready")).status == 200:
        ids.append(await chat(running))
        assert len(ids) < 500
    return ids


async def becomes_ready(running: Any) -> None:
    with trio.fail_after(60):
        while (await running.get("/ready")).status != 200:
            await trio.lowlevel.checkpoint()


async def reload(running: Any, **changed: object) -> tuple[str, ...]:
    settings = running.gateway.settings
    tracking = msgspec.structs.replace(settings.cost_tracking, **changed)
    return await running.gateway.reload(attrs.evolve(settings, cost_tracking=tracking))


async def journal(running: Any) -> Any:
    return (await running.get("/v1/status")).json["journal"]


async def metric(running: Any, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", (await running.get("/v1/metrics")).body.decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


def stored_ids() -> list[str]:
    """Return the ids of the records in the order in which they were stored."""
    return [id_ for (id_,) in databases.server().execute("select id from gw.requests order by seq", "gw")]


async def test_it_is_ready_while_the_journal_has_room_and_everything_comes_back_in_order(tmp_path, url):
    async with opened(tmp_path, url) as (running, ids):
        store = running.gateway.store
        with trio.fail_after(60):
            await store.flush()
        store._journal.limit_bytes = LIMIT
        async with server_away(running):
            ids += [await chat(running) for _ in range(10)]
            while not store.degraded:
                await trio.lowlevel.checkpoint()
            ready = await running.get("/ready")
            assert (ready.status, ready.json["checks"]["records"]) == (200, "degraded")
            assert (await running.get("/health")).json["problems"] == ["records_not_stored"]
            used = await journal(running)
            assert used == {"records_waiting": 10, "bytes": store.journal_bytes, "limit_bytes": 10_000_000, "keeps_records": True}
            assert await metric(running, "gw_journal_bytes") == store.journal_bytes > 10 * 600
            assert await metric(running, "gw_journal_limit_bytes") == 10_000_000
            ids += await until_not_ready(running)
            assert LIMIT <= store.journal_bytes < LIMIT + SEGMENT
            assert "its records wait for the database and fill 0 MB, as much as cost_tracking.journal_mb allows" in store.degraded
            assert not (await journal(running))["keeps_records"]
            refused = await ask(running, "strict")
            assert refused.status == 503
            ids += [refused.headers["x-request-id"], await chat(running)]  # their records wait in memory
            assert await reload(running, journal_mb=20) == ()
            await becomes_ready(running)
            assert (await journal(running))["limit_bytes"] == 20_000_000
            ids += [await chat(running, "strict") for _ in range(3)]
        with trio.fail_after(60):
            await store.flush()
        assert stored_ids() == ids
        costs = (await running.get("/v1/costs")).json
        assert costs["total"] == pytest.approx((len(ids) - 1) * CHAT_USD)
        assert (await journal(running))["records_waiting"] == 0
        assert (await running.get("/health")).json["problems"] == []
    async with open_running(tmp_path, YAML.replace("URL", url), SetClock(NOON)) as running:
        assert running.gateway.store.replayed.records == 0
    assert stored_ids() == ids
