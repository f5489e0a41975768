"""Odd answers of servers of OpenAI's shape; what every provider keeps is in `tests/contract/test_providers.py`."""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.errors import ProviderError, ProviderRejected, RateLimitError, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.providers import openai_like
from gw.providers.spec import Account
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.llm import ChatEnd, Delta, UsageReport
from gw.types.secret import Secret
from gw.types.stt import TranscribeRequest, Transcript
from gw.types.tts import SpeakEnd, SpeakRequest
from gw.wire import wav
from gw.wire.openai_chat import parse_request
from tests.fakes.net import FakeNet, ServerSide

JSON, SSE = (b"content-type", b"application/json"), (b"content-type", b"text/event-stream; charset=utf-8")
WHOLE = (
    b'{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"hm",'
    b'"tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{}"}}]}}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2}}'
)


class Server:
    """Answers every request in the same way, and keeps what it was asked."""

    def __init__(self, nursery, status=200, body=b"", *headers, cut=0):
        self.requested = []
        net = FakeNet(nursery)
        net.hosts["api.test", 80] = self.serve
        self.answer = (status, body, headers)
        self.cut = cut
        self.pool = Pool(connect=net)

    async def serve(self, stream):
        server = ServerSide(stream)
        status, body, headers = self.answer
        while (request := await server.request()) is not None:
            self.requested.append(request)
            lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
            await server.send(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n%b\r\n" % (status, len(body) + self.cut, lines))
            await server.send(body)
            if self.cut:
                return

    def account(self, key="k-1"):
        return Account(
            provider_id="p",
            model="vendor/m",
            origin=Origin.parse("http://api.test/base"),
            api_key=Secret(key),
            pool=self.pool,
        )


class Recording:
    size, filename, content_type = 200_000, 'a "b".wav', "audio/wav"

    async def chunks(self):
        for _ in range(4):
            yield b"x" * 50_000


def chat_request(stream):
    flag = b"true" if stream else b"false"
    return parse_request(b'{"model":"m","stream":%b,"messages":[{"role":"user","content":"hi"}]}' % flag)


def speak_request(encoding="pcm_s16le", **fields):
    return SpeakRequest(model="m", text="hi", voice="v", format=AudioFormat(encoding=encoding), **fields)


def transcribe_request(**fields):
    return TranscribeRequest(model="m", audio=Recording(), **fields)


@pytest.mark.parametrize(
    ("call", "request_", "path", "accept"),
    [
        (openai_like.chat, chat_request(True), b"/base/chat/completions", b"text/event-stream"),
        (openai_like.chat, chat_request(False), b"/base/chat/completions", b"application/json"),
        (openai_like.speak, speak_request(), b"/base/audio/speech", b"*/*"),
        (openai_like.speak, speak_request(want_events=True), b"/base/audio/speech", b"text/event-stream"),
        (openai_like.transcribe, transcribe_request(), b"/base/audio/transcriptions", b"*/*"),
        (openai_like.transcribe, transcribe_request(stream=True), b"/base/audio/transcriptions", b"text/event-stream"),
        (openai_like.transcribe, transcribe_request(task="translate"), b"/base/audio/translations", b"*/*"),
    ],
)
@pytest.mark.parametrize("key", ["k-1", ""])
async def test_the_request_for_speech(call, request_, path, accept, key, nursery):
    server = Server(nursery, 503)
    with pytest.raises(ProviderError):
        async with call(request_, server.account(key)):
            raise AssertionError("there was no answer")
    (requested,) = server.requested
    assert (requested.method, requested.path, requested.headers[b"accept"]) == (b"POST", path, accept)
    assert requested.headers.get(b"authorization") == (b"Bearer k-1" if key else None)
    assert b"vendor/m" in requested.body
    assert int(requested.headers[b"content-length"]) == len(requested.body)


async def test_a_whole_answer_in_place_of_a_stream_is_handed_out_as_one(nursery):
    server = Server(nursery, 200, WHOLE, JSON)
    async with openai_like.chat(chat_request(True), server.account()) as stream:
        delta, usage, end = await stream.receive()
        with pytest.raises(UpstreamCut):
            await stream.receive()
    assert isinstance(delta, Delta)
    assert (delta.text, delta.finish_reason, delta.tool_calls[0].name, delta.raw) == ("hm", "tool_calls", "look", None)
    assert isinstance(usage, UsageReport)
    assert usage.usage.output_tokens == 2
    assert isinstance(end, ChatEnd)


async def test_a_stream_read_past_its_end_says_so(nursery):
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    server = Server(nursery, 200, body, SSE)
    async with openai_like.chat(chat_request(True), server.account()) as stream:
        assert isinstance((await stream.receive())[-1], ChatEnd)
        with pytest.raises(UpstreamCut, match="past the end"), trio.fail_after(60):
            await stream.receive()
    assert server.pool.idle == 1


async def test_a_transcript_in_place_of_a_stream(nursery):
    server = Server(nursery, 200, b'{"text":"hi"}', JSON)
    async with openai_like.transcribe(transcribe_request(stream=True), server.account()) as stream:
        (transcript,) = await stream.receive()
    assert isinstance(transcript, Transcript)
    assert transcript.text == "hi"


async def test_a_wav_tells_its_own_rate(nursery):
    real = AudioFormat(encoding="wav", sample_rate_hz=16_000)
    server = Server(nursery, 200, wav.header(real, 4) + b"abcd", (b"content-type", b"audio/wav"))
    async with openai_like.speak(speak_request("wav"), server.account()) as stream:
        await stream.receive()
        assert stream.format == real
        assert await stream.receive() == [SpeakEnd()]


@pytest.mark.parametrize(("encoding", "expected"), [("pcm_s16le", PCM_24K), ("mp3", AudioFormat(encoding="mp3"))])
async def test_audio_of_another_type_counts_as_the_requested_one(encoding, expected, nursery):
    server = Server(nursery, 200, b"abcd", (b"content-type", b"application/octet-stream"))
    async with openai_like.speak(speak_request(encoding), server.account()) as stream:
        await stream.receive()
        assert stream.format == expected


@pytest.mark.parametrize(
    "type_", [b"text/html", b"Text/Plain; charset=utf-8", b"application/xhtml+xml", b"application/xml", b"application/problem+json"]
)
async def test_a_page_is_no_audio(type_, nursery):
    server = Server(nursery, 200, b"<html>captive portal</html>", (b"content-type", type_))
    with pytest.raises(UpstreamProtocolError, match="text where audio was expected"):
        async with openai_like.speak(speak_request(), server.account()) as stream:
            await stream.receive()


async def test_json_is_no_speech(nursery):
    server = Server(nursery, 200, b"{}", JSON)
    with pytest.raises(UpstreamProtocolError):
        async with openai_like.speak(speak_request(), server.account()) as stream:
            await stream.receive()


async def test_an_error_body_that_breaks_off_keeps_its_status(nursery):
    server = Server(nursery, 401, b'{"error":{"mess', JSON, cut=100)
    with pytest.raises(ProviderRejected) as caught:
        async with openai_like.chat(chat_request(True), server.account()):
            raise AssertionError("there was no answer")
    assert (caught.value.upstream_status, caught.value.detail) == (401, "HTTP 401")
    assert server.pool.in_use == {}


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ([(b"retry-after", b"2.5")], 2.5),
        ([(b"date", b"Sat, 21 Nov 2026 10:00:00 GMT"), (b"retry-after", b"Sat, 21 Nov 2026 10:00:40 GMT")], 40.0),
        ([(b"date", b"Sat, 21 Nov 2026 10:00:00 GMT"), (b"retry-after", b"Sat, 21 Nov 2026 09:00:00 GMT")], 0.0),
        ([(b"retry-after", b"Sat, 21 Nov 2026 10:00:40 GMT")], None),
        ([(b"date", b"today"), (b"retry-after", b"Sat, 21 Nov 2026 10:00:40 GMT")], None),
    ],
)
async def test_a_time_to_come_back_is_counted_from_the_vendors_clock(headers, wait_s, nursery):
    server = Server(nursery, 429, b"{}", JSON, *headers)
    with pytest.raises(RateLimitError) as caught:
        async with openai_like.chat(chat_request(True), server.account()):
            raise AssertionError("there was no answer")
    assert caught.value.retry_after_s == wait_s


async def test_a_members_of_an_answer_that_are_no_json_object(nursery):
    for body in (b"", b"null", b"[]", b'{"choices":[]}', msgspec.json.encode({"choices": [{}]})):
        server = Server(nursery, 200, body, JSON)
        with pytest.raises(UpstreamProtocolError):
            async with openai_like.chat(chat_request(False), server.account()) as stream:
                await stream.receive()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_transcript_for_a_caller_of_another_dialect_has_nothing_raw(stream, nursery):
    if stream:
        server = Server(nursery, 200, b'data: {"type":"transcript.text.done","text":"hi"}\n\n', SSE)
    else:
        server = Server(nursery, 200, b'{"text":"hi"}', JSON)
    for dialect, raw in (("openai", True), ("deepgram", False)):
        request = transcribe_request(stream=stream, dialect=dialect)
        async with openai_like.transcribe(request, server.account()) as answer:
            (transcript,) = await answer.receive()
        assert (transcript.text, transcript.raw is not None) == ("hi", raw)
