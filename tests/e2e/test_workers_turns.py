"""Turns without ids over two workers: the connections of one call end up at either, and its requests are one turn all the same."""

from __future__ import annotations

import json

import httpx2
import pytest
import trio

from gw.net.http1 import Origin, Pool
from gw.net.ws import open_ws
from tests.contract.talkers import speech
from tests.e2e.conftest import compiled_once, starter
from tests.e2e.test_turns import RATE_HZ, App, new_turns, stages, turns_of

pytestmark = pytest.mark.process

CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {stt: [sim/tone], llm: [sim/echo], tts: [sim/tone]}
serve: {workers: 2}
"""
AT_ONCE, ROUNDS = 4, 4


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("turns")
    with starter(folder) as start:
        yield start(CONFIG, **compiled_once(folder)).url


async def take_turn(url, ws, text):
    """Say a sentence; have it answered, and the answer spoken, each on a connection of its own."""
    await ws.send(speech([text], RATE_HZ))
    while True:
        frame = json.loads(await ws.receive())
        if frame["type"] == "Results" and frame["is_final"] and (heard := frame["channel"]["alternatives"][0]["transcript"]):
            break
    for work in (App.think, App.speak):
        app = App(url)
        async with app.http:
            await work(app, heard)


async def call(url, texts):
    pool = Pool()
    path = f"/v1/listen?model=sim/tone&encoding=linear16&sample_rate={RATE_HZ}".encode()
    async with open_ws("gw", Origin.parse(url), path, connect=pool.connect) as ws:
        for text in texts:
            await take_turn(url, ws, text)
    await pool.aclose()


async def test_the_requests_of_a_call_are_joined_at_whichever_worker_they_arrive(url):
    known = turns_of(url)
    said = [[f"my number is {number} {number + 1} {turn}" for turn in range(ROUNDS)] for number in range(AT_ONCE)]
    async with trio.open_nursery() as nursery:
        for texts in said:
            nursery.start_soon(call, url, texts)
    found = await new_turns(url, known, AT_ONCE * ROUNDS)
    assert [stages(turn) for turn in found.values()] == [["stt", "llm", "tts"]] * (AT_ONCE * ROUNDS)
    sessions = [session for session, _ in found.values()]
    assert sorted(sessions.count(session) for session in set(sessions)) == [ROUNDS] * AT_ONCE
    with httpx2.Client(base_url=url) as http:
        assert all(worker["requests"] > 0 for worker in http.get("/v1/status").json()["workers"])
