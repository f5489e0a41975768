"""LiveKit Agents with its unchanged OpenAI plugin: base_url, key and model names are ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of LiveKit's own making
]

TEXT = "what is the weather in Paris today"


@pytest.fixture
def address(package, demo):
    package("livekit")
    return {"base_url": demo.base, "api_key": "any"}


def test_llm_streams_text_and_usage(address):
    from livekit.agents import llm
    from livekit.plugins import openai

    async def talk() -> list[llm.ChatChunk]:
        model = openai.LLM(model="sim/echo", **address)
        context = llm.ChatContext.empty()
        context.add_message(role="system", content="Be brief.")
        context.add_message(role="user", content=TEXT)
        async with model.chat(chat_ctx=context) as stream:
            chunks = [chunk async for chunk in stream]
        await model.aclose()
        return chunks

    chunks = asyncio.run(talk())
    pieces = [chunk.delta.content for chunk in chunks if chunk.delta and chunk.delta.content]
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0


def test_llm_calls_a_tool_and_reads_its_answer(address):
    from livekit.agents import llm
    from livekit.plugins import openai

    @llm.function_tool
    async def get_weather(city: str) -> str:
        """The weather in a city.

        Args:
            city: the city's name
        """
        return f"18 degrees in {city}"

    async def talk() -> tuple[list[Any], str]:
        model = openai.LLM(model="sim/scripted", **address)
        tools = llm.ToolContext([get_weather])
        context = llm.ChatContext.empty()
        context.add_message(role="user", content="Paris")
        async with model.chat(chat_ctx=context, tools=[get_weather]) as stream:
            asked = await stream.collect()
        for call in asked.tool_calls:
            done = await llm.execute_function_call(call, tools)
            context.insert([done.fnc_call, done.fnc_call_out])
        async with model.chat(chat_ctx=context, tools=[get_weather]) as stream:
            answer = await stream.collect()
        await model.aclose()
        return asked.tool_calls, answer.text

    calls, answer = asyncio.run(talk())
    assert [call.name for call in calls] == ["get_weather"]
    assert "18 degrees in" in answer


@pytest.mark.parametrize("options", [{}, {"response_format": "wav"}, {"response_format": "pcm"}], ids=["default", "wav", "pcm"])
def test_tts_and_stt_round_trip(demo, address, options):
    """The default is MP3 in events, which the demo's voice cannot make: it must say what it sends instead."""
    from livekit import rtc
    from livekit.agents import APIConnectOptions, stt
    from livekit.plugins import openai

    async def talk() -> tuple[list[Any], stt.SpeechEvent]:
        voice = openai.TTS(model="sim/tone", voice="alloy", **address, **options)
        async with voice.synthesize(TEXT, conn_options=APIConnectOptions(max_retry=0)) as stream:
            heard = [event async for event in stream]
        ears = openai.STT(model="sim/tone", **address)
        event = await ears.recognize(rtc.combine_audio_frames([h.frame for h in heard]))
        await voice.aclose()
        await ears.aclose()
        return heard, event

    heard, event = asyncio.run(talk())
    assert {(h.frame.sample_rate, h.frame.num_channels) for h in heard} == {(24_000, 1)}
    assert event.type == stt.SpeechEventType.FINAL_TRANSCRIPT
    assert event.alternatives[0].text == TEXT
    record = demo.record(heard[0].request_id)
    assert (record["status"], record["model_id"], record["input_units"]) == ("success", "sim/tone", len(TEXT))


@pytest.fixture
def inference(demo, package):
    """What `LIVEKIT_INFERENCE_URL` and its two companions say."""
    package("livekit")
    return {"base_url": demo.daemon.url + "/livekit/v1", "api_key": "any-key", "api_secret": "anything-long-enough-for-hs256"}


def test_livekit_inference_speaks_and_listens(demo, inference):
    """`inference.TTS` and `inference.STT`, as a LiveKit agent makes them, with the demo's engines behind."""
    from livekit import rtc
    from livekit.agents import inference as livekit
    from livekit.agents import stt

    async def talk() -> tuple[list[Any], list[stt.SpeechEvent]]:
        async with aiohttp.ClientSession() as http:
            voice = livekit.TTS(model="sim/tone", voice="alloy", sample_rate=24_000, http_session=http, **inference)
            heard = []
            for sentence in (TEXT + ". ", "And tomorrow? "):  # two utterances over one pooled socket
                async with voice.stream() as speech:
                    speech.push_text(sentence)
                    speech.end_input()
                    heard += [event async for event in speech]
            ears = livekit.STT(model="sim/tone", language="en", sample_rate=24_000, http_session=http, **inference)
            async with ears.stream() as stream:
                for spoken in heard:
                    stream.push_frame(spoken.frame)
                silence = rtc.AudioFrame.create(24_000, 1, 24_000)
                stream.push_frame(silence)
                stream.end_input()
                events = [event async for event in stream]
            await voice.aclose()
            await ears.aclose()
            return heard, events

    import aiohttp

    heard, events = asyncio.run(talk())
    assert {(h.frame.sample_rate, h.frame.num_channels) for h in heard} == {(24_000, 1)}
    finals = [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.FINAL_TRANSCRIPT]
    assert " ".join(finals).split() == f"{TEXT}. And tomorrow?".split()
    assert {e.type for e in events} >= {stt.SpeechEventType.START_OF_SPEECH, stt.SpeechEventType.INTERIM_TRANSCRIPT}


def test_livekit_inference_thinks(inference):
    from livekit.agents import inference as livekit
    from livekit.agents import llm

    async def talk() -> str:
        model = livekit.LLM(model="sim/echo", **inference)
        context = llm.ChatContext.empty()
        context.add_message(role="user", content=TEXT)
        async with model.chat(chat_ctx=context) as stream:
            answer = await stream.collect()
        await model.aclose()
        return answer.text

    assert asyncio.run(talk()) == TEXT
