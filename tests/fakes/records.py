"""Requests and intents with every field set that a test does not care about, and a wall clock that is set by hand."""

from __future__ import annotations

from typing import Any

from gw.types.usage import AttemptRecord, Intent, RequestRecord, Usage

NOON = 1_700_049_600.0
"""2023-11-15 12:00 UTC, day 19676."""
DAY = 19_676


class HandClock:
    def __init__(self, now: float = NOON) -> None:
        self.time = now

    def now(self) -> float:
        return self.time


def record(id: str = "r1", **fields: Any) -> RequestRecord:  # noqa: A002  # the field's name
    return RequestRecord(
        **{
            "id": id,
            "timestamp": NOON,
            "project": "default",
            "modality": "llm",
            "model_id": "openai/gpt-x",
            "provider": "openai",
            "requested_model": "openai/gpt-x",
            "status": "success",
            "total_latency_ms": 900.0,
            "ttfb_ms": 200.0,
            "gateway_ms": 0.5,
            "cost_nusd": 1_000,
            "pricing_source": "config",
            "usage": Usage(input_tokens=10, output_tokens=20, source="vendor"),
            "attempts": (AttemptRecord(model_id="openai/gpt-x", outcome="ok", started_ms=0.2, duration_ms=899.0),),
            "endpoint": "/v1/chat/completions",
            **fields,
        }
    )


def intent(id: str = "r1", **fields: Any) -> Intent:  # noqa: A002
    return Intent(
        **{
            "id": id,
            "attempt": 0,
            "timestamp": NOON,
            "project": "default",
            "modality": "llm",
            "model_id": "openai/gpt-x",
            "requested_model": "openai/gpt-x",
            "estimate": Usage(input_tokens=10, output_tokens=100, source="estimated"),
            "estimate_nusd": 5_000,
            "endpoint": "/v1/chat/completions",
            **fields,
        }
    )
