"""Sends spans, logs and metrics of records with OpenTelemetry's SDK and its OTLP/HTTP exporters. Runs in the exporting process only.

The SDK's exporters tell success from failure and no more. A session of `requests` that notes the last response says the remainder:
whether to try again, when (`Retry-After`), and how many spans a collector did not accept in spite of status 200 (partial success).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import requests
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gw.otel import conventions as names
from gw.otel.export_messages import ExportStart, Signal
from gw.otel.record_metrics import RecordMetrics
from gw.otel.spans import Span, request_attributes, span_id_of, spans_of, trace_id_of
from gw.types.usage import NANO, RequestRecord

TIMEOUT_S = 10.0
"""For a request and the SDK's own repetitions of it, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise."""
AGAIN = frozenset((408, 429, 502, 503, 504))
"""Statuses after which the same data is sent again (OTLP specification 1.9, "Retryable Response Codes"; 408 by HTTP)."""
_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_SEVERITIES = {
    "success": ("INFO", SeverityNumber.INFO), "cancelled": ("INFO", SeverityNumber.INFO), "fallback": ("WARN", SeverityNumber.WARN),
    "error": ("ERROR", SeverityNumber.ERROR),
}  # fmt: skip
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope(names.SCOPE)


class Sent(NamedTuple):
    """Result of one signal. `error` "" = accepted; `rejected`: spans of an accepted export that the collector did not take."""

    error: str = ""
    again: bool = False
    retry_after_s: float = 0.0
    rejected: int = 0


class _NotingSession(requests.Session):
    """Notes the last response or the last fault. Redirects are not followed: headers with credentials would go along."""

    def __init__(self) -> None:
        super().__init__()
        self.response: requests.Response | None = None
        self.fault = ""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        self.response, self.fault = None, ""
        try:
            self.response = super().request(*args, **kwargs | {"allow_redirects": False})
        except requests.RequestException as error:
            self.fault = _why(error)
            raise
        return self.response


def _why(error: Exception) -> str:
    """Return the innermost reason of a fault of `requests`, which wraps it several times and adds the address."""
    innermost: BaseException = error
    while (inner := innermost.__cause__ or innermost.__context__) is not None:
        innermost = inner
    return os.strerror(innermost.errno) if isinstance(innermost, OSError) and innermost.errno else type(innermost).__name__


class OtlpSender:
    """One exporter for each signal."""

    def __init__(self, start: ExportStart) -> None:
        self._start = start
        self._session = _NotingSession()
        facts = {"service.name": start.service or os.environ.get("OTEL_SERVICE_NAME") or "gw"}
        facts |= {"service.version": start.version, "service.instance.id": start.instance}
        self._resource = Resource.create(facts)
        timed = any(name.startswith("OTEL_EXPORTER_OTLP") and name.endswith("TIMEOUT") for name in os.environ)
        options: dict[str, Any] = {"session": self._session, "headers": start.headers or None, "timeout": None if timed else TIMEOUT_S}
        self._spans = OTLPSpanExporter(endpoint=self._address("traces"), **options)
        self._logs = OTLPLogExporter(endpoint=self._address("logs"), **options)
        self._metric_exporter = OTLPMetricExporter(endpoint=self._address("metrics"), **options)
        self.metrics = RecordMetrics(self._resource)

    def _address(self, signal: Signal) -> str | None:
        return f"{self._start.endpoint.rstrip('/')}/v1/{signal}" if self._start.endpoint else None

    def send(self, signal: Signal, records: Sequence[RequestRecord]) -> Sent:
        """Send the spans or the logs of records, or all metrics as they are now. Blocks, for TIMEOUT_S."""
        self._session.response, self._session.fault = None, ""
        if signal == "traces":
            self._spans.export([self._span(span) for record in records for span in spans_of(record)])
        elif signal == "logs":
            self._logs.export([self._log(record) for record in records])
        elif (data := self.metrics.collect()) is not None:
            self._metric_exporter.export(data)
        else:
            return Sent()
        return self._result(signal)

    def _result(self, signal: Signal) -> Sent:
        response = self._session.response
        if response is None:
            return Sent(error=f"{signal}: {self._session.fault or 'it could not be encoded'}", again=bool(self._session.fault))
        if response.status_code // 100 == 2:
            return self._accepted(response) if signal == "traces" else Sent()
        again = response.status_code in AGAIN
        return Sent(f"{signal}: the collector answered {response.status_code}", again, _retry_after_s(response) if again else 0.0)

    def _accepted(self, response: requests.Response) -> Sent:
        if not response.headers.get("content-type", "").startswith("application/x-protobuf"):
            return Sent()
        try:
            partial = ExportTraceServiceResponse.FromString(response.content).partial_success
        except Exception:  # protobuf's DecodeError: the status says that it is accepted
            return Sent()
        rejected = int(partial.rejected_spans)
        return Sent(error=f"traces: the collector rejected {rejected} spans" if rejected else "", rejected=rejected)

    def _span(self, span: Span) -> ReadableSpan:
        state = TraceState.from_header([span.trace_state]) if span.trace_state else None

        def context(trace_id: int, span_id: int, *, remote: bool = False) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote=remote, trace_flags=_SAMPLED, trace_state=state)

        return ReadableSpan(
            name=span.name, context=context(span.trace_id, span.span_id), resource=self._resource, kind=_KINDS[span.kind],
            parent=context(span.trace_id, span.parent_id, remote=span.parent_is_remote) if span.parent_id else None,
            attributes=span.attributes, start_time=span.start_ns, end_time=span.end_ns, instrumentation_scope=_SCOPE,
            events=[Event(event.name, event.attributes, event.at_ns) for event in span.events],
            links=[Link(context(*link)) for link in span.links],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        )  # fmt: skip

    def _log(self, record: RequestRecord) -> ReadableLogRecord:
        text, number = _SEVERITIES[record.status]
        ended_ns = int((record.timestamp + record.total_latency_ms / 1_000) * NANO)
        log = LogRecord(
            timestamp=ended_ns, observed_timestamp=ended_ns, severity_text=text, severity_number=number,
            body=f"{record.modality} {record.status}", attributes=dict(request_attributes(record)), event_name="gw.request",
        )  # fmt: skip
        log.trace_id, log.span_id, log.trace_flags = trace_id_of(record), span_id_of(record.id), _SAMPLED
        return ReadableLogRecord(log, self._resource, _SCOPE)

    def count(self, records: Iterable[RequestRecord]) -> None:
        """Count records in the metrics, once each."""
        for record in records:
            self.metrics.observe(record)


def _retry_after_s(response: requests.Response) -> float:
    """Return the seconds of `Retry-After`; 0 without it. A date is not worth a parser here: the usual pauses follow."""
    value = response.headers.get("retry-after", "").strip()
    return min(float(value), 3_600.0) if value.isdigit() else 0.0
