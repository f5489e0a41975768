"""Usage and costs of one model as vendors give them out, from figures in Decimal.

Shapes of API answers: openai-python 3.54.0 (`types/admin/organization/usage_*_response.py`), anthropic-sdk-python 2.12.0
(`types/beta/organization/beta_analytics_{usage,cost}_report_time_bucket.py`) and the Admin API at platform.claude.com/docs,
deepgram-sdk 7.17.0 (`types/{usage,billing}_breakdown_v1response*.py`), elevenlabs 2.78.0
(`types/usage_characters_response_model.py`, `types/workspace_analytics_query_response_model.py`). The suites that run with
those SDKs check them against their types. Columns of console exports: files that users of OpenAI and Anthropic published.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

DAY = 19_676
START = DAY * 86_400
ISO = ("2023-11-15T00:00:00Z", "2023-11-16T00:00:00Z")
Figures = Mapping[str, Decimal]
"""Units, `n_requests` and `cost_usd`."""


def as_json(value: Any) -> str:
    """Write decimals as JSON numbers of the same digits."""
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _as_csv(columns: Iterable[str], *rows: Iterable[object]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


# ---- OpenAI


def _openai_page(*results: dict[str, Any]) -> dict[str, Any]:
    bucket = {"object": "bucket", "start_time": START, "end_time": START + 86_400, "results": list(results)}
    empty = {**bucket, "start_time": START - 86_400, "end_time": START, "results": []}
    return {"object": "page", "data": [empty, bucket], "has_more": False, "next_page": None}


def openai_usage(model: str, figures: Figures) -> dict[str, Any]:
    """The answer of `usage/completions`, with `group_by=model`; speech stands in answers of its own."""
    result = {
        "object": "organization.usage.completions.result", "model": model, "input_tokens": figures["input_tokens"],
        "output_tokens": figures["output_tokens"], "num_model_requests": figures["n_requests"], "input_cached_tokens": 0,
        "input_audio_tokens": 0, "output_audio_tokens": 0, "project_id": None, "user_id": None, "api_key_id": None,
        "batch": None, "service_tier": None,
    }  # fmt: skip
    speech = {
        "object": "organization.usage.audio_speeches.result", "model": "voice", "characters": 99, "num_model_requests": 1,
    }  # fmt: skip
    return _openai_page(result, speech)


def openai_costs(model: str, figures: Figures) -> dict[str, Any]:
    """The answer of `costs`, with `group_by=line_item`; a third of the money is for output."""
    output = (figures["cost_usd"] / 3).quantize(Decimal(10) ** -12)
    items = {f"{model}, input": figures["cost_usd"] - output, f"{model}, output": output, "voice, input": Decimal("0.5")}
    return _openai_page(
        *(
            {
                "object": "organization.costs.result", "amount": {"value": usd, "currency": "usd"}, "line_item": item,
                "project_id": None, "quantity": None,
            }
            for item, usd in items.items()
        )
    )  # fmt: skip


_PERIOD = ("start_time", "end_time", "start_time_iso", "end_time_iso")
_DATES = (START, START + 86_400, "2023-11-15T00:00:00+00:00", "2023-11-16T00:00:00+00:00")


def openai_activity_csv(model: str, figures: Figures) -> str:
    """The console's activity by model; counts have a decimal place, and days without usage have empty fields."""
    columns = (*_PERIOD, "project_id", "num_model_requests", "model", "service_tier", "input_tokens", "output_tokens")
    counts = (f"{figures[name]}.0" for name in ("n_requests", "input_tokens", "output_tokens"))
    requests, *tokens = counts
    return _as_csv(columns, (*_DATES, "proj_1", requests, model, "default", *tokens), (*_DATES, *[""] * 6))


def openai_costs_csv(model: str, figures: Figures) -> str:
    columns = (*_PERIOD, "amount_value", "amount_currency", "line_item", "project_id", "organization_id")
    rows = ((*_DATES, f"{figures['cost_usd']:f}", "usd", f"{model}, output", "", "org-1"), (*_DATES, *[""] * 5))
    return _as_csv(columns, *rows)


# ---- Anthropic


def _anthropic_page(*results: dict[str, Any]) -> dict[str, Any]:
    bucket = {"starting_at": ISO[0], "ending_at": ISO[1], "results": list(results)}
    return {"data": [bucket], "has_more": False, "next_page": None}


_ANTHROPIC_GROUPS: dict[str, Any] = {
    "service_tier": None, "context_window": None, "workspace_id": None, "inference_geo": None,
}  # fmt: skip


def anthropic_usage(model: str, figures: Figures) -> dict[str, Any]:
    """The usage report with `group_by[]=model`: input is split by what the cache did."""
    rest = figures["input_tokens"] - 6
    result = {
        **_ANTHROPIC_GROUPS, "model": model, "uncached_input_tokens": rest, "cache_read_input_tokens": 3,
        "cache_creation": {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 2}, "api_key_id": None,
        "output_tokens": figures["output_tokens"], "server_tool_use": {"web_search_requests": 0},
    }  # fmt: skip
    return _anthropic_page(result)


def anthropic_costs(model: str, figures: Figures) -> dict[str, Any]:
    """The cost report with `group_by[]=description`: amounts are cents, as text."""
    cents = figures["cost_usd"] * 100
    items = {"output_tokens": cents / 2, "uncached_input_tokens": cents - cents / 2}
    return _anthropic_page(
        *(
            {
                **_ANTHROPIC_GROUPS, "model": model, "amount": f"{amount:f}", "currency": "USD", "cost_type": "tokens",
                "token_type": kind, "description": f"{model} Usage - {kind}",
            }
            for kind, amount in items.items()
        )
    )  # fmt: skip


def anthropic_usage_csv(model: str, figures: Figures) -> str:
    columns = (
        "usage_date_utc", "model_version", "api_key", "workspace", "usage_type", "context_window",
        "usage_input_tokens_no_cache", "usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write_1h",
        "usage_input_tokens_cache_read", "usage_output_tokens", "web_search_count", "inference_geo", "speed",
    )  # fmt: skip
    counts = (figures["input_tokens"] - 6, 2, 1, 3, figures["output_tokens"])
    return _as_csv(columns, ("2023-11-15", model, "key", "Default", "standard", "≤ 200k", *counts, 0, "global", ""))


def anthropic_costs_csv(title: str, figures: Figures) -> str:
    """`title`: the model as the console calls it."""
    columns = (
        "usage_date_utc", "model", "workspace", "api_key", "usage_type", "context_window", "token_type", "cost_usd",
        "list_price_usd", "cost_type", "inference_geo", "speed",
    )  # fmt: skip
    usd = f"{figures['cost_usd']:f}"
    return _as_csv(
        columns, ("2023-11-15", title, "Default", "key", "message", "≤ 200k", "output", usd, usd, "token", "global", "")
    )


# ---- Deepgram


def _deepgram(*results: dict[str, Any]) -> dict[str, Any]:
    resolution = {"units": "day", "amount": 1}
    return {"start": "2023-11-15", "end": "2023-11-15", "resolution": resolution, "results": list(results)}


_DAY = {"start": "2023-11-15", "end": "2023-11-15"}


def deepgram_usage(model: str, figures: Figures) -> dict[str, Any]:
    """The usage breakdown with `grouping=models`, which calls models by their titles."""
    hours = figures["audio_seconds"] / 3_600
    nothing = {"agent_hours": 0, "tokens_in": 0, "tokens_out": 0}
    groups: dict[str, Any] = {"accessor": None, "endpoint": None, "feature_set": None, "method": None, "tags": None}
    return _deepgram(
        {
            "hours": hours, "total_hours": hours, **nothing, "tts_characters": 0, "requests": figures["n_requests"],
            "grouping": {**_DAY, **groups, "models": [model.title()], "deployment": None},
        },
        {
            "hours": 0, "total_hours": 0, **nothing, "tts_characters": 80, "requests": 1,
            "grouping": {**_DAY, **groups, "models": ["Voice"], "deployment": None},
        },
    )  # fmt: skip


def deepgram_costs(model: str, figures: Figures) -> dict[str, Any]:
    """The billing breakdown with `grouping=line_item`."""
    half = figures["cost_usd"] / 2
    items = {f"streaming::{model}": half, f"sync::{model}": figures["cost_usd"] - half, "sync::voice": Decimal("0.3")}
    groups: dict[str, Any] = {"accessor": None, "deployment": None, "tags": None}
    return _deepgram(
        *({"dollars": usd, "grouping": {**_DAY, **groups, "line_item": item}} for item, usd in items.items())
    )


# ---- ElevenLabs


def elevenlabs_characters(model: str, figures: Figures) -> dict[str, Any]:
    """The answer of `usage.get` with `breakdown_type=model` and `metric=tts_characters`: a list per model, a value per day."""
    return {"time": [(START - 86_400) * 1_000, START * 1_000], "usage": {model: [0, figures["characters"]]}}


def elevenlabs_costs(model: str, figures: Figures) -> dict[str, Any]:
    """The answer of `workspace.usage.get_usage` with `group_by=["model"]`."""
    return {
        "columns": ["time", "model", "total_cost", "total_charge_count"],
        "column_types": ["DateTime", "String", "Float", "Int"],
        "column_units": [None, None, "usd", None],
        "rows": [[ISO[0], model, figures["cost_usd"], figures["characters"]], [ISO[0], None, 1.5, 3]],
    }
