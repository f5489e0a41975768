"""LiveKit Agents with its unchanged OpenAI and Groq plugins and LiveKit's inference: only base_url and key are ours.

The first tests take the demo's engine; those with `who` take the client's own vendor, and another.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import INFERENCE, TEXT, spoken_text

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of LiveKit's own making
]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WHO = pytest.mark.parametrize("who", ["own", "other"])


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
            collected = await stream.collect()
        for call in collected.tool_calls:
            done = await llm.execute_function_call(call, tools)
            context.insert([done.fnc_call, done.fnc_call_out])
        async with model.chat(chat_ctx=context, tools=[get_weather]) as stream:
            answer = await stream.collect()
        await model.aclose()
        return collected.tool_calls, answer.text

    calls, answer = asyncio.run(talk())
    assert [call.name for call in calls] == ["get_weather"]
    assert "18 degrees in" in answer


@pytest.mark.parametrize("options", [{}, {"response_format": "wav"}, {"response_format": "pcm"}], ids=["default", "wav", "pcm"])
def test_tts_and_stt_round_trip(demo, address, options):
    """The default is MP3 in events, which the gateway encodes: the demo's voice has samples only."""
    from livekit import rtc
    from livekit.agents import APIConnectOptions, stt
    from livekit.plugins import openai

    async def talk() -> tuple[list[Any], stt.SpeechEvent]:
        voice = openai.TTS(model="sim/tone", voice="alloy", **address, **options)
        async with voice.synthesize(TEXT, conn_options=APIConnectOptions(max_retry=0)) as stream:
            received = [event async for event in stream]
        ears = openai.STT(model="sim/tone", **address)
        event = await ears.recognize(rtc.combine_audio_frames([h.frame for h in received]))
        await voice.aclose()
        await ears.aclose()
        return received, event

    received, event = asyncio.run(talk())
    assert {(h.frame.sample_rate, h.frame.num_channels) for h in received} == {(24_000, 1)}
    assert event.type == stt.SpeechEventType.FINAL_TRANSCRIPT
    assert event.alternatives[0].text == TEXT
    record = demo.record(received[0].request_id)
    assert (record["status"], record["model_id"], record["input_units"]) == ("success", "sim/tone", len(TEXT))


async def _answer(model: Any) -> str:
    from livekit.agents import llm

    context = llm.ChatContext.empty()
    context.add_message(role="user", content=TEXT)
    async with model.chat(chat_ctx=context) as stream:
        answer = await stream.collect()
    await model.aclose()
    return answer.text


@WHO
@pytest.mark.parametrize("vendor", ["openai", "groq"])
def test_plugin(drop_in, package, vendor, who):
    """Language model, speech, and the transcription of a recording."""
    package("livekit")
    from livekit import rtc
    from livekit.plugins import groq, openai

    plugin: Any = {"openai": openai, "groq": groq}[vendor]
    root = {"openai": "/v1", "groq": "/openai/v1"}[vendor]
    names = {modality: drop_in.model(vendor, modality) for modality in ("stt", "llm", "tts")}
    address = {"base_url": drop_in.at(vendor, who) + root, "api_key": "any"}
    recording = b"".join(fsk.encode(TEXT, 24_000))

    async def talk() -> tuple[str, bytes, int, str]:
        async with aiohttp.ClientSession() as http:
            of_groq = {"http_session": http} if vendor == "groq" else {"response_format": "wav"}
            text = await _answer(plugin.LLM(model=names["llm"], **address))
            voice = plugin.TTS(model=names["tts"], voice="alloy", **address, **of_groq)
            async with voice.synthesize(TEXT) as stream:
                received = [event.frame async for event in stream]
            await voice.aclose()
            ears = plugin.STT(model=names["stt"], **address)
            event = await ears.recognize(rtc.AudioFrame(recording, 24_000, 1, len(recording) // 2))
            await ears.aclose()
        return text, b"".join(bytes(f.data) for f in received), received[0].sample_rate, event.alternatives[0].text

    import aiohttp

    text, pcm, rate, transcript = asyncio.run(asyncio.wait_for(talk(), 120))
    assert text == transcript == TEXT
    assert spoken_text(pcm, rate) == TEXT


@pytest.fixture
def inference(drop_in, package, who):
    """What `LIVEKIT_INFERENCE_URL` and its two companions say."""
    package("livekit")
    url = drop_in.at("deepgram", who) + "/livekit/v1"
    with pytest.MonkeyPatch.context() as env:
        env.setenv("LIVEKIT_INFERENCE_URL", url)
        env.setenv("LIVEKIT_INFERENCE_API_KEY", "any-key")
        env.setenv("LIVEKIT_INFERENCE_API_SECRET", "anything-long-enough-for-hs256")
        yield


@WHO
def test_inference_listens(inference, who):
    """As a LiveKit agent makes it, with nothing but the environment to say where."""
    from livekit import rtc
    from livekit.agents import inference as livekit
    from livekit.agents import stt

    async def talk() -> list[stt.SpeechEvent]:
        async with aiohttp.ClientSession() as http:
            ears = livekit.STT(model=INFERENCE["stt"], language="en", sample_rate=16_000, http_session=http)
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 1_600):
                    data = PCM[at : at + 1_600]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                stream.end_input()
                events = [event async for event in stream]
            await ears.aclose()
            return events

    import aiohttp

    events = asyncio.run(asyncio.wait_for(talk(), 120))
    finals = [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.FINAL_TRANSCRIPT]
    assert " ".join(finals) == TEXT
    assert {e.type for e in events} >= {stt.SpeechEventType.START_OF_SPEECH, stt.SpeechEventType.INTERIM_TRANSCRIPT}


@WHO
def test_inference_speaks(inference, who):
    from livekit.agents import inference as livekit

    async def talk() -> list[Any]:
        async with aiohttp.ClientSession() as http:
            voice = livekit.TTS(model=INFERENCE["tts"], voice="a-voice", sample_rate=24_000, http_session=http)
            received = []
            for sentence in (TEXT + ". ", "And tomorrow? "):  # two utterances over one pooled socket
                async with voice.stream() as speech:
                    speech.push_text(sentence)
                    speech.end_input()
                    received.append([event async for event in speech])
            await voice.aclose()
            return received

    import aiohttp

    received = asyncio.run(asyncio.wait_for(talk(), 120))
    assert {(h.frame.sample_rate, h.frame.num_channels) for events in received for h in events} == {(24_000, 1)}
    spoken = [spoken_text(b"".join(bytes(h.frame.data) for h in events), 24_000) for events in received]
    assert spoken == [TEXT + ".", "And tomorrow?"]


@WHO
def test_inference_thinks(inference, who):
    from livekit.agents import inference as livekit

    async def talk() -> str:
        return await _answer(livekit.LLM(model=INFERENCE["llm"]))

    assert asyncio.run(asyncio.wait_for(talk(), 120)) == TEXT
