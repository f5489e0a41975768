"""OpenTelemetry metrics of records: the GenAI conventions' histograms, and counters of our own."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from opentelemetry.sdk.resources import Resource

from gw.otel import conventions as names
from gw.otel.spans import Attributes, attempt_attributes, calls_of
from gw.types.usage import NANO, RequestRecord

MAX_MODELS = 1_000
"""Models with series of their own in one process; callers can make up names where a wildcard allows them. Later ones are `other`."""
OTHER = "other"


class RecordMetrics:
    def __init__(self, resource: Resource) -> None:
        self._reader = InMemoryMetricReader()
        meter = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False).get_meter(names.SCOPE)
        self._duration = meter.create_histogram(names.DURATION_METRIC, "s", "GenAI operation duration.")
        self._first_chunk = meter.create_histogram(names.FIRST_CHUNK_METRIC, "s", "Time to the first chunk of an answer.")
        self._tokens = meter.create_histogram(names.TOKENS_METRIC, "{token}", "Input and output tokens used.")
        self._requests = meter.create_counter("gw.requests", "{request}", "Requests that have ended.")
        self._cost = meter.create_counter("gw.cost", "{USD}", "Known cost of calls of providers.")
        self._audio = meter.create_counter("gw.speech.audio.duration", "s", "Audio transcribed or spoken.")
        self._characters = meter.create_counter("gw.speech.characters", "{character}", "Characters spoken.")
        self._models: set[str] = set()

    def observe(self, record: RequestRecord) -> None:
        """Count a record."""
        self._requests.add(1, {"gw.modality": record.modality, "gw.status": record.status, "gw.model": self._model(record.model_id)})
        called = calls_of(record)
        for _, attempt in called:
            facts = attempt_attributes(record, attempt, is_only=len(called) == 1)
            labels: Attributes = {name: facts[name] for name in (names.OPERATION, names.PROVIDER, names.ERROR_TYPE) if name in facts}
            labels[names.REQUEST_MODEL] = facts[names.REQUEST_MODEL] if self._model(attempt.model_id) != OTHER else OTHER
            self._duration.record(attempt.duration_ms / 1_000, labels)
            if attempt.ttfb_ms is not None:
                self._first_chunk.record(attempt.ttfb_ms / 1_000, labels)
            for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
                if tokens := facts.get(name):
                    self._tokens.record(_number(tokens), labels | {names.TOKEN_TYPE: kind})
            for counter, name in ((self._audio, "gw.speech.audio.duration"), (self._characters, "gw.speech.characters")):
                if amount := facts.get(name):
                    counter.add(_number(amount), labels)
        if record.cost_nusd:
            self._cost.add(record.cost_nusd / NANO, {"gw.modality": record.modality, "gw.model": self._model(record.model_id)})

    def collect(self) -> MetricsData | None:
        """Return all series as they are now; None without any."""
        return self._reader.get_metrics_data()

    def _model(self, model_id: str) -> str:
        if model_id not in self._models:
            if len(self._models) >= MAX_MODELS:
                return OTHER
            self._models.add(model_id)
        return model_id


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
