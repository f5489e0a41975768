"""Encodes spans and logs of records as OTLP's protobuf messages (`opentelemetry-proto`). Runs in the exporting process only.

The SDK's own encoder makes a message of each attribute of each span, which takes longer than all the rest. But most attributes of a request
are those of many others: the model, the provider, the project. So each is encoded once, as a message that has nothing else, and its bytes
are kept. Joined, the bytes of several messages are those of one message with all of their fields
(https://protobuf.dev/programming-guides/encoding/#last-one-wins).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from gw.otel import conventions as names
from gw.otel.spans import Attributes, Span, Value, request_attributes, span_id_of, spans_of, trace_id_of
from gw.types.usage import NANO, RequestRecord

MOST_KEPT = 10_000
"""Attributes whose bytes are kept, about 150 bytes each; when full, all are forgotten: ids of requests, which do not come back, fill it."""
_SAMPLED = 1
_KINDS = {"internal": SpanMessage.SPAN_KIND_INTERNAL, "server": SpanMessage.SPAN_KIND_SERVER, "client": SpanMessage.SPAN_KIND_CLIENT}
_SEVERITIES = {
    "success": ("INFO", SeverityNumber.SEVERITY_NUMBER_INFO), "cancelled": ("INFO", SeverityNumber.SEVERITY_NUMBER_INFO),
    "fallback": ("WARN", SeverityNumber.SEVERITY_NUMBER_WARN), "error": ("ERROR", SeverityNumber.SEVERITY_NUMBER_ERROR),
}  # fmt: skip
_LOCAL = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE = _LOCAL | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_double = Struct("<d").pack


def any_value(value: Value) -> AnyValue:
    """Return a value as a message."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))


def key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    """Return attributes as messages."""
    return [KeyValue(key=name, value=any_value(value)) for name, value in attributes.items()]


class _AttributeBytes:
    """Attributes as parts of a message of one type."""

    def __init__(self, part_of: Callable[[list[KeyValue]], SpanMessage | LogRecord]) -> None:
        self._part_of = part_of
        self._kept: dict[tuple[str, Value], bytes] = {}
        self._before_double: dict[str, bytes] = {}

    def encode(self, attributes: Attributes) -> bytes:
        kept, before = self._kept, self._before_double
        parts: list[bytes] = []
        for name, value in attributes.items():
            if type(value) is float:  # its eight bytes come last in the message
                parts += (before[name] if name in before else self._begin(name), _double(value))
            elif type(value) is list:
                parts.append(self._encoded(name, value))
            else:
                key = (name, value)
                parts.append(kept[key] if key in kept else self._keep(key))
        return b"".join(parts)

    def _begin(self, name: str) -> bytes:
        self._before_double[name] = before = self._encoded(name, 0.0)[: -len(_double(0.0))]
        return before

    def _keep(self, key: tuple[str, Value]) -> bytes:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = encoded = self._encoded(*key)
        return encoded

    def _encoded(self, name: str, value: Value) -> bytes:
        return bytes(self._part_of(key_values({name: value})).SerializeToString())


class OtlpEncoder:
    """Encodes the spans and logs of one gateway."""

    def __init__(self, resource: Mapping[str, Value]) -> None:
        """`resource`: attributes of the gateway."""
        about, scope = Resource(attributes=key_values(resource)), InstrumentationScope(name=names.SCOPE)
        self._of_spans = ResourceSpans(resource=about).SerializeToString(), ScopeSpans(scope=scope).SerializeToString()
        self._of_logs = ResourceLogs(resource=about).SerializeToString(), ScopeLogs(scope=scope).SerializeToString()
        self._span_attributes = _AttributeBytes(lambda attributes: SpanMessage(attributes=attributes))
        self._log_attributes = _AttributeBytes(lambda attributes: LogRecord(attributes=attributes))

    def spans(self, records: Sequence[RequestRecord]) -> bytes:
        """Return an ExportTraceServiceRequest. Raises ValueError for what no message can hold."""
        numbers = (
            ScopeSpans.SPANS_FIELD_NUMBER, ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER
        )  # fmt: skip
        return _request(self._of_spans, numbers, (self._span(span) for record in records for span in spans_of(record)))

    def logs(self, records: Sequence[RequestRecord]) -> bytes:
        """Return an ExportLogsServiceRequest. Raises ValueError for what no message can hold."""
        numbers = (
            ScopeLogs.LOG_RECORDS_FIELD_NUMBER, ResourceLogs.SCOPE_LOGS_FIELD_NUMBER, ExportLogsServiceRequest.RESOURCE_LOGS_FIELD_NUMBER
        )  # fmt: skip
        return _request(self._of_logs, numbers, map(self._log, records))

    def _span(self, span: Span) -> bytes:
        message = SpanMessage(
            trace_id=span.trace_id.to_bytes(16, "big"), span_id=span.span_id.to_bytes(8, "big"), trace_state=span.trace_state,
            parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"", name=span.name, kind=_KINDS[span.kind],
            start_time_unix_nano=span.start_ns, end_time_unix_nano=span.end_ns, flags=_REMOTE if span.parent_is_remote else _LOCAL,
        )  # fmt: skip
        if span.error:
            message.status.code, message.status.message = Status.STATUS_CODE_ERROR, span.error
        for event in span.events:
            message.events.add(time_unix_nano=event.at_ns, name=event.name, attributes=key_values(event.attributes))
        for trace_id, span_id in span.links:
            message.links.add(trace_id=trace_id.to_bytes(16, "big"), span_id=span_id.to_bytes(8, "big"), flags=_LOCAL)
        return b"".join((message.SerializeToString(), self._span_attributes.encode(span.attributes)))

    def _log(self, record: RequestRecord) -> bytes:
        text, number = _SEVERITIES[record.status]
        ended_ns = int((record.timestamp + record.total_latency_ms / 1_000) * NANO)
        message = LogRecord(
            time_unix_nano=ended_ns, observed_time_unix_nano=ended_ns, severity_text=text, severity_number=number,
            body=AnyValue(string_value=f"{record.modality} {record.status}"), event_name="gw.request", flags=_SAMPLED,
            trace_id=trace_id_of(record).to_bytes(16, "big"), span_id=span_id_of(record.id).to_bytes(8, "big"),
        )  # fmt: skip
        return b"".join((message.SerializeToString(), self._log_attributes.encode(request_attributes(record))))


def _request(beginnings: tuple[bytes, bytes], numbers: tuple[int, int, int], entries: Iterable[bytes]) -> bytes:
    """Return the bytes of a request: entries in a scope, the scope in a resource, the resource in the request."""
    of_resource, of_scope = beginnings
    in_scope, in_resource, in_request = numbers
    scope = b"".join((of_scope, *(_field(in_scope, entry) for entry in entries)))
    return _field(in_request, of_resource + _field(in_resource, scope))


def _field(number: int, message: bytes) -> bytes:
    """Return the bytes of a message as a field of another one: its number and type, its length, itself.

    Numbers up to 15 and lengths as in https://protobuf.dev/programming-guides/encoding/#structure: seven bits in a byte, the lowest first.
    """
    head, length = bytearray((number << 3 | 2,)), len(message)
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + message
