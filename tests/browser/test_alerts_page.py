"""The page Alerts beside the API: an incident that is open, a receiver that accepts nothing, a test and a mute."""

from __future__ import annotations

import time

import pytest

from tests.browser.conftest import Site
from tests.browser.test_axe import FOUND, SMALL
from tests.e2e.conftest import starter
from tests.fakes.alert_receiver import SECRET, loopback_receiver

pytestmark = pytest.mark.browser

YAML = """
providers: {{sim: {{}}}}
models: {{llm: {{sim/echo: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}}}}}
projects: {{shop: {{daily_budget: 0.000001}}}}
alerts:
  check_s: 1
  receivers:
    oncall: {{url: "{url}", secret: {secret}}}
    <team>: {{type: slack, url: "http://127.0.0.1:9/services/T0/B0/s3cr3t-path"}}
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A gateway with a spent budget, one receiver that accepts messages and one that is not there."""
    with loopback_receiver(time.time) as (receiver, url), starter(tmp_path_factory.mktemp("alerts")) as start:
        site = Site(start(YAML.format(url=url, secret=SECRET).replace("<team>", "team")).url)
        site.chat(project="shop")
        receiver.wait_for(lambda r: len(r.incidents) == 2)
        deadline = time.monotonic() + 60
        while not site.ask("/v1/alerts")["receivers"][1]["last_error"]:
            assert time.monotonic() < deadline
        yield site


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_shows_what_the_api_says(watched, view, axe, theme):
    seen = view(watched, theme=theme)
    page = seen.open("/alerts", "Alerts")
    report = watched.ask("/v1/alerts")
    rows = page.locator("section[aria-label='Open incidents'] tbody tr").all_inner_texts()
    assert len(rows) == len(report["open"]) == 2
    for row, incident in zip(rows, report["open"], strict=True):
        assert incident["text"] in row
        assert incident["rule"].replace("_", " ") in row
    waiting = page.locator("tr[data-receiver=team]").inner_text()
    assert "1 message since" in waiting
    assert "connection refused (127.0.0.1:9)" in waiting.lower()
    assert "nothing" in page.locator("tr[data-receiver=oncall]").inner_text()
    assert len(page.locator("section[aria-label=Rules] tbody tr").all()) == len(report["rules"])
    assert "s3cr3t" not in page.content()
    for width in (1280, 360):
        seen.resize(width)
        page.evaluate(axe)
        assert page.evaluate(FOUND) == []
        assert page.evaluate(SMALL) == []
        assert seen.wider_than(width) == []


def test_a_receiver_is_tested_and_a_rule_muted(watched, view):
    page = view(watched).open("/alerts", "Alerts")
    page.get_by_role("button", name="Test oncall").click()
    page.locator("tr[data-receiver=oncall]").get_by_text("accepted").wait_for()
    page.get_by_role("button", name="Test team").click()
    page.locator("tr[data-receiver=team] [role=status]", has_text="efused").wait_for()
    rule = page.locator("tr[data-rule=error_rate]")
    rule.get_by_label("Mute error rate", exact=True).select_option("4")
    rule.get_by_text("muted").wait_for()
    (muted,) = [one for one in watched.ask("/v1/alerts")["rules"] if one["muted_until"]]
    assert muted["rule"] == "error_rate"
    assert 4 * 3_600 - 60 < muted["muted_until"] - time.time() <= 4 * 3_600
    rule.get_by_role("button", name="Unmute error rate").click()
    rule.get_by_label("Mute error rate", exact=True).wait_for()
    assert not [one for one in watched.ask("/v1/alerts")["rules"] if one["muted_until"]]


def test_without_a_receiver_the_page_says_what_to_do(demo, view):
    page = view(demo).open("/alerts", "Alerts")
    page.get_by_text("No receiver is configured").wait_for()
    assert "off" in page.locator("tr[data-rule=error_rate]").inner_text()
