"""Listen, think, speak in the page: with a microphone that hears the demo engine's speech, and with a file."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import ADMIN, SAID

pytestmark = pytest.mark.browser

SNIPPETS = {
    "curl": "curl -N",
    "OpenAI SDK": "from openai import OpenAI",
    "LiveKit": "livekit.plugins",
    "Pipecat": "pipecat.services",
}


def _microphone(file):
    return (
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={file}%noloop",
        "--autoplay-policy=no-user-gesture-required",
    )


def _card(page, name):
    return page.get_by_role("region", name=name, exact=True)


def _record_and_ask(page):
    """Record the fake microphone, run a whole turn and return whether the recording could be transcribed.

    Chromium's fake microphone plays in real time and skips samples when the machine is busy; a tone with a gap in it is
    refused by the demo engine.
    """
    listen = _card(page, "Listen")
    listen.get_by_role("button", name="Microphone").click()
    listen.get_by_role("button", name="Stop").wait_for()
    page.wait_for_timeout(3_500)
    listen.get_by_role("button", name="Stop").click()
    listen.get_by_text("microphone.wav").wait_for()
    page.get_by_role("button", name="Full turn").click()
    page.locator("audio").or_(listen.get_by_role("alert")).wait_for()
    return listen.get_by_role("alert").count() == 0


def test_a_spoken_question_gets_a_spoken_answer(demo, view, voice_file):
    seen = view(demo, arguments=_microphone(voice_file), allowed="502 (Bad Gateway)")
    page = seen.open("/playground")
    page.get_by_label("llm model").select_option("sim/echo")
    assert any(_record_and_ask(page) for _ in range(3))
    assert page.locator("[data-said]").input_value() == SAID
    assert page.locator("[data-answer]").input_value() != ""
    page.locator("[data-cost]").nth(2).wait_for()
    assert page.evaluate("document.querySelector('audio').duration") > 0.5
    page.get_by_role("link", name="the turn's waterfall").click()
    page.locator("main h1", has_text="Turn").wait_for()
    seen.settle()
    turn = demo.ask("/api/turns/" + page.url.rpartition("/")[2])
    assert turn["requests"] == page.locator(".fall ol > li").count() == 3
    assert set(turn["models"]) == {"stt", "llm", "tts"}


def test_each_step_alone_and_its_cost(demo, view, tmp_path):
    spoken = tmp_path / "question.wav"
    spoken.write_bytes(demo.speak("good morning"))
    seen = view(demo)
    page = seen.open("/playground")
    page.locator("input[type=file]").set_input_files(spoken)
    page.get_by_role("button", name="Transcribe").click()
    listen = _card(page, "Listen")
    listen.locator("[data-cost]").wait_for()
    assert page.locator("[data-said]").input_value() == "good morning"
    ident = re.search(r"open=([0-9a-f]+)", listen.get_by_role("link", name="record").get_attribute("href") or "")
    assert ident is not None
    shown = demo.ask(f"/v1/requests/{ident[1]}")
    assert float(listen.locator("[data-cost]").inner_text().lstrip("$")) == pytest.approx(shown["cost_usd"], rel=0.1)
    assert shown["session_id"].startswith("playground-")
    page.get_by_role("button", name="Answer").click()
    _card(page, "Think").locator("[data-cost]").wait_for()
    page.get_by_role("button", name="Speak").click()
    _card(page, "Speak").locator("[data-cost]").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save").click()
    assert download.value.path().read_bytes()[:4] == b"RIFF"


def test_a_step_that_fails_says_why(demo, view):
    seen = view(demo, allowed="Failed to load resource")
    page = seen.open("/playground")
    page.locator("[data-answer]").fill("hello")
    page.get_by_label("Voice").fill("no-such-voice")
    page.get_by_role("button", name="Speak").click()
    _card(page, "Speak").locator("audio, [role=alert]").first.wait_for()


def test_snippets_name_this_gateway(demo, view):
    page = view(demo).open("/playground")
    page.get_by_label("stt model").select_option("sim/tone")
    for client, words in SNIPPETS.items():
        page.get_by_role("group", name="Client").get_by_role("button", name=client).click()
        text = page.locator("[data-snippet]").inner_text()
        assert words in text
        assert f"{demo.url}/v1" in text
        assert "sim/tone" in text


def test_who_is_logged_in_needs_no_key(guarded, view, tmp_path):
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/playground")
    page.get_by_label("Admin token").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    spoken = tmp_path / "question.wav"
    spoken.write_bytes(guarded.speak("good morning"))
    page.locator("input[type=file]").set_input_files(spoken)
    page.get_by_label("Project").select_option("shop")
    page.get_by_label("llm model").select_option("sim/echo")
    with page.expect_request("**/v1/chat/completions") as request_sent:
        page.get_by_role("button", name="Full turn").click()
    assert {"authorization", "x-api-key"}.isdisjoint(request_sent.value.headers)
    page.locator("audio").wait_for()
    page.locator("[data-cost]").nth(2).wait_for()
    assert page.locator("[data-said]").input_value() == "good morning"
    assert guarded.ask("/v1/keys")["keys"] == [key for key in guarded.ask("/v1/keys")["keys"] if key["source"] == "yaml"]
    newest = guarded.ask("/v1/logs?limit=1")[0]
    assert (newest["project"], newest["key_id"], newest["status"]) == ("shop", None, "success")
    page.context.clear_cookies()
    page.get_by_role("button", name="Answer").click()
    page.get_by_label("Admin token").wait_for()
