"""The vendor's own SDK, unchanged, against the fake vendor: so that what the fake says is what real clients understand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import openai
import pytest
import trio

from gw.types.audio import PCM_16K
from gw.types.tts import AudioChunk, SpeakEnd
from gw.types.usage import Usage
from gw.wire import wav
from gw.wire.openai_audio import SpeechDecoder
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = pytest.mark.clients
T = TypeVar("T")
HI = [{"role": "user", "content": "Say hello"}]
SECOND_OF_WAV = wav.header(PCM_16K, 32_000) + bytes(32_000)


@pytest.fixture
def fake() -> FakeOpenAI:
    return FakeOpenAI(api_key="test-key")


@pytest.fixture
async def ask(fake, nursery):
    """Run a function of a client in a thread."""
    address = await nursery.start(serve_asgi, fake)

    async def run(use: Callable[[openai.OpenAI], T], api_key: str = "test-key") -> T:
        def in_thread() -> T:
            with openai.OpenAI(base_url=f"{address}/v1", api_key=api_key, max_retries=0, timeout=60) as client:
                return use(client)

        return await trio.to_thread.run_sync(in_thread)

    return run


async def test_models(fake, ask):
    answer = await ask(lambda client: [m.id for m in client.models.list()])
    assert answer == ["gpt-x", "tts-x", "whisper-x"]
    [entry] = fake.ledger
    assert (entry.method, entry.path, entry.outcome) == ("GET", "/v1/models", "ended")
    assert entry.headers["authorization"] == "Bearer test-key"
    await entry.aborted.wait()
    assert entry.opened <= entry.closed


async def test_chat(fake, ask):
    answer = await ask(lambda client: client.chat.completions.create(model="gpt-x", messages=HI))
    assert answer.choices[0].message.content == "Hello there, how are you?"
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 5)
    assert fake.ledger[0].fields == {"model": "gpt-x", "messages": HI}
    assert fake.ledger[0].usage == Usage(input_tokens=2, output_tokens=5, source="vendor")


def streamed(client: openai.OpenAI, **more: Any) -> list[Any]:
    with client.chat.completions.create(
        model="gpt-x", messages=HI, stream=True, stream_options={"include_usage": True}, **more
    ) as stream:
        return list(stream)


async def test_streamed_chat(fake, ask):
    fake.tokens = ["Hé", "llo", "."]
    *chunks, last = await ask(streamed)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Héllo."
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(c.usage is None for c in chunks)
    assert last.choices == []
    assert last.usage.total_tokens == 5


async def test_a_stream_without_its_marker_is_accepted(fake, ask):
    fake.omit_done = True
    assert (await ask(streamed))[-1].usage is not None


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


async def test_a_tool_call(fake, ask):
    fake.tool_call = ("weather", '{"city":"Rome"}')
    answer = await ask(lambda c: c.chat.completions.create(model="gpt-x", messages=HI, tools=TOOLS))
    [call] = answer.choices[0].message.tool_calls
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"city":"Rome"}')

    def assembled(client: openai.OpenAI) -> Any:
        with client.chat.completions.stream(model="gpt-x", messages=HI, tools=TOOLS) as stream:
            return stream.get_final_completion()

    [call] = (await ask(assembled)).choices[0].message.tool_calls
    assert (call.id, call.function.arguments) == ("call_1", '{"city":"Rome"}')


async def test_refusals(fake, ask):
    fake.refuse = "refusal"
    answer = await ask(lambda c: c.chat.completions.create(model="gpt-x", messages=HI))
    assert answer.choices[0].message.refusal == "I cannot help with that."
    assert any(c.choices and c.choices[0].delta.refusal for c in await ask(streamed))
    fake.refuse = "content_filter"
    answer = await ask(lambda c: c.chat.completions.create(model="gpt-x", messages=HI))
    assert answer.choices[0].finish_reason == "content_filter"


async def test_an_error_in_the_stream(fake, ask):
    fake.error_in_stream, fake.error_after = "overloaded", 1
    with pytest.raises(openai.APIError, match="scripted failure") as caught:
        await ask(streamed)
    assert caught.value.code == "overloaded"
    assert fake.ledger[0].outcome == "cut"


@pytest.mark.parametrize("pieces", [0, 2])
async def test_a_cut_stream(fake, ask, pieces):
    fake.cut_after = pieces
    with pytest.raises(openai.APIConnectionError):
        await ask(streamed)
    assert fake.ledger[0].outcome == "cut"


async def test_a_cut_body(fake, ask):
    fake.cut_after = 0
    with pytest.raises(openai.APIConnectionError):
        await ask(lambda c: c.chat.completions.create(model="gpt-x", messages=HI))


async def test_a_caller_who_leaves_is_noticed(fake, ask):
    fake.token_gap_s = 60

    def first_only(client: openai.OpenAI) -> Any:
        with client.chat.completions.create(model="gpt-x", messages=HI, stream=True) as stream:
            return next(stream)

    await ask(first_only)
    with trio.fail_after(60):
        await fake.ledger[0].aborted.wait()
    assert fake.ledger[0].outcome == "cancelled"


SPEAK = {"model": "tts-x", "voice": "alloy", "input": "Good morning."}


async def test_speech_as_it_comes(fake, ask):
    fake.speech_pcm = bytes(range(256)) * 100

    def speak(client: openai.OpenAI) -> tuple[bytes, str]:
        with client.audio.speech.with_streaming_response.create(**SPEAK, response_format="pcm") as response:
            return b"".join(response.iter_bytes()), response.headers["content-type"]

    assert await ask(speak) == (fake.speech_pcm, "audio/pcm")
    whole = await ask(lambda c: c.audio.speech.create(**SPEAK, response_format="wav").content)
    info = wav.parse(whole)
    assert info.data_bytes == 25_600
    assert whole[info.data_offset :] == fake.speech_pcm
    assert fake.ledger[0].fields == {**SPEAK, "response_format": "pcm"}


async def test_speech_as_events(fake, ask):
    fake.speech_pcm = lambda request: request.text.encode() * 2
    fake.speech_chunk_bytes = 13

    def speak(client: openai.OpenAI) -> bytes:
        with client.audio.speech.with_streaming_response.create(
            **SPEAK, response_format="pcm", stream_format="sse"
        ) as response:
            assert response.headers["content-type"] == "text/event-stream"
            return b"".join(response.iter_bytes())

    stream = await ask(speak)
    usage = Usage(input_tokens=2, output_tokens=2, output_audio_tokens=2, source="vendor")
    expected = [AudioChunk(data=b"Good morning."), AudioChunk(data=b"Good morning."), SpeakEnd(usage=usage)]
    assert SpeechDecoder("fake").feed(stream) == expected


def transcribed(client: openai.OpenAI, model: str = "whisper-x", **more: Any) -> Any:
    return client.audio.transcriptions.create(model=model, file=("a.wav", SECOND_OF_WAV, "audio/wav"), **more)


async def test_transcription(fake, ask):
    fake.transcript = "good morning"
    times = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    answer = await ask(lambda c: transcribed(c, language="en", **times))
    assert (answer.text, [word.word for word in answer.words]) == ("good morning", ["good", "morning"])
    assert (answer.usage.type, answer.usage.seconds) == ("duration", 1.0)
    [entry] = fake.ledger
    assert entry.audio == SECOND_OF_WAV
    assert entry.fields == {
        "model": "whisper-x", "language": "en", "response_format": "verbose_json",
        "timestamp_granularities[]": ["word", "segment"],
    }
    with pytest.raises(openai.BadRequestError):
        await ask(lambda c: transcribed(c, timestamp_granularities=["word"]))
    with pytest.raises(openai.BadRequestError):
        await ask(lambda c: transcribed(c, response_format="diarized_json"))
    answer = await ask(lambda c: transcribed(c, response_format="verbose_json"))
    assert (answer.text, answer.duration, answer.language) == ("good morning", 1.0, "english")
    assert (await ask(lambda c: transcribed(c, response_format="text"))).strip() == "good morning"
    srt = await ask(lambda c: transcribed(c, response_format="srt"))
    assert "00:00:00,000 --> 00:00:00,400\ngood morning" in srt
    vtt = await ask(lambda c: transcribed(c, response_format="vtt"))
    assert vtt.startswith("WEBVTT")
    diarized = await ask(lambda c: transcribed(c, model="gpt-4o-transcribe-diarize", response_format="diarized_json"))
    assert (diarized.text, [segment.speaker for segment in diarized.segments]) == ("good morning", ["A", "B"])


async def test_transcription_as_events(fake, ask):
    *deltas, done = await ask(lambda c: list(transcribed(c, stream=True)))
    assert [d.delta for d in deltas] == ["hello", " there"]
    assert (done.type, done.text) == ("transcript.text.done", "hello there")


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")   # the SDK is about to drop the method
async def test_translation(fake, ask):
    fake.transcript = lambda request: request.task
    answer = await ask(lambda c: c.audio.translations.create(model="w", file=("a.wav", SECOND_OF_WAV)))
    assert answer.text == "translate"
    assert (await ask(transcribed)).text == "transcribe"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError), (402, openai.APIStatusError), (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError), (422, openai.UnprocessableEntityError), (429, openai.RateLimitError),
        (500, openai.InternalServerError), (503, openai.InternalServerError),
    ],
)
async def test_error_classes(fake, ask, status, error):
    fake.status, fake.error_code, fake.headers = [status], "some_code", [("retry-after", "7")]
    with pytest.raises(error, match="scripted failure") as caught:
        await ask(streamed)
    assert (caught.value.status_code, caught.value.code) == (status, "some_code")
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.request_id == "req_1"
    await ask(streamed)   # the list is used up: well again


async def test_a_wrong_key_and_a_bad_request(fake, ask):
    with pytest.raises(openai.AuthenticationError):
        await ask(streamed, api_key="other")
    with pytest.raises(openai.BadRequestError, match="messages"):
        await ask(lambda c: c.chat.completions.create(model="gpt-x", messages=[]))
    with pytest.raises(openai.NotFoundError):
        await ask(lambda c: c.images.generate(model="x", prompt="y"))


# ---- responses


async def test_a_response(fake, ask):
    answer = await ask(lambda c: c.responses.create(model="gpt-x", input="Say hello", instructions="Be brief."))
    assert (answer.output_text, answer.status, answer.store) == ("Hello there, how are you?", "completed", True)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (4, 5)
    assert fake.ledger[0].fields == {"model": "gpt-x", "input": "Say hello", "instructions": "Be brief."}
    again = await ask(lambda c: c.responses.create(model="gpt-x", input="And?", previous_response_id=answer.id))
    assert again.previous_response_id == answer.id
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(lambda c: c.responses.create(model="gpt-x", input="And?", previous_response_id="resp_none"))
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_a_streamed_response(fake, ask):
    def through_helper(client: openai.OpenAI) -> Any:
        with client.responses.stream(model="gpt-x", input="Say hello") as stream:
            return [event.type for event in stream], stream.get_final_response()

    kinds, last = await ask(through_helper)
    assert last.output_text == "Hello there, how are you?"
    assert kinds[0] == "response.created"
    assert kinds.count("response.output_text.delta") == 5
    assert kinds[-1] == "response.completed"


async def test_a_response_that_calls_a_tool(fake, ask):
    fake.tool_call = ("weather", '{"city":"Rome"}')
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
    answer = await ask(lambda c: c.responses.create(model="gpt-x", input="Say hello", tools=[tool]))
    [call] = answer.output
    assert (call.type, call.call_id, call.name, call.arguments) == ("function_call", "call_1", "weather", '{"city":"Rome"}')


async def test_a_response_that_is_refused_or_fails(fake, ask):
    fake.refuse = "refusal"
    answer = await ask(lambda c: c.responses.create(model="gpt-x", input="Say hello"))
    assert answer.output[0].content[0].refusal == "I cannot help with that."
    fake.refuse, fake.error_in_stream, fake.error_after = "", "server_error", 2
    events = await ask(lambda c: _until_cut(c.responses.create(model="gpt-x", input="Say hello", stream=True)))
    assert (events[-1].type, events[-1].code, events[-1].message) == ("error", "server_error", "scripted failure")


def _until_cut(stream: Any) -> list[Any]:
    """Return the events of a stream that its server breaks off."""
    events: list[Any] = []
    with pytest.raises(openai.APIConnectionError):
        events.extend(stream)
    return events
