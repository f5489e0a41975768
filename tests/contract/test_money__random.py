"""400 random requests over all dimensions of vendors' prices, over HTTP, billed by a second calculator of its own.

Every record must have exactly the vendor's bill, to the nano-dollar, or say `base rate` where no rate is published for what the
request used. The sums by vendor, model and project and the comparison with the vendors' bills must agree with it too.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import msgspec

from tests.contract import published_rates as published
from tests.contract.money_cases import Case, chat, form
from tests.contract.money_setup import open_setup, rounded
from tests.fakes.vendors import billing
from tests.fakes.vendors.billing import Reply

SEED, REQUESTS = 20_261_123, 400
PROJECTS = ("default", "shop", "desk")
YAML = """
providers:
  openai: {{api_key: sk-0123456789abcdef, base_url: "{bills}/v1"}}
  openai-eu: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{bills}/v1", region: eu}}
  anthropic: {{api_key: sk-ant-0123456789, base_url: "{bills}"}}
  groq: {{api_key: gsk-0123456789abcdef, base_url: "{bills}"}}
  deepgram: {{api_key: 0123456789abcdef, base_url: "{bills}"}}
  elevenlabs: {{api_key: 0123456789abcdef, base_url: "{bills}"}}
  cartesia: {{api_key: 0123456789abcdef, base_url: "{bills}"}}
projects: {{shop: , desk: }}
"""
VENDORS = {"e": "elevenlabs", "a": "deepgram", "t": "openai", "s": "cartesia"}  # by the first letter of a model of speech
SPEAKERS = (*published.MILLION_CHARACTERS, "sonic-3", "sonic-2")
MODELS = {
    "llm": [
        *(f"anthropic/{name}" for name in published.CLAUDE), *(f"groq/{name}" for name in published.GROQ),
        *(f"openai{region}/{name}" for name in published.GPT for region in ("", "-eu")),
        *(f"openai/{name}" for name in published.GPT_AUDIO),
    ],
    "stt": [
        *(f"groq/{name}" for name in published.GROQ_HOUR), *(f"openai/{name}" for name in published.GPT_STT),
        *(f"deepgram/{name}" for name in published.DEEPGRAM), "elevenlabs/scribe_v2",
    ],
    "tts": [f"{VENDORS[name[0]]}/{name}" for name in SPEAKERS],
}  # fmt: skip
YAML += f"models: {{{msgspec.json.encode(MODELS).decode()}}}\n"


@attrs.frozen
class Sent:
    """A request, the model that it names, and what the vendor counts: its units by their names in a bill."""

    case: Case
    model: str
    units: dict[str, float]


# ---------------------------------------------------------------------- one random request of each kind


def _claude(draw: random.Random) -> Sent:
    model = draw.choice(list(published.CLAUDE))
    uncached, read = draw.choice((3, 900, 60_000, 99_000, 180_000)), draw.choice((0, 41, 2_000))
    short, hour, output = draw.choice((0, 500)), draw.choice((0, 300, 1_001)), draw.randrange(1, 900)
    searches, geo = draw.choice((0, 0, 1, 4)), draw.choice(("not_available", "global", "us"))
    tier = draw.choice(("standard", "standard", "batch", "priority"))
    speed = draw.choice(("standard", "fast")) if tier == "standard" else "standard"  # the vendor combines them never
    stream = draw.random() < 0.5
    nano = published.claude(
        model, uncached, short, hour, read, output, searches=searches, geo=geo, tier=tier, speed=speed
    )
    usage = billing.anthropic_usage(
        uncached, output, read=read, five_minutes=short, hour=hour, searches=searches, geo=geo, tier=tier, speed=speed
    )
    own = draw.random() < 0.7  # else in the dialect of OpenAI
    body = chat(f"anthropic/{model}", stream=stream, max_tokens=1_000)
    headers = {"anthropic_version": "2023-06-01"} if own else {}
    path = "/v1/messages" if own else "/v1/chat/completions"
    case = Case(billing.anthropic_messages(usage, stream=stream), path, body, nano, (), headers)
    return Sent(case, f"anthropic/{model}", {"input_tokens": uncached + read + short + hour, "output_tokens": output})


def _gpt(draw: random.Random) -> Sent:
    model, eu = draw.choice(list(published.GPT)), draw.random() < 0.2
    prompt, output = draw.choice((7, 1_000, 271_999, 272_000, 272_001, 400_000)), draw.randrange(1, 3_000)
    cached, tier = draw.choice((0, prompt // 3, prompt)), draw.choice(("default", "default", "flex", "priority", "scale"))
    stream = draw.random() < 0.5
    nano = published.gpt(model, prompt, cached, output, tier="" if tier == "default" else tier, eu=eu)
    reply = billing.openai_chat(billing.openai_usage(prompt, output, cached=cached), tier, stream=stream)
    name = f"openai{'-eu' * eu}/{model}"
    case = Case(reply, "/v1/chat/completions", chat(name, stream=stream, service_tier="auto"), nano)
    return Sent(case, name, {"input_tokens": prompt, "output_tokens": output})


def _gpt_audio(draw: random.Random) -> Sent:
    model = draw.choice(list(published.GPT_AUDIO))
    text, audio, text_out, audio_out = (draw.choice((0, 5, 333, 10_001)) for _ in range(4))
    text, text_out = text + 1, text_out + 1
    usage = billing.openai_usage(text + audio, text_out + audio_out)
    usage["prompt_tokens_details"]["audio_tokens"] = audio
    usage["completion_tokens_details"]["audio_tokens"] = audio_out
    nano = published.gpt_audio(model, text, audio, text_out, audio_out)
    stream = draw.random() < 0.5
    reply = billing.openai_chat(usage, "default", stream=stream)
    case = Case(reply, "/v1/chat/completions", chat(f"openai/{model}", stream=stream, modalities=["text"]), nano)
    return Sent(case, f"openai/{model}", {"input_tokens": text + audio, "output_tokens": text_out + audio_out})


def _groq(draw: random.Random) -> Sent:
    model, tier = draw.choice(list(published.GROQ)), draw.choice((None, "on_demand", "flex", "performance"))
    prompt, output = draw.randrange(1, 20_000), draw.randrange(1, 900)
    cached, stream = draw.choice((0, prompt // 2)), draw.random() < 0.5
    nano = published.groq(model, prompt, cached, output, tier=tier or "")
    reply = billing.openai_chat(billing.openai_usage(prompt, output, cached=cached), tier, stream=stream)
    case = Case(reply, "/v1/chat/completions", chat(f"groq/{model}", stream=stream), nano)
    return Sent(case, f"groq/{model}", {"input_tokens": prompt, "output_tokens": output})


def _groq_recording(draw: random.Random) -> Sent:
    model, tenths = draw.choice(list(published.GROQ_HOUR)), draw.choice((1, 37, 99, 100, 101, 253))
    body, headers = form(f"groq/{model}", tenths / 10)
    nano = published.groq_recording(model, Fraction(tenths, 10))
    case = Case(Reply(b'{"text":"hello","x_groq":{"id":"r"}}'), "/v1/audio/transcriptions", body, nano, (), headers)
    return Sent(case, f"groq/{model}", {"audio_seconds": max(10.0, tenths / 10)})


def _gpt_recording(draw: random.Random) -> Sent:
    model, audio, text, output = draw.choice(list(published.GPT_STT)), draw.randrange(1, 5_000), draw.choice((0, 14)), draw.randrange(90)
    usage: dict[str, Any] = {"type": "tokens", "input_tokens": audio + text, "output_tokens": output}
    usage |= {"total_tokens": audio + text + output, "input_token_details": {"audio_tokens": audio, "text_tokens": text}}
    body, headers = form(f"openai/{model}", 1.0)
    nano = published.gpt_stt(model, audio + text, output)
    case = Case(billing.openai_transcript(usage), "/v1/audio/transcriptions", body, nano, (), headers)
    return Sent(case, f"openai/{model}", {"audio_seconds": 1.0})


def _deepgram(draw: random.Random) -> Sent:
    model, channels = draw.choice(list(published.DEEPGRAM)), draw.choice((1, 1, 2, 5))
    seconds = Fraction(draw.randrange(1, 90_000_000), 10**6)
    query, options = "", []
    for text, option in (("&diarize=true", "diarize"), ("&redact=pii", "redact"), ("&detect_entities=true", "detect_entities")):
        if draw.random() < 0.3:
            query, options = query + text, [*options, option]
    if model == "nova-3" and draw.random() < 0.4:
        query, options = query + "&language=multi", [*options, "multilingual"]
    if model == "nova-3" and draw.random() < 0.2:
        query, options = query + "&keyterm=gateway", [*options, "keyterm"]
    query += draw.choice(("", "&smart_format=true&punctuate=true", "&numerals=true"))
    nano = published.deepgram_recording(model, seconds, channels, tuple(options))
    path, headers = f"/v1/listen?model=deepgram/{model}{query}", {"content_type": "audio/wav"}
    case = Case(billing.deepgram_transcript(float(seconds), channels), path, bytes(3_200), nano, (), headers)
    return Sent(case, f"deepgram/{model}", {"audio_seconds": float(seconds) * channels})


def _scribe(draw: random.Random) -> Sent:
    channels, seconds = draw.choice((1, 1, 3)), Fraction(draw.randrange(1, 200_000), 1_000)
    fields, options = {}, []
    for name, value, option in (
        ("keyterms", "gateway", "keyterm"), ("entity_detection", "all", "detect_entities"),
        ("detect_speaker_roles", "true", "speaker_roles"), ("entity_redaction", "pii", "redact"),
    ):  # fmt: skip
        if draw.random() < 0.3:
            fields[name] = value
            options.append(option)
    if "speaker_roles" in options:
        fields["diarize"] = "true"
    body, headers = form("elevenlabs/scribe_v2", 1.0, **fields)
    nano = published.scribe(seconds, channels, tuple(options))
    case = Case(billing.elevenlabs_transcript(float(seconds), channels), "/v1/speech-to-text", body, nano, (), headers)
    return Sent(case, "elevenlabs/scribe_v2", {"audio_seconds": float(seconds) * channels})


def _speech(draw: random.Random) -> Sent:
    model = draw.choice(SPEAKERS)
    text = "".join(draw.choices("abc äß漢😀.,", k=draw.randrange(1, 200))) + "x"
    vendor = VENDORS[model[0]]
    reply = Reply(bytes(4_800 * (1 + len(text))), "audio/pcm")
    if vendor == "elevenlabs":
        reply = attrs.evolve(reply, headers=((b"character-cost", str(-(-len(text) // 2)).encode()),))
    elif vendor == "deepgram":
        reply = attrs.evolve(reply, headers=((b"dg-char-count", str(len(text)).encode()),))
    body = {"model": f"{vendor}/{model}", "input": text, "voice": "v", "response_format": "pcm"}
    case = Case(reply, "/v1/audio/speech", body, published.characters(model, text))
    return Sent(case, f"{vendor}/{model}", {"characters": len(text)})


KINDS: tuple[Callable[[random.Random], Sent], ...] = (
    _claude, _claude, _gpt, _gpt, _gpt_audio, _groq, _groq_recording, _gpt_recording, _deepgram, _deepgram, _scribe, _speech,
)  # fmt: skip


# ---------------------------------------------------------------------- the test


async def test_400_random_requests_cost_what_the_vendors_bill(tmp_path, mock_clock):
    draw = random.Random(SEED)
    spent: Counter[tuple[str, str]] = Counter()  # nano-USD by project and model
    units: dict[str, Counter[str]] = defaultdict(Counter)
    exact, marked, wrong = 0, 0, []
    async with open_setup(tmp_path, mock_clock, YAML) as setup:
        for number in range(REQUESTS):
            sent, project = KINDS[number % len(KINDS)](draw), draw.choice(PROJECTS)
            case = attrs.evolve(sent.case, headers={**sent.case.headers, "x_gw_project": project})
            record = await setup.record((await setup.send(case)).headers["x-request-id"])
            nano, base = round((record["cost_usd"] or 0) * 10**9), "(base rate: " in record["pricing_source"]
            assert (record["model_id"], record["project"]) == (sent.model, project)
            if base and case.nano is None:
                marked += 1
            elif not base and case.nano is not None and nano == rounded(case.nano):
                exact += 1
            else:
                wrong.append((case.path, sent.model, case.body if isinstance(case.body, dict) else "", nano, case.nano, record))
            spent[project, sent.model] += nano
            units[sent.model].update(sent.units)
        assert wrong == []
        assert (exact + marked, exact > 250, marked > 60) == (REQUESTS, True, True)
        await check_sums(setup, spent)
        await check_bills(setup, spent, units)


async def check_sums(setup: Any, spent: Counter[tuple[str, str]]) -> None:
    """Compare the reports of all projects, and of each, with what the requests cost."""
    for project in ("", *PROJECTS):
        costs = (await setup.running.get(f"/v1/costs?project={project}" if project else "/v1/costs")).json
        own = {key: nano for key, nano in spent.items() if project in ("", key[0])}
        by_model: Counter[str] = Counter()
        by_provider: Counter[str] = Counter()
        for (_, model), nano in own.items():
            by_model[model] += nano
            by_provider[model.partition("/")[0]] += nano
        assert round(costs["total"] * 10**9) == sum(own.values())
        assert nano_of(costs["by_model"]) == by_model
        assert nano_of(costs["by_provider"]) == by_provider
        charged: Counter[str] = Counter()
        for charge in costs["charges"]:
            charged[charge["model_id"]] += round(charge["cost"] * 10**9)
        assert charged == by_model
        assert nano_of(costs["by_project"]) == {one: sum(n for (p, _), n in own.items() if p == one) for one, _ in own}


async def check_bills(setup: Any, spent: Counter[tuple[str, str]], units: dict[str, Counter[str]]) -> None:
    """Compare the records with a bill of each vendor, in the canonical form, that has what the requests cost."""
    compared = 0
    for modality, models in MODELS.items():
        for vendor in sorted({name.partition("/")[0].removesuffix("-eu") for name in models}):
            theirs = [name for name in models if name.partition("/")[0] in (vendor, f"{vendor}-eu") and name in units]
            rows = [
                {"model": name.partition("/")[2], "cost_usd": f"{sum(spent[p, name] for p in PROJECTS)}e-9", **units[name]}
                for name in theirs
            ]  # those of the regions add up
            bill = {"provider": vendor, "modality": modality, "rows": rows, "threshold": 1e-6}  # sums of float seconds differ
            report = (await setup.running.ask("POST", "/v1/reconcile", bill)).json
            assert (report["flagged"], report["total_cost_usd"]["diff"], report["left_out"]) == (0, 0, 0), report
            assert [row["cost_usd"]["diff"] for row in report["rows"]] == [0] * len(report["rows"])
            assert [row["matched"] for row in report["rows"]] == ["both"] * len({name.partition("/")[2] for name in theirs})
            compared += len(theirs)
    assert compared == len(units) > 30


def nano_of(groups: dict[str, Any]) -> dict[str, int]:
    return {name: round(group["cost"] * 10**9) for name, group in groups.items()}
