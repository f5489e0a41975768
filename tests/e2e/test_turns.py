"""Turns of a running gateway, made over HTTP and WebSocket and read back: what was once seen to go wrong with them."""

from __future__ import annotations

import json
import time

import httpx2
import pytest
import trio

from gw.net.http1 import Origin, Pool
from gw.net.ws import open_ws
from tests.contract.talkers import speech

pytestmark = pytest.mark.process

CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {stt: [sim/tone], llm: [sim/echo], tts: [sim/tone]}
"""
RATE_HZ = 16_000


@pytest.fixture(scope="module")
def url(start_for_module):
    return start_for_module(CONFIG).url


class App:
    """A client of an app, with connections of its own."""

    def __init__(self, url, **ids):
        self.url, self.ids = url, ids
        self.http = httpx2.AsyncClient(base_url=url, headers={f"x-gw-{name}": value for name, value in ids.items()})

    async def post(self, path, **body):
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-request-id"]

    async def think(self, text):
        return await self.post("/v1/chat/completions", model="sim/echo", messages=[{"role": "user", "content": text}])

    async def speak(self, text):
        return await self.post("/v1/audio/speech", model="sim/tone", input=text, voice="alloy", response_format="pcm")


async def call(url, texts):
    """A session as LiveKit Agents has it: each sentence that its socket hears is thought about and answered."""
    app, pool = App(url), Pool()
    path = f"/v1/listen?model=sim/tone&encoding=linear16&sample_rate={RATE_HZ}".encode()
    async with app.http, open_ws("gw", Origin.parse(url), path, connect=pool.connect) as ws:
        for text in texts:
            await ws.send(speech([text], RATE_HZ))
            while True:
                frame = json.loads(await ws.receive())
                if frame["type"] == "Results" and frame["is_final"] and frame["channel"]["alternatives"][0]["transcript"]:
                    break
            await app.think(frame["channel"]["alternatives"][0]["transcript"])
            await app.speak(text)
    await pool.aclose()


def turns_of(url, known=(), count=0):
    """Turn → (session, modality and request of its stages), the oldest first, once there are `count` that are not `known`.

    Records are written in their order, soon after their answers.
    """
    deadline = time.monotonic() + 60
    with httpx2.Client(base_url=url) as http:
        while True:
            rows = [row for row in http.get("/api/turns", params={"limit": 100}).json() if row["turn_id"] not in known]
            if len(rows) >= count:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        found = {}
        for row in reversed(rows):
            stages = http.get(f"/api/turns/{row['turn_id']}").json()["stages"]
            found[row["turn_id"]] = (row["session_id"], [(stage["modality"], stage["request_id"]) for stage in stages])
        return found


async def new_turns(url, known, count):
    return await trio.to_thread.run_sync(turns_of, url, known, count)


def stages(turn):
    return [modality for modality, _ in turn[1]]


async def test_a_turn_with_an_id_of_its_own_does_not_grow(url):
    sentence, known = "Where do I find the opening hours of the museum?", turns_of(url)
    ours, theirs = App(url, turn="ours"), App(url)
    async with ours.http, theirs.http:
        made = [await ours.think(sentence), await ours.speak(sentence)]
        for _ in range(3):
            await theirs.think(sentence)
            await theirs.speak(sentence)
    found = await new_turns(url, known, 1 + 3)
    assert found.pop("ours") == (None, [("llm", made[0]), ("tts", made[1])])
    assert [stages(turn) for turn in found.values()] == [["llm", "tts"]] * 3


async def test_twelve_callers_of_a_canned_phrase_are_no_turn(url):
    """The model of another app writes the same words meanwhile."""
    phrase, known = "All our agents are busy, please hold the line.", turns_of(url)
    callers, writer = [App(url) for _ in range(12)], App(url)
    await callers[0].speak(phrase)
    await writer.think(phrase)
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.speak, phrase)
    last = App(url, turn="the last")
    await last.speak("Now all is written.")
    assert {id_: stages(turn) for id_, turn in (await new_turns(url, known, 1)).items()} == {"the last": ["tts"]}
    for app in (*callers, writer, last):
        await app.http.aclose()


async def test_six_sessions_that_say_the_same_keep_all_their_stages(url):
    """A greeting, and words that come again, in each."""
    known = turns_of(url)
    for _ in range(6):
        await call(url, ["good morning doctor", "yes please", "yes please"])
    found = await new_turns(url, known, 18)
    assert [stages(turn) for turn in found.values()] == [["stt", "llm", "tts"]] * 18
    sessions = [session for session, _ in found.values()]
    assert len(set(sessions)) == 6
    assert all(turn[1][0][1] == turn[0] for turn in found.values())  # a session's id is that of its transcription


async def test_a_greeting_that_is_repeated_keeps_its_speech(url):
    """The model writes it for each call anew."""
    greeting, known = "Welcome to the clinic, how can I help you?", turns_of(url)
    for _ in range(6):
        app = App(url)
        async with app.http:
            await app.think(greeting)
            await app.speak(greeting)
    found = await new_turns(url, known, 6)
    assert [stages(turn) for turn in found.values()] == [["llm", "tts"]] * 6
    assert len({id_ for turn in found.values() for _, id_ in turn[1]}) == 12


async def test_six_sessions_at_once_are_never_mixed(url):
    known = turns_of(url)
    texts = [["good evening", f"my number is {number} {number + 1}", "thank you"] for number in range(6)]
    async with trio.open_nursery() as nursery:
        for said in texts:
            nursery.start_soon(call, url, said)
    found = await new_turns(url, known, 6)
    assert all(max(map(stages(turn).count, stages(turn))) == 1 for turn in found.values())
    assert sum(stages(turn) == ["stt", "llm", "tts"] for turn in found.values()) >= 6  # the numbers, at least
