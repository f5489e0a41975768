"""What a change, a reload and a restart mean for requests, limits and reports."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from gw.admin import fallbacks, models, providers
from gw.config.settings import Settings
from gw.errors import ConfigError, KeyDecryptError
from gw.gateway import Gateway, open_gateway
from gw.pricing.rate_tables import shipped_rows
from gw.telemetry.exposition import text_of
from gw.telemetry.metric_facts import MetricFacts
from gw.types.audio import PCM_24K
from gw.types.ids import Caller
from gw.types.secret import Secret
from gw.types.tts import SpeakRequest
from gw.wire.openai_chat import parse_request
from tests.fakes.records import HandClock, record
from tests.fakes.registrar import BY, settings_of

TEXT = """
providers: {sim: {}, slow: {type: sim, token_ms: 1000}}
models: {llm: [sim/echo, slow/echo]}
rate_limiting: {sim: {requests_per_minute: 3}}
"""
MINE = {"provider_id": "mine", "provider_type": "openai", "api_key": "sk-canary-0123456789"}
MODEL = {"modality": "llm", "provider_id": "mine", "model_name": "m"}


@asynccontextmanager
async def gateway_of(settings: Settings):
    async with open_gateway(settings, clock=HandClock()) as gateway:
        yield gateway


@pytest.fixture
async def gateway(tmp_path):
    async with gateway_of(settings_of(tmp_path, TEXT)) as opened:
        yield opened


async def ask(gateway: Gateway, model: str) -> str:
    """Who answered."""
    request = parse_request(b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}' % model.encode())
    async with gateway.relay.chat(request, Caller(request_id=f"r-{model}-{trio.current_time()}")) as answer:
        while not answer.done:
            await answer.receive()
        assert answer.record is not None
        return answer.record.model_id


def left(gateway: Gateway, provider: str) -> int | None:
    return gateway.limits.view(trio.current_time())[provider].remaining


async def test_limits_keep_their_fill_through_changes_and_reloads(gateway, tmp_path):
    await ask(gateway, "sim/echo")
    assert left(gateway, "sim") == 2
    await providers.create(gateway.registrar, MINE, BY)
    await gateway.reload(settings_of(tmp_path, TEXT + "latency: {ttfb_warning_ms: 5}"))
    await ask(gateway, "sim/echo")
    assert left(gateway, "sim") == 1


async def test_a_provider_that_is_gone_has_no_limits_any_more(gateway, tmp_path, autojump_clock):
    await ask(gateway, "sim/echo")
    await gateway.reload(settings_of(tmp_path, "providers: {slow: {type: sim}}\nmodels: {llm: [slow/echo]}"))
    assert gateway.limits.view(0) == {}


async def test_a_running_request_keeps_the_catalog_it_began_with(gateway, tmp_path, autojump_clock):
    answered = []

    async def ask_slowly():
        answered.append(await ask(gateway, "slow/echo"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_slowly)
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.relay.in_flight.requests == 1
        await gateway.reload(settings_of(tmp_path, "providers: {sim: {}}\nmodels: {llm: [sim/echo]}"))
        assert answered == []
    assert answered == ["slow/echo"]
    assert "slow" not in gateway.current.catalog.providers


async def test_what_needs_a_restart_is_named_and_stays(gateway, tmp_path):
    before = gateway.settings
    text = TEXT + "serve: {port: 1234, drain_s: 3, allowed_hosts: [gw.example]}\ncost_tracking: {retention_days: 5}"
    assert await gateway.reload(settings_of(tmp_path, text)) == ("serve.port", "serve.drain_s", "cost_tracking")
    after = gateway.settings
    assert (after.serve.port, after.cost_tracking) == (before.serve.port, before.cost_tracking)
    assert after.serve.allowed_hosts == ("gw.example",)
    assert await gateway.reload(before) == ()


async def test_a_new_model_is_a_label_of_the_metrics_at_once(gateway, tmp_path):
    await gateway.reload(settings_of(tmp_path, TEXT.replace("slow/echo", "slow/other")))
    await providers.create(gateway.registrar, MINE, BY)
    gateway.metrics.observe(record(model_id="slow/other", provider="mine"))
    facts = MetricFacts(uptime_s=1, version="1", providers_configured=1, cost_today_nusd=0)
    text = (await text_of(gateway.metrics.families(facts))).decode()
    assert 'model="slow/other"' in text
    assert 'provider="mine"' in text


async def test_an_undecryptable_key_fails_its_own_requests_only(tmp_path, autojump_clock):
    settings = settings_of(tmp_path, TEXT)
    async with gateway_of(settings) as first:
        await providers.create(first.registrar, MINE, BY)
        await models.create(first.registrar, MODEL, BY)
        await fallbacks.put(first.registrar, "llm", {"models": ["mine/m", "sim/echo"]}, BY)
    async with gateway_of(attrs.evolve(settings, secret=Secret("another"))) as second:
        assert await ask(second, "sim/echo") == "sim/echo"
        assert await ask(second, "mine/m") == "sim/echo"  # the chain goes on
        await fallbacks.reset(second.registrar, "llm", BY)
        with pytest.raises(KeyDecryptError) as caught:
            await ask(second, "mine/m")
    assert (caught.value.status, caught.value.code) == (500, "key_undecryptable")
    async with gateway_of(settings) as third:
        assert third.current.catalog.provider("mine").configured


async def test_a_reload_takes_over_the_price_tables_of_the_installation(tmp_path):
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/brand-new]}\n"
    rate = '[[rate]]\nmodel = "brand-new"\nunit = "1M_tokens"\ninput = "1"\nvalid_from = 2024-01-01\nsource = "s"\nseen = 2026-11-22\n'
    async with gateway_of(settings_of(tmp_path, text)) as gateway:
        assert gateway.book.price("openai", "brand-new", at_day=20_000) is None
        folder = gateway.settings.cost_tracking.db_path.with_name("prices")
        folder.mkdir()
        (folder / "openai.toml").write_text(rate)
        await gateway.reload(settings_of(tmp_path, text))
        assert gateway.book.price("openai", "brand-new", at_day=20_000).input_tokens == 10**9
        (folder / "openai.toml").write_text(rate.replace('"1"', "1"))
        with pytest.raises(ConfigError, match=r"openai\.toml: rate 1"):
            await gateway.reload(settings_of(tmp_path, text))
        assert gateway.book.price("openai", "brand-new", at_day=20_000).input_tokens == 10**9, "nothing has changed"


HEDGED = """
providers: {slow: {type: sim, latency_ms: 1900}, fast: {type: sim, latency_ms: 0}}
models: {tts: {slow/tone: {price: {unit: 1M_characters, usd: 10}}, fast/tone: {price: {unit: 1M_characters, usd: 10}}}}
fallbacks: {tts: [slow/tone, fast/tone]}
"""


async def test_the_days_hedges_are_remembered_over_a_restart(tmp_path, autojump_clock):
    """The spend of the day allows one hedge: its share of it is 1.25 times what a hedge costs."""
    answered_by = []
    request = SpeakRequest(model="slow/tone", text="one two three", format=PCM_24K)
    for _ in range(2):
        async with gateway_of(settings_of(tmp_path, HEDGED)) as gateway:
            if not answered_by:
                spent = 25 * len(request.text) * 10_000
                gateway.store.finish(record("earlier", project="default", cost_nusd=spent))
                gateway.ledger.settle(gateway.ledger.reserve("default", 0), spent)
            await trio.testing.wait_all_tasks_blocked()
            async with gateway.relay.speak(request, Caller(request_id=f"r{len(answered_by)}")) as answer:
                while not answer.done:
                    await answer.receive()
            answered_by.append(answer.record.model_id)
            await gateway.store.flush()
    assert answered_by == ["fast/tone", "slow/tone"]


async def test_it_reads_at_the_start_only_the_price_tables_that_a_listed_model_needs(tmp_path):
    text = """
    providers: {openai: {api_key: k}, groq: {api_key: k}}
    models: {llm: {openai/gpt-4o: {price: {unit: 1M_tokens, input: 1, output: 2}}, groq/openai/gpt-oss-20b: {}}}
    """
    shipped_rows.cache_clear()
    async with gateway_of(settings_of(tmp_path, text)) as gateway:
        assert shipped_rows.cache_info().currsize == 1
        assert gateway.book.has("groq", "openai/gpt-oss-20b")
        assert shipped_rows.cache_info().currsize == 1
        assert gateway.book.has("openai", "gpt-4o"), "read when it is needed"
