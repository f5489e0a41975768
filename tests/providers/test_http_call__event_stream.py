"""A failure that comes in the same read as events."""

from __future__ import annotations

import pytest

from gw.errors import ProviderError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.net.http_response import HttpResponse
from gw.providers.chat_call import ChatEvents
from gw.providers.http_call import EventStream
from gw.types.llm import Delta, StreamError
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

    async def receive_some(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


async def read(stream):
    events = []
    while True:
        try:
            events += await stream.receive()
        except ProviderError as error:
            with pytest.raises(ProviderError):
                await stream.receive()
            return events, error


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
async def test_speech(pieces, chunks, error):
    events, raised = await read(EventStream(Body(pieces), "p", SpeechDecoder("p")))
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
async def test_chat(pieces, text, error):
    events, raised = await read(ChatEvents(Body(pieces), "p", ChatDecoder("p", keep_raw=False)))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    assert isinstance(raised, error)


async def test_an_error_event_waits_for_what_came_before_it():
    stream = ChatEvents(Body([WORD, WORD + FAULT]), "p", ChatDecoder("p", keep_raw=False))
    lists = [await stream.receive() for _ in range(3)]
    assert [[type(event) for event in events] for events in lists] == [[Delta], [Delta], [StreamError]]


async def test_an_error_event_beside_the_first_content_comes_with_it():
    """The relay then tries another candidate: nothing has been passed on."""
    stream = ChatEvents(Body([WORD + FAULT]), "p", ChatDecoder("p", keep_raw=False))
    assert [type(event) for event in await stream.receive()] == [Delta, StreamError]
