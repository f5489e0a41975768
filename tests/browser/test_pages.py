"""Every page: the API's own number for traffic of this test, one request to open it, and a reload on the spot."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

pytestmark = pytest.mark.browser

PAGES = {
    "/": "Overview",
    "/live": "Live",
    "/sessions": "Conversations",
    "/turns": "Turns",
    "/logs": "Logs",
    "/latency": "Latency",
    "/costs": "Costs",
    "/reliability": "Reliability",
    "/alerts": "Alerts",
    "/providers": "Providers",
    "/models": "Models",
    "/projects": "Projects",
    "/keys": "Keys",
    "/playground": "Playground",
    "/audit": "Audit",
    "/people": "People",
    "/settings": "Settings",
}
STREAM = "/api/live"


@pytest.fixture(scope="module")
def used(fresh):
    """A gateway of this module's own, with traffic."""
    fresh.chat(model="sim/nope")
    fresh.chat(model="sim/flaky", fallback="off")
    for number in range(3):  # the last record comes after all others
        fresh.turn(f"turn-{number}", project="demo" if number else "default")
    return fresh


@pytest.mark.parametrize(("path", "title"), PAGES.items())
def test_a_page_opens_with_one_request_and_survives_a_reload(used, view, path, title):
    seen = view(used)
    page = seen.open(path, title)
    assert page.title() == f"{title} · gw"
    assert len([one for one in seen.asked if one != STREAM]) <= 1, seen.asked
    assert seen.asked.count(STREAM) <= 1
    page.reload()
    seen.settle()
    assert page.locator("main h1").inner_text() == title
    assert page.locator("nav[aria-label=Pages] a[aria-current=page]").inner_text() == title


def test_the_navigation_goes_through_all_pages_without_loading_anew(used, view):
    seen = view(used)
    page = seen.open("/")
    page.evaluate("window.kept = true")
    for path, title in PAGES.items():
        page.locator("nav[aria-label=Pages]").get_by_role("link", name=title, exact=True).click()
        page.locator("main h1", has_text=title).wait_for()
        assert page.url == used.url + path
    page.go_back()
    page.locator("main h1", has_text="People").wait_for()
    assert page.evaluate("window.kept")


def test_overview(used, view):
    seen = view(used)
    page = seen.open("/")
    answer = used.ask("/api/overview")
    assert seen.stat("Requests") == str(answer["today"]["requests"])
    assert seen.stat("Running now") == "0"
    assert seen.stat("Errors") == f"{100 * answer['today']['errors'] / answer['today']['requests']:.1f} %"
    assert float(seen.stat("Spend today").lstrip("$")) == pytest.approx(answer["today"]["cost"], rel=0.05)
    assert "$0.01" in page.locator("li", has_text="Demo").inner_text()
    used.chat()
    page.reload()
    seen.settle()
    assert seen.stat("Requests") == str(answer["today"]["requests"] + 1)


def test_the_project_switcher_and_the_period_stay_from_page_to_page(used, view):
    seen = view(used)
    page = seen.open("/costs")
    page.get_by_role("button", name="Project: All projects").click()
    page.get_by_role("option", name="Demo").click()
    page.get_by_role("button", name="7 d", exact=True).click()
    seen.settle()
    page.wait_for_url(f"{used.url}/costs?project=demo&period=7d")
    answer = used.ask("/v1/costs?project=demo&period=7d")
    assert float(seen.stat("Spend").lstrip("$")) == pytest.approx(answer["total"], rel=0.05)
    page.get_by_role("link", name="Latency", exact=True).click()
    page.locator("main h1", has_text="Latency").wait_for()
    page.wait_for_url(f"{used.url}/latency?project=demo&period=7d")
    assert seen.asked[-1] == "/api/pages/latency?period=7d&project=demo"


def test_turns_and_their_waterfall(used, view):
    seen = view(used)
    page = seen.open("/turns")
    page.locator("tr", has=page.locator('a[title="turn-2"]')).locator("a").click()
    page.locator("main h1", has_text="Turn").wait_for()
    seen.settle()
    answer = used.ask("/api/turns/turn-2")
    assert page.locator(".fall ol > li:not(.app)").count() == answer["requests"] == 3
    assert [stage["modality"] for stage in answer["stages"]] == ["stt", "llm", "tts"]
    page.locator(".fall a").first.click()
    drawer = page.get_by_role("dialog", name=f"Request {answer['stages'][0]['request_id']}")
    drawer.get_by_text("/v1/audio/transcriptions").first.wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")


def test_a_conversation_and_its_turns(used, view):
    seen = view(used)
    page = seen.open("/sessions")
    [listed] = used.ask("/v1/sessions?q=call-1&project=demo")
    row = page.locator('tr[data-session="call-1"]', has=page.get_by_text("demo"))
    assert row.locator("td").nth(4).inner_text() == str(listed["turns"]) == "2"
    row.locator("a").click()
    page.locator("main h1", has_text="Conversation").wait_for()
    seen.settle()
    whole = used.ask("/v1/sessions/call-1?project=demo")
    figure = {name: page.locator(f'[data-figure="{name}"]').inner_text() for name in ("Turns", "Whole call", "Project")}
    assert (figure["Turns"], figure["Project"]) == ("2", "demo")
    assert float(figure["Whole call"].lstrip("$")) == pytest.approx(whole["cost_usd"], rel=0.05)
    assert page.locator("tr[data-turn]").count() == len(whole["conversation"])
    page.locator("tr[data-turn]").first.get_by_role("link", name="llm").click()
    stage = next(stage for stage in whole["conversation"][0]["stages"] if stage["modality"] == "llm")
    page.get_by_role("dialog", name=f"Request {stage['request_id']}").wait_for()
    page.reload()
    page.get_by_role("dialog", name=f"Request {stage['request_id']}").wait_for()


def test_conversations_are_filtered_and_sorted_by_the_gateway(used, view):
    seen = view(used)
    page = seen.open("/sessions?project=demo")
    page.get_by_label("Trouble").select_option("error")
    page.get_by_text("No conversations match").wait_for()
    page.get_by_label("Trouble").select_option("")
    page.get_by_role("button", name="Cost").click()
    page.wait_for_url("**sort=-cost_usd**")
    page.locator("th[aria-sort=descending]", has_text="Cost").wait_for()
    seen.settle()
    assert seen.asked[-1] == "/v1/sessions?project=demo&sort=-cost_usd&limit=50"
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().startswith("session_id,project,timestamp,")


def test_latency(used, view):
    seen = view(used)
    page = seen.open("/latency?model=sim/tone&other=sim/echo")
    answer = used.ask("/v1/latency")
    row = page.get_by_role("region", name="Models").locator("tr", has_text="sim/echo")
    assert row.locator("td").nth(1).inner_text() == str(answer["sim/echo"]["request_count"])
    waits = used.ask("/v1/first-audio")
    first = page.get_by_role("region", name="First audio")
    [stack] = waits["by_stack"]
    assert first.locator(f'tr[data-group="{stack}"] td').nth(1).inner_text() == str(waits["by_stack"][stack]["count"])
    assert f"{waits['all']['count']} turns" in first.inner_text()
    lines = page.get_by_role("region", name="Over time")
    assert (first.locator("canvas").count(), lines.locator("canvas").count()) == (1, 1)
    assert "sim/echo p95" in (page.get_by_role("img", name="Time to first byte of").get_attribute("aria-label") or "")
    lines.get_by_role("button", name="Table", exact=True).click()
    assert page.get_by_role("columnheader", name="sim/tone p50").count() == 1
    page.get_by_role("button", name="Total", exact=True).click()
    page.wait_for_url("**metric=latency**")


def test_models_slower_than_the_warning_are_marked(guarded, view):
    for model in ("slow/echo", "sim/echo"):
        guarded.chat(model=model)
    page = view(guarded, extra_http_headers=guarded.headers).open("/latency")
    answer = guarded.ask("/v1/latency")
    for model in ("slow/echo", "sim/echo"):  # on a busy machine the other one may be slow, too
        late = [name for name in ("p95", "p99") if answer[model]["ttfb_percentiles"][name] > 300]
        assert len(late) == 2 or model == "sim/echo"
        assert page.locator("tr", has_text=model).locator("td.warn").count() == len(late)


def test_costs_by_every_split_and_export(used, view):
    seen = view(used)
    page = seen.open("/costs")
    answer = used.ask("/v1/costs")
    assert page.locator("tr", has_text="sim/tone").last.locator("td").nth(4).inner_text() == str(answer["by_model"]["sim/tone"]["requests"])
    for split in ("Provider", "Project", "Modality"):
        page.get_by_role("group", name="Split by").get_by_role("button", name=split).click()
        page.get_by_role("heading", name=f"By {split.lower()}").wait_for()
        seen.settle()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    text = download.value.path().read_text()
    assert text.splitlines()[0] == "utc," + ",".join(answer["by_modality"])
    month = used.ask("/api/forecast")
    assert float(seen.stat("Month to date").lstrip("$")) == pytest.approx(month["total"]["spent"], rel=0.05)


def test_a_bill_is_reconciled(used, view, tmp_path):
    bill = tmp_path / "usage.csv"
    bill.write_text("model,input_tokens,output_tokens,cost_usd\ngpt-5-mini,100,20,1.5\n")
    seen = view(used)
    page = seen.open("/costs")
    page.locator("input[type=file]").set_input_files(bill)
    page.get_by_text("1 row beyond 5 %").wait_for()
    row = page.locator("tr", has_text="gpt-5-mini")
    assert row.locator("td").nth(3).inner_text() == "100"
    bill.write_text("model,what\n")
    with page.expect_response("**/v1/reconcile"):
        page.locator("input[type=file]").set_input_files(bill)
    page.get_by_role("alert").wait_for()
    seen.troubles.clear()  # the browser's own note of the 422


def test_reliability_and_a_test_now(used, view):
    seen = view(used)
    page = seen.open("/reliability")
    (answer,) = used.ask("/api/reliability")["providers"]
    row = page.locator('li[data-provider="sim"]')
    assert f"{answer['totals']['ok']} answered" in row.inner_text()
    row.get_by_role("button", name="Test now").click()
    row.get_by_text("Answered in").wait_for()


def test_audit_shows_before_and_after(used, view):
    used.ask("/v1/projects", {"project_id": "watched", "daily_budget": 1})
    used.ask("/v1/projects/watched", {"daily_budget": 4.5}, method="PATCH")
    seen = view(used)
    page = seen.open("/audit?entity_id=watched")
    entry = page.locator("ol > li").first
    assert entry.locator(".old").all_inner_texts() == ["1"]
    assert entry.locator(".new").all_inner_texts() == ["4.5"]
    assert page.locator("ol > li").count() == len(used.ask("/v1/audit-log?entity_id=watched")) == 2
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert len(download.value.path().read_text().splitlines()) == 3
    page.get_by_role("group", name="Period").get_by_role("button", name="15 min").click()
    page.locator("ol > li").nth(1).wait_for()
    seen.open("/audit?entity_id=watched&from=2020-01-01T00%3A00%3A00Z&to=2020-01-02T00%3A00%3A00Z")
    page.get_by_text("No changes match").wait_for()


def test_turns_are_filtered_sorted_and_exported(used, view):
    seen = view(used)
    page = seen.open("/turns?project=demo")
    page.get_by_label("Trouble").select_option("error")
    page.get_by_text("No turns match").wait_for()
    page.get_by_label("Trouble").select_option("")
    page.get_by_role("button", name="First audio").click()
    page.locator("th[aria-sort=descending]", has_text="First audio").wait_for()
    seen.settle()
    assert seen.asked[-1] == "/api/turns?project=demo&sort=-first_audio_ms&limit=50"
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    rows = json.loads(download.value.path().read_text())
    assert {row["turn_id"] for row in rows} == {"turn-1", "turn-2"}
    assert rows[0]["timestamp"].endswith("Z")


def test_settings(guarded, view):
    seen = view(guarded, extra_http_headers=guarded.headers)
    page = seen.open("/settings")
    section = page.get_by_role("region", name="rate_limiting")
    assert "gw.yaml:" in section.locator("tr", has_text="sim.requests_per_minute").inner_text()
    assert guarded.headers["authorization"].removeprefix("Bearer ") not in page.content()
    assert guarded.ask("/health")["version"] in page.locator("dl").first.inner_text()


def test_an_unknown_path_within_the_dashboard_says_so(used, view):
    """Such as a link of an older bookmark that the page itself follows; the gateway answers 404 to a request for one."""
    page = view(used).open("/costs")
    page.evaluate("history.pushState({}, '', '/nothing-here'); dispatchEvent(new PopStateEvent('popstate'))")
    page.locator("main h1", has_text="Page not found").wait_for()


def test_a_page_says_when_the_gateway_is_gone(used, view):
    seen = view(used, allowed="Failed to load resource")
    page = seen.page
    page.route("**/api/overview*", lambda route: route.abort())
    page.goto(used.url + "/")
    page.get_by_role("alert").get_by_text("The gateway does not answer").wait_for()
    page.unroute("**/api/overview*")
    page.get_by_role("button", name="Try again").click()
    page.locator('[data-stat="Requests"]').wait_for()


def test_the_period_is_chosen_once_for_all_pages_and_compared(used, view):
    seen = view(used)
    page = seen.open("/")
    page.get_by_role("group", name="Period").get_by_role("button", name="1 h", exact=True).click()
    page.wait_for_url(f"{used.url}/?period=1h")
    seen.settle()
    answer = used.ask("/api/overview?period=1h")["compared"]
    assert seen.stat("Requests") == str(answer["current"]["requests"]) != "0"
    assert "the last hour, compared with the hour before" in page.locator("main").inner_text().lower()
    page.get_by_role("button", name="Custom").click()
    form = page.get_by_role("form", name="Custom period")
    form.get_by_label("From (UTC)").fill("2020-01-01T00:00:00")
    form.get_by_label("To, empty = now").fill("2020-01-02T00:00:00")
    form.get_by_role("button", name="Show").click()
    page.wait_for_url("**/?from=2020-01-01T00%3A00%3A00.000Z&to=2020-01-02T00%3A00%3A00.000Z")
    seen.settle()
    assert seen.stat("Requests") == "0"
    page.get_by_role("link", name="Logs", exact=True).click()
    page.get_by_text("No requests match").wait_for()
    assert "from=2020" in seen.asked[-1], "the log is of the same period"
    page.get_by_role("button", name="Any time").click()
    page.locator("tr[data-id]").first.wait_for()


def test_times_in_utc_or_of_the_reader(used, view):
    seen = view(used, timezone_id="Asia/Kolkata")
    page = seen.open("/logs")
    first = page.locator("tr[data-id] a.line").first
    utc = first.inner_text()
    page.get_by_role("button", name="Times: UTC").click()
    seen.settle()
    local = first.inner_text()
    hour, minute, second = (int(part) for part in utc[-8:].split(":"))
    later = (hour * 60 + minute + 330) % 1_440
    assert local[-8:] == f"{later // 60:02}:{later % 60:02}:{second:02}"
    assert "Times are local time" in page.locator("main").inner_text()
    page.reload()
    seen.settle()
    assert first.inner_text() == local


def test_tables_are_filtered_and_sorted_and_the_view_is_saved(used, view):
    seen = view(used)
    page = seen.open("/models")
    names = page.locator("tr[data-id]")
    every = names.evaluate_all("rows => rows.map(row => row.dataset.id)")
    page.get_by_role("button", name="Model", exact=True).click()
    page.wait_for_url("**/models?sort=Model")
    shown = names.evaluate_all("rows => rows.map(row => row.dataset.id)")
    assert sorted(every) == sorted(shown) == shown or [one.split()[0] for one in shown] == sorted(one.split()[0] for one in shown)
    page.get_by_role("button", name="Model", exact=True).click()
    assert names.evaluate_all("rows => rows.map(row => row.dataset.id)")[0].split()[0] == max(one.split()[0] for one in every)
    assert page.locator("th[aria-sort=descending]").count() == 1

    page = seen.open("/providers")
    page.get_by_label("Find in Providers").fill("flak")
    page.wait_for_url("**/providers?find=flak")
    assert names.evaluate_all("rows => rows.map(row => row.dataset.id)") == [
        one["provider_id"] for one in used.ask("/api/pages/providers")["providers"] if "flak" in one["provider_id"]
    ]
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of the view").fill("flaky ones")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_role("link", name="Providers", exact=True).click()
    page.wait_for_url(f"{used.url}/providers")
    page.reload()
    seen.settle()
    page.get_by_role("button", name="Views (1)").click()
    page.get_by_role("link", name="flaky ones").click()
    page.wait_for_url("**/providers?find=flak")
    assert page.get_by_label("Find in Providers").input_value() == "flak"
    page.get_by_role("button", name="Views (1)").click()
    page.get_by_role("button", name="Delete the view flaky ones").click()
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="Views", exact=True).is_visible()


def test_the_table_of_costs_is_sorted_by_what_it_shows(used, view):
    seen = view(used)
    page = seen.open("/costs?sort=requests")
    counts = page.locator("tbody tr").locator("td:nth-child(5)").all_inner_texts()
    numbers = [int(text) for text in counts if text.isdigit()]
    assert len(numbers) > 2
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("path", ["/", "/costs", "/settings"])
def test_what_stands_side_by_side_begins_at_one_height(used, view, path):
    """A row of a grid is known by its left edges: they grow until the next row begins."""
    page = view(used).open(path)
    boxes = page.locator(".grid").evaluate_all(
        "grids => grids.map(grid => [...grid.children].map(one => one.getBoundingClientRect()).map(box => [box.left, box.top]))"
    )
    pairs = [(one, other) for grid in boxes for one, other in pairwise(grid) if other[0] > one[0]]
    assert pairs
    assert [pair for pair in pairs if abs(pair[0][1] - pair[1][1]) > 1] == []
