"""A database that is deleted, replaced or emptied: it is noticed and said, and no request after it is lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from gw.errors import StoreUnavailable
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import SetClock

YAML = """
providers: {sim: {latency_ms: 0}}
models: {llm: [sim/echo]}
"""
CHAT = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def opened(folder: Path) -> Any:
    async with open_running(folder, YAML, SetClock()) as running:
        yield running, running.gateway.settings.cost_tracking.db_path


async def chat(running: Any) -> str:
    answer = await running.ask("POST", "/v1/chat/completions", CHAT)
    assert answer.status == 200
    return str(answer.headers["x-request-id"])


async def logged(running: Any) -> set[str]:
    return {line["id"] for line in (await running.get("/v1/logs")).json}


async def stores(running: Any) -> None:
    with trio.fail_after(60):
        await running.gateway.store.flush()


async def becomes(running: Any, mock_clock: Any, status: str) -> None:
    """Ask for the health until it is this; the gateway looks once a second."""
    with trio.fail_after(100):
        while (await running.get("/health")).json["status"] != status:
            mock_clock.jump(1.0)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_requests_after_it_are_there_after_a_restart(tmp_path, mock_clock, how):
    async with opened(tmp_path) as (running, path):
        before = await chat(running)
        await stores(running)
        path.rename(path.with_name("elsewhere"))
        if how == "replaced":
            path.write_bytes(path.with_name("elsewhere").read_bytes())
        with capture_logs() as logs:
            await becomes(running, mock_clock, "degraded")
        assert [f"was {how} while gw runs" in line["why"] for line in logs if line["event"] == "usage_store_degraded"] == [True]
        after = [await chat(running) for _ in range(3)]
        refused = await running.ask("POST", "/v1/projects", {"project_id": "late"})
        assert (refused.status, how in refused.body.decode()) == (503, True)
    async with opened(tmp_path) as (running, _):
        await stores(running)
        assert await logged(running) >= {*after, *([before] if how == "replaced" else [])}


async def test_a_file_that_is_put_back_gets_everything(tmp_path, mock_clock):
    async with opened(tmp_path) as (running, path):
        ids = [await chat(running)]
        await stores(running)
        path.rename(path.with_name("elsewhere"))
        await becomes(running, mock_clock, "degraded")
        ids += [await chat(running) for _ in range(3)]
        path.with_name("elsewhere").rename(path)
        await becomes(running, mock_clock, "ok")
        assert await logged(running) == set(ids)


async def test_an_emptied_database_beside_its_log_is_refused_and_nothing_is_changed(tmp_path):
    async with opened(tmp_path) as (running, path):
        await chat(running)
        await stores(running)
        wal = path.with_name(f"{path.name}-wal")
        content = wal.read_bytes()  # what a kill leaves
        assert content
    path.write_bytes(b"")
    wal.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"is empty, but .*-wal beside it has data: restore a backup"):
        async with opened(tmp_path):
            pass
    assert (path.read_bytes(), wal.read_bytes()) == (b"", content)


async def test_the_log_of_a_removed_database_is_kept(tmp_path):
    async with opened(tmp_path) as (running, path):
        await chat(running)
        await stores(running)
        wal = path.with_name(f"{path.name}-wal")
        content = wal.read_bytes()
    path.unlink()
    wal.write_bytes(content)
    with capture_logs() as logs:
        async with opened(tmp_path) as (running, _):
            assert await logged(running) == set()
    aside = path.with_name(f"{path.name}-wal.bad")
    assert aside.read_bytes() == content
    assert [line["path"] for line in logs if line["event"] == "database_wal_set_aside"] == [str(aside)]
