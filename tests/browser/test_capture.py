"""What was said, where a project captures it: three clicks from the first page, by ear too, and each look in the audit log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import SAID, Site
from tests.browser.test_axe import FOUND
from tests.e2e.conftest import starter

pytestmark = pytest.mark.browser

CONFIG = """
providers: {sim: {latency_ms: 100}}
models: {stt: [sim/tone], llm: [sim/echo], tts: [sim/tone]}
projects:
  support: {capture: {text: true, audio: true, share: 1, keep_days: 2}}
  quiet: {}
"""
ANSWER = "It is sunny in Paris."   # what `Site.turn` has spoken
WORDS = "What was said"


@pytest.fixture(scope="module")
def capturing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with starter(tmp_path_factory.mktemp("capture")) as start:
        site = Site(start(CONFIG, GW_SECRET="a long secret that nobody knows").url)
        for number in range(2):
            site.turn(f"turn-{number}", session="call-1", project="support")
        site.turn("turn-9", session="call-9", project="quiet")
        yield site


def readings(site: Site) -> list[tuple[str, str]]:
    entries = site.ask("/v1/audit-log?entity_type=capture&limit=50")
    return [(entry["entity_id"], entry["changes"]["what"]) for entry in entries]


def test_what_did_the_caller_say(capturing, view):
    before = len(readings(capturing))
    seen = view(capturing)
    page = seen.open("/")
    page.get_by_role("link", name="Conversations", exact=True).click()  # 1
    seen.settle()
    page.locator('tr[data-session="call-1"] a').first.click()  # 2
    page.locator("main h1", has_text="Conversation").wait_for()
    seen.settle()
    region = page.get_by_role("region", name=WORDS)
    assert SAID not in page.locator("main").inner_text()
    assert len(readings(capturing)) == before, "nothing is read before somebody asks for it"
    region.get_by_role("button", name="Show what was said").click()  # 3
    region.locator("li[data-said]").nth(5).wait_for()
    shown = [text.splitlines()[-1] for text in region.locator("li[data-said] p.line").all_inner_texts()]
    stored = capturing.ask("/v1/capture/call-1")["requests"]
    assert shown == [one["text"] for request in stored for one in request["said"]]
    assert (shown.count(SAID), shown.count(ANSWER)) == (6, 2)  # of two turns: heard, asked, echoed; and spoken
    assert readings(capturing)[1] == ("call-1", "text")


def test_a_turn_is_played_on_its_time_line(capturing, view):
    seen = view(capturing, arguments=("--autoplay-policy=no-user-gesture-required",))
    page = seen.open("/turns/turn-1?session=call-1")
    region = page.get_by_role("region", name=WORDS)
    region.get_by_role("button", name="Show what was said").click()
    speech = region.locator("li[data-said]", has=page.locator(".modality.tts")).locator("audio")
    speech.wait_for()
    duration = speech.evaluate("(audio) => new Promise((done) => { audio.onended = () => done(audio.duration); audio.play(); })")
    turn = capturing.ask("/api/turns/turn-1?session=call-1")
    stage = next(stage for stage in turn["stages"] if stage["modality"] == "tts")
    [text] = [request for request in capturing.ask("/v1/capture/turn-1")["requests"] if request["modality"] == "tts"]
    began = (text["timestamp"] - turn["timestamp"]) * 1000 + stage["ttfb_ms"]
    assert float(page.locator("[data-playing]").get_attribute("data-playing")) == pytest.approx(began + duration * 1000, abs=60)
    assert page.locator(".grid-lines .now").count() == len(turn["stages"])
    assert (stage["request_id"], "audio") in readings(capturing)


def test_words_are_found(capturing, view):
    seen = view(capturing)
    page = seen.open("/sessions")
    page.get_by_text("Search in what was said").click()
    region = page.get_by_role("region", name="Search in what was said")
    region.get_by_role("searchbox", name="Words that were said").fill("WEATHER in")
    region.get_by_role("button", name="Search").click()
    region.get_by_text("places in").wait_for()
    found = capturing.ask("/v1/capture-search", {"text": "WEATHER in"})["found"]
    assert region.locator("li").count() == len(found) == 8  # six of the call, and two in which the tests had the question spoken
    assert "weather" not in page.url
    region.locator("li a").first.click()
    drawer = page.get_by_role("dialog", name=f"Request {found[0]['request_id']}")
    drawer.get_by_role("button", name="Show what was said").click()
    drawer.get_by_text(SAID).first.wait_for()
    assert {what for _, what in readings(capturing)} >= {"search", "text"}


def test_a_project_without_capture_says_so(capturing, view):
    page = view(capturing, allowed="404").open("/sessions/call-9")
    region = page.get_by_role("region", name=WORDS)
    region.get_by_role("button", name="Show what was said").click()
    region.get_by_text("Nothing of it was captured").wait_for()


def test_without_any_capture_there_is_no_button(demo, view):
    seen = view(demo)
    demo.turn("plain", session="plain-call")
    page = seen.open("/sessions/plain-call")
    assert page.get_by_role("region", name=WORDS).count() == 0
    page = seen.open("/sessions")
    page.get_by_text("Search in what was said").click()
    page.get_by_role("searchbox", name="Words that were said").fill("weather")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Nothing is captured.").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(capturing, view, axe, theme):
    seen = view(capturing, theme=theme, width=390)
    page = seen.open("/turns/turn-0?session=call-1")
    page.get_by_role("button", name="Show what was said").click()
    page.locator("audio").first.wait_for()
    page.evaluate(axe)
    assert page.evaluate(FOUND) == []
    assert seen.wider_than(390) == []
