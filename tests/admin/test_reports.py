"""Each report from records that went through a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.admin import logs, overview, reports
from gw.admin.periods import BOUNDED
from gw.errors import RequestError, UnknownProjectError
from gw.types.usage import AttemptRecord
from tests.fakes.answers import as_json
from tests.fakes.temporary_gateway import DAY_S, NOON, open_test_gateway, record, store_records

GPT = "groq/openai/gpt-oss-20b"


@pytest.fixture
async def gateway(tmp_path: Path):
    async with open_test_gateway(tmp_path) as opened:
        yield opened


async def test_an_empty_database(gateway):
    store, catalog = gateway.store, gateway.current.catalog
    shown = as_json(await reports.costs(store, catalog, NOON, period="all"))
    assert shown == {
        "period": "all",
        "from": None,
        "to": NOON,
        "project": None,
        "total": 0.0,
        "requests": 0,
        "unpriced_requests": 0,
        "unpriced_estimate": 0.0,
        "wasted": 0.0,
        "saved": 0.0,
        "by_provider": {},
        "by_model": {},
        "by_project": {},
        "by_modality": {},
        "charges": [],
    }
    assert as_json(await reports.latency(store, catalog, NOON)) == {}
    assert as_json(await logs.page(store, catalog)) == []
    page = as_json(await overview.overview(store, catalog, NOON, spent=lambda project: 0, active=0))
    assert (page["total_requests"], page["total_cost_today"], page["total_cost_all"]) == (0, 0.0, 0.0)
    with pytest.raises(logs.UnknownRequestError) as caught:
        await logs.request_detail(store, "nothing")
    assert caught.value.status == 404


async def test_costs_add_up_exactly_in_every_group(gateway):
    cents = 10_000_000  # ten of them are 0.1 USD, which floats cannot add
    await store_records(
        gateway,
        *(record(n, cost_nusd=cents) for n in range(1, 11)),
        record(11, project="default", model_id="sim/echo", provider="sim", cost_nusd=0),
        record(12, cost_nusd=None, pricing_source="unpriced"),
        record(13, modality="stt", model_id="groq/whisper-large-v3", cost_nusd=1),
    )
    shown = as_json(await reports.costs(gateway.store, gateway.current.catalog, NOON))
    assert shown["total"] == 0.100000001
    assert (shown["requests"], shown["unpriced_requests"]) == (13, 1)
    assert shown["by_provider"] == {
        "groq": {"cost": 0.100000001, "requests": 12},
        "sim": {"cost": 0.0, "requests": 1},
    }
    assert shown["by_model"] == {
        GPT: {"cost": 0.1, "requests": 11},
        "groq/whisper-large-v3": {"cost": 1e-09, "requests": 1},
        "sim/echo": {"cost": 0.0, "requests": 1},
    }
    assert list(shown["by_project"]) == ["shop", "default"]
    assert shown["by_modality"]["llm"] == {"cost": 0.1, "requests": 12}


async def test_waste_is_summed_up_and_shown_per_request(gateway):
    await store_records(
        gateway,
        record(1, modality="tts", wasted_units=12, wasted_nusd=120_000_000),
        record(2, wasted_units=3.5, wasted_nusd=1),
        record(3, cost_nusd=None, wasted_units=1, wasted_nusd=None),
        record(4),
    )
    store, catalog = gateway.store, gateway.current.catalog
    assert as_json(await reports.costs(store, catalog, NOON))["wasted"] == 0.120000001
    details = [as_json(await logs.request_detail(store, f"{n:032x}")) for n in (1, 2, 3, 4)]
    assert [one["wasted_units"] for one in details] == [12, 3.5, 1, 0]
    assert [one["wasted_usd"] for one in details] == [0.12, 1e-09, None, 0]
    page = as_json(await overview.overview(store, catalog, NOON, spent=lambda project: 0, active=0))
    assert page["today"]["wasted"] == 0.120000001


async def test_what_the_phrase_cache_saved_is_summed_up_and_is_no_cost(gateway):
    def attempt(saved_nusd, **fields):
        return AttemptRecord(model_id="a/x", outcome="ok", started_ms=0.0, duration_ms=1.0, cache="hit", saved_nusd=saved_nusd, **fields)

    parts = (attempt(7, pricing_source="cache", cost_nusd=0), attempt(0, pricing_source="config", cost_nusd=100_000_000))
    await store_records(
        gateway,
        record(1, modality="tts", cost_nusd=0, pricing_source="cache", attempts=(attempt(120_000_000),)),
        record(2, modality="tts", cost_nusd=100_000_000, pricing_source="cache + config", attempts=parts),
        record(3),
    )
    store, catalog = gateway.store, gateway.current.catalog
    costs = as_json(await reports.costs(store, catalog, NOON))
    assert costs["saved"] == 0.120000007
    page = as_json(await overview.overview(store, catalog, NOON, spent=lambda project: 0, active=0))
    assert (page["today"]["saved"], page["today"]["cost"]) == (0.120000007, costs["total"])


async def test_costs_of_a_period_and_a_project(gateway):
    midnight = 20_000 * DAY_S
    await store_records(
        gateway,
        record(1, timestamp=midnight),
        record(2, timestamp=midnight - 0.001),
        record(3, timestamp=midnight - 6 * DAY_S),
        record(4, timestamp=midnight - 6 * DAY_S - 1),
        record(5, timestamp=midnight - 29 * DAY_S),
        record(6, timestamp=midnight - 30 * DAY_S, project="default"),
    )

    async def requests(**filters) -> object:
        return as_json(await reports.costs(gateway.store, gateway.current.catalog, NOON, **filters))["requests"]

    assert await requests() == 1
    assert await requests(period="week") == 3
    assert await requests(period="month") == 5
    assert await requests(period="all") == 6
    assert await requests(period="all", project="default") == 1
    assert await requests(period="all", project="") == 6
    with pytest.raises(UnknownProjectError):
        await requests(project="nope")


async def test_latency_per_model(gateway):
    await store_records(
        gateway,
        *(record(n, ttfb_ms=100.0, total_latency_ms=400.0) for n in range(1, 100)),
        record(100, ttfb_ms=1_000.0, total_latency_ms=4_000.0),
        record(101, ttfb_ms=None, status="error", model_id="sim/echo", provider="sim"),
    )
    shown = as_json(await reports.latency(gateway.store, gateway.current.catalog, NOON))
    assert list(shown) == [GPT, "sim/echo"]
    model = shown[GPT]
    assert model["request_count"] == 100
    assert model["avg_ttfb_ms"] == pytest.approx(109.0)
    assert model["avg_latency_ms"] == pytest.approx(436.0)
    assert set(model["ttfb_percentiles"]) == set(model["latency_percentiles"]) == {"p50", "p95", "p99"}
    assert model["ttfb_percentiles"]["p50"] == pytest.approx(100.0, rel=0.03)
    assert model["latency_percentiles"]["p99"] == pytest.approx(400.0, rel=0.03)
    assert shown["sim/echo"]["avg_ttfb_ms"] is None
    assert shown["sim/echo"]["ttfb_percentiles"] == {"p50": None, "p95": None, "p99": None}


async def test_latency_takes_only_the_periods_of_its_endpoint(gateway):
    for allowed, period in ((("today", "week"), "month"), (BOUNDED, "all")):
        with pytest.raises(RequestError):
            await reports.latency(gateway.store, gateway.current.catalog, NOON, period=period, allowed=allowed)
