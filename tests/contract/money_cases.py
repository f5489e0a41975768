"""The requests of the money test: what the vendor answers, and what it bills by its published rates.

The rates are written as the vendors publish them, in nano-USD per token, per second or per character (sources: the data file
of litellm 1.109.1; for options of recordings see the rate tables). Costs are computed from them here, not with our price book.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import attrs

from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.vendors import billing
from tests.fakes.vendors.billing import Reply


@attrs.frozen
class Case:
    """`nano`: what the vendor bills, exactly; None: it publishes no price. `marks`: what has no rate of its own."""

    reply: Reply | None
    path: str
    body: Any
    nano: Fraction | int | None
    marks: tuple[str, ...] = ()
    headers: dict[str, str] = attrs.field(factory=dict)


# Published rates of OpenAI in nano-USD per token: (input, cached input, output) by tier and by whether the context is long.
OPENAI: dict[str, dict[tuple[str, bool], tuple[Any, Any, Any]]] = {
    "gpt-5.4": {
        ("", False): (2_500, 250, 15_000), ("", True): (5_000, 500, 22_500),
        ("flex", False): (1_250, 130, 7_500), ("flex", True): (2_500, 250, 11_250),
        ("priority", False): (5_000, 500, 30_000),
    },
    "gpt-5": {
        ("", False): (1_250, 125, 10_000), ("flex", False): (625, Fraction("62.5"), 5_000),
        ("priority", False): (2_500, 250, 20_000),
    },
    "gpt-4o": {("", False): (2_500, 1_250, 10_000), ("priority", False): (4_250, 2_125, 17_000)},
    "gpt-5.6-sol": {
        ("", False): (4_000, 400, 20_000), ("", True): (8_000, 800, 30_000),
        ("flex", False): (2_000, 200, 10_000), ("flex", True): (4_000, 400, 15_000),
        ("priority", False): (8_000, 800, 40_000), ("priority", True): (16_000, 1_600, 60_000),
    },
}  # fmt: skip
LONG_FROM = {"gpt-5.4": 272_000, "gpt-5.6-sol": 272_000}  # the others have one price
OPENAI["gpt-5.4-2026-03-05"] = OPENAI["gpt-5.4"]
LONG_FROM["gpt-5.4-2026-03-05"] = 272_000


def openai_cost(model: str, tier: str, prompt: int, cached: int, output: int) -> tuple[Fraction, tuple[str, ...]]:
    """Return what OpenAI bills; where it has no rate for the tier or the context, the nearest it has, and a mark."""
    rates, long, marks = OPENAI[model], prompt > LONG_FROM.get(model, prompt), []
    known = tier if (tier, False) in rates else ""
    if known != tier:
        marks.append(f"{tier} tier")
    if (known, long) not in rates:
        long = False
        marks.append("long context")
    full, read, out = rates[known, long]
    return Fraction((prompt - cached) * full + cached * read + output * out), tuple(marks)


def chat(model: str, *, stream: bool = False, **members: Any) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}], **members}


def openai_cases() -> Iterator[Case]:
    """Tiers as the answer names them, whatever was asked; contexts around 272,000 tokens; cached input; both forms."""
    contexts = ((1_000, 0, 77), (1_000, 333, 5), (272_000, 1_000, 10), (272_001, 100_001, 11))
    tiers = ("default", "flex", "priority", "scale")
    for model, tier, (prompt, cached, output), stream in product(OPENAI, tiers, contexts, (0, 1)):
        if tier == "scale" and prompt != 1_000:
            continue
        special = "" if tier == "default" else tier
        cost, marks = openai_cost(model, special, prompt, cached, output)
        usage = billing.openai_usage(prompt, output, cached=cached)
        body = chat(f"openai/{model}", stream=bool(stream), service_tier="auto")
        yield Case(billing.openai_chat(usage, tier, stream=bool(stream)), "/v1/chat/completions", body, cost, marks)
    usage = billing.openai_usage(1_000, 100)
    for tier, factor in ((None, 1), ("flex", Fraction(1, 2)), ("priority", 2)):  # ten per cent on top in a region
        cost = Fraction(11, 10) * (2_500_000 + 1_500_000) * factor
        reply = billing.openai_chat(usage, tier, stream=False)
        yield Case(reply, "/v1/chat/completions", chat("openai-eu/gpt-5.4"), cost)
    for stream in (False, True):
        reply = billing.openai_chat(usage, None, stream=stream)
        yield Case(reply, "/v1/chat/completions", chat("openai-eu/gpt-4o", stream=stream), 3_500_000, ("region eu",))
        search = chat("openai/gpt-5-search-api", stream=stream, web_search_options={})
        yield Case(reply, "/v1/chat/completions", search, 2_250_000 + 10_000_000)
        preview = chat("openai/gpt-4o-search-preview", stream=stream)
        yield Case(reply, "/v1/chat/completions", preview, 3_500_000 + 25_000_000)
        yield Case(reply, "/v1/chat/completions", chat("openai/gpt-4o-mni", stream=stream), None)
    written = billing.openai_usage(1_000, 0, written=400)
    for ttl, rate in (("30m", 5_000), ("24h", 10_000)):  # a cache for over twelve hours
        body = chat("openai/gpt-5.6-sol", prompt_cache_options={"ttl": ttl})
        reply = billing.openai_chat(written, None, stream=False)
        yield Case(reply, "/v1/chat/completions", body, 600 * 4_000 + 400 * rate)
    for tier, cost, marks in ((None, 340_0000, ()), ("flex", 170_0000, ()), ("priority", 340_0000, ("priority tier",))):
        reply = billing.openai_chat(usage, tier, stream=False)  # prices of our own, the second of which holds
        yield Case(reply, "/v1/chat/completions", chat("openai/own"), cost, marks)


# Published rates of Anthropic in nano-USD per token: input, read from the cache, written for 5 minutes, for an hour, output.
ANTHROPIC: dict[str, tuple[Any, ...]] = {
    "claude-sonnet-4-6": (3_000, 300, 3_750, 6_000, 15_000),
    "claude-opus-5-5": (4_000, 200, 5_000, 8_000, 20_000),
    "claude-haiku-5-5": (100, 10, 125, 200, 500),
    "claude-haiku-4-5": (1_000, 100, 1_250, 2_000, 5_000),
}
SEARCH = 10_000_000  # 10 USD per 1,000 searches


def anthropic_cases() -> Iterator[Case]:
    """Cache lifetimes, searches, `inference_geo`, contexts above 100,000 tokens of input, `speed` and tiers."""
    headers = {"anthropic_version": "2023-06-01"}
    writes = ((0, 0), (500, 0), (0, 500), (300, 200))
    grid = product(ANTHROPIC, writes, (0, 2), ("not_available", "us"), (600, 100_001), (False, True))
    for number, (model, (short, hour), searches, geo, uncached, stream) in enumerate(grid):
        if number % 3 == 2:  # two thirds of the grid
            continue
        full, read, five_minutes, an_hour, out = ANTHROPIC[model]
        if model == "claude-haiku-5-5" and uncached + 40 + short + hour > 100_000:
            full, read, five_minutes, an_hour, out = (5 * rate for rate in ANTHROPIC[model])
        cost = Fraction(uncached * full + 40 * read + short * five_minutes + hour * an_hour + 30 * out)
        marks: list[str] = []
        if geo == "us":
            if model == "claude-haiku-4-5":
                marks.append("region us")
            else:
                cost *= Fraction(11, 10)
        cost += searches * SEARCH
        usage = billing.anthropic_usage(
            uncached, 30, read=40, five_minutes=short, hour=hour, searches=searches, geo=geo
        )
        body = chat(f"anthropic/{model}", stream=stream, max_tokens=100)
        yield Case(billing.anthropic_messages(usage, stream=stream), "/v1/messages", body, cost, tuple(marks), headers)
    for stream in (False, True):
        body = chat("anthropic/claude-opus-5-5", stream=stream, max_tokens=100)
        fast = billing.anthropic_usage(1_000, 10, read=100, hour=50, speed="fast")  # twice the price
        cost = 2 * (1_000 * 4_000 + 100 * 200 + 50 * 8_000 + 10 * 20_000)
        yield Case(billing.anthropic_messages(fast, stream=stream), "/v1/messages", body, cost, (), headers)
        paid = billing.anthropic_usage(1_000, 10, tier="priority")  # by contract
        cost = 1_000 * 4_000 + 10 * 20_000
        yield Case(billing.anthropic_messages(paid, stream=stream), "/v1/messages", body, cost, ("priority tier",), headers)
        batch = billing.anthropic_usage(1_000, 10, tier="batch")
        yield Case(billing.anthropic_messages(batch, stream=stream), "/v1/messages", body, Fraction(cost, 2), (), headers)
        body = chat("anthropic/claude-sonnet-4-6", stream=stream, max_tokens=100)
        usage = billing.anthropic_usage(1_000, 10, hour=500)  # for a caller of another dialect
        cost = 1_000 * 3_000 + 500 * 6_000 + 10 * 15_000
        yield Case(billing.anthropic_messages(usage, stream=stream), "/v1/chat/completions", body, cost)


def groq_cases() -> Iterator[Case]:
    """The flex tier costs the same; `performance` is by contract; tools that the vendor runs are billed apart."""
    tiers: tuple[tuple[str | None, tuple[str, ...]], ...] = (
        (None, ()), ("on_demand", ()), ("flex", ()), ("performance", ("performance tier",)),
    )  # fmt: skip
    for (tier, marks), cached, stream in product(tiers, (0, 200), (False, True)):
        reply = billing.openai_chat(billing.openai_usage(1_001, 3, cached=cached), tier, stream=stream)
        cost = (1_001 - cached) * 75 + cached * Fraction("37.5") + 3 * 300
        yield Case(reply, "/v1/chat/completions", chat("groq/openai/gpt-oss-20b", stream=stream), cost, marks)
    for stream in (False, True):
        ran = {"executed_tools": [{"index": 0, "type": "search", "arguments": "{}"}]}
        reply = billing.openai_chat(billing.openai_usage(1_000, 1), None, stream=stream, message=ran)
        body = chat("groq/openai/gpt-oss-20b", stream=stream)
        yield Case(reply, "/v1/chat/completions", body, 75_300, ("executed_tools",))


SCRIBE = Fraction(220_000_000, 3_600)  # 0.22 USD an hour


def form(model: str, seconds: float, **fields: str) -> tuple[bytes, dict[str, str]]:
    pcm = bytes(round(seconds * 16_000) * 2)
    parts = [
        b'--b\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
        for name, value in {"model": model, "model_id": model, **fields}.items()
    ]
    head = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\n'
    body = b"".join([*parts, head, wav.header(PCM_16K, len(pcm)), pcm, b"\r\n--b--\r\n"])
    return body, {"content_type": "multipart/form-data; boundary=b"}


def recording_cases() -> Iterator[Case]:
    """Minimum durations, channels, options billed on top, and answers that count tokens or seconds."""
    for seconds in (0.5, 2.0, 10.0, 10.5, 61.0):  # Groq bills at least ten seconds
        body, headers = form("groq/whisper-large-v3", seconds)
        nano = Fraction(111_000_000, 3_600) * Fraction(str(max(10.0, seconds)))
        yield Case(Reply(b'{"text":"hello","x_groq":{"id":"r"}}'), "/v1/audio/transcriptions", body, nano, (), headers)
    body, headers = form("openai/whisper-1", 7.0)
    whisper = billing.openai_transcript({"type": "duration", "seconds": 7})
    yield Case(whisper, "/v1/audio/transcriptions", body, 7 * 100_000, (), headers)
    body, headers = form("openai/gpt-4o-transcribe", 7.0)
    tokens = {"type": "tokens", "input_tokens": 80, "output_tokens": 9, "total_tokens": 89}
    tokens["input_token_details"] = {"audio_tokens": 70, "text_tokens": 10}
    yield Case(billing.openai_transcript(tokens), "/v1/audio/transcriptions", body, 80 * 2_500 + 9 * 10_000, (), headers)
    second = {"": Fraction(4_300_000, 60), "diarize": Fraction(2_000_000, 60), "multi": Fraction(900_000, 60)}
    options: tuple[tuple[str, Fraction, tuple[str, ...]], ...] = (
        ("", second[""], ()),
        ("&smart_format=true&punctuate=true", second[""], ()),
        ("&diarize=true", second[""] + second["diarize"], ()),
        ("&language=multi", second[""] + second["multi"], ()),
        ("&language=multi&diarize=true", second[""] + second["diarize"] + second["multi"], ()),
        ("&diarize=false&keyterm=gateway", second[""], ("keyterm",)),
        ("&redact=pci&redact=ssn&detect_entities=true&diarize=true", second[""] + second["diarize"], ("detect_entities", "redact")),
        ("&summarize=v2", second[""], ("summarize",)),
    )
    for (query, rate, marks), duration, channels in product(options, (1.5, 12.345678), (1, 2)):
        reply = billing.deepgram_transcript(duration, channels)
        nano = rate * Fraction(str(duration)) * channels
        headers = {"content_type": "audio/wav"}
        yield Case(reply, f"/v1/listen?model=deepgram/nova-3{query}", bytes(3_200), nano, marks, headers)
    reply = billing.deepgram_transcript(3.0)
    nova_2 = "/v1/listen?model=deepgram/nova-2&diarize=true"
    yield Case(reply, nova_2, bytes(3_200), Fraction(4_300_000, 60) * 3, ("diarize",), {"content_type": "audio/wav"})
    scribe: tuple[tuple[dict[str, str], Fraction, tuple[str, ...]], ...] = (
        ({}, SCRIBE, ()),
        ({"diarize": "true"}, SCRIBE, ()),
        ({"keyterms": "gateway"}, SCRIBE * Fraction("1.2"), ()),
        ({"entity_detection": "all", "keyterms": "gateway"}, SCRIBE * Fraction("1.5"), ()),
        ({"detect_speaker_roles": "true", "diarize": "true"}, SCRIBE * Fraction("1.1"), ()),
        ({"entity_redaction": "pii"}, SCRIBE, ("redact",)),
    )
    for (fields, rate, marks), channels in product(scribe, (1, 3)):
        body, headers = form("elevenlabs/scribe_v2", 1.0, **fields)
        reply = billing.elevenlabs_transcript(33.25, channels)
        yield Case(reply, "/v1/speech-to-text", body, rate * Fraction("33.25") * channels, marks, headers)


def many_keyterms_cases() -> Iterator[Case]:
    """With more than 100 keyterms, ElevenLabs bills at least 20 s (elevenlabs 2.78.0, speech_to_text/client.py)."""
    for terms, seconds, billed_s in ((100, 4.0, 4), (101, 4.0, 20), (101, 25.0, 25)):
        body, headers = form("elevenlabs/scribe_v2", 1.0)
        more = b"".join(
            b'--b\r\ncontent-disposition: form-data; name="keyterms"\r\n\r\nword%d\r\n' % n for n in range(terms)
        )
        reply = billing.elevenlabs_transcript(seconds)
        yield Case(reply, "/v1/speech-to-text", more + body, billed_s * SCRIBE * Fraction("1.2"), (), headers)
    body, headers = form("elevenlabs/scribe_v2", 1.0, transcript_edit="Remove names.")
    reply = billing.elevenlabs_transcript(4.0)
    yield Case(reply, "/v1/speech-to-text", body, 4 * SCRIBE, ("transcript_edit",), headers)


def speech_cases() -> Iterator[Case]:
    """Characters; the vendor's own figure goes to the caller and into the record, in whatever dialect was spoken."""
    for text in ("Hello there.", "Grüße aus Köln!"):
        spoken = {"input": text, "voice": "v", "response_format": "pcm"}
        for model, rate, header, figure in (
            ("deepgram/aura-2-thalia-en", 30_000, "dg-char-count", len(text)),
            ("elevenlabs/eleven_multilingual_v2", 80_000, "character-cost", len(text)),
            ("elevenlabs/eleven_flash_v2_5", 40_000, "character-cost", -(-len(text) // 2)),
        ):
            reply = billing.speech(header, figure, "audio/pcm")
            yield Case(reply, "/v1/audio/speech", {"model": model, **spoken}, len(text) * rate)
        reply = Reply(bytes(4_800), "audio/pcm")
        yield Case(reply, "/v1/audio/speech", {"model": "openai/tts-1", **spoken}, len(text) * 15_000)


def cases() -> list[Case]:
    return [*openai_cases(), *anthropic_cases(), *groq_cases(), *recording_cases(), *many_keyterms_cases(), *speech_cases()]
