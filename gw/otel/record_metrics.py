"""OpenTelemetry metrics of records: the GenAI conventions' histograms, and counters of our own. Runs in the exporting process only.

They are counted here and not by the SDK, whose instruments take as long for one request as all of its spans.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from gw.otel import conventions as names
from gw.otel.otlp_encoding import key_values
from gw.otel.spans import NOT_CALLED, Value, error_of, usage_of
from gw.types.ids import split_model_id
from gw.types.usage import NANO, AttemptRecord, RequestRecord, Usage

MAX_MODELS = 1_000
"""Models with series of their own in one process; callers can make up names where a wildcard allows them. Later ones are `other`."""
OTHER = "other"
SECONDS = tuple(0.01 * 2**n for n in range(14))
TOKENS = tuple(4**n for n in range(14))
"""Bounds of the histograms: open-telemetry/semantic-conventions-genai docs/gen-ai/gen-ai-metrics.md, 2026."""
MOST_KEPT = 4_096
"""Kinds of requests and of calls whose series are kept; when full, all are forgotten: the series themselves are bounded by MAX_MODELS."""
Labels = tuple[tuple[str, str], ...]
"""Names and values of the labels of a series."""
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


class _Distribution:
    """Values of one series in the buckets of a histogram."""

    __slots__ = ("_bounds", "counts", "highest", "lowest", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total, self.lowest, self.highest = 0.0, float("inf"), float("-inf")

    def record(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1  # a bound belongs to the bucket below it
        self.total += value
        if value < self.lowest:
            self.lowest = value
        if value > self.highest:
            self.highest = value


class _Counter:
    """Sum of one series."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total: float = 0


class _HistogramSeries:
    def __init__(self, name: str, unit: str, description: str, bounds: Sequence[float]) -> None:
        self._about = Metric(name=name, unit=unit, description=description)
        self._bounds = bounds
        self._series: dict[Labels, _Distribution] = {}

    def of(self, labels: Labels) -> _Distribution:
        """Return the series with these labels. It is exported when it has a value."""
        return self._series.setdefault(labels, _Distribution(self._bounds))

    def message(self, began_ns: int, now_ns: int) -> Metric | None:
        """Return the metric; None while nothing was counted."""
        points = [
            HistogramDataPoint(
                attributes=key_values(dict(labels)), start_time_unix_nano=began_ns, time_unix_nano=now_ns, count=sum(series.counts),
                sum=series.total, bucket_counts=series.counts, explicit_bounds=self._bounds, min=series.lowest, max=series.highest,
            )
            for labels, series in tuple(self._series.items()) if any(series.counts)
        ]  # fmt: skip
        if not points:
            return None
        metric = Metric(histogram=Histogram(data_points=points, aggregation_temporality=_CUMULATIVE))
        metric.MergeFrom(self._about)
        return metric


class _CounterSeries:
    def __init__(self, name: str, unit: str, description: str) -> None:
        self._about = Metric(name=name, unit=unit, description=description)
        self._series: dict[Labels, _Counter] = {}

    def of(self, labels: Labels) -> _Counter:
        """Return the series with these labels. It is exported when something was counted."""
        return self._series.setdefault(labels, _Counter())

    def message(self, began_ns: int, now_ns: int) -> Metric | None:
        """Return the metric; None while nothing was counted."""
        metric = Metric(sum=Sum(aggregation_temporality=_CUMULATIVE, is_monotonic=True))
        metric.MergeFrom(self._about)
        for labels, total in [(labels, series.total) for labels, series in tuple(self._series.items()) if series.total]:
            point = metric.sum.data_points.add(start_time_unix_nano=began_ns, time_unix_nano=now_ns)
            point.attributes.extend(key_values(dict(labels)))
            if isinstance(total, int):
                point.as_int = total
            else:
                point.as_double = total
        return metric if metric.sum.data_points else None


class _RequestSeries(msgspec.Struct, frozen=True):
    requests: _Counter
    cost: _Counter

    def count(self, record: RequestRecord) -> None:
        self.requests.total += 1
        if record.cost_nusd:
            self.cost.total += record.cost_nusd / NANO


class _CallSeries(msgspec.Struct, frozen=True):
    duration: _Distribution
    first_chunk: _Distribution
    input: _Distribution
    output: _Distribution
    audio: _Counter
    characters: _Counter

    def count(self, attempt: AttemptRecord, usage: Usage | None) -> None:
        self.duration.record(attempt.duration_ms / 1_000)
        if attempt.ttfb_ms is not None:
            self.first_chunk.record(attempt.ttfb_ms / 1_000)
        if usage is None:
            return
        if usage.input_tokens:
            self.input.record(usage.input_tokens)
        if usage.output_tokens:
            self.output.record(usage.output_tokens)
        if usage.audio_seconds:
            self.audio.total += usage.audio_seconds
        if usage.characters:
            self.characters.total += usage.characters


class RecordSeries(msgspec.Struct, frozen=True):
    """Series that count records of a kind."""

    request: _RequestSeries
    call: _CallSeries

    def count(self, record: RequestRecord, attempt: AttemptRecord) -> None:
        """Count a record with a single call of a provider."""
        self.request.count(record)
        self.call.count(attempt, record.usage)


class RecordMetrics:
    def __init__(self, resource: Mapping[str, Value]) -> None:
        """`resource`: attributes of the gateway."""
        self._resource = Resource(attributes=key_values(resource))
        self._began_ns = time.time_ns()
        self._duration = _HistogramSeries(names.DURATION_METRIC, "s", "GenAI operation duration.", SECONDS)
        self._first_chunk = _HistogramSeries(names.FIRST_CHUNK_METRIC, "s", "Time to the first chunk of an answer.", SECONDS)
        self._tokens = _HistogramSeries(names.TOKENS_METRIC, "{token}", "Number of input and output tokens used.", TOKENS)
        self._requests = _CounterSeries("gw.requests", "{request}", "Requests that have ended.")
        self._cost = _CounterSeries("gw.cost", "{USD}", "Known cost of calls of providers.")
        self._audio = _CounterSeries("gw.speech.audio.duration", "s", "Audio transcribed or spoken.")
        self._characters = _CounterSeries("gw.speech.characters", "{character}", "Characters spoken.")
        self._models: set[str] = set()
        self._of_requests: dict[tuple[str, ...], _RequestSeries] = {}
        self._of_calls: dict[tuple[str | None, ...], _CallSeries] = {}

    def observe(self, record: RequestRecord) -> None:
        """Count a record."""
        called = [attempt for attempt in record.attempts if attempt.outcome not in NOT_CALLED]
        self._series_of_request(record).count(record)
        for attempt in called:
            usage = record.usage if len(called) == 1 else usage_of(record, attempt, is_only=False)
            self._series_of_call(record, attempt).count(attempt, usage)

    def series_of(self, record: RequestRecord, attempt: AttemptRecord) -> RecordSeries:
        """Return where to count records like this one, that have a single call of a provider."""
        return RecordSeries(self._series_of_request(record), self._series_of_call(record, attempt))

    def _series_of_request(self, record: RequestRecord) -> _RequestSeries:
        key = (record.modality, record.model_id, record.status)
        return self._of_requests.get(key) or self._keep_request(key, record)

    def _series_of_call(self, record: RequestRecord, attempt: AttemptRecord) -> _CallSeries:
        key = (record.modality, record.endpoint, attempt.model_id, attempt.provider, attempt.outcome, attempt.error_code)
        return self._of_calls.get(key) or self._keep_call(key, record, attempt)

    def _keep_request(self, key: tuple[str, ...], record: RequestRecord) -> _RequestSeries:
        _make_room(self._of_requests)
        labels = ("gw.modality", record.modality), ("gw.model", self._model(record.model_id))
        of_status = *labels, ("gw.status", record.status)
        kept = self._of_requests[key] = _RequestSeries(self._requests.of(of_status), self._cost.of(labels))
        return kept

    def _keep_call(self, key: tuple[str | None, ...], record: RequestRecord, attempt: AttemptRecord) -> _CallSeries:
        _make_room(self._of_calls)
        labels: Labels = (
            (names.OPERATION, names.operation_name(record.modality, record.endpoint)),
            (names.PROVIDER, names.provider_name(attempt.provider_id)),
            (names.REQUEST_MODEL, split_model_id(attempt.model_id)[1] if self._model(attempt.model_id) != OTHER else OTHER),
        )
        if error := error_of(attempt):
            labels += ((names.ERROR_TYPE, error),)
        kept = self._of_calls[key] = _CallSeries(
            self._duration.of(labels), self._first_chunk.of(labels),
            self._tokens.of((*labels, (names.TOKEN_TYPE, "input"))), self._tokens.of((*labels, (names.TOKEN_TYPE, "output"))),
            self._audio.of(labels), self._characters.of(labels),
        )  # fmt: skip
        return kept

    def encode(self) -> bytes | None:
        """Return an ExportMetricsServiceRequest with all series as they are now; None without any."""
        now_ns = time.time_ns()
        series = (self._duration, self._first_chunk, self._tokens, self._requests, self._cost, self._audio, self._characters)
        metrics = [message for each in series if (message := each.message(self._began_ns, now_ns)) is not None]
        if not metrics:
            return None
        scope = ScopeMetrics(scope=InstrumentationScope(name=names.SCOPE), metrics=metrics)
        of_resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope])
        return ExportMetricsServiceRequest(resource_metrics=[of_resource]).SerializeToString()  # type: ignore[no-any-return]

    def _model(self, model_id: str) -> str:
        if model_id not in self._models:
            if len(self._models) >= MAX_MODELS:
                return OTHER
            self._models.add(model_id)
        return model_id


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()
