"""The log of requests, from records that went through a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.admin import logs
from gw.errors import RequestError
from gw.types.usage import AttemptRecord, Usage
from tests.fakes.answers import as_json
from tests.fakes.temporary_gateway import open_test_gateway, record, store_records

GPT = "groq/openai/gpt-oss-20b"


@pytest.fixture
async def gateway(tmp_path: Path):
    async with open_test_gateway(tmp_path) as opened:
        yield opened


async def test_a_log_record_has_every_field(gateway):
    await store_records(gateway, record(1, session_id="call-7", turn_id="t1", key_id="till"))
    (entry,) = as_json(await logs.page(gateway.store, gateway.current.catalog))
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
        "estimated_usd": 0.0,
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
                "detail": "",
                "ignored_settings": [],
                "voice": None,
                "text_characters": None,
                "input_units": None,
                "output_units": None,
                "cost_usd": None,
                "pricing_source": "",
                "estimated_usd": 0.0,
                "wasted_usd": 0.0,
                "cache": "",
                "saved_usd": 0.0,
                "route": "",
                "routing": "",
                "lost_s": None,
            }
        ],
        "error_code": None,
        "refused": False,
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
    entry = as_json(logs.log_record(record(modality=modality, usage=usage)))
    assert (entry["input_units"], entry["output_units"], entry["cached_input_units"]) == units
    assert entry["unit"] == unit


def test_an_unpriced_record_has_no_cost():
    assert as_json(logs.log_record(record(cost_nusd=None)))["cost_usd"] is None


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
        page = await logs.page(gateway.store, gateway.current.catalog, limit=limit, before=before, **filters)
        return [int(entry["id"], 16) for entry in as_json(page)]

    assert await ids() == [5, 4, 3, 2, 1]
    assert await ids(limit="2") == [5, 4]
    assert await ids(limit=1, modality="tts") == [1]
    assert await ids(limit=1, status="error") == [2]
    assert await ids(project="default") == [3]
    assert await ids(model="sim/tone") == [1]
    assert await ids(limit=2, before=record(4).id) == [3, 2]
    assert await ids(project="", before="") == [5, 4, 3, 2, 1]
    for name in ("modality", "status"):
        with pytest.raises(RequestError, match=f"{name} must be one of"):
            await ids(**{name: ""})


@pytest.mark.parametrize(("name", "value"), [("modality", "video"), ("status", "ok"), ("before", "nothing")])
async def test_bad_filters_are_named(gateway, name, value):
    with pytest.raises(RequestError) as caught:
        await logs.page(gateway.store, gateway.current.catalog, **{name: value})
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
                AttemptRecord(model_id=GPT, outcome="ok", started_ms=3.5, duration_ms=390.0, ttfb_ms=90.0, lost_s=1.5),
            ),
        ),
    )
    detail = as_json(await logs.request_detail(gateway.store, record(1).id))
    assert [(a["model_id"], a["outcome"], a["upstream_status"], a["lost_s"]) for a in detail["attempts"]] == [
        ("sim/echo", "failed", 503, None),
        (GPT, "ok", None, 1.5),
    ]
    assert (detail["requested_model"], detail["fallback_from"], detail["status"]) == ("parrot", "sim/echo", "fallback")
    assert detail["usage"]["source"] == "vendor"
    assert detail["measured_usage"]["output_tokens"] == 19
