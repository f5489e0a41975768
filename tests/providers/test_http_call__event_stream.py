"""A failure that comes in the same read as events."""

from __future__ import annotations

from functools import partial

import pytest

from gw.errors import ProviderError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.net.http_response import HttpResponse
from gw.providers.chat_call import ChatEvents
from gw.providers.http_call import EventStream
from gw.types.llm import Delta, StreamError
from gw.types.pending import READY
from gw.types.tts import AudioChunk
from gw.wire.openai_audio import SpeechDecoder
from gw.wire.openai_chat import ChatDecoder

SOUND = b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
ERROR = b'data: {"type":"error","error":{"code":"x"}}\n\n'
BAD = b"data: {\n\n"
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
FAULT = b'data: {"error":{"message":"m","code":"x"}}\n\n'


class Body(HttpResponse):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = list(pieces)
        self.headers = [(b"content-type", b"text/event-stream")]

    async def receive_some(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def for_each_piece(self, take):
        while self.pieces:
            if (pending := take(self.pieces.pop(0))) is not None:
                return pending
        return take(b"") or READY


async def by_lists(stream, lists):
    """Receive one list after another."""
    while True:
        lists.append(await stream.receive())


async def in_place(stream, lists):
    """Take the lists where they are read."""
    await stream.for_each(lists.append)


async def in_place_with_waits(stream, lists):
    """Take the lists where they are read, each with something to wait for."""

    def take(events):
        lists.append(events)
        return READY

    while True:
        assert await stream.for_each(take) is READY


async def read(stream, reading):
    lists = [] if reading is by_lists else [await stream.receive()]  # the first one is received by whoever opens the stream
    with pytest.raises(ProviderError) as caught:
        await reading(stream, lists)
    for again in (stream.receive, partial(stream.for_each, lists.append)):
        with pytest.raises(ProviderError):
            await again()
    return [event for events in lists for event in events], caught.value


READINGS = pytest.mark.parametrize("reading", [by_lists, in_place, in_place_with_waits])


def test_it_lets_the_head_of_the_answer_go():
    body = Body([])
    EventStream(body, "p", SpeechDecoder("p"))
    assert body.headers == []


@pytest.mark.parametrize(
    ("pieces", "chunks", "error"),
    [
        ([SOUND, SOUND + ERROR], 2, ProviderFailed),
        ([SOUND, SOUND + BAD, SOUND], 2, UpstreamProtocolError),
        ([SOUND + ERROR], 0, ProviderFailed),
        ([SOUND, BAD], 1, UpstreamProtocolError),
        ([SOUND], 1, UpstreamCut),
    ],
)
@READINGS
async def test_speech(pieces, chunks, error, reading):
    if not chunks:
        reading = by_lists
    events, raised = await read(EventStream(Body(pieces), "p", SpeechDecoder("p")), reading)
    assert events == [AudioChunk(data=b"\0\0\0")] * chunks
    assert isinstance(raised, error)


@pytest.mark.parametrize(
    ("pieces", "text", "error"),
    [
        ([WORD, WORD + BAD], "aa", UpstreamProtocolError),
        ([WORD + BAD], "", UpstreamProtocolError),
        ([ROLE, WORD + BAD], "", UpstreamProtocolError),
        ([ROLE + WORD, WORD + WORD + BAD + WORD], "aaa", UpstreamProtocolError),
        ([WORD], "a", UpstreamCut),
    ],
)
@READINGS
async def test_chat(pieces, text, error, reading):
    if not text:
        reading = by_lists
    events, raised = await read(ChatEvents(Body(pieces), "p", ChatDecoder("p", keep_raw=False)), reading)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    assert isinstance(raised, error)


@READINGS
async def test_an_error_event_waits_for_what_came_before_it(reading):
    lists = []
    with pytest.raises(ProviderError):
        await reading(ChatEvents(Body([WORD, WORD + FAULT]), "p", ChatDecoder("p", keep_raw=False)), lists)
    assert [[type(event) for event in events] for events in lists] == [[Delta], [Delta], [StreamError]]


async def test_an_error_event_beside_the_first_content_comes_with_it():
    """The relay then tries another candidate: nothing has been passed on."""
    stream = ChatEvents(Body([WORD + FAULT]), "p", ChatDecoder("p", keep_raw=False))
    assert [type(event) for event in await stream.receive()] == [Delta, StreamError]
