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


def test_a_spoken_question_gets_a_spoken_answer(demo, view, voice_file):
    seen = view(demo, arguments=_microphone(voice_file))
    page = seen.open("/playground")
    listen = _card(page, "Listen")
    listen.get_by_role("button", name="Microphone").click()
    listen.get_by_role("button", name="Stop").wait_for()
    page.wait_for_timeout(3_500)  # the microphone plays in real time
    listen.get_by_role("button", name="Stop").click()
    listen.get_by_text("microphone.wav").wait_for()
    page.get_by_label("llm model").select_option("sim/echo")
    page.get_by_role("button", name="Full turn").click()
    page.locator("audio").wait_for()
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
    told = demo.ask(f"/v1/requests/{ident[1]}")
    assert float(listen.locator("[data-cost]").inner_text().lstrip("$")) == pytest.approx(told["cost_usd"], rel=0.1)
    assert told["session_id"].startswith("playground-")
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


def test_a_guarded_gateway_lends_a_key_for_an_hour(guarded, view):
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/playground")
    page.get_by_label("Admin token").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    page.locator("[data-said]").fill("hello")
    assert page.get_by_role("button", name="Full turn").is_disabled()
    page.get_by_role("button", name="Make one for an hour").click()
    page.get_by_text("kept in this page only").wait_for()
    with page.expect_request("**/v1/chat/completions") as asked:
        page.get_by_role("button", name="Answer").click()
    assert asked.value.headers["authorization"].startswith("Bearer gwk_")
    (made,) = [key for key in guarded.ask("/v1/keys")["keys"] if key["name"] == "playground"]
    assert made["expires_at"] is not None
