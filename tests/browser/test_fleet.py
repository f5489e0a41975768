"""The fleet on the page Settings, with a real Valkey server."""

from __future__ import annotations

import time

import pytest

from tests.browser.conftest import Site
from tests.browser.test_axe import FOUND
from tests.e2e.conftest import starter
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.browser

YAML = """
providers: {{sim: {{}}}}
models: {{llm: {{sim/echo: {{price: {{unit: 1M_tokens, input: 100, output: 1000}}}}}}}}
projects: {{default: {{daily_budget: 5, budget_action: block}}}}
fleet: {{valkey: "{valkey}", name: production, instance: gw-1}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    yield running
    running.kill()


@pytest.fixture(scope="module")
def member(tmp_path_factory, server):
    with starter(tmp_path_factory.mktemp("member")) as start:
        yield Site(start(YAML.format(valkey=server.url)).url)


def test_settings_show_the_fleet_as_the_api_does(member, server, view, axe):
    deadline = time.monotonic() + 60
    while "error" in member.chat():  # the server grants budgets a moment after its start
        assert time.monotonic() < deadline
    spent = member.ask("/v1/costs")["total"]
    fleet = member.ask("/v1/fleet")
    while [one["used"] for one in fleet["accounts"]] != [spent]:
        assert time.monotonic() < deadline
        fleet = member.ask("/v1/fleet")
    seen = view(member)
    page = seen.open("/settings", "Settings")
    row = page.locator('tr[data-instance="gw-1"]')
    row.wait_for()
    cells = row.locator("th, td").all_inner_texts()
    assert cells[0] == "gw-1 (this one)"
    assert (cells[2], cells[3], cells[5]) == ("budget default", f"${spent:.4f}", "$5.00")
    assert [one["instance"] for one in fleet["members"]] == ["gw-1"]
    assert page.get_by_role("heading", name="Fleet production").is_visible()
    page.evaluate(axe)
    assert page.evaluate(FOUND) == []
    server.kill()
    page.get_by_text("cannot be used").wait_for()
    assert row.count() == 0


def test_a_gateway_that_runs_alone_shows_no_fleet(demo, view):
    page = view(demo).open("/settings", "Settings")
    assert page.get_by_role("heading", name="Fleet").count() == 0
