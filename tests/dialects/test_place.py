"""More requests at once than `serve.max_in_flight`: by project and key in turn, and refused in the caller's own protocol."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gw.config.parse import parse
from gw.errors import ConfigError
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import ADMIN

CONFIG = """
providers: {sim: {latency_ms: 250}}
models: {llm: [sim/echo], tts: [sim/tone], stt: [sim/tone]}
projects: {busy: {}, calm: {}}
auth:
  admin_token: admin-token-8351026789
  keys: [{key: gwk_busy_8351026789, project: busy}, {key: gwk_calm_8351026789, project: calm}]
serve: {port: 0, max_in_flight: 2}
"""
BUSY = {"authorization": "Bearer gwk_busy_8351026789"}
CALM = {"authorization": "Bearer gwk_calm_8351026789"}
CHAT = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {"model": "sim/echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PLACES, WAITING = 2, 16


def handshake(url: str, query: str) -> int:
    try:
        connect(url.replace("http", "ws", 1) + "/v1/listen?model=sim/tone&encoding=linear16&" + query, proxy=None).close()
    except InvalidStatus as refused:
        return refused.response.status_code
    return 101


async def test_another_project_does_not_wait_for_the_many_of_one(tmp_path):
    async with open_running(tmp_path, CONFIG) as running:
        answers: list[tuple[str, int]] = []

        async def ask(name, path, body, headers):
            reply = await running.ask("POST", path, body, **headers)
            answers.append((name, reply.status))
            return reply

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(ask, "busy", "/v1/chat/completions", CHAT, BUSY)
            with trio.fail_after(60):
                while len(answers) < 30 - PLACES - WAITING:
                    await trio.lowlevel.checkpoint()
            assert {status for _, status in answers} == {503}
            chat = await ask("busy", "/v1/chat/completions", CHAT, BUSY)
            assert (chat.status, chat.headers["retry-after"], chat.json["error"]["gw"]["code"]) == (503, "1", "overloaded")
            other = await ask("busy", "/v1/messages", MESSAGES, BUSY)
            assert (other.status, other.json["type"], other.json["error"]["type"]) == (529, "error", "overloaded_error")
            assert await trio.to_thread.run_sync(handshake, running.url, "token=" + BUSY["authorization"][7:]) == 503
            assert (await running.get("/health")).status == 200
            metrics = await running.get("/v1/metrics", **ADMIN)
            assert f"gw_requests_in_flight {PLACES}" in metrics.body.decode()
            served_before = Counter(answers)["busy", 200]
            assert (await ask("calm", "/v1/chat/completions", CHAT, CALM)).status == 200
            assert Counter(answers)["busy", 200] - served_before <= 4, "it came after those that waited before it"


async def test_a_refused_request_does_not_use_up_its_token(tmp_path):
    async with open_running(tmp_path, CONFIG.replace("250", "1200").replace("max_in_flight: 2", "max_in_flight: 1")) as running:
        built = await running.ask("POST", "/v1/single-use-token/realtime_scribe", **BUSY)
        token = {"xi_api_key": built.json["token"]}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: running.ask("POST", "/v1/chat/completions", CHAT, **CALM))
            with trio.fail_after(60):
                while not running.gateway.relay.in_flight.requests:
                    await trio.lowlevel.checkpoint()
            assert (await running.ask("POST", "/v1/chat/completions", CHAT, **token)).status == 503  # after PLACE_S
        assert [(await running.get("/v1/voices", **token)).status for _ in range(2)] == [200, 401]


@pytest.mark.parametrize("weight", [0, 101, "'many'"])
def test_a_weight_is_a_small_number(tmp_path, weight):
    with pytest.raises(ConfigError, match="weight"):
        parse(CONFIG.replace("busy: {}", f"busy: {{weight: {weight}}}"), file="gw.yaml", env={}, data_dir=tmp_path)
