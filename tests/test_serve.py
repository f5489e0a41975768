from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import apsw
import attrs
import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from gw.config.parse import demo_settings, parse
from gw.gateway import open_gateway
from gw.net.http1 import Origin
from gw.serve import load_sample_history, reload_on_signal
from gw.telemetry.clock import utc_day
from gw.telemetry.log import Redactor
from tests.fakes import edge, stored
from tests.fakes.running import open_running


async def test_the_sample_history_is_the_past_and_today_is_empty(tmp_path):
    async with open_gateway(demo_settings(tmp_path)) as gateway:
        today = utc_day(gateway.clock.now())
        await load_sample_history(gateway)
        assert (await stored.totals(gateway.store, today - 6)).cost_nusd > 0
        assert (await stored.totals(gateway.store, today)).requests == 0
        assert {gateway.ledger.spent(project) for project in ("default", "demo", "demo-history")} == {0}
        [newest] = await stored.logs(gateway.store, limit=1)
        assert newest.project == "demo-history"


async def test_a_database_that_takes_no_history_does_not_stop_the_demo(tmp_path):
    settings = demo_settings(tmp_path)
    async with open_gateway(settings) as gateway:
        foreign = apsw.Connection(str(settings.cost_tracking.db_path))
        foreign.set_busy_timeout(5_000)  # the store may be pruning just now
        foreign.execute("begin immediate")
        with capture_logs() as logs:
            await load_sample_history(gateway)
        foreign.close()
        [left_out] = [line for line in logs if line["event"] == "sample_history_left_out"]  # the store may say so of its own
        assert "another program is writing" in left_out["why"]
        assert await stored.logs(gateway.store) == []


TEXT = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"


async def events(logs, name: str) -> list[dict[str, object]]:
    """Waits until there are any."""
    with trio.fail_after(60):
        while not (matching := [line for line in logs if line["event"] == name]):
            await trio.lowlevel.checkpoint()
    return matching


async def test_sighup_reads_the_file_again_and_a_faulty_one_changes_nothing(tmp_path):
    path = tmp_path / "gw.yaml"

    def reread():
        return parse(path.read_text(), file=str(path), env={}, data_dir=tmp_path)

    path.write_text(TEXT)
    redactor = Redactor()
    async with open_gateway(reread()) as gateway, trio.open_nursery() as nursery:
        await nursery.start(reload_on_signal, gateway, reread, redactor, lambda: True)
        with capture_logs() as logs:
            assert await events(logs, "reloaded")  # a signal came before
            logs.clear()
            assert gateway.problems == []
            before = gateway.current.catalog
            path.write_text(TEXT + "projects: {shop: {daily_budget: -1}}")
            signal.raise_signal(signal.SIGHUP)
            [failed] = await events(logs, "reload_failed")
            assert "gw.yaml:3:" in str(failed["why"])
            assert gateway.current.catalog is before
            assert gateway.problems == ["reload_failed"]
            path.write_text(TEXT + "projects: {shop: {}}\nserve: {port: 9}\nauth: {admin_token: admin-canary-c05d9e1b}")
            signal.raise_signal(signal.SIGHUP)
            [done] = await events(logs, "reloaded")
        assert done["needs_restart"] == ["serve.port"]
        assert gateway.problems == []
        assert "shop" in gateway.current.catalog.projects
        assert gateway.settings.auth.on
        assert "canary" not in redactor.text("admin-canary-c05d9e1b")
        nursery.cancel_scope.cancel()


LIMITED = """
providers: {sim: {}}
models: {llm: [sim/echo], stt: [sim/tone]}
serve: {port: 0, max_body_mb: 0.001}
"""
ERRORS: dict[bytes, Callable[[Any], str]] = {
    b"/v1/chat/completions": lambda body: body["error"]["message"],
    b"/v1/messages": lambda body: {"request_too_large": body["error"]["message"]}[body["error"]["type"]],
    b"/ollama/api/chat": lambda body: body["error"],
    b"/v1/audio/transcriptions": lambda body: body["error"]["message"],
    b"/deepgram/v1/listen": lambda body: body["err_msg"],
    b"/v1/projects": lambda body: body["error"]["message"],
}
"""Path → the message in the body of an error, by the caller's protocol."""


CONTENT_TYPES = {b"/v1/audio/transcriptions": b"multipart/form-data; boundary=x", b"/deepgram/v1/listen": b"audio/wav"}


def framed(path: bytes, size: int, *, chunked: bool) -> bytes:
    content_type = CONTENT_TYPES.get(path, b"application/json")
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\n" % (path, content_type)
    if chunked:
        return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size)
    return head + b"Content-Length: %d\r\n\r\n%b" % (size, b" " * size)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
async def test_one_limit_for_bodies_on_every_path_in_the_callers_protocol(chunked, tmp_path):
    async with open_running(tmp_path, LIMITED) as running:

        async def post(path: bytes, size: int) -> edge.Response:
            client = edge.Client(await trio.open_tcp_stream("127.0.0.1", Origin.parse(running.url).port))
            await client.send(framed(path, size, chunked=chunked))
            answer = await client.response()
            if answer.status == 413:
                assert answer.headers["connection"] == "close"
                assert await client.ended()
            await client.stream.aclose()
            return answer

        for path, message_of in ERRORS.items():
            answer = await post(path, 1_001)
            assert (path, answer.status) == (path, 413)
            assert "larger than 1000 bytes" in message_of(msgspec.json.decode(answer.body))
            assert (await post(path, 1_000)).status != 413
        larger = attrs.evolve(running.gateway.settings, serve=msgspec.structs.replace(running.gateway.settings.serve, max_body_mb=0.002))
        assert await running.gateway.reload(larger) == ()
        for path in ERRORS:
            assert [(await post(path, size)).status == 413 for size in (2_000, 2_001)] == [False, True]


async def test_sighup_without_a_file_is_told(tmp_path):
    async with open_gateway(demo_settings(tmp_path)) as gateway, trio.open_nursery() as nursery:
        await nursery.start(reload_on_signal, gateway, None, Redactor())
        with capture_logs() as logs:
            signal.raise_signal(signal.SIGHUP)
            await events(logs, "reload_ignored")
        nursery.cancel_scope.cancel()


SLOW_TO_LOAD = ("quart", "werkzeug", "hypercorn", "mcp", "httpx2", "jinja2", "cryptography", "prometheus_client")


@pytest.mark.process
@pytest.mark.parametrize("statement", ["import gw.serve", "from gw.cli.main import main; main(['--help'], standalone_mode=False)"])
def test_a_start_loads_no_library_that_is_not_needed_yet(statement):
    """Quart comes with the first change, the MCP server where it is enabled: 0.3 s and 30 MB together."""
    code = f"{statement}\nimport sys\nsys.exit(' '.join(sorted({set(SLOW_TO_LOAD)!r} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) in ((0, ""), (1, ""))
