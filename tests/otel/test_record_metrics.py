"""Metrics are those that the SDK's instruments count, with the buckets of the conventions."""

from __future__ import annotations

import random

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from gw.otel import record_metrics
from gw.otel.record_metrics import SECONDS, TOKENS, RecordMetrics
from gw.types.usage import AttemptRecord, Usage
from tests.fakes.records import record


def points_of(message):
    """Return name, unit and points of each metric; points without times, by their attributes."""
    found = {}
    for metric in message.resource_metrics[0].scope_metrics[0].metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        points = {}
        for point in data.data_points:
            labels = tuple(sorted((each.key, each.value.string_value) for each in point.attributes))
            point.ClearField("attributes")
            point.ClearField("time_unix_nano")
            point.ClearField("start_time_unix_nano")
            points[labels] = point
        found[metric.name, metric.unit, data.aggregation_temporality] = points
    return found


def test_histograms_are_those_of_the_sdk():
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    durations = [0.0, 10.0, 20.0, 81_920.0, 99_999.0, *(chance.uniform(0, 90_000) for _ in range(200))]  # ms; some are bounds
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], resource=Resource({"service.name": "gw"}), shutdown_on_exit=False).get_meter("gw")
    duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "", explicit_bucket_boundaries_advisory=SECONDS)
    tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "", explicit_bucket_boundaries_advisory=TOKENS)
    metrics = RecordMetrics({"service.name": "gw"})
    for number, value in enumerate(durations):
        attempt = AttemptRecord(model_id="openai/gpt-x", outcome="ok", started_ms=0.0, duration_ms=value)
        metrics.observe(record(f"r{number}", attempts=(attempt,), usage=Usage(input_tokens=4 * number, source="vendor")))
        labels = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x"}
        duration.record(value / 1_000, labels)
        if number:
            tokens.record(4 * number, labels | {"gen_ai.token.type": "input"})
    expected = points_of(encode_metrics(reader.get_metrics_data()))
    counted = points_of(ExportMetricsServiceRequest.FromString(metrics.encode()))
    assert {key: counted[key] for key in expected} == expected
    assert len(expected) == 2


def test_a_caller_cannot_make_series_without_end(monkeypatch):
    monkeypatch.setattr(record_metrics, "MAX_MODELS", 3)
    metrics = RecordMetrics({})
    for number in range(10):
        metrics.observe(record(f"r{number}", model_id=f"openai/m{number}", attempts=()))
    counted = points_of(ExportMetricsServiceRequest.FromString(metrics.encode()))
    (points,) = [points for (name, *_), points in counted.items() if name == "gw.requests"]
    assert {dict(labels)["gw.model"]: point.as_int for labels, point in points.items()} == {
        "openai/m0": 1, "openai/m1": 1, "openai/m2": 1, "other": 7,
    }  # fmt: skip


def test_only_what_was_counted_is_sent():
    metrics = RecordMetrics({})
    metrics.observe(record("a", cost_nusd=None, usage=Usage(output_tokens=3)))
    counted = points_of(ExportMetricsServiceRequest.FromString(metrics.encode()))
    assert {name: len(points) for (name, *_), points in counted.items()} == {
        "gen_ai.client.operation.duration": 1, "gen_ai.client.token.usage": 1, "gw.requests": 1,
    }  # fmt: skip


def test_without_a_record_there_is_nothing_to_send():
    assert RecordMetrics({}).encode() is None
