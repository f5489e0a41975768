"""A phrase that one gateway of a fleet has had spoken is a hit at the other, over HTTP and over a WebSocket."""

from __future__ import annotations

import itertools
import re
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import attrs
import pytest
import trio

from gw.errors import BankUnreachable
from tests.contract.test_phrase_cache__disk import BODY, GREETING, speak_live
from tests.fakes.fork_server import fork_server
from tests.fakes.running import open_running
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients
YAML = """
providers: {{sim: {{type: sim, latency_ms: 0}}}}
models: {{tts: {{sim/tone: {{price: {{unit: 1M_characters, usd: 1000}}}}}}}}
projects: {{default: {{phrase_cache: {{}}}}, other: {{phrase_cache: {{}}}}}}
fleet: {{valkey: "{valkey}", name: {name}, instance: "{instance}", wait_ms: 250}}
"""
SECRET = "a long secret that nobody knows"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    yield running
    running.kill()


@asynccontextmanager
async def two(folder, server, name, **options):
    async with AsyncExitStack() as opened:
        gateways = []
        for n in range(2):
            (folder / str(n)).mkdir(exist_ok=True)
            text = YAML.format(valkey=server.url, name=name, instance=f"gw-{n}")
            gateways.append(await opened.enter_async_context(open_running(folder / str(n), text, secret=SECRET, **options)))
        for gateway in gateways:
            await until(lambda gateway=gateway: gateway.gateway.shared_phrases.knows_all)
        yield gateways


async def until(true):
    with trio.fail_after(30):
        while not true():  # noqa: ASYNC110  # the gateway's own tasks make it so
            await trio.sleep(0.005)


async def speak(gateway, body=BODY, **headers):
    answer = await gateway.ask("POST", "/v1/audio/speech", body, **headers)
    assert answer.status == 200, answer.body
    record = (await gateway.get(f"/v1/requests/{answer.headers['x-request-id']}")).json
    return answer.headers["x-gw-cache"], answer.body, record


async def in_fleet(gateway):
    return (await gateway.get("/v1/cache")).json["fleet"]


async def shared(*gateways):
    """Wait until what was bought is on the server, and every gateway knows that."""
    for gateway in gateways:
        while True:
            with suppress(BankUnreachable):  # a busy machine may answer too late for the bound of a call
                await gateway.gateway.shared_phrases.sync()
                break


async def bought_at(first, second):
    """Have a text spoken by one gateway, then by the other; return its body, both answers, and the units of it.

    A machine that is too busy to look for it within the bound says so in `unanswered`; then another text is tried.
    """
    for number in itertools.count():
        body = {**BODY, "input": f"{GREETING} {number}"}
        use, audio, record = await speak(first, body)
        assert (use, record["cost_usd"]) == ("miss", len(body["input"]) / 1_000)
        await shared(first, second)
        before = (await in_fleet(second))["unanswered"]
        answer = await speak(second, body)
        if (await in_fleet(second))["unanswered"] == before:
            return body, audio, answer
    raise AssertionError


async def test_bought_once_and_a_hit_at_the_other(tmp_path, server):
    async with two(tmp_path, server, "bought") as (first, second):
        body, audio, (use, again, record) = await bought_at(first, second)
        price = len(body["input"]) / 1_000
        assert (use, record["cost_usd"], again) == ("hit", 0, audio)
        assert (record["attempts"][0]["cache"], record["attempts"][0]["saved_usd"]) == ("hit", price)
        assert await speak_live(second, body["input"]) == audio
        figures = await in_fleet(second)
        assert (figures["loaded"], figures["stored"]) == (1, figures["unanswered"])
        assert 'gw_phrase_cache_fleet_total{result="loaded"} 1.0' in (await second.get("/v1/metrics")).body.decode()
        assert (await second.get("/v1/costs")).json["saved"] == pytest.approx(2 * price)
        assert (await speak(second, body, x_gw_project="other"))[0] == "miss"
        assert (await speak(second, {**body, "voice": "other"}))[0] == "miss"


async def test_live_speech_finds_what_another_gateway_has_bought(tmp_path, server):
    async with two(tmp_path, server, "live") as (first, second):
        for number in itertools.count():
            pieces = ("Welcome to the ", f"canary hotel. Your room is number {number}.")
            audio = await speak_live(first, *pieces)
            await shared(first, second)
            before = (await in_fleet(second))["unanswered"]
            assert await speak_live(second, *pieces) == audio
            if (await in_fleet(second))["unanswered"] == before:
                break
        assert (await in_fleet(second))["loaded"] == 1
        assert (await speak(second, {**BODY, "input": "".join(pieces)}))[:2] == ("hit", audio)


async def test_what_is_cleared_at_one_is_cleared_at_all(tmp_path, server):
    async with two(tmp_path, server, "cleared") as (first, second):
        other, _, _ = await bought_at(first, second)
        kept = {**other, "voice": "kept"}
        await speak(first, kept)
        await shared(first, second)
        answer = await second.ask("DELETE", "/v1/cache?voice=")
        assert answer.status == 200
        assert answer.json["phrases"] >= 1
        await shared(first, second)
        assert [(await speak(gateway, other))[0] for gateway in (first, second)] == ["miss", "miss"]
        assert (await speak(first, kept))[0] == "hit"


TEXTS = 300


async def test_workers_find_what_another_gateway_has_bought_and_can_be_cleared(tmp_path, server):
    """Each worker has a connection of its own; the figures of all are summed."""
    bodies = [{**BODY, "input": f"Room {number}."} for number in range(TEXTS)]
    async with two(tmp_path, server, "workers") as (first, _):
        for number, body in enumerate(bodies):
            if number % 100 == 0:
                await shared(first)  # its queue is bounded
            assert (await first.ask("POST", "/v1/audio/speech", body)).headers["x-gw-cache"] == "miss"
        await shared(first)
        (tmp_path / "many").mkdir()
        text = YAML.format(valkey=server.url, name="workers", instance="many") + "serve: {workers: 2}\n"
        with fork_server() as processes:
            many = await trio.to_thread.run_sync(partial(processes.start, tmp_path / "many", text, GW_SECRET=SECRET))
            ask = attrs.evolve(first, url=many.url).ask
            loaded = 0.0
            for body in bodies:  # the first ones may come before a worker has its connection, and its figures come each second
                assert (await ask("POST", "/v1/audio/speech", body, connection="close")).status == 200
                metrics = (await ask("GET", "/v1/metrics", connection="close")).body.decode()
                loaded = max([float(n) for n in re.findall(r'gw_phrase_cache_fleet_total{result="loaded"} (.*)', metrics)], default=0)
                if loaded:
                    break
            assert loaded
            cleared = await ask("DELETE", "/v1/cache", connection="close")
            assert (cleared.status, cleared.json["phrases"] > 0) == (200, True)
            await shared(first)
            assert (await first.ask("POST", "/v1/audio/speech", bodies[-1])).headers["x-gw-cache"] == "miss"
            many.kill(15)


async def test_speech_goes_on_without_the_server(tmp_path):
    server = ValkeyServer(tmp_path)
    try:
        async with two(tmp_path, server, "away") as (first, second):
            await speak(first)
            await shared(first, second)
            before = (await in_fleet(second))["unanswered"]
            server.freeze()
            use, _, record = await speak(second)
            assert (use, record["cost_usd"]) == ("miss", len(GREETING) / 1_000)
            assert [(attempt["outcome"], attempt["cache"]) for attempt in record["attempts"]] == [("ok", "miss")]
            assert (await speak(second))[0] == "hit"  # its own, by now
            assert (await in_fleet(second))["unanswered"] == before + 1
            assert (await speak(first))[0] == "hit"
            answer = await first.ask("DELETE", "/v1/cache")
            assert (answer.status, answer.json["error"]["code"]) == (503, "fleet_unreachable")
            assert (await speak(first))[0] == "hit"  # nothing was forgotten
            await until(lambda: "phrases_not_shared" in first.gateway.problems)
            server.thaw()
            await until(lambda: "phrases_not_shared" not in first.gateway.problems)
    finally:
        server.kill()
