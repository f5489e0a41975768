"""OpenTelemetry metrics of records: the GenAI conventions' histograms, and counters of our own. Runs in the exporting process only.

They are counted here and not by the SDK, whose instruments take as long for one request as all of its spans.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs
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
from gw.otel.spans import Value, calls_of, error_of, usage_of
from gw.types.ids import split_model_id
from gw.types.usage import NANO, AttemptRecord, RequestRecord

MAX_MODELS = 1_000
"""Models with series of their own in one process; callers can make up names where a wildcard allows them. Later ones are `other`."""
OTHER = "other"
SECONDS = tuple(0.01 * 2**n for n in range(14))
TOKENS = tuple(4**n for n in range(14))
"""Bounds of the histograms: open-telemetry/semantic-conventions-genai docs/gen-ai/gen-ai-metrics.md, 2026."""
MOST_KEPT = 4_096
"""Kinds of requests and of calls whose labels are kept; when full, all are forgotten: the labels themselves are bounded by MAX_MODELS."""
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


@attrs.frozen(eq=False)
class Labels:
    """Labels of a series. There is one object for each set (`RecordMetrics._labels`), which is found faster than a set of texts."""

    texts: dict[str, str]


class _CallLabels(NamedTuple):
    call: Labels
    of_input: Labels
    of_output: Labels


class _Distribution:
    """Values of one series in the buckets of a histogram."""

    __slots__ = ("counts", "highest", "lowest", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total, self.lowest, self.highest = 0.0, float("inf"), float("-inf")


class _HistogramSeries:
    def __init__(self, name: str, unit: str, description: str, bounds: Sequence[float]) -> None:
        self._about = Metric(name=name, unit=unit, description=description)
        self._bounds = bounds
        self._series: dict[Labels, _Distribution] = {}

    def __len__(self) -> int:
        return len(self._series)

    def record(self, value: float, labels: Labels) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Distribution(len(self._bounds) + 1)
        series.counts[bisect_left(self._bounds, value)] += 1  # a bound belongs to the bucket below it
        series.total += value
        if value < series.lowest:
            series.lowest = value
        if value > series.highest:
            series.highest = value

    def message(self, began_ns: int, now_ns: int) -> Metric:
        """Return the metric; without points while nothing was counted."""
        points = [
            HistogramDataPoint(
                attributes=key_values(labels.texts), start_time_unix_nano=began_ns, time_unix_nano=now_ns, count=sum(series.counts),
                sum=series.total, bucket_counts=series.counts, explicit_bounds=self._bounds, min=series.lowest, max=series.highest,
            )
            for labels, series in self._series.items()
        ]  # fmt: skip
        metric = Metric(histogram=Histogram(data_points=points, aggregation_temporality=_CUMULATIVE))
        metric.MergeFrom(self._about)
        return metric


class _CounterSeries:
    def __init__(self, name: str, unit: str, description: str) -> None:
        self._about = Metric(name=name, unit=unit, description=description)
        self._series: dict[Labels, float] = {}

    def __len__(self) -> int:
        return len(self._series)

    def add(self, amount: float, labels: Labels) -> None:
        self._series[labels] = self._series.get(labels, 0) + amount

    def message(self, began_ns: int, now_ns: int) -> Metric:
        """Return the metric; without points while nothing was counted."""
        metric = Metric(sum=Sum(aggregation_temporality=_CUMULATIVE, is_monotonic=True))
        metric.MergeFrom(self._about)
        for labels, total in self._series.items():
            point = metric.sum.data_points.add(start_time_unix_nano=began_ns, time_unix_nano=now_ns)
            point.attributes.extend(key_values(labels.texts))
            if isinstance(total, int):
                point.as_int = total
            else:
                point.as_double = total
        return metric


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
        self._sets: dict[tuple[tuple[str, str], ...], Labels] = {}
        self._of_requests: dict[tuple[str, ...], tuple[Labels, Labels]] = {}
        self._of_calls: dict[tuple[str | None, ...], _CallLabels] = {}

    def observe(self, record: RequestRecord) -> None:
        """Count a record."""
        request, with_status = self._request_labels(record)
        self._requests.add(1, with_status)
        called = calls_of(record)
        for _, attempt in called:
            labels = self._call_labels(record, attempt)
            self._duration.record(attempt.duration_ms / 1_000, labels.call)
            if attempt.ttfb_ms is not None:
                self._first_chunk.record(attempt.ttfb_ms / 1_000, labels.call)
            if (usage := usage_of(record, attempt, is_only=len(called) == 1)) is None:
                continue
            if usage.input_tokens:
                self._tokens.record(usage.input_tokens, labels.of_input)
            if usage.output_tokens:
                self._tokens.record(usage.output_tokens, labels.of_output)
            if usage.audio_seconds:
                self._audio.add(usage.audio_seconds, labels.call)
            if usage.characters:
                self._characters.add(usage.characters, labels.call)
        if record.cost_nusd:
            self._cost.add(record.cost_nusd / NANO, request)

    def _request_labels(self, record: RequestRecord) -> tuple[Labels, Labels]:
        """Return the labels of a request without its status, and with it."""
        key = (record.modality, record.model_id, record.status)
        kept = self._of_requests.get(key)
        if kept is None:
            _make_room(self._of_requests)
            labels = {"gw.modality": record.modality, "gw.model": self._model(record.model_id)}
            kept = self._of_requests[key] = self._labels(labels), self._labels(labels | {"gw.status": record.status})
        return kept

    def _call_labels(self, record: RequestRecord, attempt: AttemptRecord) -> _CallLabels:
        key = (record.modality, record.endpoint, attempt.model_id, attempt.provider, attempt.outcome, attempt.error_code)
        kept = self._of_calls.get(key)
        if kept is None:
            _make_room(self._of_calls)
            labels = {
                names.OPERATION: names.operation_name(record.modality, record.endpoint),
                names.PROVIDER: names.provider_name(attempt.provider_id),
                names.REQUEST_MODEL: split_model_id(attempt.model_id)[1] if self._model(attempt.model_id) != OTHER else OTHER,
            }
            if error := error_of(attempt):
                labels[names.ERROR_TYPE] = error
            kept = self._of_calls[key] = _CallLabels(
                self._labels(labels), *(self._labels(labels | {names.TOKEN_TYPE: kind}) for kind in ("input", "output"))
            )
        return kept

    def _labels(self, labels: dict[str, str]) -> Labels:
        return self._sets.setdefault(tuple(labels.items()), Labels(labels))

    def encode(self) -> bytes | None:
        """Return an ExportMetricsServiceRequest with all series as they are now; None without any."""
        now_ns = time.time_ns()
        series = (self._duration, self._first_chunk, self._tokens, self._requests, self._cost, self._audio, self._characters)
        metrics = [each.message(self._began_ns, now_ns) for each in series if each]
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
