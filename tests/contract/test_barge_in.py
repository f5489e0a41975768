"""The user interrupts: whoever speaks or thinks upstream is stopped in the same instant, and what was paid and not heard is waste
on the record, at every endpoint that speaks and over every way to interrupt."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from gw.net.ws import WebSocket, open_ws
from gw.providers.spec import spec_of
from gw.types.usage import RequestRecord
from tests.contract.dripping import FORMS, SPEAKERS, TEXT, Behind, Upstream, request_of
from tests.contract.endpoints import CHAT_STREAM, CHAT_WHOLE, SPEECH
from tests.contract.readers import READERS, Reader, Spoken, converse, receive_speech, send
from tests.contract.talkers import DEEPGRAM, as_json, speech
from tests.contract.talkers import converse as talk
from tests.contract.vendors import KEY
from tests.fakes.hosting import GATEWAY, Plane, hosted, open_plane

CONFIG = """
providers: {house: {type: sim, latency_ms: 0}, behind: {type: TYPE, api_key: "KEY", base_url: "http://vendor.testPATH"}}
models:
  tts: {VOICE: {default_voice: alloy, price: {unit: 1M_characters, usd: 10}}}
  stt: [house/tone]
  llm: {house/echo: {price: {unit: 1M_tokens, input: 1, output: 3}}}
stacks: {trio: {stt: house/tone, llm: house/echo, tts: VOICE}}
"""
NUSD = 10_000
"""A character's price in nano-USD."""
HEARD_S = 1.0
"""Before the user interrupts; the whole takes three times as long."""


@asynccontextmanager
async def _plane(tmp_path: Path, behind: Behind, upstream: Upstream) -> AsyncIterator[Plane]:
    text = CONFIG.replace("TYPE", behind.type).replace("KEY", KEY).replace("VOICE", behind.model)
    text = text.replace("PATH", "/v1" if spec_of(behind.type).base_url.endswith("/v1") else "")
    async with open_plane(text, tmp_path) as plane:
        plane.net.hosts["vendor.test", 80] = hosted(upstream)
        yield plane


def paid_and_not_heard(record: RequestRecord) -> None:
    """About a third was heard, and all figures agree to the nano-dollar."""
    assert record.status == "cancelled"
    assert record.cost_nusd == record.usage.characters * NUSD
    assert record.wasted_nusd == record.wasted_units * NUSD
    heard = record.usage.characters - record.wasted_units
    assert 5 <= heard <= 35
    assert record.wasted_units >= 30


everybody = pytest.mark.parametrize("behind", SPEAKERS, ids=lambda behind: behind.type)
INTERRUPTIBLE = [reader for reader in READERS if reader.interrupt]
live = pytest.mark.parametrize(
    "behind", [who for who in SPEAKERS if spec_of(who.type).speak_live is not None], ids=lambda behind: behind.type
)


@everybody
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_a_caller_who_drops_its_request(form, behind, tmp_path, autojump_clock):
    upstream = Upstream(behind.fake())
    async with _plane(tmp_path, behind, upstream) as plane:
        path, body = request_of(form, behind.model)
        async with plane.open(path, body) as response:
            with trio.move_on_after(HEARD_S + 0.05):
                while await response.receive_some():
                    pass
        left_at = trio.current_time()
        await plane.kept.finished.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert (upstream.left_at(), trio.current_time()) == (left_at, left_at)
        assert max(upstream.spoken_at) <= left_at
        paid_and_not_heard(plane.kept.record)


async def _heard_a_while(reader: Reader, ws: WebSocket) -> None:
    """From the first audio on."""
    with trio.CancelScope() as scope:
        while True:
            received = await ws.receive()
            frame = received if isinstance(received, bytes) else msgspec.json.decode(received)
            if reader.audio(frame) and scope.deadline == float("inf"):
                scope.deadline = trio.current_time() + HEARD_S + 0.05


@live
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_a_client_that_closes_its_socket(reader, behind, tmp_path, autojump_clock):
    upstream = Upstream(behind.fake())
    async with _plane(tmp_path, behind, upstream) as plane:
        async with reader.open(plane, behind.model) as ws:
            await send(ws, [*reader.begin(behind.model), *reader.say(TEXT), *reader.end], behind.model)
            await _heard_a_while(reader, ws)
            left_at = trio.current_time()
        await plane.kept.finished.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert upstream.left_at() == left_at
        paid_and_not_heard(plane.kept.record)


@live
@pytest.mark.parametrize("reader", INTERRUPTIBLE, ids=lambda reader: reader.name)
async def test_a_client_that_says_so(reader, behind, tmp_path, autojump_clock):
    """The socket goes on, and the next utterance is transcribed completely."""
    upstream = Upstream(behind.fake())
    async with _plane(tmp_path, behind, upstream) as plane:
        async with reader.open(plane, behind.model) as ws:
            await send(ws, [*reader.begin(behind.model), *reader.say(TEXT), *reader.end], behind.model)
            await _heard_a_while(reader, ws)
            left_at = trio.current_time()
            await send(ws, reader.interrupt, behind.model)
            with trio.move_on_after(0.001):
                while True:
                    await ws.receive()
            assert upstream.left_at() == left_at
        await plane.kept.finished.wait()
        paid_and_not_heard(plane.kept.record)


@live
@pytest.mark.parametrize("how", ["cancel", "speech"])
async def test_a_conversation(how, behind, tmp_path, autojump_clock):
    """Of the model's tokens those that were not spoken are waste too."""
    upstream = Upstream(behind.fake())
    async with _plane(tmp_path, behind, upstream) as plane:
        target = b"/v1/realtime?model=trio"
        async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
            spoken_text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}
            await send(ws, [as_json(type="conversation.item.create", item=spoken_text), as_json(type="response.create")])
            await _until(ws, "response.output_audio.delta")
            with trio.move_on_after(HEARD_S + 0.05):
                await _until(ws, "response.done")
            left_at = await (_cancel(ws) if how == "cancel" else _speak(ws))
            done = await _until(ws, "response.done")
            assert done["response"]["status"] == "cancelled"
            assert upstream.left_at() == left_at == trio.current_time()
        interrupted = [record for record in plane.kept.records if (record.turn_id or "").endswith("-1")]
        llm, tts = sorted(interrupted, key=lambda record: record.modality)
        paid_and_not_heard(tts)
        assert (llm.status, llm.turn_id) == ("success", tts.turn_id)
        assert llm.total_latency_ms < 100
        spoken = 1 - tts.wasted_units / tts.usage.characters
        assert llm.wasted_units == pytest.approx(llm.usage.output_tokens * (1 - spoken), abs=1)
        assert llm.wasted_nusd == llm.wasted_units * 3_000


async def _until(ws: WebSocket, kind: str) -> Any:
    while True:
        event = msgspec.json.decode(await ws.receive())
        assert event["type"] != "error", event
        if event["type"] == kind:
            return event


async def _cancel(ws: WebSocket) -> float:
    await send(ws, [as_json(type="response.cancel")])
    return trio.current_time()


async def _speak(ws: WebSocket) -> float:
    """Talk until the gateway hears it."""
    async with trio.open_nursery() as nursery:

        async def talk() -> None:
            pcm = speech(["stop that now"], 24_000)
            for at in range(0, len(pcm), 1_920):
                await send(ws, [as_json(type="input_audio_buffer.append", audio=b64encode(pcm[at : at + 1_920]).decode())])
                await trio.sleep(0.04)

        nursery.start_soon(talk)
        await _until(ws, "input_audio_buffer.speech_started")
        nursery.cancel_scope.cancel()
    return trio.current_time()


# ---------------------------------------------------------------------- what else is paid for nothing

ENGINES = """
providers: {first: {type: sim, FIRST}, second: {type: sim, latency_ms: 0}}
models:
  tts: {first/tone: {price: {unit: 1M_characters, usd: 10}}, second/tone: {price: {unit: 1M_characters, usd: 20}}}
  llm:
    first/echo: {price: {unit: 1M_tokens, input: 1000, output: 3000}}
    second/echo: {price: {unit: 1M_tokens, input: 2000, output: 6000}}
  stt: {first/tone: {price: {unit: hour, usd: 36}}, second/tone: {price: {unit: hour, usd: 72}}}
fallbacks: {tts: [first/tone, second/tone], llm: [first/echo, second/echo], stt: [first/tone, second/tone]}
routing: {first_event_s: {tts: 3, stt: 3, llm: 3}}
"""


@pytest.fixture
def engines(tmp_path):
    return lambda first: open_plane(ENGINES.replace("FIRST", first), tmp_path)


@pytest.mark.parametrize("endpoint", [CHAT_STREAM, CHAT_WHOLE, SPEECH], ids=lambda endpoint: endpoint.name)
async def test_a_caller_who_left_before_anything_came(endpoint, engines, autojump_clock):
    async with engines("latency_ms: 2000") as plane:
        body, content_type = endpoint.body(f"first/{'tone' if endpoint is SPEECH else 'echo'}")
        with trio.move_on_after(1):
            async with plane.open(endpoint.path, body, content_type):
                pass
        await plane.kept.finished.wait()
        record = plane.kept.record
        assert record.status == "cancelled"
        assert record.cost_nusd > 0
        assert record.wasted_nusd == record.cost_nusd


async def test_tokens_that_were_sent_on_are_no_waste(engines, autojump_clock):
    async with engines("latency_ms: 0, token_ms: 500") as plane:
        body, content_type = CHAT_STREAM.body("first/echo")
        with trio.move_on_after(1.2):
            async with plane.open(CHAT_STREAM.path, body, content_type) as response:
                while await response.receive_some():
                    pass
        await plane.kept.finished.wait()
        record = plane.kept.record
        assert (record.status, record.wasted_units, record.wasted_nusd) == ("cancelled", 0, 0)
        assert record.usage.output_tokens > 0


@pytest.mark.parametrize("endpoint", [CHAT_STREAM, SPEECH], ids=lambda endpoint: endpoint.name)
async def test_an_attempt_that_was_too_slow(endpoint, engines, autojump_clock):
    """Its vendor may charge for what it was sent; the record says so, and who answered is no waste."""
    async with engines("latency_ms: 10_000") as plane:
        reply = await endpoint.ask(plane, f"first/{'tone' if endpoint is SPEECH else 'echo'}")
        assert reply.status == 200
        record = plane.kept.record
        slow, answered = record.attempts
        assert (record.status, slow.outcome, answered.outcome) == ("fallback", "too_slow", "ok")
        assert slow.cost_nusd > 0
        assert record.wasted_nusd == slow.cost_nusd
        usage = record.usage
        own = 20_000 * usage.characters if endpoint is SPEECH else 2_000_000 * usage.input_tokens + 6_000_000 * usage.output_tokens
        assert record.cost_nusd == slow.cost_nusd + own
        assert record.wasted_units > 0


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_words_that_two_providers_spoke(reader, engines, autojump_clock):
    """Those that the second had to say again, and all that the first had not come to."""
    async with engines("latency_ms: 0, cut_after: 6") as plane:
        spoken = await converse(reader, plane, "first/tone", [TEXT])
        assert spoken.errors == []
        await plane.kept.finished.wait()
        record = plane.kept.record
        first, second = record.attempts
        assert (record.status, first.outcome, second.outcome) == ("fallback", "cut", "ok")
        assert record.cost_nusd == first.characters * 10_000 + second.characters * 20_000
        assert record.wasted_units == first.characters + second.characters - len(TEXT)
        assert record.wasted_nusd == record.wasted_units * 10_000


async def test_audio_that_two_providers_heard(engines, autojump_clock):
    spoken_text = ["one two three", "four", "five six"]
    async with engines("latency_ms: 0, cut_after: 3") as plane:
        heard = await talk(DEEPGRAM, plane, "first/tone", spoken_text)
        assert heard.finals == spoken_text
        await plane.kept.finished.wait()
        record = plane.kept.record
        length_s = len(speech(spoken_text, 16_000)) / 32_000
        twice_s = sum(attempt.audio_seconds for attempt in record.attempts) - length_s
        assert record.wasted_units == pytest.approx(twice_s, abs=0.05)
        assert 0 < record.wasted_nusd == pytest.approx(record.wasted_units * 10_000_000, abs=100)


async def test_what_is_said_after_an_interruption_is_heard_whole(engines, autojump_clock):
    """Deepgram's `Clear` leaves the session open."""
    reader = next(reader for reader in READERS if reader.name == "deepgram")
    async with engines("latency_ms: 0, token_ms: 40") as plane:
        async with reader.open(plane, "first/tone") as ws:
            await send(ws, [*reader.say(TEXT), *reader.end])
            await _heard_a_while(reader, ws)
            await send(ws, [*reader.interrupt, *reader.say("Good bye."), *reader.end])
            spoken = Spoken()
            await receive_speech(reader, ws, spoken)
        cleared, full = sorted(plane.kept.records, key=lambda record: -record.wasted_units)
        assert 0 < cleared.wasted_units < len(TEXT)
        assert (full.status, full.usage.characters, full.wasted_units, full.wasted_nusd) == ("success", 9, 0, 0)
