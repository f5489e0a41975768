"""Two gateways in one process, with other keys and clocks, side by side: neither notices the other."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import msgspec
import pytest
import trio

from gw.net.http1 import Origin
from gw.net.ws import WsClosed, open_ws
from gw.providers.sim import fsk
from tests.fakes.running import Running, open_running
from tests.fakes.temporary_gateway import NOON, SetClock

YAML = """
providers: {sim: {}, half: {type: sim, fail_rate: 0.5}, slow: {type: sim, rate_limit: 1}}
models: {stt: [sim/tone], llm: [sim/echo, half/echo, half/scripted, slow/echo], tts: [sim/tone]}
projects: {PROJECT: {}}
auth: {admin_token: ADMIN, keys: [{key: KEY, project: PROJECT, name: KEY}]}
"""


@attrs.frozen
class Side:
    """One of the two."""

    name: str
    running: Running

    @property
    def key(self) -> str:
        return f"gwk_{self.name}_8351026789"

    @property
    def admin(self) -> str:
        return f"admin-{self.name}-8351026789"

    async def ask(self, method: str, target: str, body: object = None, *, key: str = "", **headers: str):
        return await self.running.ask(method, target, body, authorization=f"Bearer {key or self.key}", **headers)

    async def chat(self, text: str, *, key: str = "", model: str = "sim/echo"):
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return await self.ask("POST", "/v1/chat/completions", body, key=key)

    async def token(self, **body: object) -> str:
        return (await self.ask("POST", "/v1/auth/grant", body)).json["access_token"]

    async def single_use_token(self) -> str:
        return (await self.ask("POST", "/v1/single-use-token/realtime_scribe")).json["token"]

    async def listen(self, texts: list[str]) -> tuple[str, list[str]]:
        """Transcribe over Deepgram's socket; return the id of the session and the final transcripts."""
        target = b"/v1/listen?model=sim/tone&encoding=linear16&sample_rate=16000"
        headers = [(b"authorization", f"Token {self.key}".encode())]
        finals: list[str] = []
        id_ = ""
        async with open_ws("client", Origin.parse(self.running.url), target, headers=headers) as ws:
            for text in texts:
                await ws.send(b"".join(fsk.encode(text, 16_000)) + b"\0\0" * 2_000)
            await ws.send('{"type": "CloseStream"}')
            try:
                while True:
                    message = msgspec.json.decode(await ws.receive())
                    if message["type"] == "Results" and message["is_final"]:
                        finals.append(message["channel"]["alternatives"][0]["transcript"])
                    id_ = message.get("request_id") or message.get("metadata", {}).get("request_id") or id_
            except WsClosed:
                return id_, finals

    def is_own_id(self, id_: str) -> bool:
        """Return whether the id has the time of this gateway's clock."""
        return int(id_.replace("-", "")[:12], 16) == int(self.running.clock.now() * 1000)


@asynccontextmanager
async def open_side(folder, name: str, now: float):
    side = Side(name, None)
    text = YAML.replace("PROJECT", name).replace("ADMIN", side.admin).replace("KEY", side.key)
    async with open_running(folder / name, text, SetClock(now)) as running:
        yield attrs.evolve(side, running=running)


@pytest.fixture
async def sides(tmp_path):
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
    async with open_side(tmp_path, "left", NOON) as left, open_side(tmp_path, "right", NOON + 1e8) as right:
        yield left, right


async def test_keys_are_good_in_their_own_gateway_only(sides):
    for _ in range(2):  # each request makes the other gateway's keys the ones looked up last
        for mine, other in (sides, sides[::-1]):
            assert (await mine.chat("hello")).status == 200
            assert (await mine.chat("hello", key=other.key)).status == 401
            assert (await mine.ask("GET", "/v1/keys", key=mine.admin)).status == 200
            assert (await mine.ask("GET", "/v1/keys", key=other.admin)).status == 401


async def test_ids_and_records_follow_each_clock(sides):
    left, right = sides
    answers = [(side, await side.chat(side.name)) for side in (left, right, left)]
    for side, answer in answers:
        id_ = answer.headers["x-request-id"]
        assert side.is_own_id(id_)
        shown = await side.ask("GET", f"/v1/requests/{id_}", key=side.admin)
        assert (shown.json["project"], shown.json["key_id"]) == (side.name, side.key)
        other = right if side is left else left
        assert (await other.ask("GET", f"/v1/requests/{id_}", key=other.admin)).status == 404
    left.running.clock.at += 3_600
    assert left.is_own_id((await left.chat("later")).headers["x-request-id"])
    assert right.is_own_id((await right.chat("unmoved")).headers["x-request-id"])
    assert left.is_own_id((await left.ask("GET", "/no/such/path")).headers["x-request-id"])


async def test_tokens_are_good_in_their_own_gateway_until_its_clock_ends_them(sides):
    left, right = sides
    mine, other = await left.token(ttl_seconds=60), await right.token(ttl_seconds=60)
    assert (await left.chat("hello", key=mine)).status == 200
    assert (await right.chat("hello", key=other)).status == 200
    assert (await left.chat("hello", key=other)).status == 401
    assert (await right.chat("hello", key=mine)).status == 401
    left.running.clock.at += 61
    assert (await left.chat("hello", key=mine)).status == 401
    assert (await right.chat("hello", key=other)).status == 200


async def test_a_token_used_up_in_one_gateway_is_good_in_the_other(sides):
    left, right = sides
    mine, other = await left.single_use_token(), await right.single_use_token()
    assert [(await left.chat("hello", key=mine)).status for _ in range(2)] == [200, 401]
    assert [(await right.chat("hello", key=other)).status for _ in range(2)] == [200, 401]


@pytest.mark.parametrize(
    ("models", "statuses"),
    [(["half/echo", "half/scripted"], [503, 200]), (["slow/echo"], [200, 429])],  # a provider's models share its counters
)
async def test_simulated_faults_and_limits_count_in_each_gateway(sides, models, statuses):
    answers: dict[str, list[int]] = {"left": [], "right": []}
    for model in (models[0], models[-1]):
        for side in sides:
            answers[side.name].append((await side.chat("hello", model=model)).status)
    assert answers == {"left": statuses, "right": statuses}
    for side in sides:
        entries = (await side.ask("GET", "/v1/logs", key=side.admin)).json
        assert sorted(entry["status"] for entry in entries) == ["error", "success"]


async def test_sessions_of_the_dashboard_end_in_their_own_gateway_only(sides):
    left, right = sides
    cookies = {}
    for side in sides:
        login = await side.running.ask("POST", "/api/login", {"token": side.admin})
        assert login.status == 200
        cookies[side.name] = login.headers["set-cookie"].partition(";")[0]
    own = {"x_gw_dashboard": "1"}
    assert (await left.running.get("/v1/keys", cookie=cookies["left"], **own)).status == 200
    assert (await right.running.get("/v1/keys", cookie=cookies["left"], **own)).status == 401
    await left.running.ask("POST", "/api/logout", cookie=cookies["left"], **own)
    assert (await left.running.get("/v1/keys", cookie=cookies["left"], **own)).status == 401
    assert (await right.running.get("/v1/keys", cookie=cookies["right"], **own)).status == 200


async def test_live_sessions_and_requests_run_side_by_side(sides):
    left, right = sides
    heard: dict[str, tuple[str, list[str]]] = {}

    async def listen(side: Side, texts: list[str]) -> None:
        heard[side.name] = await side.listen(texts)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, left, ["one two", "three"])
            nursery.start_soon(listen, right, ["four", "five six"])
            for side in (left, right, left, right):
                answer = await side.chat(f"from {side.name}")
                assert answer.json["choices"][0]["message"]["content"].endswith(f"from {side.name}")
    assert (heard["left"][1], heard["right"][1]) == (["one two", "three"], ["four", "five six"])
    assert left.is_own_id(heard["left"][0])
    assert right.is_own_id(heard["right"][0])
    for side in sides:
        assert side.running.gateway.relay.in_flight.requests == 0
        assert set(side.running.gateway.pool.in_use) == set()
