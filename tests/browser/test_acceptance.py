"""A month of requests on 24 models and 50 projects: questions answered in three clicks, pages drawn at once.

There are two days of it, and with `GW_NIGHTLY=1` the whole month. They come from `bench/seed_records.py`, and one bad hour is added:
`GW_BROWSER_DB` names a database of it to copy, which saves its minute or two.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from bench.seed_records import models, seed
from gw.store.batches import write_batch
from gw.store.sqlite import open_writer
from gw.types.usage import AttemptRecord, RequestRecord, Usage
from tests.browser.conftest import Site
from tests.browser.test_axe import FOUND, SMALL
from tests.browser.test_pages import PAGES
from tests.e2e.conftest import starter
from tests.fakes.nightly import NIGHTLY, times

pytestmark = pytest.mark.browser

STAGES = (("stt", "deepgram/stt-small"), ("llm", "openai/llm-small"), ("tts", "cartesia/tts-small"))
ROWS, DAYS = times(66_000, 1_000_000), times(2, 30)
PROJECTS = 50
CALLS, TURNS = 12, 4
DRAWN_MS = 500
"""At night; by day two browsers and their gateways share the machine's cores, and the time is only printed."""
SLOW_S = 90.0
"""More than the made-up conversations take, whose steps are as far apart as any requests."""
LOCAL = ("whisper", "ollama", "kokoro")


def bad_hour(now: float) -> float:
    """Return the last complete hour from ten to eleven, UTC."""
    ten = now // 86_400 * 86_400 + 36_000
    return ten if ten + 3_600 <= now else ten - 86_400


def slow_call(number: int, ten: float) -> list[RequestRecord]:
    """Return a conversation whose last turn waited for a voice that answered 503 after a long time."""
    records = []
    for turn in range(TURNS):
        at = ten + 120 * number + 20 * turn
        slow = turn == TURNS - 1
        for step, (modality, model) in enumerate(STAGES):
            waited = SLOW_S * 1_000 if slow and modality == "tts" else 0.0
            answered = "elevenlabs/tts-small" if waited else model
            ok = AttemptRecord(model_id=answered, outcome="ok", started_ms=waited, duration_ms=200, ttfb_ms=100)
            failed = AttemptRecord(
                model_id=model, outcome="failed", started_ms=0, duration_ms=waited, error_code="upstream_failed", upstream_status=503,
                detail="no healthy upstream",
            )  # fmt: skip
            records.append(
                RequestRecord(
                    id=f"slow-{number}-{turn}-{modality}", timestamp=at + 0.4 * step, project="project-03", modality=modality,
                    model_id=answered, provider=answered.partition("/")[0], requested_model=model,
                    status="fallback" if waited else "success", total_latency_ms=waited + 200, ttfb_ms=waited + 100, gateway_ms=0.3,
                    cost_nusd=1_000_000, pricing_source="table", usage=Usage(audio_seconds=2.0, characters=20),
                    attempts=(failed, ok) if waited else (ok,), fallback_from=model if waited else None,
                    session_id=f"slow-call-{number}", turn_id=f"slow-turn-{number}-{turn}", endpoint="seed",
                )
            )  # fmt: skip
    return records


def config() -> str:
    listed = {modality: [one.id for one in group] for modality, group in models().items()}
    providers = sorted({name.partition("/")[0] for names in listed.values() for name in names})
    keys = [f"  {name}: {{}}" if name in LOCAL else f"  {name}: {{api_key: sk-bench-0000000000000000}}" for name in providers]
    chains = [f"  {modality}: [{', '.join(names)}]" for modality, names in listed.items()]
    projects = [f"  project-{n:02}: {{daily_budget: {1 + n}}}" for n in range(PROJECTS)]
    return "\n".join(["providers:", *keys, "models:", *chains, "projects:", *projects])


@pytest.fixture(scope="module")
def ten():
    return bad_hour(time.time())


@pytest.fixture(scope="module")
def large(tmp_path_factory, ten):
    folder = tmp_path_factory.mktemp("large")
    path = folder / "gw.db"
    if made := os.environ.get("GW_BROWSER_DB"):
        shutil.copy(Path(made), path)
    else:
        seed(path, ROWS, days=DAYS, end=time.time())
    db = open_writer(path)
    write_batch(db, [record for number in range(CALLS) for record in slow_call(number, ten)])
    db.close()
    with starter(folder) as start:
        yield Site(start(config(), GW_LOG_LEVEL="error").url)


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_the_database_is_as_large_as_it_says(large):
    assert large.ask("/v1/costs?period=all")["requests"] >= ROWS + 3 * CALLS * TURNS
    assert len(large.ask("/v1/models")["models"]) >= 24
    assert len(large.ask("/v1/projects")["projects"]) >= PROJECTS


def test_why_calls_were_slow_at_ten(large, view, ten):
    """With the period of that hour chosen: conversations by first audio, a call, its request."""
    seen = view(large)
    page = seen.open(f"/sessions?from={iso(ten)}&to={iso(ten + 3_600)}")
    page.get_by_role("button", name="First audio p95").click()  # 1
    page.wait_for_url("**sort=-first_audio_p95_ms**")
    seen.settle()
    rows = page.locator("tr[data-session]")
    slowest = {rows.nth(n).get_attribute("data-session") for n in range(CALLS)}
    assert slowest == {f"slow-call-{n}" for n in range(CALLS)}
    rows.first.locator("a").click()  # 2
    page.locator("main h1", has_text="Conversation").wait_for()
    seen.settle()
    assert page.locator('[data-figure="Slowest"]').inner_text() == "90.9 s"
    turn = page.locator("tr[data-turn]", has=page.locator("td.warn"))
    turn.get_by_role("link", name="tts").click()  # 3
    drawer = page.get_by_role("dialog")
    drawer.get_by_text("cartesia/tts-small").first.wait_for()
    assert "HTTP 503" in drawer.inner_text()


# ---- the questions of a day, each from the first page in at most three clicks


def test_what_was_spent_and_by_whom(large, view):
    seen = view(large)
    page = seen.open("/?period=7d")
    page.get_by_role("region", name="Spend").get_by_role("link").click()  # 1
    page.locator("main h1", has_text="Costs").wait_for()
    page.get_by_role("group", name="Split by").get_by_role("button", name="Project").click()  # 2
    page.get_by_role("heading", name="By project").wait_for()
    seen.settle()
    costs = large.ask("/v1/costs?period=7d")["by_project"]
    dearest = max(costs, key=lambda name: costs[name]["cost"])
    assert dearest in page.locator("section", has=page.get_by_role("heading", name="By project")).locator("tbody tr").first.inner_text()


def test_why_requests_fail(large, view):
    seen = view(large)
    page = seen.open("/?period=24h")
    page.get_by_role("region", name="Errors").get_by_role("link").click()  # 1
    page.locator("main h1", has_text="Logs").wait_for()
    seen.settle()
    row = page.locator("tr[data-id]").first
    record_id = row.get_attribute("data-id")
    row.locator("a").first.click()  # 2
    drawer = page.get_by_role("dialog", name=f"Request {record_id}")
    [attempt] = large.ask(f"/v1/requests/{record_id}")["attempts"]
    drawer.get_by_text(attempt["error_code"]).first.wait_for()


def test_which_model_is_slow(large, view):
    seen = view(large)
    page = seen.open("/?period=24h")
    page.get_by_role("link", name="Latency", exact=True).click()  # 1
    page.locator("main h1", has_text="Latency").wait_for()
    seen.settle()
    models = page.get_by_role("region", name="Models")
    models.get_by_role("button", name="p95").first.click()  # 2
    models.locator("th[aria-sort=descending]").wait_for()
    slowest = models.locator("tbody tr").first.locator(".mono").first.inner_text()
    measured = large.ask("/v1/latency?period=24h")
    assert slowest == max(measured, key=lambda name: measured[name]["ttfb_percentiles"]["p95"] or 0)


def test_which_provider_is_in_trouble(large, view):
    seen = view(large)
    page = seen.open("/?period=24h")
    page.get_by_role("region", name="Fallbacks fired").get_by_role("link").click()  # 1
    page.locator("main h1", has_text="Reliability").wait_for()
    seen.settle()
    for one in large.ask("/api/reliability?period=24h")["providers"]:
        text = page.locator(f'li[data-provider="{one["provider"]}"]').inner_text()
        assert "answered" in text


def test_which_budget_is_nearly_spent(large, view):
    seen = view(large)
    page = seen.open("/")
    page.get_by_role("link", name="All projects").click()  # 1
    page.locator("main h1", has_text="Projects").wait_for()
    seen.settle()
    page.get_by_role("button", name="Spent today").click()  # 2
    page.locator("th[aria-sort=descending]", has_text="Spent today").wait_for()
    spent = {name: one["cost_today"] for name, one in large.ask("/v1/projects")["stats"].items()}
    assert page.locator("tr[data-id]").first.get_attribute("data-id") == max(spent, key=lambda name: spent[name])


FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
ALL = {
    **PAGES, "/?period=30d": "Overview", "/latency?period=30d": "Latency", "/costs?period=30d&by=project": "Costs",
    "/reliability?period=30d": "Reliability", "/sessions?period=1h&sort=-first_audio_p95_ms": "Conversations",
    "/sessions?trouble=interruption": "Conversations", "/sessions/slow-call-3": "Conversation", "/turns/slow-turn-3-3": "Turn",
    "/logs?status=error": "Logs", "/logs?period=24h&sort=-total_latency_ms": "Logs", "/turns?period=1h&sort=-first_audio_ms": "Turns",
}  # fmt: skip


def test_every_page_is_drawn_at_once(large, view):
    """The fastest of some rounds: this machine does other things as well."""
    seen = view(large)
    late = {}
    for path, title in ALL.items():
        for _ in range(times(1, 6)):
            seen.open(path, title)
            late[path] = min(late.get(path, 1e9), seen.page.evaluate(FRAME))
            assert seen.page.locator(".trouble").count() == 0, path
            if late[path] <= DRAWN_MS:
                break
    print({path: round(took) for path, took in late.items()})
    assert list(late) == list(ALL)
    assert {path: took for path, took in late.items() if NIGHTLY and took > DRAWN_MS} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible_and_fits(large, view, axe, theme):
    """At a desk, and 390 px wide: with the column that a table is about in sight."""
    seen = view(large, theme=theme)
    for path, title in ALL.items():
        page = seen.open(path, title)
        page.evaluate(axe)
        for width in (1360, 390):
            seen.resize(width)
            assert page.evaluate(FOUND) == [], (path, width)
            assert page.evaluate(SMALL) == [], (path, width)
            assert seen.wider_than(width) == [], path


IMPORTANT = {
    "/sessions": "First audio p95", "/turns": "First audio", "/logs": "Status", "/latency": "p95", "/costs": "Cost", "/models": "Price",
}  # fmt: skip


@pytest.mark.parametrize("path", IMPORTANT)
def test_the_important_column_is_in_sight_on_a_telephone(large, view, path):
    page = view(large, width=390).open(f"{path}?period=24h" if path in ("/latency", "/costs") else path)
    head = page.locator("table.data th", has_text=IMPORTANT[path]).first
    box = head.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
