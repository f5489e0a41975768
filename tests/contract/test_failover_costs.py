"""After a failover each vendor has its own part of a request: in the costs, the metrics, the record and the vendor's bill.

What each vendor may charge is counted by the fake vendors themselves, so every figure is known without our own meter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from gw.types.usage import NANO, Usage
from tests.contract.readers import READERS
from tests.contract.readers import converse as have_spoken
from tests.contract.talkers import DEEPGRAM
from tests.contract.talkers import converse as talk
from tests.fakes import vendor_exports as exports
from tests.fakes.complete import Complete, open_complete
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

YAML = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  anthropic: {api_key: k, base_url: "http://anthropic.test"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
models:
  llm:
    openai/first: {price: {unit: 1M_tokens, input: 2, output: 10}}
    anthropic/second: {price: {unit: 1M_tokens, input: 1, output: 5}}
  stt:
    deepgram/first: {price: {unit: hour, usd: 36}}
    cartesia/second: {price: {unit: hour, usd: 72}}
  tts:
    cartesia/first: {default_voice: v, price: {unit: 1M_characters, usd: 10}}
    elevenlabs/second: {default_voice: w, price: {unit: 1M_characters, usd: 30}}
fallbacks: {llm: [anthropic/second], stt: [cartesia/second], tts: [elevenlabs/second]}
projects: {shop: {daily_budget: 100}}
"""
TEXTS = ["one two three", "four five", "six seven eight nine", "ten"]
PROMPT = "word " * 80
ANSWER = Usage(input_tokens=90, output_tokens=40, source="vendor")
SECOND = Decimal("0.01")
"""USD for a second at deepgram/first; cartesia/second costs twice as much."""


def seconds(vendor: Any) -> Decimal:
    """Return the live audio that a vendor received."""
    total = Decimal(0)
    for entry in vendor.ledger:
        (rate,) = parse_qs(entry.fields["query"])["sample_rate"]
        total += Decimal(sum(len(frame) for frame in entry.frames if isinstance(frame, bytes))) / (2 * int(rate))
    return total


def characters(vendor: Any, text_of: Callable[[Any], str]) -> int:
    """Return the characters in the frames that a vendor received, less blanks that only frame them."""
    return len("".join(text_of(msgspec.json.decode(frame)) for entry in vendor.ledger for frame in entry.frames).strip())


class Setup:
    def __init__(self) -> None:
        self.openai = FakeOpenAI(api_key="k", models=("first",))
        self.anthropic = FakeAnthropic(api_key="k", usage=ANSWER)
        self.deepgram, self.cartesia, self.elevenlabs = (
            FakeDeepgram(api_key="k"), FakeCartesia(api_key="k"), FakeElevenLabs(api_key="k"),
        )  # fmt: skip
        self.gateway: Complete

    @asynccontextmanager
    async def open(self, folder: Any, more: str = "", **options: Any) -> AsyncIterator[Complete]:
        names = ("openai", "anthropic", "deepgram", "cartesia", "elevenlabs")
        vendors = {f"{name}.test": getattr(self, name) for name in names}
        async with open_complete(YAML + more, folder, vendors, **options) as self.gateway:
            yield self.gateway

    async def reconciled(self, provider: str, modality: str, *answers: Mapping[str, Any]) -> Any:
        """Reconcile with answers of the vendor's API, over the gateway's own."""
        content = "\n".join(map(exports.as_json, answers))
        body = {"provider": provider, "modality": modality, "content": content, "format": "json", "threshold": 0}
        status, report = await self.gateway.request("POST", "/v1/reconcile", body)
        assert status == 200, report
        return exports.json.loads(report)


async def check_everywhere(setup: Setup, modality: str, parts: Mapping[str, Decimal]) -> Any:
    """Check costs, series, metrics, record and budget; `parts` are each model's USD. Return the charges by model."""
    gateway, total = setup.gateway, float(sum(parts.values()))
    costs = await gateway.json("/v1/costs")
    by_provider = {name.partition("/")[0]: float(usd) for name, usd in parts.items()}
    assert costs["total"] == pytest.approx(total, abs=2e-9)
    assert {name: group["cost"] for name, group in costs["by_model"].items()} == pytest.approx(
        {name: float(usd) for name, usd in parts.items()}, abs=2e-9
    )
    assert {name: group["cost"] for name, group in costs["by_provider"].items()} == pytest.approx(by_provider, abs=2e-9)
    assert costs["by_project"]["shop"] == {"cost": pytest.approx(total, abs=2e-9), "requests": 1}
    assert sum(group["requests"] for group in costs["by_model"].values()) == costs["requests"] == 1
    shop = await gateway.json("/v1/projects/shop")
    assert shop["today_spend"] == shop["costs_today"]["total"] == costs["total"]
    series = await gateway.json("/api/series?metric=cost&by=model")
    assert {line["name"]: line["total"] for line in series["series"]} == pytest.approx(
        {name: float(usd) for name, usd in parts.items()}, abs=2e-9
    )
    metrics = await gateway.metrics()
    for name, usd in parts.items():
        provider = name.partition("/")[0]
        labels = (("modality", modality), ("model", name), ("provider", provider))
        assert metrics["gw_cost_usd_total", (("provider", provider),)] == pytest.approx(float(usd), abs=2e-9)
        assert metrics["gw_model_cost_usd_total", labels] == pytest.approx(float(usd), abs=2e-9)
    assert metrics["gw_cost_usd_total", (("period", "today"),)] == costs["total"]
    [line] = await gateway.json("/v1/logs")
    assert (line["status"], line["cost_usd"]) == ("fallback", costs["total"])
    assert {a["model_id"]: a["cost_usd"] for a in line["attempts"]} == {
        name: group["cost"] for name, group in costs["by_model"].items()
    }
    assert (await gateway.json("/api/overview"))["total_cost_today"] == costs["total"]
    forecast = await gateway.json("/api/forecast")
    assert forecast["projects"]["shop"]["spent"] == costs["total"]
    return {charge["model_id"]: charge for charge in costs["charges"]}


async def test_a_chat_that_was_cut_before_its_answer(tmp_path, autojump_clock):
    """The first vendor took the prompt and broke off: it may charge for that, and all of it is waste."""
    setup = Setup()
    setup.openai.cut_after = 0
    async with setup.open(tmp_path) as gateway:
        body = {"model": "openai/first", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
        status, _ = await gateway.request("POST", "/v1/chat/completions", body, x_gw_project="shop")
        assert status == 200
        assert len(setup.openai.ledger) == len(setup.anthropic.ledger) == 1
        [sent] = [a["input_units"] for a in (await gateway.json("/v1/logs"))[0]["attempts"] if a["model_id"] == "openai/first"]
        assert len(PROMPT) // 4 <= sent <= len(PROMPT) // 3  # an estimate: the vendor did not say
        wasted, paid = Decimal(int(sent) * 2) / 10**6, Decimal(90 * 1 + 40 * 5) / 10**6
        charges = await check_everywhere(setup, "llm", {"openai/first": wasted, "anthropic/second": paid})
        first, second = charges["openai/first"], charges["anthropic/second"]
        assert (first["calls"], first["input_tokens"], first["output_tokens"]) == (1, sent, 0)
        assert first["wasted"] == first["cost"] == float(wasted)
        assert (second["calls"], second["input_tokens"], second["output_tokens"], second["wasted"]) == (1, 90, 40, 0)
        for provider, model, tokens, usd in (
            ("openai", "first-2026-01-01", (int(sent), 0), wasted), ("anthropic", "second", (90, 40), paid),
        ):  # fmt: skip
            figures = {"input_tokens": Decimal(tokens[0]), "output_tokens": Decimal(tokens[1]), "n_requests": Decimal(1)}
            figures["cost_usd"] = usd
            answers = [getattr(exports, f"{provider}_{kind}")(model, figures) for kind in ("usage", "costs")]
            report = await setup.reconciled(provider, "llm", *answers)
            [row] = [row for row in report["rows"] if row["model"] == f"{provider}/{model.removesuffix('-2026-01-01')}"]
            assert (row["matched"], row["flagged"], row["requests"]) == ("both", False, 1)
            assert row["cost_usd"]["diff"] == 0


async def test_a_live_transcription_that_moved(tmp_path, autojump_clock):
    setup = Setup()
    setup.deepgram.close_after = (60, 1011)
    async with setup.open(tmp_path):
        received = await talk(DEEPGRAM, setup.gateway, "deepgram/first", TEXTS, query="gw_project=shop")  # type: ignore[arg-type]
        assert received.finals == TEXTS
        heard = seconds(setup.deepgram), seconds(setup.cartesia)
        assert all(heard)
        usd = {"deepgram/first": heard[0] * SECOND, "cartesia/second": heard[1] * SECOND * 2}
        charges = await check_everywhere(setup, "stt", usd)
        assert {name: charge["audio_seconds"] for name, charge in charges.items()} == pytest.approx(
            {"deepgram/first": float(heard[0]), "cartesia/second": float(heard[1])}, abs=1e-6
        )
        assert (charges["deepgram/first"]["wasted"] > 0, charges["cartesia/second"]["wasted"]) == (True, 0)
        cost = Decimal(round(charges["deepgram/first"]["cost"] * NANO)) / NANO
        figures = {"audio_seconds": heard[0], "n_requests": Decimal(1), "cost_usd": cost}
        answers = exports.deepgram_usage("first", figures), exports.deepgram_costs("first", figures)
        report = await setup.reconciled("deepgram", "stt", *answers)
        row = next(row for row in report["rows"] if row["model"] == "deepgram/first")
        assert (row["matched"], row["flagged"], row["requests"]) == ("both", False, 1)
        assert row["units"]["audio_seconds"]["diff"] == row["cost_usd"]["diff"] == 0


async def test_live_speech_that_moved(tmp_path, autojump_clock):
    setup = Setup()
    setup.cartesia.close_after = (3, 1011)
    async with setup.open(tmp_path):
        reader = next(reader for reader in READERS if reader.dialect == "deepgram")
        sentences = ["First sentence. ", "Second sentence here. ", "And a third one."]
        await have_spoken(reader, setup.gateway, "cartesia/first", sentences, query="gw_project=shop")  # type: ignore[arg-type]
        sent = (
            characters(setup.cartesia, lambda frame: frame.get("transcript", "")),
            characters(setup.elevenlabs, lambda frame: frame.get("text", "")),
        )
        assert all(sent)
        usd = {"cartesia/first": Decimal(sent[0] * 10) / 10**6, "elevenlabs/second": Decimal(sent[1] * 30) / 10**6}
        charges = await check_everywhere(setup, "tts", usd)
        assert {name: charge["characters"] for name, charge in charges.items()} == {
            "cartesia/first": sent[0], "elevenlabs/second": sent[1],
        }  # fmt: skip
        figures = {"characters": Decimal(sent[1]), "cost_usd": usd["elevenlabs/second"]}
        answers = exports.elevenlabs_characters("second", figures), exports.elevenlabs_costs("second", figures)
        [row] = (await setup.reconciled("elevenlabs", "tts", *answers))["rows"]
        assert (row["matched"], row["flagged"], row["cost_usd"]["diff"], row["requests"]) == ("both", False, 0, 1)


@pytest.mark.parametrize("status", [429, 503, 401])
async def test_a_vendor_that_refused_the_request_has_no_part(tmp_path, autojump_clock, status):
    setup = Setup()
    setup.openai.status = [status]
    async with setup.open(tmp_path) as gateway:
        body = {"model": "openai/first", "messages": [{"role": "user", "content": PROMPT}]}
        assert (await gateway.request("POST", "/v1/chat/completions", body, x_gw_project="shop"))[0] == 200
        costs = await gateway.json("/v1/costs")
        assert {name: group["cost"] for name, group in costs["by_provider"].items()} == {"anthropic": 0.00029}
        assert [(charge["model_id"], charge["calls"]) for charge in costs["charges"]] == [("anthropic/second", 1)]


@pytest.mark.parametrize("routing", ["hedge: 200", 'hedge: "off", first_event_s: {llm: 2, tts: 2}'])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/audio/speech"])
async def test_a_vendor_that_took_no_connection_has_no_part(tmp_path, autojump_clock, routing, path):
    """Nothing was sent to it, whether another overtook it or its deadline passed while connecting."""
    setup = Setup()
    more = "\nrouting: {" + routing + "}\n"
    async with setup.open(tmp_path, more, dark=["openai.test", "cartesia.test"]) as gateway:
        body: dict[str, Any] = {"model": "openai/first", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
        if path == "/v1/audio/speech":
            body = {"model": "cartesia/first", "input": "One two three.", "voice": "alloy", "response_format": "pcm"}
        assert (await gateway.request("POST", path, body))[0] == 200
        [charge] = (await gateway.json("/v1/costs"))["charges"]
        assert charge["provider"] in ("anthropic", "elevenlabs")
        [line] = await gateway.json("/v1/logs")
        assert (line["wasted_usd"], line["attempts"][0]["cost_usd"]) == (0, None)


async def test_a_vendor_that_was_overtaken_has_its_part(tmp_path, autojump_clock):
    setup = Setup()
    setup.openai.answer_after_s = 5
    async with setup.open(tmp_path, "\nrouting: {hedge: 200}\n") as gateway:
        body = {"model": "openai/first", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
        assert (await gateway.request("POST", "/v1/chat/completions", body, x_gw_project="shop"))[0] == 200
        charges = {charge["provider"]: charge for charge in (await gateway.json("/v1/costs"))["charges"]}
        assert charges["openai"]["cost"] == charges["openai"]["wasted"] > 0
        assert (charges["anthropic"]["cost"], charges["anthropic"]["wasted"]) == (0.00029, 0)


async def test_speech_over_http_that_another_vendor_went_on_with(tmp_path, autojump_clock):
    setup = Setup()
    setup.cartesia.cut_after = 15
    async with setup.open(tmp_path) as gateway:
        text = "First sentence here. Second sentence here. And a third one. Then the last of them."
        body = {"model": "cartesia/first", "input": text, "voice": "alloy", "response_format": "pcm"}
        assert (await gateway.request("POST", "/v1/audio/speech", body, x_gw_project="shop"))[0] == 200
        sent = [sum(len(entry.fields["text"]) for entry in fake.ledger) for fake in (setup.cartesia, setup.elevenlabs)]
        assert 0 < sent[1] < sent[0] == len(text)
        usd = {"cartesia/first": Decimal(sent[0] * 10) / 10**6, "elevenlabs/second": Decimal(sent[1] * 30) / 10**6}
        charges = await check_everywhere(setup, "tts", usd)
        assert [charges[name]["characters"] for name in usd] == sent
        assert (0 < charges["cartesia/first"]["wasted"] < float(usd["cartesia/first"]), charges["elevenlabs/second"]["wasted"]) == (True, 0)
