"""Traffic through the gateway, a vendor's file from the fake vendor's own ledger: they agree to the nano-dollar."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from gw.config.parse import parse
from gw.errors import RequestError
from gw.gateway import open_gateway
from gw.net.http1 import Pool
from gw.reconcile.compare import compare
from gw.types.caller import Caller
from gw.wire import openai_chat
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.records import NOON, HandClock, record
from tests.fakes.vendors.openai import FakeOpenAI

INPUT, OUTPUT = Decimal("0.15"), Decimal("0.6")
CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://vendor.test/v1"}
  second: {type: openai, api_key: k, base_url: "http://vendor.test/v1"}
models:
  llm:
    openai/gpt-x: {price: {unit: 1M_tokens, input: 0.15, output: 0.6}}
    second/gpt-x: {price: {unit: 1M_tokens, input: 0.15, output: 0.6}}
"""


def chat(model, text, *, stream):
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}
    return openai_chat.parse_request(msgspec.json.encode(body))


def write_bill(path, ledger, *, rate=Decimal(1)):
    """What a vendor would export: its own counts, at its own prices."""
    tokens = [(entry.usage.input_tokens, entry.usage.output_tokens) for entry in ledger if entry.usage]
    into, out = sum(t for t, _ in tokens), sum(t for _, t in tokens)
    cost = rate * (into * INPUT + out * OUTPUT) / 1_000_000
    path.write_text(
        f"model,input_tokens,output_tokens,n_requests,cost_usd\ngpt-x,{into},{out},{len(tokens)},{cost:f}\n"
    )


@pytest.fixture
async def traffic(tmp_path, nursery):
    """A gateway that has relayed some chats, and the vendor's ledger of them."""
    vendor = FakeOpenAI(prefix="/v1", api_key="k", reply=lambda request: "one two three " * 5)
    net = FakeNet(nursery)
    net.hosts["vendor.test", 80] = hosted(vendor)
    settings = parse(CONFIG, file="gw.yaml", env={}, data_dir=tmp_path)
    async with open_gateway(settings, clock=HandClock(), make_pool=lambda: Pool(connect=net)) as gateway:
        for n in range(12):
            request = chat(("openai", "second")[n % 2] + "/gpt-x", "word " * n, stream=n % 3 == 0)
            async with gateway.relay.chat(request, Caller(endpoint="/v1/chat/completions")) as answer:
                while not answer.done:
                    await answer.receive()
        await gateway.store.flush()
        yield gateway, vendor.ledger


async def test_the_vendors_own_ledger_reconciles_to_zero(traffic, tmp_path):
    gateway, ledger = traffic
    write_bill(tmp_path / "bill.csv", ledger)
    providers = gateway.live.catalog.providers
    report = await compare(gateway.store, providers, provider="openai", file=tmp_path / "bill.csv", threshold=0.0)
    [row] = report.rows
    assert (row.matched, row.flagged, row.cost.diff) == ("both", False, 0)
    assert all(compared.diff == 0 and compared.ours for compared in row.units.values())
    assert row.requests == row.n_requests == 12
    assert row.cost.ours


async def test_a_changed_price_is_found(traffic, tmp_path):
    gateway, ledger = traffic
    write_bill(tmp_path / "bill.csv", ledger, rate=Decimal("1.1"))
    providers = gateway.live.catalog.providers
    report = await compare(gateway.store, providers, provider="openai", file=tmp_path / "bill.csv")
    assert [(row.cause, row.flagged) for row in report.rows] == [("rate", True)]


async def test_only_the_window_and_the_modality_count(traffic, tmp_path):
    """Speech-to-text of the same vendor stays out of the language models' bill."""
    gateway, ledger = traffic
    other = {"modality": "stt", "provider": "openai", "model_id": "openai/whisper-1"}
    await gateway.store.load([record("w", **other), record("old", provider="openai", timestamp=NOON - 86_400 * 3)])
    write_bill(tmp_path / "bill.csv", ledger)
    providers = gateway.live.catalog.providers

    async def models(**window):
        found = await compare(gateway.store, providers, provider="openai", file=tmp_path / "bill.csv", **window)
        return {row.model: row.matched for row in found.rows}, found.start, found.end

    day = await models(start="2023-11-15", end="2023-11-15")
    assert day[0] == {"openai/gpt-x": "both"}
    everything, start, end = await models()
    assert set(everything) == {"openai/gpt-x"}
    assert (end - start).days == 3


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"provider": "groq"}, "openai, deepgram, cartesia"),
        ({"start": "soon"}, "2026-01-31"),
        ({"threshold": -1.0}, "percentage"),
        ({"threshold": float("nan")}, "percentage"),
    ],
)
async def test_what_cannot_be_is_refused(traffic, tmp_path, fields, what):
    gateway, ledger = traffic
    write_bill(tmp_path / "bill.csv", ledger)
    arguments = {"provider": "openai", "file": tmp_path / "bill.csv", **fields}
    with pytest.raises(RequestError, match=what):
        await compare(gateway.store, gateway.live.catalog.providers, **arguments)
