"""Client secrets of OpenAI's protocol: what they open, with which settings, for how long and for whom."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.errors import ProviderError
from gw.net.ws import open_ws
from tests.fakes.conversing import Conversing
from tests.fakes.hosting import GATEWAY, open_plane

KEY = "gwk_shop-8351026789"
CONFIG = f"""
providers: {{sim: {{latency_ms: 0}}}}
models: {{llm: [sim/echo], stt: [sim/tone], tts: {{sim/tone: {{default_voice: tone}}}}}}
stacks: {{trio: {{stt: sim/tone, llm: sim/echo, tts: sim/tone}}}}
projects: {{shop: {{}}}}
auth: {{admin_token: admin-8351026789, keys: [{{key: {KEY}, project: shop, name: server}}]}}
"""
PATH = "/v1/realtime/client_secrets"


@pytest.fixture
async def plane(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as result:
        yield result


async def _ask(plane, body, credential=KEY, path=PATH):
    return await plane.post(path, msgspec.json.encode(body), authorization=f"Bearer {credential}")


@asynccontextmanager
async def _open(plane, secret, query=""):
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    target = f"/v1/realtime{query}".encode()
    async with open_ws("client", GATEWAY, target, headers=headers, connect=plane.client.connect) as ws:
        client = Conversing(ws)
        yield client, (await client.until("session.created"))["session"]


async def test_its_sessions_begin_with_its_settings(plane):
    session = {"type": "realtime", "model": "trio", "instructions": "Be brief.", "output_modalities": ["text"]}
    answer = (await _ask(plane, {"session": session, "expires_after": {"anchor": "created_at", "seconds": 60}})).json
    assert answer["value"].startswith("ek_")
    assert 59 <= answer["expires_at"] - plane.gateway.clock.now() <= 60
    described = {name: answer["session"][name] for name in session}
    assert described == session
    assert (answer["session"]["object"], answer["session"]["id"][:5]) == ("realtime.session", "sess_")
    async with _open(plane, answer["value"]) as (client, created):
        assert {name: created[name] for name in session} == session
        text = [{"type": "input_text", "text": "one two"}]
        item = {"type": "message", "role": "user", "content": text}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        done = await client.until("response.done")
    (item,) = done["response"]["output"]
    assert [part["type"] for part in item["content"]] == ["output_text"]
    assert {(record.project, record.key_id) for record in plane.kept.records} == {("shop", "server")}


async def test_the_query_names_another_model(plane):
    secret = (await _ask(plane, {"session": {"type": "realtime", "model": "other"}})).json["value"]
    async with _open(plane, secret, "?model=trio") as (_, created):
        assert created["model"] == "trio"


async def test_a_secret_for_transcription(plane):
    settings = {"input": {"transcription": {"model": "sim/tone", "language": "en"}}}
    answer = (await _ask(plane, {"session": {"type": "transcription", "audio": settings}}, path="/openai" + PATH)).json
    assert answer["session"]["object"] == "realtime.transcription_session"
    async with _open(plane, answer["value"]) as (_, created):
        assert (created["type"], created["audio"]["input"]["transcription"]) == ("transcription", settings["input"]["transcription"])


async def test_it_chats_and_speaks_until_it_expires(plane):
    secret = (await _ask(plane, {"expires_after": {"seconds": 10}})).json["value"]
    requests = {
        "/v1/chat/completions": {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]},
        "/v1/audio/speech": {"model": "sim/tone", "input": "hi", "voice": "tone"},
    }
    assert [(await _ask(plane, body, secret, path)).status for path, body in requests.items()] == [200, 200]
    assert {record.project for record in plane.kept.records} == {"shop"}
    assert (await _ask(plane, {}, secret)).status == 403   # it makes no other secret
    await trio.sleep(10)
    assert [(await _ask(plane, body, secret, path)).status for path, body in requests.items()] == [401, 401]
    with pytest.raises(ProviderError, match="401"):
        async with _open(plane, secret):
            raise AssertionError("the socket has opened")


async def test_what_is_wrong_is_named(plane):
    wrong = [
        ({"expires_after": {"seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"seconds": 7_201}}, "expires_after.seconds"),
        ({"session": {"type": "dancing"}}, "session.type"),
        ({"session": {"model": 5}}, "session.model"),
        ({"session": {"instructions": 5}}, "session.instructions"),
        ({"session": {"type": "transcription", "audio": 5}}, "session"),
        ({"session": {"instructions": "x" * 256_000}}, "session"),
    ]
    answers = [await _ask(plane, body) for body, _ in wrong]
    assert [(answer.status, answer.error["param"]) for answer in answers] == [(400, param) for _, param in wrong]
    assert (await _ask(plane, {}, "gwk_wrong-8351026789")).status == 401


async def test_a_setting_that_is_not_done_is_named_by_the_session(plane):
    session = {"include": ["item.input_audio_transcription.logprobs"], "instructions": "Be brief."}
    answer = await _ask(plane, {"session": session})
    assert (answer.status, answer.json["session"]["instructions"]) == (200, "Be brief.")
    async with _open(plane, answer.json["value"], "?model=trio") as (client, created):
        error = await client.until("error")
        assert (error["error"]["param"], created["instructions"]) == ("session.include", "Be brief.")


async def test_settings_have_a_limit_together(plane, monkeypatch):
    monkeypatch.setattr(plane.gateway.credentials._sessions, "_limit", 100)
    big = {"session": {"instructions": "x" * 60}, "expires_after": {"seconds": 10}}
    assert [(await _ask(plane, big)).status for _ in range(2)] == [200, 503]
    await trio.sleep(10)
    assert (await _ask(plane, big)).status == 200
