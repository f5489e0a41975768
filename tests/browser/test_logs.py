"""The log: filters in the URL, pages by key, the drawer, copy as curl, the live tail, the export."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Site
from tests.e2e.conftest import starter

pytestmark = pytest.mark.browser

ROWS = "tbody tr[data-id]"
FOR_THE_TAIL = {"model": "sim/echo", "messages": [{"role": "user", "content": "for the tail"}]}


@pytest.fixture(scope="module")
def used(fresh):
    for number in range(105):
        fresh.chat(f"message {number}", turn=f"t-{number}")
    fresh.chat(model="sim/flaky", fallback="off")
    fresh.turn("with-speech")
    return fresh


def test_filters_are_in_the_url_and_the_rows_are_the_apis(used, view):
    seen = view(used)
    page = seen.open("/logs?modality=stt")
    page.locator(ROWS).first.wait_for()
    shown = [row.get_attribute("data-id") for row in page.locator(ROWS).all()]
    assert shown == [record["id"] for record in used.ask("/api/logs?modality=stt&limit=100")]
    page.get_by_label("modality").select_option("llm")
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("Turn").fill("t-7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/logs?modality=llm&turn=t-7")
    (wanted,) = used.ask("/api/logs?modality=llm&turn=t-7&limit=100")
    page.locator(ROWS).nth(1).wait_for(state="detached")
    assert page.locator(ROWS).get_attribute("data-id") == wanted["id"]
    page.reload()
    seen.settle()
    assert page.locator(ROWS).count() == 1
    page.get_by_role("button", name="Clear 2 filters").click()
    page.wait_for_url("**/logs")
    page.get_by_label("Request id starts with").fill(wanted["id"][:12])
    page.keyboard.press("Enter")
    page.wait_for_url("**q=*")
    seen.settle()
    page.locator(f'tr[data-id="{wanted["id"]}"]').wait_for()


def test_a_filter_that_matches_nothing(used, view):
    page = view(used).open("/logs?error_code=never_heard_of")
    assert page.get_by_text("No requests match").count() == 1


def test_pages_by_key(used, view):
    seen = view(used)
    page = seen.open("/logs?project=default&modality=llm")
    first = used.ask("/api/logs?project=default&modality=llm&limit=100")
    assert page.locator(ROWS).count() == 100
    page.get_by_role("button", name="Next page").click()
    page.wait_for_url(f"**before={first[-1]['id']}")
    seen.settle()
    older = used.ask(f"/api/logs?project=default&modality=llm&limit=100&before={first[-1]['id']}")
    page.locator(f'tr[data-id="{older[0]["id"]}"]').wait_for()
    assert page.locator(ROWS).count() == len(older)
    page.go_back()
    page.locator(f'tr[data-id="{first[0]["id"]}"]').wait_for()


def test_the_drawer_tells_the_attempts_and_how_to_ask_again(used, view):
    seen = view(used, permissions=["clipboard-read", "clipboard-write"])
    page = seen.open("/logs?status=error")
    failed, *_ = used.ask("/api/logs?status=error")
    page.locator(f'tr[data-id="{failed["id"]}"] a').click()
    drawer = page.get_by_role("dialog", name=f"Request {failed['id']}")
    attempt = drawer.locator("ol > li").first
    attempt.wait_for()
    assert failed["attempts"][0]["model_id"] in attempt.inner_text()
    assert failed["attempts"][0]["error_code"] in attempt.inner_text()
    drawer.get_by_role("button", name="Copy as curl").click()
    drawer.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl '{used.url}/v1/chat/completions'")
    assert '"model":"sim/flaky"' in copied
    page.wait_for_url(f"**open={failed['id']}*")
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    page.wait_for_url(lambda url: "open=" not in url)  # the browser tells of the address a moment later


def test_the_live_tail_shows_a_request_without_reading_again(used, view):
    seen = view(used)
    page = seen.open("/logs")
    page.get_by_role("button", name="Live tail").click()
    page.locator(".dot.good.pulse").wait_for()
    seen.asked.clear()
    for number in range(3):
        before = page.locator(ROWS).first.get_attribute("data-id")
        used.ask("/v1/chat/completions", FOR_THE_TAIL, headers={"x-gw-turn": f"tail-{number}"})  # does not wait for the record
        page.locator(f'{ROWS}:first-child:not([data-id="{before}"])').wait_for()
        used.recorded(page.locator(ROWS).first.get_attribute("data-id"))
        (newest,) = used.ask(f"/api/logs?turn=tail-{number}")
        assert page.locator(ROWS).first.get_attribute("data-id") == newest["id"]
    assert seen.asked == []  # the gateway sends them
    used.transcribe(used.speak())  # two more
    page.locator(ROWS).nth(2).and_(page.locator(f'[data-id="{newest["id"]}"]')).wait_for()
    page.get_by_role("button", name="Stop live tail").click()
    page.locator(".dot.good.pulse").wait_for(state="detached")


def test_the_live_page_shows_what_begins_and_what_ends(used, view):
    seen = view(used)
    page = seen.open("/live")
    page.get_by_text("connected", exact=True).wait_for()
    used.chat("for the live page", turn="live-1")
    (newest,) = used.ask("/api/logs?turn=live-1")
    row = page.locator(f'tr[data-id="{newest["id"]}"]')
    row.wait_for()
    assert "sim/echo" in row.inner_text()
    assert page.locator('[data-stat="running"]').inner_text() == "0"


def test_the_live_page_shows_what_runs(guarded, view):
    seen = view(guarded, extra_http_headers=guarded.headers)
    page = seen.open("/live")
    page.get_by_text("connected", exact=True).wait_for()
    caller = http.client.HTTPConnection(urlsplit(guarded.url).netloc)
    body = json.dumps({"model": "stalled/echo", "messages": [{"role": "user", "content": "take your time"}]})
    caller.request("POST", "/v1/chat/completions", body, {**guarded.headers, "x-gw-turn": "slow-1", "x-gw-project": "shop"})
    running = page.get_by_role("region", name="Running requests")
    row = running.locator("tr", has_text="slow-1")
    row.wait_for()
    assert {"stalled/echo", "shop", "first"} <= set(row.inner_text().split())
    assert running.locator('[data-stat="running"]').inner_text() == "1"
    page.reload()
    row.wait_for()  # what began before the page was opened is there too
    caller.close()
    row.wait_for(state="detached")
    ended = page.locator(ROWS, has_text="stalled/echo")
    ended.wait_for()
    (newest,) = guarded.ask("/api/logs?turn=slow-1")
    assert (ended.get_attribute("data-id"), newest["status"]) == (newest["id"], "cancelled")
    assert running.locator('[data-stat="running"]').inner_text() == "0"


def test_the_export_holds_the_filtered_rows(used, view):
    seen = view(used)
    page = seen.open("/logs?status=error")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    failed = used.ask("/api/logs?status=error&limit=1000")
    assert len(lines) == 1 + len(failed)
    assert failed[0]["id"] in lines[1]


def test_the_live_page_begins_with_the_last_fifty(used, view):
    last = used.ask("/api/logs?limit=50")
    page = view(used).open("/live", "Live")
    page.locator(ROWS).nth(49).wait_for()
    assert {row.get_attribute("data-id") for row in page.locator(ROWS).all()} == {one["id"] for one in last}


def test_a_gateway_that_is_gone_is_said_on_the_live_page(tmp_path, view):
    with starter(tmp_path) as start:
        daemon = start()
        seen = view(Site(daemon.url), allowed="Failed to load resource")
        page = seen.open("/live", "Live")
        page.get_by_text("connected", exact=True).wait_for()
        daemon.process.kill()
        page.get_by_role("alert").get_by_text("The gateway does not answer.").wait_for()
        assert page.get_by_role("status").inner_text() == "the gateway does not answer"


def test_fallbacks_are_a_list_by_their_number(used, view):
    moves = {}
    for move in used.ask("/api/reliability?period=30d")["fallbacks"]:
        pair = f"{move['from']} {move['to']}"
        moves[pair] = moves.get(pair, 0) + move["count"]
    assert moves
    page = view(used).open("/reliability?period=30d", "Reliability")
    rows = page.locator("tr[data-move]").all()
    shown = [(row.get_attribute("data-move"), int(row.locator("td.num").inner_text().replace(",", ""))) for row in rows]
    assert dict(shown) == moves
    assert [count for _, count in shown] == sorted(moves.values(), reverse=True)
