from __future__ import annotations

import apsw
from structlog.testing import capture_logs

from gw.config.demo import demo_settings
from gw.gateway import open_gateway
from gw.serve import load_sample_history
from gw.telemetry.clock import utc_day


async def test_the_sample_history_is_the_past_and_today_is_empty(tmp_path):
    async with open_gateway(demo_settings(tmp_path)) as gateway:
        today = utc_day(gateway.clock.now())
        await load_sample_history(gateway)
        assert (await gateway.store.totals(today - 6)).cost_nusd > 0
        assert (await gateway.store.totals(today)).requests == 0
        assert {gateway.ledger.spent(project) for project in ("default", "demo")} == {0}
        [newest] = await gateway.store.logs(limit=1)
        assert newest.endpoint == "sample"


async def test_a_database_that_takes_no_history_does_not_stop_the_demo(tmp_path):
    settings = demo_settings(tmp_path)
    async with open_gateway(settings) as gateway:
        foreign = apsw.Connection(str(settings.cost_tracking.db_path))
        foreign.set_busy_timeout(5_000)  # the store may be pruning just now
        foreign.execute("begin immediate")
        with capture_logs() as logs:
            await load_sample_history(gateway)
        foreign.close()
        assert [line["event"] for line in logs] == ["sample_history_left_out"]
        assert "another program is writing" in logs[0]["why"]
        assert await gateway.store.logs() == []
