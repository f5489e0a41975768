"""Features that only OpenAI's dialect has; for shared ones see `tests/contract/test_dialects.py`."""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.dialects.data_plane import DataPlane
from gw.providers.sim import fsk
from gw.wire import wav
from tests.contract.endpoints import (
    CHAT_STREAM,
    CHAT_WHOLE,
    SPEECH,
    TRANSCRIPTION,
    TRANSLATION,
    chat_body,
    form_body,
    recording,
)
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  own: {type: openai, api_key: k, base_url: "http://own.test/v1"}
  sim: {}
models:
  llm: {own/m: {}, sim/echo: {aliases: [écho]}, sim/scripted: {}}
  stt: {own/m: {}, sim/tone: {}}
  tts: {own/m: {}, sim/tone: {}}
stacks: {demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}}
projects: {shop: {default_stack: demo}}
"""


@pytest.fixture
async def plane(tmp_path):
    async with open_plane(CONFIG, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("model", ["sim/echo", "demo", "écho", "echo"])
async def test_a_model_by_any_of_its_names(plane, autojump_clock, model):
    reply = await CHAT_WHOLE.ask(plane, model)
    assert reply.headers["x-gw-model"] == "sim/echo"
    assert reply.json["model"] == "echo"
    assert float(reply.headers["x-gw-cost-usd"]) == plane.kept.record.cost_nusd / 1e9


@pytest.mark.parametrize("endpoint", [CHAT_WHOLE, CHAT_STREAM, SPEECH, TRANSCRIPTION], ids=lambda e: e.name)
@pytest.mark.parametrize("model", ["", "default"])
async def test_no_model_is_the_projects_stack(plane, autojump_clock, endpoint, model):
    reply = await endpoint.ask(plane, model, {"x_gw_project": "shop"})
    assert reply.headers["x-gw-model"] in ("sim/echo", "sim/tone")


async def test_a_model_name_beyond_ascii_is_escaped_in_the_header(tmp_path, autojump_clock):
    config = CONFIG.replace("own/m: {}", "own/módel: {}", 1)
    async with open_plane(config, tmp_path) as opened:
        opened.net.hosts["own.test", 80] = hosted(FakeOpenAI())
        reply = await CHAT_WHOLE.ask(opened, "own/módel")
        assert reply.headers["x-gw-model"] == "own/m\\xf3del"


async def test_an_unstreamed_answer_that_we_built(plane, autojump_clock):
    reply = await CHAT_WHOLE.ask(plane, "sim/echo")
    body = reply.json
    assert body["id"] == "chatcmpl-" + reply.headers["x-request-id"]
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] == sum(body["usage"][n] for n in ("prompt_tokens", "completion_tokens"))


async def test_a_limit_of_tokens_ends_the_answer(plane, autojump_clock):
    reply = await CHAT_WHOLE.ask(plane, "sim/echo", max_completion_tokens=2)
    assert reply.json["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(("form", "content_type"), [("wav", "audio/wav"), ("pcm", "audio/pcm")])
async def test_speech_in_samples(plane, autojump_clock, form, content_type):
    reply = await SPEECH.ask(plane, "sim/tone", response_format=form)
    assert reply.headers["content-type"] == content_type
    info = wav.parse(reply.body)
    samples = reply.body[info.data_offset :] if info else reply.body
    assert [done.text for done in fsk.decode(samples, 24_000)] == ["one two three four five six"]


@pytest.mark.parametrize("model", ["own/m", "sim/tone"])
@pytest.mark.parametrize(
    ("form", "content_type", "beginning"),
    [
        ("text", "text/plain", b"hello there"),
        ("srt", "application/x-subrip", b"1\n00:00:"),
        ("vtt", "text/vtt", b"WEBVTT\n\n00:00:"),
        ("verbose_json", "application/json", b'{"task":"transcribe"'),
    ],
)
async def test_transcripts_in_the_requested_format(plane, autojump_clock, model, form, content_type, beginning):
    fake = FakeOpenAI()
    plane.net.hosts["own.test", 80] = hosted(fake)
    reply = await TRANSCRIPTION.ask(plane, model, response_format=form)
    assert reply.headers["content-type"].partition(";")[0] == content_type
    assert reply.body.startswith(beginning)
    assert b"hello there" in reply.body
    assert all(entry.audio == recording() for entry in fake.ledger)


async def test_a_translation_stays_one(plane, autojump_clock):
    fake = FakeOpenAI()
    plane.net.hosts["own.test", 80] = hosted(fake)
    assert (await TRANSLATION.ask(plane, "own/m", prompt="names: Zoë")).status == 200
    (entry,) = fake.ledger
    assert entry.path == "/v1/audio/translations"
    assert entry.fields["prompt"] == "names: Zoë"


@pytest.mark.parametrize(
    ("path", "body", "content_type", "param"),
    [
        ("/v1/chat/completions", b'{"model":"sim/echo"}', "application/json", "messages"),
        ("/v1/chat/completions", b'{"messages":[{"role":"user"}],"stream":"yes"}', "application/json", "stream"),
        ("/v1/audio/speech", b'{"model":"sim/tone","input":" "}', "application/json", "input"),
        ("/v1/audio/speech", b'{"input":"a","response_format":"midi"}', "application/json", "response_format"),
        ("/v1/audio/transcriptions", b"{}", "application/json", "content-type"),
        (
            "/v1/audio/transcriptions",
            b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nsim/tone\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            "file",
        ),
        (
            "/v1/audio/transcriptions",
            b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            "file",
        ),
    ],
)
async def test_a_bad_request_names_the_member(plane, autojump_clock, path, body, content_type, param):
    reply = await plane.post(path, body, content_type)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "invalid_request", param)
    assert plane.kept.records == []


async def test_under_a_host_that_only_tells_of_leaving_the_call_is_cancelled_too(tmp_path, autojump_clock):
    """Without the extension `gw.cancels` the app has to listen for `http.disconnect` itself."""
    config = CONFIG.replace("sim: {}", "sim: {type: sim, token_ms: 1000}")
    async with open_plane(config, tmp_path) as plane:
        body, _ = chat_body("sim/echo", stream=True)
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "extensions": {}}
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            if messages:
                return messages.pop()
            await trio.sleep(2.5)
            return {"type": "http.disconnect"}

        sent = []

        async def send(message):
            sent.append(message)

        await DataPlane(plane.gateway)(scope, receive, send)
        assert trio.current_time() == pytest.approx(2.5)
        record = plane.kept.record
        assert (record.status, record.usage.output_tokens > 0) == ("cancelled", True)
        assert msgspec.json.decode(sent[1]["body"].split(b"\n")[0][6:])["object"] == "chat.completion.chunk"


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/openai/v1/audio/transcriptions"])
@pytest.mark.parametrize("model", ["sim/tone", "own/m"])
async def test_the_seconds_of_a_transcription_are_whole_and_groqs_clients_get_their_id(plane, autojump_clock, path, model):
    plane.net.hosts["own.test", 80] = hosted(FakeOpenAI(transcript="hi"))
    body, content_type = form_body(model)
    reply = await plane.post(path, body, content_type)
    usage, groq = reply.json["usage"], reply.json.get("x_groq")
    assert (usage["type"], type(usage["seconds"])) == ("duration", int)
    measured = plane.kept.record.usage.audio_seconds
    assert measured <= usage["seconds"] < measured + 1
    assert groq == ({"id": "req_" + reply.headers["x-request-id"]} if path.startswith("/openai/") else None)
