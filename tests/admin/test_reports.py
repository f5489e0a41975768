"""Each report from records that went through a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.admin import logs, overview, reports
from gw.errors import RequestError, UnknownProjectError
from gw.types.usage import AttemptRecord, Usage
from tests.fakes.temporary_gateway import DAY_S, NOON, open_test_gateway, record, store_records

GPT = "groq/openai/gpt-oss-20b"


@pytest.fixture
async def gateway(tmp_path: Path):
    async with open_test_gateway(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(("period", "days_back"), [("today", 0), ("week", 6), ("month", 29)])
def test_periods_are_utc_days_including_today(period, days_back):
    assert reports.since_day(period, NOON) == 20_000 - days_back
    assert reports.since_day(period, 20_000 * DAY_S) == 20_000 - days_back
    assert reports.since_day(period, 20_001 * DAY_S - 1) == 20_000 - days_back


def test_all_has_no_beginning():
    assert reports.since_day("all", NOON) is None


@pytest.mark.parametrize("period", ["", "Today", "year", "day", "all "])
def test_an_unknown_period_is_never_all(period):
    with pytest.raises(RequestError) as caught:
        reports.since_day(period, NOON)
    assert caught.value.param == "period"


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("1000", 1000), (7, 7), ("007", 7)])
def test_good_limits(value, number):
    assert reports.limit_of(value, 1000) == number


@pytest.mark.parametrize("value", ["0", "1001", "-1", "+1", "1.0", "1e2", "ten", "", " 5", "٣", "9" * 5000, -3, 0])
def test_bad_limits(value):
    with pytest.raises(RequestError) as caught:
        reports.limit_of(value, 1000)
    assert caught.value.param == "limit"


async def test_an_empty_database(gateway):
    store, catalog = gateway.store, gateway.live.catalog
    found = await reports.costs(store, catalog, NOON, period="all")
    assert found == {
        "period": "all",
        "project": None,
        "total": 0.0,
        "requests": 0,
        "unpriced_requests": 0,
        "wasted": 0.0,
        "by_provider": {},
        "by_model": {},
        "by_project": {},
        "by_modality": {},
    }
    assert await reports.latency(store, catalog, NOON) == {}
    assert await logs.page(store, catalog) == []
    overview = await reports.overview(store, catalog, NOON)
    assert (overview["total_requests"], overview["total_cost_today"], overview["total_cost_all"]) == (0, 0.0, 0.0)
    with pytest.raises(reports.UnknownRequestError) as caught:
        await reports.request_detail(store, "nothing")
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
    found = await reports.costs(gateway.store, gateway.live.catalog, NOON)
    assert found["total"] == 0.100000001
    assert (found["requests"], found["unpriced_requests"]) == (13, 1)
    assert found["by_provider"] == {
        "groq": {"cost": 0.100000001, "requests": 12},
        "sim": {"cost": 0.0, "requests": 1},
    }
    assert found["by_model"] == {
        GPT: {"cost": 0.1, "requests": 11},
        "groq/whisper-large-v3": {"cost": 1e-09, "requests": 1},
        "sim/echo": {"cost": 0.0, "requests": 1},
    }
    assert list(found["by_project"]) == ["shop", "default"]
    assert found["by_modality"]["llm"] == {"cost": 0.1, "requests": 12}


async def test_what_reached_nobody_is_added_up_and_told_of_each_request(gateway):
    await store_records(
        gateway,
        record(1, modality="tts", wasted_units=12, wasted_nusd=120_000_000),
        record(2, wasted_units=3.5, wasted_nusd=1),
        record(3, cost_nusd=None, wasted_units=1, wasted_nusd=None),
        record(4),
    )
    store, catalog = gateway.store, gateway.live.catalog
    assert (await reports.costs(store, catalog, NOON))["wasted"] == 0.120000001
    told = [await reports.request_detail(store, f"{n:032x}") for n in (1, 2, 3, 4)]
    assert [one["wasted_units"] for one in told] == [12, 3.5, 1, 0]
    assert [one["wasted_usd"] for one in told] == [0.12, 1e-09, None, 0]
    page = await overview.overview(store, catalog, NOON, spent=lambda project: 0, active=0)
    assert page["today"]["wasted"] == 0.120000001


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
        return (await reports.costs(gateway.store, gateway.live.catalog, NOON, **filters))["requests"]

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
    found = await reports.latency(gateway.store, gateway.live.catalog, NOON)
    assert list(found) == [GPT, "sim/echo"]
    model = found[GPT]
    assert model["request_count"] == 100
    assert model["avg_ttfb_ms"] == pytest.approx(109.0)
    assert model["avg_latency_ms"] == pytest.approx(436.0)
    assert set(model["ttfb_percentiles"]) == set(model["latency_percentiles"]) == {"p50", "p95", "p99"}
    assert model["ttfb_percentiles"]["p50"] == pytest.approx(100.0, rel=0.03)
    assert model["latency_percentiles"]["p99"] == pytest.approx(400.0, rel=0.03)
    assert found["sim/echo"]["avg_ttfb_ms"] is None
    assert found["sim/echo"]["ttfb_percentiles"] == {"p50": None, "p95": None, "p99": None}


async def test_latency_takes_only_the_periods_of_its_endpoint(gateway):
    for allowed, period in ((("today", "week"), "month"), (reports.LATENCY_PERIODS, "all")):
        with pytest.raises(RequestError):
            await reports.latency(gateway.store, gateway.live.catalog, NOON, period=period, allowed=allowed)


async def test_a_log_record_has_every_field(gateway):
    await store_records(gateway, record(1, session_id="call-7", turn_id="t1", key_id="till"))
    (entry,) = await logs.page(gateway.store, gateway.live.catalog)
    assert entry == {
        "id": record(1).id,
        "timestamp": record(1).timestamp,
        "project": "shop",
        "modality": "llm",
        "model_id": GPT,
        "provider": "groq",
        "cost_usd": 0.25,
        "total_latency_ms": 400.0,
        "ttfb_ms": 100.0,
        "gateway_ms": 0.5,
        "status": "success",
        "input_units": 10,
        "output_units": 20,
        "cached_input_units": 4,
        "unit": "tokens",
        "wasted_units": 0,
        "wasted_usd": 0.0,
        "pricing_source": "config",
        "fallback_from": None,
        "attempts": [
            {
                "model_id": GPT,
                "outcome": "ok",
                "started_ms": 0.1,
                "duration_ms": 399.0,
                "ttfb_ms": 99.0,
                "error_code": None,
                "upstream_status": None,
                "cost_usd": None,
            }
        ],
        "error_code": None,
        "stream": True,
        "session_id": "call-7",
        "turn_id": "t1",
        "key_id": "till",
    }


@pytest.mark.parametrize(
    ("modality", "usage", "units", "unit"),
    [
        ("stt", Usage(audio_seconds=2.5), (2.5, 0, 0), "audio_seconds"),
        ("tts", Usage(characters=12, audio_seconds=1.0), (12, 0, 0), "characters"),
    ],
)
async def test_units_of_a_modality(modality, usage, units, unit):
    entry = reports.log_record(record(modality=modality, usage=usage))
    assert (entry["input_units"], entry["output_units"], entry["cached_input_units"]) == units
    assert entry["unit"] == unit


def test_an_unpriced_record_has_no_cost():
    assert reports.log_record(record(cost_nusd=None))["cost_usd"] is None


async def test_logs_are_filtered_before_they_are_limited(gateway):
    await store_records(
        gateway,
        record(1, modality="tts", model_id="sim/tone", provider="sim"),
        record(2, status="error"),
        record(3, project="default"),
        record(4),
        record(5),
    )

    async def ids(limit: str | int = 100, before: str | None = None, **filters) -> list[int]:
        found = await logs.page(
            gateway.store, gateway.live.catalog, logs.Query(**filters), limit=limit, before=before
        )
        return [int(entry["id"], 16) for entry in found]

    assert await ids() == [5, 4, 3, 2, 1]
    assert await ids(limit="2") == [5, 4]
    assert await ids(limit=1, modality="tts") == [1]
    assert await ids(limit=1, status="error") == [2]
    assert await ids(project="default") == [3]
    assert await ids(model="sim/tone") == [1]
    assert await ids(limit=2, before=record(4).id) == [3, 2]
    assert await ids(modality="", project="", status="", before="") == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(("name", "value"), [("modality", "video"), ("status", "ok"), ("before", "nothing")])
async def test_bad_filters_are_named(gateway, name, value):
    query = logs.Query() if name == "before" else logs.Query(**{name: value})
    before = value if name == "before" else None
    with pytest.raises(RequestError) as caught:
        await logs.page(gateway.store, gateway.live.catalog, query, before=before)
    assert caught.value.param == name


async def test_one_request_with_its_attempts(gateway):
    await store_records(
        gateway,
        record(
            1,
            status="fallback",
            fallback_from="sim/echo",
            requested_model="parrot",
            measured=Usage(input_tokens=9, output_tokens=19),
            attempts=(
                AttemptRecord(
                    model_id="sim/echo",
                    outcome="failed",
                    started_ms=0.0,
                    duration_ms=3.0,
                    error_code="upstream_failed",
                    upstream_status=503,
                ),
                AttemptRecord(model_id=GPT, outcome="ok", started_ms=3.5, duration_ms=390.0, ttfb_ms=90.0),
            ),
        ),
    )
    found = await reports.request_detail(gateway.store, record(1).id)
    assert [(a["model_id"], a["outcome"], a["upstream_status"]) for a in found["attempts"]] == [
        ("sim/echo", "failed", 503),
        (GPT, "ok", None),
    ]
    assert (found["requested_model"], found["fallback_from"], found["status"]) == ("parrot", "sim/echo", "fallback")
    assert found["usage"].source == "vendor"
    assert found["measured_usage"].output_tokens == 19


async def test_overview(gateway):
    yesterday = record().timestamp - DAY_S
    await store_records(
        gateway,
        record(1),
        record(2, status="error", cost_nusd=0),
        record(3, status="fallback"),
        record(4, status="cancelled", cost_nusd=None),
        record(5, timestamp=yesterday),
        record(6, timestamp=yesterday, project="default"),
    )
    assert await reports.overview(gateway.store, gateway.live.catalog, NOON) == {
        "total_requests": 6,
        "total_cost_today": 0.5,
        "total_cost_all": 1.0,
        "active_models": 4,
        "providers_configured": 2,
        "requests_today": 4,
        "errors_today": 1,
        "fallbacks_today": 1,
        "cancelled_today": 1,
        "unpriced_today": 1,
    }
    of_shop = await reports.overview(gateway.store, gateway.live.catalog, NOON, project="shop")
    assert (of_shop["total_requests"], of_shop["total_cost_all"], of_shop["active_models"]) == (5, 0.75, 2)


def test_health_and_ready():
    assert reports.health(now=10.0, started_at=7.5, version="1", degraded="") == {
        "status": "ok",
        "uptime_seconds": 2.5,
        "version": "1",
    }
    assert reports.health(now=1.0, started_at=7.5, version="1", degraded="disk full")["uptime_seconds"] == 0.0
    assert reports.health(now=10.0, started_at=7.5, version="1", degraded="disk full")["status"] == "degraded"
    assert reports.ready(draining=False, accepting=True, degraded="")[0]
    assert reports.ready(draining=False, accepting=True, degraded="locked")[0]
    good, body = reports.ready(draining=False, accepting=False, degraded="disk full")
    assert (good, body["status"], body["checks"]["records"]) == (False, "not_ready", "degraded")
    assert reports.ready(draining=True, accepting=True, degraded="")[1]["status"] == "draining"
