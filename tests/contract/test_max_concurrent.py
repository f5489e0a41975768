"""More requests at once than a project or a provider may have: a short wait, then 429 in the shape of every dialect."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import trio

from gw.errors import RateLimitError
from tests.contract.endpoints import ENDPOINTS
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Received, read
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {house: {type: sim, latency_ms: LATENCY}, other: {type: sim}}
models: {llm: [house/echo, other/echo], stt: [house/tone], tts: [house/tone]}
PROVIDER
projects: {default: {PROJECT}}
routing: {whole_answer_s: 600}
"""
MODELS = {"llm": "house/echo", "stt": "house/tone", "tts": "house/tone"}
LIMITS = (("max_concurrent: 1", ""), ("", "rate_limiting: {house: {max_concurrent: 1}}"))
CHAT = msgspec.json.encode({"model": "house/echo", "messages": [{"role": "user", "content": "hi"}]})


def config(project: str, provider: str, latency_ms: int) -> str:
    return CONFIG.replace("PROJECT", project).replace("PROVIDER", provider).replace("LATENCY", str(latency_ms))


async def post(plane, answers, body=CHAT):
    began = trio.current_time()
    reply = await plane.post("/v1/chat/completions", body)
    answers.append((reply.status, round(trio.current_time() - began, 1), reply))


async def test_some_wait_in_turn_and_the_others_get_429(tmp_path, autojump_clock):
    for project, provider in LIMITS:
        async with open_plane(config(project, provider, 450), tmp_path) as plane:
            answers = []
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(post, plane, answers)
            assert [status for status, _, _ in answers].count(200) == 3
            for status, seconds, reply in answers:
                assert (status == 429) == (seconds == 1.0)
                if status == 429:
                    assert reply.headers["retry-after"] == "1"
                    assert reply.json["error"]["code"] == "rate_limit_exceeded"
            assert plane.gateway.ledger.in_flight("default") == 0


async def test_who_has_waited_for_the_provider_waits_for_the_place_that_another_took_meanwhile(tmp_path, autojump_clock):
    """The one place of the project: a request that waits for its provider does not keep it, and is not refused for that."""
    text = config("", LIMITS[1][1], 450).replace("other: {type: sim}", "other: {type: sim, latency_ms: 450}")
    async with open_plane(text.replace("{default: {}}", "{default: {max_concurrent: 1}, b: {}}"), tmp_path) as plane:
        answers = []

        async def chat(model, project, after_s):
            await trio.sleep(after_s)
            body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "fallback": False}
            reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body), **{"x-gw-project": project})
            answers.append((model, project, reply.status, round(trio.current_time() - began, 2)))

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat, "house/echo", "b", 0)
            nursery.start_soon(chat, "house/echo", "default", 0.1)
            nursery.start_soon(chat, "other/echo", "default", 0.2)
        assert answers == [("house/echo", "b", 200, 0.45), ("other/echo", "default", 200, 0.65), ("house/echo", "default", 200, 1.1)]


async def test_with_another_candidate_nobody_waits(tmp_path, autojump_clock):
    text = config("fallbacks: {llm: [house/echo, other/echo]}", LIMITS[1][1], 700)
    async with open_plane(text, tmp_path) as plane:
        answers = []
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(post, plane, answers)
        assert [status for status, _, _ in answers] == [200, 200]
        assert min(seconds for _, seconds, _ in answers) < 0.5


async def test_every_endpoint_and_socket_says_429_in_its_own_words(tmp_path, autojump_clock):
    for project, provider in LIMITS:
        async with open_plane(config(project, provider, 600_000), tmp_path) as plane, trio.open_nursery() as nursery:
            nursery.start_soon(post, plane, [])
            await trio.sleep(0.1)
            cells = 0
            for endpoint in ENDPOINTS:
                body, content_type = endpoint.body(MODELS[endpoint.modality])
                reply = await plane.post(endpoint.path, body, content_type)
                assert reply.status == 429, endpoint.name
                assert int(reply.headers["retry-after"]) >= 1, endpoint.name
                assert endpoint.gw(reply)["code"] == "rate_limited", endpoint.name
                cells += 1
            for talker in TALKERS:
                with suppress(RateLimitError):  # the handshake was answered with 429
                    received = Received()
                    async with talker.open(plane, "house/tone") as ws:
                        for frame in (*talker.begin("house/tone"), talker.audio(b"\0\0" * 640)):
                            await ws.send(frame)
                        await read(talker, ws, received)
                    assert received.code in (1013, 3009), talker.name  # 3009: AssemblyAI's "too many concurrent sessions"
                    assert received.errors or received.reason, talker.name
                cells += 1
            for reader in READERS:
                with suppress(RateLimitError):
                    spoken = Spoken()
                    async with reader.open(plane, "house/tone") as ws:
                        await send(ws, [*reader.begin("house/tone"), *reader.say("Hi."), *reader.end], "house/tone")
                        await receive_speech(reader, ws, spoken)
                    assert spoken.errors or spoken.code == 1013, reader.name
                cells += 1
            assert cells == len(ENDPOINTS) + len(TALKERS) + len(READERS)
            nursery.cancel_scope.cancel()
