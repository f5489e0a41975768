"""Phrases on the disk survive a restart, also after kill -9, and come from there over HTTP and over a WebSocket."""

from __future__ import annotations

import json
import signal
import urllib.request
from base64 import b64decode

import msgspec
import trio

from gw.net.connect import Origin
from gw.net.ws import open_ws
from tests.contract.talkers import as_json
from tests.e2e.conftest import starter
from tests.fakes.running import open_running

CONFIG = """
providers: {sim: {type: sim, latency_ms: 0}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 1000}}}}
projects: {default: {phrase_cache: {}}}
routing: {phrase_cache_disk_mb: 10}
"""
SECRET = "a long secret that nobody knows"
GREETING = "Welcome to the canary hotel. How can I help you?"
BODY = {"model": "sim/tone", "input": GREETING, "response_format": "pcm"}


async def speak(running):
    answer = await running.ask("POST", "/v1/audio/speech", BODY)
    assert answer.status == 200, answer.body
    return answer.headers["x-gw-cache"], answer.body


async def speak_live(running, *texts):
    """Speak over Cartesia's socket, and return the audio."""
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    members = {"context_id": "c", "model_id": "sim/tone", "voice": {"mode": "id", "id": ""}, "output_format": output}
    async with open_ws("client", Origin.parse(running.url), b"/tts/websocket?cartesia_version=2025-04-16") as ws:
        for text in (*texts, " "):
            await ws.send(as_json(**members, transcript=text, **{"continue": text != " "}))
        audio = b""
        while (frame := msgspec.json.decode(await ws.receive()))["type"] != "done":
            audio += b64decode(frame["data"]) if frame["type"] == "chunk" else b""
        return audio


async def cache(running):
    return (await running.get("/v1/cache")).json


async def known(running):
    while not running.gateway.phrase_store.knows_all:  # noqa: ASYNC110  # a thread sets it
        await trio.sleep(0.01)


async def test_a_restart(tmp_path):
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:
        use, first = await speak(running)
        assert use == "miss"
    assert b"canary" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.phrases*"))
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:
        await known(running)
        report = await cache(running)
        assert (report["phrases"], report["disk"]["phrases"], report["disk"]["max_bytes"]) == (0, 1, 10_000_000)
        assert await speak_live(running, "Welcome to the ", "canary hotel. How can I help you?") == first
        assert await speak(running) == ("hit", first)
        report = await cache(running)
        assert (report["hits"], report["misses"], report["hit_ratio"], report["disk"]["loaded"]) == (2, 0, 1.0, 1)
        longer = await speak_live(running, "Good day. ", GREETING)
        assert longer.endswith(first)
        assert len(longer) > len(first)
        answer = await running.ask("DELETE", "/v1/cache")
        assert answer.json == {"phrases": 2}
        assert (await cache(running))["disk"]["phrases"] == 0
        assert (await speak(running))[0] == "miss"


async def test_another_secret_finds_nothing_and_nothing_fails(tmp_path):
    async with open_running(tmp_path, CONFIG.replace("routing", "# routing"), secret=SECRET) as running:
        assert (await cache(running))["disk"] is None
        assert [(await speak(running))[0] for _ in range(2)] == ["miss", "hit"]
    assert not list(tmp_path.rglob("*.phrases"))


def ask(daemon, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(daemon.url + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.headers.get("x-gw-cache"), answer.read()


def test_a_kill(tmp_path):
    with starter(tmp_path) as start:
        daemon = start(CONFIG, GW_SECRET=SECRET)
        use, first = ask(daemon, "/v1/audio/speech", BODY)
        while json.loads(ask(daemon, "/v1/cache")[1])["disk"]["stored"] < 1:
            pass
        daemon.stop(signal.SIGKILL)
        daemon = start(CONFIG, GW_SECRET=SECRET)
        assert ask(daemon, "/v1/audio/speech", BODY) == ("hit", first)
        assert use == "miss"


async def test_a_respelled_phrase_after_a_restart(tmp_path):
    respelled = CONFIG.replace("{phrase_cache: {}}", "{phrase_cache: {}, pronunciations: [{word: canary, say: ka nary}]}")
    async with open_running(tmp_path, respelled, secret=SECRET) as running:
        use, first = await speak(running)
        assert use == "miss"
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:  # what is sent without the entry was never spoken
        await known(running)
        assert (await speak(running))[0] == "miss"
    async with open_running(tmp_path, respelled, secret=SECRET) as running:
        await known(running)
        assert await speak_live(running, "Welcome to the ", "canary hotel. How can I help you?") == first
        assert await speak(running) == ("hit", first)
