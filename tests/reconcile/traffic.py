"""Traffic through the gateway, and what the fake vendor's own ledger says of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import attrs
import msgspec
import trio

from gw.library.asynchronous import Recording
from gw.providers.sim import fsk
from gw.reconcile.compare import compare
from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import openai_chat, wav
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.scripted import Entry

CONFIG = """
providers:
  {vendor}: {{api_key: k, base_url: "http://vendor.test{prefix}"}}
  second: {{type: {vendor}, api_key: k, base_url: "http://vendor.test{prefix}"}}
models: {models}
"""
MODELS = {
    "llm": ("gpt-x", {"unit": "1M_tokens", "input": 0.15, "output": 0.6}),
    "stt": ("ears", {"unit": "minute", "usd": 0.0048}),
    "tts": ("voice", {"unit": "1M_characters", "usd": 15}),
}
PER_TOKEN = Decimal("0.15") / 1_000_000, Decimal("0.6") / 1_000_000
PER_SECOND = Decimal("0.0048") / 60
PER_CHARACTER = Decimal(15) / 1_000_000
REQUESTS = 12
SENTENCES = ["Good day. ", "Two tables, please? ", "Äpfel für 12 € 🍏 "]


# ---- what apps ask for


async def chat(relay, provider, n):
    body = {"model": f"{provider}/gpt-x", "stream": n % 3 == 0, "messages": [{"role": "user", "content": "word " * n}]}
    request = openai_chat.parse_request(msgspec.json.encode(body))
    async with relay.chat(request, Caller(endpoint="/v1/chat/completions")) as answer:
        while not answer.done:
            await answer.receive()


async def hear(relay, provider, n):
    """A recording, or a live session."""
    pcm = b"".join(fsk.encode("one", 16_000)) + bytes(32 * 7 * n)  # whole milliseconds cost whole nano-dollars
    if n % 2:
        audio = Recording(wav.header(PCM_16K, len(pcm)) + pcm, "a.wav")
        request = TranscribeRequest(model=f"{provider}/ears", audio=audio, format=audio.format, audio_seconds=audio.seconds)
        async with relay.transcribe(request, Caller()) as answer:
            while not answer.done:
                await answer.receive()
        return
    live = ListenRequest(model=f"{provider}/ears", format=PCM_16K)
    async with relay.listen(live, Caller()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(_talk, session, [pcm[at : at + 1_280] for at in range(0, len(pcm), 1_280)])
        while not session.done:
            await session.receive()


async def _talk(session, pieces):
    for piece in pieces:
        await session.send_audio(piece)
        await trio.sleep(0.04)
    await session.finish()


async def speak(relay, provider, n):
    """A whole text, or one that comes in sentences."""
    text = SENTENCES[n % 3] * (1 + n % 4)
    if n % 2:
        request = SpeakRequest(model=f"{provider}/voice", text=text, voice="v", format=PCM_16K)
        async with relay.speak(request, Caller()) as answer:
            while not answer.done:
                await answer.receive()
        return
    live = SpeakLiveRequest(model=f"{provider}/voice", voice="v", format=PCM_16K)
    async with relay.speak_live(live, Caller()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(_write, session, [*SENTENCES, text])
        while not session.done:
            await session.receive()


async def _write(session, pieces):
    for piece in pieces:
        await session.send_text(piece)
        await trio.sleep(0.1)
    await session.finish()


# ---- what vendors bill, by their own counts


def tokens(ledger: Iterable[Entry]) -> Mapping[str, Decimal]:
    used = [entry.usage for entry in ledger if entry.usage and entry.path.endswith(("/chat/completions", "/messages"))]
    into, out = sum(usage.input_tokens for usage in used), sum(usage.output_tokens for usage in used)
    cost = into * PER_TOKEN[0] + out * PER_TOKEN[1]
    return {"input_tokens": Decimal(into), "output_tokens": Decimal(out), "n_requests": Decimal(len(used)), "cost_usd": cost}


def seconds(ledger: Iterable[Entry]) -> Mapping[str, Decimal]:
    """Of audio received: a recording by its header, a live session by what its query says of the samples."""
    heard = [entry for entry in ledger if entry.path.endswith("/listen")]
    total = Decimal(0)
    for entry in heard:
        if (info := wav.parse(entry.audio)) is not None:
            total += Decimal(len(entry.audio) - info.data_offset) / 32_000
        else:
            (rate,) = parse_qs(entry.fields["query"])["sample_rate"]
            total += Decimal(len(entry.audio)) / (2 * int(rate))
    return {"audio_seconds": total, "n_requests": Decimal(len(heard)), "cost_usd": total * PER_SECOND}


def characters(ledger: Iterable[Entry]) -> Mapping[str, Decimal]:
    texts = [entry.fields["text"] for entry in ledger if entry.path.startswith(("/tts/", "/v1/text-to-speech"))]
    total = Decimal(sum(map(len, texts)))
    cost = total * PER_CHARACTER
    return {"characters": total, "credits": total, "n_requests": Decimal(len(texts)), "cost_usd": cost}


@attrs.frozen(kw_only=True)
class Case:
    """A vendor with a canonical file. `asked` is in it; `beside` is of another modality, which stays out."""

    fake: Callable[[], Any]
    prefix: str = ""
    model: str
    asked: Callable[[Any, str, int], Awaitable[None]]
    beside: Callable[[Any, str, int], Awaitable[None]] | None = None
    bill: Callable[[Iterable[Entry]], Mapping[str, Decimal]]
    modalities: tuple[str, ...] = ("stt", "tts")

    def config(self, vendor: str) -> str:
        models = {
            modality: {f"{provider}/{name}": {"price": price} for provider in (vendor, "second")}
            for modality, (name, price) in MODELS.items()
            if modality in self.modalities
        }
        return CONFIG.format(vendor=vendor, prefix=self.prefix, models=json.dumps(models))


CASES = {
    "openai": Case(
        fake=lambda: FakeOpenAI(prefix="/v1", api_key="k", reply=lambda request: "one two three " * 5),
        prefix="/v1", model="gpt-x", asked=chat, beside=speak, bill=tokens, modalities=("llm", "tts"),
    ),
    "anthropic": Case(
        fake=lambda: FakeAnthropic(api_key="k", reply=lambda request: "one two three " * 5),
        model="gpt-x", asked=chat, bill=tokens, modalities=("llm",),
    ),
    "elevenlabs": Case(
        fake=lambda: FakeElevenLabs(api_key="k"), model="voice", asked=speak, beside=hear, bill=characters
    ),
    "deepgram": Case(fake=lambda: FakeDeepgram(api_key="k"), model="ears", asked=hear, beside=speak, bill=seconds),
    "cartesia": Case(fake=lambda: FakeCartesia(api_key="k"), model="voice", asked=speak, beside=hear, bill=characters),
}  # fmt: skip


@attrs.frozen(kw_only=True)
class Traffic:
    gateway: Any
    vendor: str
    ledger: list[Entry]

    def write_bill(self, path, *, rate=Decimal(1)):
        """What the vendor would export: its own counts, at its own prices."""
        columns = dict(CASES[self.vendor].bill(self.ledger))
        columns["cost_usd"] *= rate
        values = ",".join(f"{value:f}" for value in columns.values())
        path.write_text(f"model,{','.join(columns)}\n{CASES[self.vendor].model},{values}\n")

    async def compare(self, *paths, **arguments):
        found = {"provider": self.vendor, "files": paths, **arguments}
        return await compare(self.gateway.store, self.gateway.current.catalog, **found)
