"""Listen, think, speak in the page: with a microphone that hears the demo engine's speech, and with a file."""

from __future__ import annotations

import io
import re
import wave
from array import array

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
        f"--use-file-for-fake-audio-capture={file}",  # played again and again
        "--autoplay-policy=no-user-gesture-required",
    )


KEEP_UPLOADS = """
const set = FormData.prototype.set;
FormData.prototype.set = function (name, value, ...rest) {
  if (value instanceof File) window.uploaded = value;
  return set.call(this, name, value, ...rest);
};
"""
"""Keeps the file that the page sends last: Chromium does not show the bytes of files in the requests it reports."""


def _uploaded(page):
    """Return the WAV file that the page sent last."""
    return bytes(page.evaluate("async () => Array.from(new Uint8Array(await window.uploaded.arrayBuffer()))"))


def _sounding_s(samples, rate):
    """Return how many seconds of 16-bit samples are louder than a tenth of full scale, in steps of 20 ms."""
    step = rate // 50
    return sum(max(map(abs, samples[at : at + step])) > 3_276 for at in range(0, len(samples), step)) / 50


def _card(page, name):
    return page.get_by_role("region", name=name, exact=True)


def test_the_microphone_is_recorded_and_sent(demo, view, voice_file):
    """Compares loudness, not words: Chromium's fake microphone skips samples when the machine is busy."""
    seen = view(demo, arguments=_microphone(voice_file), allowed="502 (Bad Gateway)")
    seen.page.add_init_script(KEEP_UPLOADS)
    page = seen.open("/playground")
    with wave.open(str(voice_file)) as played:
        length_s = played.getnframes() / played.getframerate()
        spoken_s = _sounding_s(array("h", played.readframes(played.getnframes())), played.getframerate())
    listen = _card(page, "Listen")
    listen.get_by_role("button", name="Microphone").click()
    listen.get_by_role("button", name="Stop").wait_for()
    page.wait_for_timeout(length_s * 1_000)  # the recording itself: once the whole file
    listen.get_by_role("button", name="Stop").click()
    listen.get_by_text("microphone.wav").wait_for()
    listen.get_by_role("button", name="Transcribe").click()
    listen.locator("[data-cost]").or_(listen.get_by_role("alert")).wait_for()
    with wave.open(io.BytesIO(_uploaded(page))) as sent:
        assert (sent.getnchannels(), sent.getsampwidth(), sent.getframerate()) == (1, 2, 16_000)
        assert sent.getnframes() / 16_000 > length_s / 2
        assert _sounding_s(array("h", sent.readframes(sent.getnframes())), 16_000) > spoken_s / 2


def test_a_spoken_question_gets_a_spoken_answer(demo, view, voice_file):
    seen = view(demo, arguments=("--autoplay-policy=no-user-gesture-required",))
    page = seen.open("/playground")
    page.get_by_label("llm model").select_option("sim/echo")
    page.locator("input[type=file]").set_input_files(voice_file)
    page.get_by_role("button", name="Full turn").click()
    page.locator("audio").wait_for()
    assert page.locator("[data-said]").input_value() == SAID
    assert page.locator("[data-answer]").input_value() != ""
    page.locator("[data-cost]").nth(2).wait_for()
    length_s = page.evaluate("""async () => {
        const audio = document.querySelector('audio');  // its length is NaN until the browser has read its head
        if (!audio.duration) await new Promise((known) => audio.addEventListener('durationchange', known, {once: true}));
        return audio.duration;
    }""")
    assert length_s > 0.5
    page.get_by_role("link", name="the turn's waterfall").click()
    page.locator("main h1", has_text="Turn").wait_for()
    seen.settle()
    turn = demo.ask("/api/turns/" + page.url.rpartition("/")[2])
    assert turn["requests"] == page.locator(".fall ol > li:not(.app)").count() == 3
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
