"""The vendors' usage and cost answers that `gw reconcile` is tested with have the shapes of the vendors' own SDKs."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import get_args

import pytest
from anthropic.types.beta.organization.beta_analytics_cost_report_time_bucket import BetaAnalyticsCostReportTimeBucket
from anthropic.types.beta.organization.beta_analytics_usage_report_time_bucket import BetaAnalyticsUsageReportTimeBucket
from deepgram.types import billing_breakdown_v1response as billing
from deepgram.types import usage_breakdown_v1response as usage
from elevenlabs.types import UsageCharactersResponseModel, WorkspaceAnalyticsQueryResponseModel

from tests.fakes import vendor_exports as exports

pytestmark = pytest.mark.clients
FIGURES = {
    "input_tokens": Decimal(1_200), "output_tokens": Decimal(90), "audio_seconds": Decimal("61.5"),
    "characters": Decimal(500), "n_requests": Decimal(7), "cost_usd": Decimal("0.012"),
}  # fmt: skip


def members(model, value):
    """Check that the SDK's model has each member of `value` and of the models inside it."""
    known = {field.alias or name for name, field in model.model_fields.items()}
    assert set(value) <= known, set(value) - known
    for name, field in model.model_fields.items():
        written = value.get(name)
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if hasattr(kind, "model_fields")]
        for entry in written if isinstance(written, list) else [written]:
            if kinds and isinstance(entry, dict):
                members(kinds[0], entry)


@pytest.mark.parametrize(
    ("model", "export"),
    [
        (usage.UsageBreakdownV1Response, exports.deepgram_usage),
        (billing.BillingBreakdownV1Response, exports.deepgram_costs),
        (UsageCharactersResponseModel, exports.elevenlabs_characters),
        (WorkspaceAnalyticsQueryResponseModel, exports.elevenlabs_costs),
    ],
)
def test_an_answer(model, export):
    text = exports.as_json(export("m", FIGURES))
    members(model, json.loads(text))
    model.model_validate_json(text)


@pytest.mark.parametrize(
    ("model", "export"),
    [
        (BetaAnalyticsUsageReportTimeBucket, exports.anthropic_usage),
        (BetaAnalyticsCostReportTimeBucket, exports.anthropic_costs),
    ],
)
def test_a_bucket_of_anthropics_reports(model, export):
    """The SDK has the newer analytics reports; the members that are read are in both."""
    for bucket in json.loads(exports.as_json(export("m", FIGURES)))["data"]:
        parsed = model.construct(**bucket)
        for row in bucket["results"]:
            kind = type(parsed.results[0])
            counted = {"amount", "currency", "cost_type", "uncached_input_tokens", "cache_read_input_tokens", "cache_creation"}
            assert set(row) & counted
            assert set(row) & counted <= set(kind.model_fields)
