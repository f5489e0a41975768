"""`gw mcp` as a process, and the MCP server inside `gw serve`: the same tools, one database, never two writers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.fakes.ports import free_port

pytestmark = [
    pytest.mark.process,
    # the official client leaves generators and streams to the collector when a session ends
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CONFIG = """
providers: {sim: {}}
models: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}
serve: {port: %d}
mcp: {enabled: %s, port: %d}
"""


@pytest.fixture
def configuration(tmp_path):
    """A folder with a configuration, and the environment of its commands."""

    def create(enabled="false"):
        ports = free_port(), free_port()
        (tmp_path / "gw.yaml").write_text(CONFIG % (ports[0], enabled, ports[1]))
        base = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {**base, "HOME": str(tmp_path), "GW_CONFIG": str(tmp_path / "gw.yaml"), "GW_DB_PATH": str(tmp_path / "gw.db")}
        return ports, env

    return create


@contextmanager
def running(env, *arguments, until):
    """A `gw` command that has said `until` on stderr."""
    command = [sys.executable, "-m", "gw", *arguments]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if until in line:
                    break
            else:
                raise AssertionError(f"{arguments} ended with {process.wait()}")
            yield process
        finally:
            process.terminate()
            process.stderr.read()


async def tool(session, name, **arguments):
    with trio.fail_after(30):
        answer = await session.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def test_inside_the_daemon(configuration):
    (_, port), env = configuration("true")
    with running({**env, "GW_MCP_TOKEN": "mcp-5b1f9c04e7a2d836"}, "serve", until="ready in"):
        headers = {"authorization": "Bearer mcp-5b1f9c04e7a2d836"}
        async with sse_client(f"http://127.0.0.1:{port}/sse", headers=headers) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await tool(session, "create_project", project_id="app")
            assert (await tool(session, "get_project", project_id="app"))["source"] == "db"


@pytest.mark.parametrize("beside", [False, True], ids=["on the database itself", "through the daemon"])
async def test_over_stdio(configuration, beside):
    """Stdio requires no token, and works through the daemon where one holds the database."""
    (port, _), env = configuration()
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "gw", "mcp"], env={**env, "GW_MCP_TOKEN": "not-asked-for-5b1f9c04"}
    )

    async def use():
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await tool(session, "create_project", project_id="app")
            log = await tool(session, "get_audit_log")
            assert [(e["entity_id"], e["source"]) for e in log["items"]] == [("app", "mcp")]

    if not beside:
        await use()
        return
    with running(env, "serve", until="ready in"):
        await use()
        with trio.fail_after(60):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                await stream.send_all(b"GET /v1/projects/app HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                answer = b""
                while piece := await stream.receive_some():
                    answer += piece
        assert b'"source":"db"' in answer


def bare(env, folder):
    """Nothing of gw's, and no configuration to be found."""
    inherited = {name: value for name, value in env.items() if not name.startswith("GW_")}
    return {**inherited, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}


@pytest.mark.parametrize("by", ["--url", "GW_URL"])
async def test_without_a_configuration_a_gateway_is_enough(configuration, by, tmp_path_factory):
    (port, _), env = configuration()
    folder, url = tmp_path_factory.mktemp("elsewhere"), f"http://127.0.0.1:{port}"
    arguments, more = (["--url", url], {}) if by == "--url" else ([], {"GW_URL": url})
    command = ["-m", "gw", "mcp", *arguments]
    with running(env, "serve", until="ready in"):
        server = StdioServerParameters(command=sys.executable, args=command, env={**bare(env, folder), **more}, cwd=folder)
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await tool(session, "create_project", project_id="app")


def test_a_gateway_that_was_named_must_answer(configuration, tmp_path_factory):
    (port, _), env = configuration()
    folder = tmp_path_factory.mktemp("elsewhere")
    command = [sys.executable, "-m", "gw", "mcp", "--url", f"http://127.0.0.1:{port}"]
    done = subprocess.run(command, env=bare(env, folder), cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no gateway answers at http://127.0.0.1:{port}" in done.stderr


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.parametrize("arguments", [(), ("--transport", "http", "--port", "0")], ids=["stdio", "http"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_order(configuration, arguments, number, code):
    """Also while it waits for what the client says next. The database is let go of."""
    _, env = configuration()
    command = [sys.executable, "-m", "gw", "mcp", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert "through the database" in process.stderr.readline()
        if not arguments:
            process.stdin.write(json.dumps(HELLO) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "gw"
        process.send_signal(number)
        try:
            assert process.wait(10) == code
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()
    assert not list(Path(env["GW_DB_PATH"]).parent.glob("gw.db-*"))
