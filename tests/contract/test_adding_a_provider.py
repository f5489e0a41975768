"""docs/adding-a-provider.md, run: its file is a provider, so are its ten lines, and its table is a price."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

import gw.providers
from gw.pricing.rate_tables import load_book, parse_table
from gw.providers import spec
from gw.types.presets import PRESETS, parse_preset
from gw.types.provider_types import PROVIDER_TYPES, ProviderType
from gw.wire import wav
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-provider.md").read_text(encoding="utf-8")
CONFIGURATION = """
providers: {acme: {api_key: k}}
models:
  llm: {acme/acme-large-2026-11-01: {price: {unit: 1M_tokens, input: 0.5, output: 1.5}}}
  tts: [acme/acme-voice]
"""


def block(language: str) -> str:
    """Return the last block of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[-1]


@pytest.fixture
def _acme_file(monkeypatch):
    """The preset of the page."""
    text = re.search(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    preset = parse_preset("acme.toml", text)
    monkeypatch.setitem(PRESETS, "acme", preset)
    monkeypatch.setitem(PROVIDER_TYPES, "acme", ProviderType(preset.location, tuple(preset.sections), key=preset.key))
    yield
    spec._loaded.pop("acme")


@pytest.mark.usefixtures("_acme_file")
async def test_a_file_answers(tmp_path, autojump_clock):
    async with open_plane(CONFIGURATION.split("  tts:")[0], tmp_path) as plane:
        fake = FakeOpenAI(reply="I am Acme")
        plane.net.hosts["api.acme.example", 443] = hosted(fake)
        body = {"model": "acme/acme-large-2026-11-01", "seed": 1, "max_completion_tokens": 9}
        body["messages"] = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "who are you"}]
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body))
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "seed")
        sent = fake.ledger[0].fields
        assert (sent["max_tokens"], sent["messages"][0]["role"], "seed" in sent) == (9, "system", False)
        assert plane.kept.record.cost_nusd == 5 * 500 + 3 * 1_500
        body = {"model": "acme/acme-large-2026-11-01", "n": 2, "messages": body["messages"]}
        assert (await plane.post("/v1/chat/completions", msgspec.json.encode(body))).status == 400


@pytest.fixture
def _acme(tmp_path, monkeypatch):
    """The file of the page, and its line in the table of types."""
    (tmp_path / "acme.py").write_text(block("python"), encoding="utf-8")
    monkeypatch.setattr(gw.providers, "__path__", [*gw.providers.__path__, str(tmp_path)])
    line = re.search(r'`"acme": ProviderType\("(\w+)", \((.+?)\)\),`', PAGE)
    assert line is not None
    monkeypatch.setitem(PROVIDER_TYPES, "acme", ProviderType(line[1], tuple(re.findall(r"\w+", line[2]))))
    yield
    spec._loaded.pop("acme")
    sys.modules.pop("gw.providers.acme")


def test_it_takes_ten_lines():
    assert len([line for line in block("python").splitlines() if line]) <= 10


@pytest.mark.usefixtures("_acme")
async def test_it_answers_at_its_price(tmp_path, autojump_clock):
    assert spec.spec_of("acme").modalities == PROVIDER_TYPES["acme"].modalities
    async with open_plane(CONFIGURATION, tmp_path) as plane:
        plane.net.hosts["api.acme.example", 443] = hosted(FakeOpenAI(reply="I am Acme", speech_pcm=bytes(4_800)))
        body = {"model": "acme/acme-large-2026-11-01", "messages": [{"role": "user", "content": "who are you"}]}
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body))
        assert reply.json["choices"][0]["message"]["content"] == "I am Acme"
        assert plane.kept.record.cost_nusd == 3 * 500 + 3 * 1_500
        body = {"model": "acme/acme-voice", "voice": "v", "input": "hi", "response_format": "mulaw", "sample_rate": 8_000}
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(body))
        assert (reply.headers["content-type"], len(reply.body)) == ("audio/basic", 800)
        assert plane.kept.records[-1].pricing_source == "unpriced"
        assert plane.kept.records[-1].cost_nusd is None
        body = {"model": "acme/acme-voice", "voice": "v", "input": "hi", "response_format": "wav"}
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(body))
        assert wav.parse(reply.body) is not None


def test_its_table_is_one():
    (row,) = parse_table("acme.toml", block("toml"))
    assert (row.provider_type, row.model) == ("acme", "acme-large")
    assert (row.price.input_tokens, row.price.output_tokens) == (500_000_000, 1_500_000_000)
    assert load_book().price("acme", "acme-large", at_day=30_000) is None
