"""400 requests over everything that vendors' prices depend on, over HTTP, against the vendors' published rates.

`money_cases` has the rates and computes from them what each request costs. A record must have exactly that cost, to the
nano-dollar; where the vendor publishes no rate for something that the request used, it must say `base rate` and name it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import trio
from prometheus_client.parser import text_string_to_metric_families

from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.contract.money_cases import Case, cases, chat
from tests.contract.money_setup import Setup, open_setup, rounded
from tests.fakes.vendors import billing

YAML = """
providers:
  openai: {{api_key: sk-0123456789abcdef, base_url: "{bills}/v1"}}
  openai-eu: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{bills}/v1", region: eu}}
  anthropic: {{api_key: sk-ant-0123456789, base_url: "{bills}"}}
  groq: {{api_key: gsk-0123456789abcdef, base_url: "{bills}"}}
  deepgram: {{api_key: 0123456789abcdef, base_url: "{bills}"}}
  live: {{type: deepgram, api_key: 0123456789abcdef, base_url: "{deepgram}"}}
  elevenlabs: {{api_key: 0123456789abcdef, base_url: "{bills}"}}
  assemblyai: {{api_key: 0123456789abcdef, base_url: "{assemblyai}"}}
models:
  stt: [openai/whisper-1, openai/gpt-4o-transcribe, groq/whisper-large-v3, deepgram/nova-3, deepgram/nova-2, live/nova-3,
        elevenlabs/scribe_v2, assemblyai/universal-2, assemblyai/universal-streaming-english]
  llm:
    openai/gpt-5.4:
    openai/gpt-5.4-2026-03-05:
    openai/gpt-5:
    openai/gpt-4o:
    openai/gpt-5.6-sol:
    openai/gpt-5-search-api:
    openai/gpt-4o-search-preview:
    openai/gpt-4o-mni:
    openai-eu/gpt-5.4:
    openai-eu/gpt-4o:
    openai/own:
      price:
        - {{unit: 1M_tokens, input: 1, output: 2}}
        - {{unit: 1M_tokens, input: 3, output: 4, tiers: {{flex: {{input: 1.5, output: 2}}}}, valid_from: "2024-10-01"}}
        - {{unit: 1M_tokens, input: 100, output: 100, valid_from: "2024-11-01"}}
    anthropic/claude-sonnet-4-6:
    anthropic/claude-haiku-5-5:
    anthropic/claude-opus-5-5:
    anthropic/claude-haiku-4-5:
    groq/openai/gpt-oss-20b:
  tts: [deepgram/aura-2-thalia-en, elevenlabs/eleven_multilingual_v2, elevenlabs/eleven_flash_v2_5, openai/tts-1]
"""


# Nano-USD per minute of a live session of nova-3, and of the options on top of it.
LIVE = {"": 4_800_000, "language=multi": 1_000_000, "redact=pii": 2_000_000, "keyterm=gateway": 1_300_000}
LIVE |= {"detect_entities=true": 1_700_000, "diarize=true": 2_000_000}
SESSIONS = (
    ("",), ("", "keyterm=gateway"), ("", "diarize=true"), ("", "redact=pii"), ("", "detect_entities=true"),
    ("", "language=multi"), ("", "language=multi", "keyterm=gateway", "diarize=true"), tuple(LIVE),
)  # fmt: skip


def check(record: Any, nano: Fraction | int | None, marks: tuple[str, ...]) -> int:
    """Compare a record with the vendor's bill; return its cost in nano-USD."""
    source, what = record["pricing_source"], record["model_id"]
    if nano is None:
        assert (record["cost_usd"], source) == (None, "unpriced"), what
        return 0
    found = round(record["cost_usd"] * 10**9)
    assert (found, source.partition(" (base rate: ")[2]) == (rounded(nano), ", ".join(marks) + ")" if marks else ""), (what, record)
    return found


async def test_400_requests_cost_what_the_vendors_bill(tmp_path, mock_clock):
    total, marked, requests = 0, 0, 0
    async with open_setup(tmp_path, mock_clock, YAML) as setup:
        for case in cases():
            answer = await setup.send(case)
            record = await setup.record(answer.headers["x-request-id"])
            total += check(record, case.nano, case.marks)
            marked += bool(case.marks)
            requests += 1
        for options in SESSIONS:
            request_id = await setup.listen("&".join(option for option in options if option), 2.5)
            nano = Fraction(5, 2) / 60 * sum(LIVE[option] for option in options)
            total += check(await setup.record(request_id), nano, ())
            requests += 1
        for fields, rate in (({}, 15), ({"speaker_labels": True}, 17)):  # cents an hour
            body = {"speech_models": ["assemblyai/universal-2"], **fields}
            request_id = await transcribed(setup, body)
            total += check(await setup.record(request_id), Fraction(2 * rate * 10_000_000, 3_600), ())
            requests += 1
        assert requests >= 400
        assert 30 <= marked <= requests // 4
        costs = (await setup.running.get("/v1/costs")).json
        assert round(costs["total"] * 10**9) == total
        assert (costs["requests"], costs["unpriced_requests"]) == (requests, 2)
        text = (await setup.running.get("/v1/metrics")).body.decode()
        [family] = [family for family in text_string_to_metric_families(text) if family.name == "gw_base_rate"]
        assert sum(sample.value for sample in family.samples) == marked


async def transcribed(setup: Setup, body: dict[str, Any]) -> str:
    """Upload two seconds of audio, have them transcribed as AssemblyAI's clients do, and return the request's id."""
    recording = wav.header(PCM_16K, 64_000) + bytes(64_000)
    url = (await setup.running.ask("POST", "/v2/upload", recording, content_type="application/octet-stream")).json["upload_url"]
    job = await setup.running.ask("POST", "/v2/transcript", body | {"audio_url": url})
    assert job.status == 200, job.body
    with trio.fail_after(60):
        while True:
            setup.jump(0.5)  # the gateway polls the vendor
            answer = await setup.running.get(f"/v2/transcript/{job.json['id']}")
            if answer.json["status"] == "completed":
                break
    return await setup.newest("assemblyai/universal-2")


async def test_the_vendors_own_figure_is_kept_and_passed_on(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock, YAML) as setup:
        setup.bills.reply = billing.speech("character-cost", 6)
        path = "/v1/text-to-speech/v/stream?output_format=mp3_44100_128"
        answer = await setup.running.ask("POST", path, {"text": "Hello there.", "model_id": "elevenlabs/eleven_flash_v2_5"})
        assert (answer.status, answer.headers["character-cost"]) == (200, "6")
        assert answer.headers["x-gw-vendor-units"] == "6 credits"
        record = await setup.record(answer.headers["x-request-id"])
        assert record["usage"]["vendor_figure"] == {"amount": 6.0, "unit": "credits"}
        assert (record["usage"]["characters"], record["cost_usd"]) == (12, 0.00048)
        setup.bills.reply = billing.speech("dg-char-count", 14, "audio/l16;rate=24000;channels=1")
        body = {"text": "Hello there."}
        path = "/v1/speak?model=deepgram/aura-2-thalia-en&encoding=linear16&container=none"
        answer = await setup.running.ask("POST", path, body)
        assert (answer.status, answer.headers["dg-char-count"]) == (200, "14")
        record = await setup.record(answer.headers["x-request-id"])
        assert record["usage"]["vendor_figure"] == {"amount": 14.0, "unit": "characters"}
        assert (record["usage"]["characters"], record["measured_usage"]["characters"]) == (14, 12)


async def test_keyterms_of_assemblyais_live_sessions(tmp_path, mock_clock):
    """Four cents an hour on top (assemblyai.com/docs/streaming/keyterms-prompting, November 2026)."""
    async with open_setup(tmp_path, mock_clock, YAML) as setup:
        for query, cents in (("", 15), ("keyterm=gateway", 19)):
            request_id = await setup.listen(query, 2.5, "assemblyai/universal-streaming-english")
            record = await setup.record(request_id)
            seconds = Fraction(str(record["usage"]["audio_seconds"]))
            assert seconds > 0
            check(record, seconds * cents * 10**7 / 3_600, ())


async def test_what_a_record_says_of_the_dimensions(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock, YAML) as setup:
        usage = billing.anthropic_usage(1_000, 10, five_minutes=30, hour=70, searches=3, geo="us")
        body = chat("anthropic/claude-sonnet-4-6", max_tokens=100)
        reply = billing.anthropic_messages(usage, stream=False)
        answer = await setup.send(Case(reply, "/v1/messages", body, None, (), {"anthropic_version": "2023-06-01"}))
        record = await setup.record(answer.headers["x-request-id"])
        assert record["usage"]["dimensions"] == {"region": "us", "searches": 3, "cache_write_long_tokens": 70}
