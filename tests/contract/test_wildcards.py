"""`<provider>/*` and `any` in gw.yaml: an app's own model names work without being listed, at the price of the name."""

from __future__ import annotations

import msgspec
import pytest

from gw.config.parse import parse
from gw.errors import ConfigError
from gw.gateway import _model_labels
from gw.pricing.rate_tables import load_book
from gw.registry.merge import build
from gw.telemetry.metrics import Metrics
from gw.types.provider_types import PROVIDER_TYPES
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

PROVIDERS = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
  sim:
routing: {unlisted_models: refuse}
"""
LISTED = PROVIDERS + """
models:
  stt: [deepgram/*, elevenlabs/*]
  llm: [openai/*, sim/echo]
  tts: {deepgram/*: {default_voice: aura-2-thalia-en}, cartesia/*: }
"""
ANY = PROVIDERS + "models: {stt: any, llm: any, tts: any}\n"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def vendors(plane):
    fakes = {"openai": FakeOpenAI(), "deepgram": FakeDeepgram(), "cartesia": FakeCartesia(), "elevenlabs": FakeElevenLabs()}
    for name, fake in fakes.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(fake)
    return fakes


@pytest.mark.parametrize("text", [LISTED, ANY])
async def test_names_of_every_vendor_in_every_protocol(text, tmp_path, autojump_clock):
    async with open_plane(text, tmp_path) as plane:
        vendors(plane)
        chat = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": "openai/gpt-4.1-nano"}))
        speech = {"model": "deepgram/aura-2-andromeda-en", "input": "hello", "voice": "alloy"}
        by_openais = await plane.post("/v1/audio/speech", msgspec.json.encode(speech))
        by_deepgrams = await plane.post("/v1/speak?model=aura-2-andromeda-en&encoding=linear16", b'{"text": "hello"}')
        heard = await plane.post("/v1/listen?model=nova-3-general", bytes(3_200), "audio/wav")
        assert [r.status for r in (chat, by_openais, by_deepgrams, heard)] == [200] * 4
        assert [r.headers["x-gw-model"] for r in (chat, by_openais, by_deepgrams, heard)] == [
            "openai/gpt-4.1-nano", "deepgram/aura-2-andromeda-en", "deepgram/aura-2-andromeda-en", "deepgram/nova-3-general",
        ]  # fmt: skip
        assert all(record.cost_nusd > 0 for record in plane.kept.records)


async def test_a_name_without_a_price_is_unpriced_and_flagged(tmp_path, autojump_clock):
    async with open_plane(LISTED, tmp_path) as plane:
        vendors(plane)
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": "openai/brand-new"}))
        assert (reply.status, plane.kept.record.cost_nusd, plane.kept.record.pricing_source) == (200, None, "unpriced")


async def test_a_misspelt_name_is_the_vendors_own_404(tmp_path, autojump_clock):
    async with open_plane(LISTED, tmp_path) as plane:
        fakes = vendors(plane)
        fakes["openai"].status, fakes["openai"].error_code = 404, "model_not_found"
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": "openai/gpt-4.1-nanno"}))
        assert (reply.status, reply.json["error"]["code"]) == (404, "model_not_found")
        assert fakes["openai"].ledger[0].fields["model"] == "gpt-4.1-nanno"


@pytest.mark.parametrize("name", ["openai/*", "groq/x", "*"])
async def test_what_no_wildcard_covers_is_our_404(name, tmp_path, autojump_clock):
    async with open_plane(LISTED.replace("openai/*, sim/echo", "openai/*"), tmp_path) as plane:
        fakes = vendors(plane)
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": name}))
        assert reply.status == 404
        assert fakes["openai"].ledger == []


async def test_names_that_callers_make_up_take_a_bounded_amount_of_memory(tmp_path, autojump_clock):
    async with open_plane(LISTED, tmp_path) as plane:
        vendors(plane)
        for number in range(1_020):
            reply = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": f"openai/name-{number}"}))
            assert reply.status == 200
        assert max(len(gate.models) for gate in plane.gateway.limits._gates.values()) <= 1_000
        assert plane.gateway.relay.planner._cache == {}


def test_labels_of_metrics_are_listed_models_and_names_with_a_price(tmp_path):
    catalog, book = build(parse(LISTED, file="gw.yaml", env={}, data_dir=tmp_path)), load_book()
    labels = _model_labels(catalog, book)
    assert labels[0] == "sim/echo"
    assert {"deepgram/nova-3", "openai/gpt-4o", "cartesia/sonic-3"} <= set(labels)
    assert not [label for label in labels if "*" in label]
    metrics = Metrics()
    metrics.know(models=labels, providers=list(catalog.providers))
    for number in range(50):
        metrics._series("llm", "openai", f"openai/name-{number}")
    assert list(metrics._models) == [("llm", "openai", "other")]


async def test_a_chain_of_models_that_only_wildcards_cover(tmp_path, autojump_clock):
    text = LISTED + "fallbacks: {llm: [openai/gpt-4.1-nano, sim/echo]}\nstacks: {voice: {llm: openai/gpt-4.1-mini}}\n"
    async with open_plane(text, tmp_path) as plane:
        fakes = vendors(plane)
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode({**CHAT, "model": "voice"}))
        assert reply.headers["x-gw-model"] == "openai/gpt-4.1-mini"
        fakes["openai"].status = 500
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode(CHAT))
        assert reply.headers["x-gw-model"] == "sim/echo"
        assert [entry.fields["model"] for entry in fakes["openai"].ledger] == ["gpt-4.1-mini", "gpt-4.1-nano"]


def test_any_is_every_provider_that_offers_the_modality(tmp_path):
    catalog = build(parse(ANY, file="gw.yaml", env={}, data_dir=tmp_path))
    for modality, wildcards in catalog.wildcards.items():
        assert list(wildcards) == [
            p.id for p in catalog.providers.values() if p.type != "sim" and modality in PROVIDER_TYPES[p.type].modalities
        ]
        assert all(entry.id == f"{provider}/*" for provider, entry in wildcards.items())


@pytest.mark.parametrize(
    ("models", "what"),
    [
        ("models: {llm: {openai/*: {price: {unit: 1M_tokens, input: 1, output: 1}}}}\n", "it takes no prices"),
        ("models: {llm: {openai/*: {aliases: [x]}}}\n", "it takes no aliases"),
        ("models: {llm: [sim/*]}\n", "stands for nothing"),
        ("models: {llm: [deepgram/*]}\n", "the type 'deepgram' does not offer"),
        ("models: {llm: [openai/*]}\nfallbacks: {llm: [openai/*]}\n", "unknown llm model 'openai/*'"),
        ("models: {llm: any}\nstacks: {a: {llm: sim/other}}\n", "unknown llm model 'sim/other'"),
    ],
)
def test_mistakes_are_named(models, what, tmp_path):
    with pytest.raises(ConfigError) as caught:
        parse(PROVIDERS + models, file="gw.yaml", env={}, data_dir=tmp_path)
    assert what in " ".join(problem.what for problem in caught.value.problems)
