"""The unchanged `openai` SDK against `gw serve --demo`: only base_url and key are ours."""

from __future__ import annotations

import io
import wave

import openai
import pytest

pytestmark = pytest.mark.process

TEXT = "what is the weather in Paris today"


@pytest.fixture(scope="module")
def client(start_for_module):
    with openai.OpenAI(base_url=start_for_module().url + "/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


def test_models(client):
    ids = {m.id for m in client.models.list()}
    assert {"sim/tone", "sim/echo", "sim/scripted", "sim/flaky"} <= ids
    assert client.models.retrieve("sim/echo").id == "sim/echo"


def test_chat(client):
    answer = client.chat.completions.create(model="sim/echo", messages=[{"role": "user", "content": TEXT}])
    assert answer.choices[0].message.content == TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_streamed_chat_with_usage(client):
    stream = client.chat.completions.create(
        model="sim/echo", messages=[{"role": "user", "content": TEXT}], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert len(chunks) > 4
    assert [c.usage is not None for c in chunks] == [False] * (len(chunks) - 1) + [True]


def test_streamed_chat_without_usage_has_no_usage_chunk(client):
    stream = client.chat.completions.create(model="sim/echo", messages=[{"role": "user", "content": TEXT}], stream=True)
    assert all(c.choices and c.usage is None for c in stream)


@pytest.mark.parametrize("stream", [False, True])
def test_tool_call_and_its_answer(client, stream):
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    messages = [{"role": "user", "content": "Paris"}]
    if stream:
        pieces = [
            c.choices[0].delta.tool_calls[0]
            for c in client.chat.completions.create(model="sim/scripted", messages=messages, tools=[tool], stream=True)
            if c.choices and c.choices[0].delta.tool_calls
        ]
        call_id, name = pieces[0].id, pieces[0].function.name
        arguments = "".join(p.function.arguments or "" for p in pieces)
    else:
        message = client.chat.completions.create(model="sim/scripted", messages=messages, tools=[tool]).choices[0].message
        call = message.tool_calls[0]
        call_id, name, arguments = call.id, call.function.name, call.function.arguments
    assert (name, "Paris" in arguments) == ("get_weather", True)
    messages += [
        {
            "role": "assistant",
            "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "18 degrees"},
    ]
    after = client.chat.completions.create(model="sim/scripted", messages=messages, tools=[tool])
    assert "18 degrees" in after.choices[0].message.content


@pytest.mark.parametrize("response_format", ["wav", "pcm"])
def test_speech_and_its_transcription(client, response_format):
    with client.audio.speech.with_streaming_response.create(
        model="sim/tone", voice="alloy", input=TEXT, response_format=response_format
    ) as response:
        audio = b"".join(response.iter_bytes())
        assert response.headers["x-gw-model"] == "sim/tone"
    if response_format == "pcm":
        packed = io.BytesIO()
        with wave.open(packed, "wb") as file:
            file.setparams((1, 2, 24_000, 0, "NONE", ""))
            file.writeframes(audio)
        audio = packed.getvalue()
    with wave.open(io.BytesIO(audio)) as file:
        assert file.getnframes() / file.getframerate() > 0.5
    for kw in ({}, {"response_format": "verbose_json"}):
        transcript = client.audio.transcriptions.create(model="sim/tone", file=("a.wav", audio), **kw)
        assert transcript.text == TEXT
    assert client.audio.transcriptions.create(model="sim/tone", file=("a.wav", audio), response_format="text").strip() == TEXT
    srt = client.audio.transcriptions.create(model="sim/tone", file=("a.wav", audio), response_format="srt")
    assert "-->" in srt
    events = list(client.audio.transcriptions.create(model="sim/tone", file=("a.wav", audio), stream=True))
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == TEXT
    assert "".join(e.delta for e in events if e.type == "transcript.text.delta").strip() == TEXT


def test_speech_as_events(client):
    with client.audio.speech.with_streaming_response.create(
        model="sim/tone", voice="alloy", input=TEXT, response_format="pcm", stream_format="sse"
    ) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert '"speech.audio.delta"' in lines[0]
    assert '"speech.audio.done"' in lines[-1]


def test_first_audio_arrives_before_the_last_is_made(start):
    """The last is made after more than an hour."""
    daemon = start("providers: {sim: {token_ms: 600000}}\nmodels: {tts: [sim/tone]}\n")
    client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="any", max_retries=0)
    with (
        client,
        client.audio.speech.with_streaming_response.create(
            model="sim/tone", voice="alloy", input="hello " * 20, response_format="pcm"
        ) as response,
    ):
        assert next(response.iter_bytes())


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda c: c.chat.completions.create(model="sim/none", messages=[{"role": "user", "content": "x"}]), openai.NotFoundError),
        (lambda c: c.chat.completions.create(model="sim/echo", messages=[]), openai.BadRequestError),
        (lambda c: c.audio.transcriptions.create(model="sim/tone", file=("a.wav", b"")), openai.BadRequestError),
    ],
)
def test_errors_are_the_sdks_own_classes(client, make, error):
    with pytest.raises(error) as caught:
        make(client)
    assert caught.value.request_id
    assert caught.value.body["message"]
