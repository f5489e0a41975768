"""The trio twin, and that its records are those of the daemon."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
import trio
from cryptography.fernet import InvalidToken

import gw
from gw.admin import models, providers
from gw.errors import KeyDecryptError, RequestError, UnknownProjectError, UpstreamProtocolError
from gw.library import asynchronous
from gw.library.asynchronous import AsyncGateway, opened
from gw.types.audio import AudioFormat
from gw.types.entities import Actor
from gw.types.ids import TraceContext
from gw.types.stt import Final
from gw.types.usage import RequestRecord
from tests.fakes import stored
from tests.fakes.running import open_running
from tests.library.conftest import HELLO, YAML

FILE = """
providers: {sim: {}}
models: {stt: [sim/tone], llm: [sim/echo], tts: [sim/tone]}
cost_tracking: {db_path: gw.db}
"""
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """A gw.yaml in the working directory, as `gw serve` would find it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GW_CONFIG", raising=False)
    monkeypatch.delenv("GW_DB_PATH", raising=False)
    path = tmp_path / "gw.yaml"
    path.write_text(FILE)
    return path


async def test_chat_speech_and_transcript(file):
    async with gw.open_gateway() as g:
        async with g.llm("sim/echo").chat(HELLO) as reply:
            text = [piece async for piece in reply]
        assert (text, reply.model, reply.finish_reason) == (["Hello", " you", " there"], "sim/echo", "stop")
        async with g.tts().speak("Hello you there") as speech:
            samples = b"".join([piece async for piece in speech])
        assert speech.format.sample_rate_hz == 24_000
        transcript = await g.stt().transcribe(samples, sample_rate_hz=24_000)
        assert transcript.text == "Hello you there"
        assert {reply.record.status, speech.record.status, transcript.record.status} == {"success"}


async def test_recordings_may_be_files(file, tmp_path):
    async with gw.open_gateway(file) as g:
        async with g.tts().speak("from a file", sample_rate_hz=16_000) as speech:
            samples = b"".join([piece async for piece in speech])
        (tmp_path / "a.raw").write_bytes(samples)
        transcript = await g.stt().transcribe(tmp_path / "a.raw", sample_rate_hz=16_000)
        assert transcript.text == "from a file"


async def test_a_live_transcription(file):
    async with gw.open_gateway(str(file)) as g:
        async with g.tts().speak("one two three", sample_rate_hz=16_000) as speech:
            samples = b"".join([piece async for piece in speech])
        async with g.stt().stream() as live, trio.open_nursery() as nursery:

            async def speak() -> None:
                for at in range(0, len(samples), 640):
                    await live.send(samples[at : at + 640])
                await live.finish()

            nursery.start_soon(speak)
            finals = [event.text async for event in live if isinstance(event, Final)]
        assert " ".join(finals) == "one two three"
        assert (live.model, live.record.status) == ("sim/tone", "success")


async def test_live_speech_that_is_interrupted(file):
    async with gw.open_gateway(file) as g, g.tts().stream() as voice:
        assert voice.model == "sim/tone"
        await voice.send("what nobody hears")
        await voice.clear()
        await voice.send("what is said")
        await voice.flush()
        await voice.finish()
        samples = b"".join([piece async for piece in voice])
        transcript = await g.stt().transcribe(samples, sample_rate_hz=24_000)
    assert transcript.text == "what is said"


async def test_tool_calls_are_put_together(settings):
    text = YAML.replace("down/echo,", "sim/scripted, down/echo,")
    async with opened(settings(text), "default", []) as g, g.llm("sim/scripted").chat(HELLO, tools=[WEATHER]) as reply:
        assert [piece async for piece in reply] == []
    (call,) = reply.tool_calls
    assert (call.name, reply.finish_reason) == ("weather", "tool_calls")
    assert call.id
    assert msgspec.json.decode(call.arguments) == {}


async def test_a_stack_and_its_models(settings):
    async with opened(settings(), "default", []) as g:
        stack = g.stack("demo", turn_id="t-1")
        async with stack.llm.chat(HELLO) as reply:
            async for _ in reply:
                pass
        assert reply.record.turn_id == "t-1"
        with pytest.raises(RequestError, match="unknown stack 'gold'; available: demo"):
            g.stack("gold")


async def test_a_span_of_the_program_is_recorded(settings):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with opened(settings(), "default", []) as g:
        async with g.llm("sim/echo", traceparent=f"00-{trace}-00f067aa0ba902b7-01").chat(HELLO) as reply:
            async for _ in reply:
                pass
        assert reply.record.trace == TraceContext(trace_id=trace, span_id="00f067aa0ba902b7", sampled=True)
        assert reply.record.turn_id == trace
        with pytest.raises(RequestError, match="traceparent must be 00-"):
            g.stack("demo", traceparent=trace)


async def test_cancelling_records_it(settings):
    async with opened(settings(), "default", []) as g:
        with trio.CancelScope() as scope:
            async with g.llm("slow/echo").chat(HELLO) as reply:
                async for _ in reply:
                    scope.cancel()
        assert scope.cancelled_caught
        assert reply.record.status == "cancelled"


async def test_events_are_told_on_the_loop_and_all_of_them_before_the_end(settings):
    events: list[gw.UsageCollected] = []
    async with opened(settings(), "default", []) as g:
        g.on("usage_collected", lambda event: (trio.lowlevel.current_task(), events.append(event)))
        async with g.llm("sim/echo").chat(HELLO) as reply:
            async for _ in reply:
                pass
        g.emit(gw.UsageCollected(modality="tts", model="mine/voice", characters=3))
    assert [event.model for event in events] == ["sim/echo", "mine/voice"]
    assert events[0].record is reply.record


async def test_what_the_block_raises_comes_out_as_it_is(settings):
    with pytest.raises(ZeroDivisionError):
        async with opened(settings(), "default", []):
            raise ZeroDivisionError


async def test_a_project_that_there_is_not(file):
    with pytest.raises(UnknownProjectError):
        async with gw.open_gateway(file, project="nobody"):
            pass


def test_outside_trio_it_names_what_to_use(file):
    with pytest.raises(RuntimeError, match=r"gw\.Gateway in a plain thread"):
        gw.open_gateway(file)

    async def inside() -> None:
        with pytest.raises(RuntimeError, match=r"gw\.Gateway in a plain thread"):
            gw.open_gateway(file)

    asyncio.run(inside())


@pytest.mark.parametrize("rate", [0, 1, 7_999, 1_000_000])
async def test_rates_that_are_none(settings, rate):
    async with opened(settings(), "default", []) as g:
        for opening in (
            g.tts().speak("x", sample_rate_hz=rate),
            g.tts().stream(sample_rate_hz=rate),
            g.stt().stream(sample_rate_hz=rate),
        ):
            with pytest.raises(RequestError, match="not a sample rate"):
                async with opening:
                    pass


async def test_an_undecryptable_key_is_also_an_invalid_token(settings):
    provider = {"provider_id": "mine", "provider_type": "openai", "api_key": "sk-canary-0123456789"}
    model = {"modality": "llm", "provider_id": "mine", "model_name": "m"}
    configured = settings()
    async with opened(configured, "default", []) as g:
        registrar = g._gateway.registrar
        await providers.create(registrar, provider, Actor(source="cli", name="admin"))
        await models.create(registrar, model, Actor(source="cli", name="admin"))
    for secret in configured.secret_folder.glob(".secret*"):
        os.unlink(secret)
    async with opened(configured, "default", []) as g:
        with pytest.raises(InvalidToken) as raised:
            async with g.llm("mine/m").chat(HELLO):
                pass
    assert isinstance(raised.value, KeyDecryptError)
    assert "canary" not in str(raised.value)


def comparable(record: RequestRecord) -> dict[str, object]:
    """Return a record without the fields that differ from one request to the next."""
    differing = {"id", "timestamp", "total_latency_ms", "ttfb_ms", "gateway_ms", "attempts", "endpoint"}
    facts = msgspec.to_builtins(record)
    attempts = [(attempt["model_id"], attempt["outcome"]) for attempt in facts["attempts"]]
    return {name: value for name, value in facts.items() if name not in differing} | {"attempts": attempts}


async def test_the_record_is_that_of_the_same_request_over_http(tmp_path):
    async with open_running(tmp_path, YAML + "fallbacks: {llm: [sim/echo]}\n") as running:
        gateway = AsyncGateway(running.gateway, "default", [])
        body = {"model": "down/echo", "messages": HELLO, "stream": True}
        await running.ask("POST", "/v1/chat/completions", body)
        async with gateway.llm("down/echo").chat(HELLO) as reply:
            async for _ in reply:
                pass
        speech = {"model": "sim/tone", "input": "the same", "response_format": "pcm"}
        audio = (await running.ask("POST", "/v1/audio/speech", speech)).body
        async with gateway.tts("sim/tone").speak("the same") as spoken:
            assert b"".join([piece async for piece in spoken]) == audio
        await running.gateway.store.flush()
        mine_tts, his_tts, mine_llm, his_llm = await stored.logs(running.gateway.store, 10)
    assert comparable(mine_llm) == comparable(his_llm)
    assert comparable(mine_tts) == comparable(his_tts)
    assert (mine_llm.endpoint, his_llm.endpoint) == ("library", "/v1/chat/completions")
    assert mine_llm.status == "fallback"


async def test_audio_that_is_no_samples_is_the_providers_fault():
    class Answer:
        """An answer of a provider that gives MP3, whatever it is asked for."""

        class stream:
            format = AudioFormat(encoding="mp3")

        class call:
            class provider:
                id = "squeezed"

        done = False

        async def receive(self) -> list[object]:
            return []

    with pytest.raises(UpstreamProtocolError, match="sends mp3, which cannot be decoded to samples"):
        await anext(asynchronous.SpeechReply(Answer()))
