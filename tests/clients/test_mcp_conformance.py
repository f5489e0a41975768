"""The official MCP conformance suite, unchanged, against the mount that serves gw's own tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from gw.config.settings import Serve
from gw.mcp.run import mounted
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.types.secret import Secret
from gw.web import listener
from gw.web.drain import Drain
from gw.web.http_server import HostedApp
from tests.clients import mcp_npm
from tests.fakes.mcp_server import conforming

pytestmark = pytest.mark.clients

TOKEN = "a token of gw 5b1f9c04"
WITHIN_S = 240
SCENARIOS = 32
"""Of the suite's version in tests/clients/node/mcp/package.json."""


def showing_the_token(app: ASGIApp) -> ASGIApp:
    """The suite cannot send a header of its own."""

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            field = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], field]}
        await app(scope, receive, send)

    return shown


def results(folder: Path) -> list[tuple[str, str, str, str]]:
    """Of every check: scenario, name, status and what was wrong."""
    return [
        (path.parent.name, check["name"], check["status"], check.get("errorMessage", ""))
        for path in folder.glob("*/checks.json")
        for check in json.loads(path.read_text())
    ]


async def test_every_server_scenario(tmp_path):
    command = [*mcp_npm.command("conformance"), "server", "--suite", "all", "--output-dir", str(tmp_path)]
    async with mounted(conforming(), Secret(TOKEN), (), local_only=False) as app, trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
            hosted = HostedApp(app=showing_the_token(app))
            await listener.serve(
                dispatch=lambda method, path: hosted, config=Serve(port=0), drain=Drain(), task_status=task_status
            )

        (url, *_) = await nursery.start(serve)
        with trio.fail_after(WITHIN_S):
            done = await trio.run_process(
                [*command, "--url", f"{url}/mcp"], capture_stdout=True, capture_stderr=True, check=False
            )
        nursery.cancel_scope.cancel()
    checks = results(tmp_path)
    assert [check for check in checks if check[2] == "FAILURE"] == []
    assert len({scenario for scenario, *_ in checks}) == SCENARIOS
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]


def test_the_lock_pins_without_naming_a_registry():
    """What names a host there are the homes of people who are asked for money."""
    lock = json.loads((mcp_npm.FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert not any("resolved" in entry for entry in packages.values())
