"""Counters as the Prometheus text shows them; read back with prometheus_client's own parser. For promtool see tests/clients."""

from __future__ import annotations

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gw.telemetry.bucket_counts import BucketCounts
from gw.telemetry.exposition import text_of
from gw.telemetry.metric_facts import MetricFacts
from gw.telemetry.metrics import MAX_NAMES, Metrics
from gw.types.usage import AttemptRecord, RequestRecord

FACTS = MetricFacts(
    uptime_s=12.5,
    version="1.2.3",
    providers_configured=2,
    cost_today_nusd=1_500_000_000,
    provider_up={"groq": True, "openai": False},
    in_flight=4,
    write_queue_depth=3,
)


def record(**changes) -> RequestRecord:
    fields = {
        "id": "r1",
        "timestamp": 1_800_000_000.0,
        "project": "default",
        "modality": "llm",
        "model_id": "groq/llama",
        "provider": "groq",
        "requested_model": "groq/llama",
        "status": "success",
        "total_latency_ms": 420.0,
        "ttfb_ms": 90.0,
        "gateway_ms": 0.4,
        "cost_nusd": 250_000_000,
    }
    return RequestRecord(**(fields | changes))


@pytest.fixture
def metrics() -> Metrics:
    result = Metrics()
    result.know(models=["groq/llama", "openai/gpt"], providers=["groq", "openai"])
    return result


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = trio.run(text_of, metrics.families(FACTS)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def attempt(model_id: str, outcome: str, **changes) -> AttemptRecord:
    return AttemptRecord(model_id=model_id, outcome=outcome, started_ms=0.0, duration_ms=1.0, **changes)


def test_the_specified_lines_are_there_verbatim(metrics):
    metrics.observe(record())
    lines = trio.run(text_of, metrics.families(FACTS)).decode().splitlines()
    for line in (
        "gw_uptime_seconds 12.5",
        "gw_providers_configured 2.0",
        'gw_cost_usd_total{period="today"} 1.5',
        'gw_requests_total{provider="groq"} 1.0',
        'gw_cost_usd_total{provider="groq"} 0.25',
    ):
        assert line in lines
    for name, kind in (
        ("gw_uptime_seconds", "gauge"),
        ("gw_providers_configured", "gauge"),
        ("gw_cost_usd_total", "counter"),
        ("gw_requests_total", "counter"),
    ):
        assert f"# TYPE {name} {kind}" in lines
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1


def test_known_providers_stand_at_zero_before_their_first_request(metrics):
    matches = samples(metrics)
    assert matches["gw_requests_total", (("provider", "openai"),)] == 0
    assert matches["gw_cost_usd_total", (("provider", "openai"),)] == 0


def test_latency_histograms_are_cumulative_and_in_seconds(metrics):
    metrics.observe(record(total_latency_ms=40.0, ttfb_ms=20.0))
    metrics.observe(record(total_latency_ms=2_000.0, ttfb_ms=None))
    matches = samples(metrics)
    labels = (("modality", "llm"), ("model", "groq/llama"), ("provider", "groq"))

    def bucket(le: str) -> float:
        return matches["gw_request_duration_seconds_bucket", (("le", le), *labels)]

    assert (bucket("0.025"), bucket("0.05"), bucket("1.5"), bucket("2.5"), bucket("+Inf")) == (0, 1, 1, 2, 2)
    assert matches["gw_request_duration_seconds_sum", labels] == pytest.approx(2.04)
    assert matches["gw_time_to_first_byte_seconds_count", labels] == 1
    assert matches["gw_gateway_overhead_seconds_count", (("modality", "llm"),)] == 2


def test_a_value_on_a_bound_belongs_to_that_bucket():
    histogram = BucketCounts((0.1, 0.2))
    histogram.observe_ms(100.0)
    assert histogram.cumulative() == [("0.1", 1), ("0.2", 1), ("+Inf", 1)]


def test_unknown_names_count_as_other(metrics):
    for number in range(50):
        metrics.observe(record(model_id=f"made-up/{number}", provider=f"made-up-{number}", status="error"))
    names = {dict(labels).get("model") for _, labels in samples(metrics)} - {None}
    assert names == {"other"}
    assert samples(metrics)["gw_requests_total", (("provider", "other"),)] == 50


def test_the_number_of_names_is_bounded():
    metrics = Metrics()
    metrics.know(models=[f"p/{n}" for n in range(3 * MAX_NAMES)], providers=["p"])
    for n in range(3 * MAX_NAMES):
        metrics.observe(record(model_id=f"p/{n}", provider="p", ttfb_ms=None, gateway_ms=None))
    outcomes = [key for key in samples(metrics) if key[0] == "gw_request_outcomes_total"]
    assert len(outcomes) == MAX_NAMES


def test_hops_and_rate_limits_come_from_the_attempts(metrics):
    metrics.observe(
        record(
            status="fallback",
            attempts=(
                attempt("openai/gpt", "rate_limited", upstream_status=429),
                attempt("groq/llama", "rate_limited"),
                attempt("openai/gpt", "ok"),
            ),
        )
    )
    matches = samples(metrics)
    first = (("from", "openai/gpt"), ("reason", "rate_limited"), ("to", "groq/llama"))
    assert matches["gw_fallbacks_total", first] == 1
    assert matches["gw_rate_limited_total", (("provider", "openai"), ("source", "upstream"))] == 1
    assert matches["gw_rate_limited_total", (("provider", "groq"), ("source", "configured"))] == 1


def test_a_lone_rate_limited_attempt_is_counted_without_a_hop(metrics):
    metrics.observe(record(status="error", attempts=(attempt("groq/llama", "rate_limited"),)))
    matches = samples(metrics)
    assert matches["gw_rate_limited_total", (("provider", "groq"), ("source", "configured"))] == 1
    assert not [key for key in matches if key[0] == "gw_fallbacks_total"]


def test_gauges_and_the_budget_counter(metrics):
    metrics.observe(record(status="error", error_code="budget_exceeded"))
    matches = samples(metrics)
    assert matches["gw_requests_in_flight", ()] == 4
    assert matches["gw_budget_blocked_total", ()] == 1
    assert matches["gw_write_queue_depth", ()] == 3
    assert matches["gw_provider_up", (("provider", "groq"),)] == 1
    assert matches["gw_provider_up", (("provider", "openai"),)] == 0
    assert matches["gw_build_info", (("version", "1.2.3"),)] == 1


def test_an_unpriced_request_costs_nothing_here(metrics):
    metrics.observe(record(cost_nusd=None))
    assert samples(metrics)["gw_cost_usd_total", (("provider", "groq"),)] == 0


def test_label_values_are_escaped():
    metrics = Metrics()
    nasty = 'p/a"b\\c\nd'
    metrics.know(models=[nasty], providers=["p"])
    metrics.observe(record(model_id=nasty, provider="p"))
    labels = (("modality", "llm"), ("model", nasty), ("provider", "p"), ("status", "success"))
    assert samples(metrics)["gw_request_outcomes_total", labels] == 1


def test_each_vendor_has_its_part_of_the_cost(metrics):
    parts = {"groq/llama": 200_000_000, "openai/gpt": 50_000_000}
    attempts = tuple(attempt(name, "ok", cost_nusd=nusd, pricing_source="config") for name, nusd in parts.items())
    metrics.observe(record(model_id="openai/gpt", provider="openai", status="fallback", attempts=attempts))
    found = samples(metrics)
    for provider, model, usd, requests in (("groq", "groq/llama", 0.2, 0), ("openai", "openai/gpt", 0.05, 1)):
        labels = (("modality", "llm"), ("model", model), ("provider", provider))
        assert found["gw_cost_usd_total", (("provider", provider),)] == usd
        assert found["gw_model_cost_usd_total", labels] == usd
        assert found["gw_requests_total", (("provider", provider),)] == requests
