"""Calls of the sim engine for its tests: accounts, requests, and reading a stream to its end."""

import msgspec

from gw.net.http1 import Origin, Pool
from gw.providers.sim import SPEC
from gw.providers.spec import Account
from gw.types.audio import PCM_16K
from gw.types.llm import ChatEnd, ChatRequest
from gw.types.secret import Secret
from gw.types.stt import ListenEnd, ListenRequest, TranscribeRequest, Transcript
from gw.types.tts import SpeakEnd, SpeakLiveRequest, SpeakRequest

LAST = (ChatEnd, Transcript, SpeakEnd, ListenEnd)


def account(model, provider="sim", **options):
    origin = Origin(scheme="http", host="localhost", port=80)
    return Account(
        provider_id=provider, model=model, origin=origin, api_key=Secret(""), pool=Pool(), options=options
    )


def chat_request(text="hi", *, messages=None, max_output_tokens=None, **fields):
    fields |= {"model": "x", "messages": messages or [{"role": "user", "content": text}]}
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    return ChatRequest(model="x", fields=raw, stream=True, max_output_tokens=max_output_tokens)


async def read(stream):
    """All events up to the last."""
    events = []
    while not events or not isinstance(events[-1], LAST):
        events += await stream.receive()
    return events


async def chat(account_, *args, **kwargs):
    async with SPEC.chat(chat_request(*args, **kwargs), account_) as stream:
        return await read(stream)


class Recording:
    """An upload in memory."""

    filename = "speech.wav"
    content_type = "audio/wav"

    def __init__(self, data, piece=64 * 1024):
        self.data = data
        self.size = len(data)
        self.piece = piece
        self.open = 0

    async def chunks(self):
        self.open += 1
        try:
            for at in range(0, self.size, self.piece):
                yield self.data[at : at + self.piece]
        finally:
            self.open -= 1


async def transcribe(recording, account_=None, **fields):
    request = TranscribeRequest(model="x", audio=recording, **fields)
    async with SPEC.transcribe(request, account_ or account("tone")) as stream:
        return await read(stream)


def listen(account_=None, fmt=PCM_16K, **fields):
    return SPEC.listen(ListenRequest(model="x", format=fmt, **fields), account_ or account("tone"))


async def speak(text, fmt, account_=None):
    """The stream's format, and its events."""
    request = SpeakRequest(model="x", text=text, format=fmt)
    async with SPEC.speak(request, account_ or account("tone")) as stream:
        return stream.format, await read(stream)


def speak_live(fmt, account_=None):
    return SPEC.speak_live(SpeakLiveRequest(model="x", format=fmt), account_ or account("tone"))
