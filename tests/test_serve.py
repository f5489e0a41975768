from __future__ import annotations

import signal
import subprocess
import sys

import apsw
import pytest
import trio
from structlog.testing import capture_logs

from gw.config.demo import demo_settings
from gw.config.parse import parse
from gw.gateway import open_gateway
from gw.serve import load_sample_history, reload_on_signal
from gw.telemetry.clock import utc_day
from gw.telemetry.redact import Redactor
from tests.fakes import stored


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
    with trio.fail_after(5):
        while not (found := [line for line in logs if line["event"] == name]):
            await trio.lowlevel.checkpoint()
    return found


async def test_sighup_reads_the_file_again_and_a_faulty_one_changes_nothing(tmp_path):
    path = tmp_path / "gw.yaml"

    def reread():
        return parse(path.read_text(), file=str(path), env={}, data_dir=tmp_path)

    path.write_text(TEXT)
    redactor = Redactor()
    async with open_gateway(reread()) as gateway, trio.open_nursery() as nursery:
        await nursery.start(reload_on_signal, gateway, reread, redactor)
        before = gateway.current.catalog
        with capture_logs() as logs:
            path.write_text(TEXT + "projects: {shop: {daily_budget: -1}}")
            signal.raise_signal(signal.SIGHUP)
            [failed] = await events(logs, "reload_failed")
            assert "gw.yaml:3:" in str(failed["why"])
            assert gateway.current.catalog is before
            path.write_text(TEXT + "projects: {shop: {}}\nserve: {port: 9}\nauth: {admin_token: admin-canary-012345}")
            signal.raise_signal(signal.SIGHUP)
            [done] = await events(logs, "reloaded")
        assert done["needs_restart"] == ["serve.port"]
        assert "shop" in gateway.current.catalog.projects
        assert gateway.settings.auth.on
        assert "canary" not in redactor.text("admin-canary-012345")
        nursery.cancel_scope.cancel()


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
