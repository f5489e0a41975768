"""A full disk: what the reserve of the journal holds, who is refused beyond it, and how the rest comes back from the log."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
from click.testing import CliRunner
from structlog.testing import capture_logs

from gw.cli.database import db
from gw.store import writer
from gw.telemetry.clock import SystemClock
from tests.fakes.disk import files_end_at
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import SetClock

YAML = """
providers: {sim: {latency_ms: 0}}
models: {llm: {sim/echo: {price: {unit: 1M_tokens, input: 1000, output: 1000}}}}
projects: {strict: {daily_budget: 1000, budget_action: block}}
cost_tracking: {on_full_disk: HOW}
"""
CHAT_USD = 0.004
SEGMENT, SPARES, QUEUED = 20_000, 3, 5
NOW = SystemClock().now()  # records older than the retention are not imported


@asynccontextmanager
async def opened(folder: Path, how: str) -> Any:
    """Run a gateway with small segments, whose reserve is there."""
    async with open_running(folder, YAML.replace("HOW", how), SetClock(NOW), spares=SPARES) as running:
        journal = running.gateway.store._journal
        journal._segment_bytes = journal.spares._room = journal.current.room = SEGMENT
        ids = [await chat(running)]
        with trio.fail_after(60):
            await running.gateway.store.flush()
            while len(journal.spares) < SPARES:
                await trio.lowlevel.checkpoint()
        yield running, ids


async def ask(running: Any, project: str = "default") -> Any:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}
    return await running.ask("POST", "/v1/chat/completions", body, x_gw_project=project)


async def chat(running: Any) -> str:
    answer = await ask(running)
    assert answer.status == 200, answer.body
    return str(answer.headers["x-request-id"])


async def until_full(running: Any) -> list[str]:
    """Send chats until nothing can be recorded any more; return the ids of those that were answered."""
    ids = []
    while (await running.get("/ready")).status == 200:
        ids.append(await chat(running))
        assert len(ids) < 500
    return ids


async def totals(running: Any) -> tuple[set[str], float]:
    with trio.fail_after(60):
        await running.gateway.store.flush()
    costs = (await running.get("/v1/costs")).json
    return {line["id"] for line in (await running.get("/v1/logs?limit=500&status=success")).json}, costs["total"]


@pytest.mark.parametrize(("how", "default", "strict"), [("budgets", 200, 503), ("refuse", 503, 503), ("continue", 200, 200)])
async def test_what_the_reserve_holds_and_who_is_refused_beyond_it(tmp_path, how, default, strict):
    async with opened(tmp_path, how) as (running, ids):
        with capture_logs(), files_end_at(0):
            ids += await until_full(running)
            assert len(ids) * 1_100 > SEGMENT * (1 + SPARES)  # bytes of an intent and its record, at most
            assert running.gateway.store.counters.dropped == 0
            answers = [await ask(running, project) for project in ("default", "strict")]
            assert [answer.status for answer in answers] == [default, strict]
        ids += [answer.headers["x-request-id"] for answer in answers if answer.status == 200]
        found, total = await totals(running)
        assert found == set(ids)
        assert total == pytest.approx(len(ids) * CHAT_USD)
        with trio.fail_after(60):  # the reserve is made anew in a thread
            while (await running.get("/ready")).status != 200:
                await trio.lowlevel.checkpoint()
        assert (await ask(running, "strict")).status == 200


async def test_what_only_the_log_has_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "QUEUED", QUEUED)
    log = tmp_path / "gw.log"
    async with opened(tmp_path, "continue") as (running, ids):
        with capture_logs() as lines, files_end_at(0):
            ids += await until_full(running)
            ids += [await chat(running) for _ in range(QUEUED + 20)]
            lost = [line for line in lines if line["event"] == "usage_record_dropped"]
            assert len(lost) == running.gateway.store.counters.dropped >= 20
        found, _ = await totals(running)
        assert found == set(ids) - {line["record"]["id"] for line in lost}
        path = running.gateway.settings.cost_tracking.db_path
    log.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [{"event": "other"}, *lost]) + b"usage_record_dropped {\n")
    before = structlog.get_config()  # a command line logs warnings only
    for new in (len(lost), 0):
        result = await trio.to_thread.run_sync(lambda: CliRunner().invoke(db, ["--db", str(path), "import", str(log)]))
        assert f"{new} of {len(lost)} records were new; 1 lines could not be read" in result.output
        assert result.exit_code == 1
    structlog.configure(**before)
    async with open_running(tmp_path, YAML.replace("HOW", "continue"), SetClock(NOW)) as running:
        found, total = await totals(running)
    assert found == set(ids)
    assert total == pytest.approx(len(ids) * CHAT_USD)
