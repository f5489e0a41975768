"""Encodes spans and logs of records as OTLP's protobuf messages (`opentelemetry-proto`). Runs in the exporting process only.

The SDK's own encoder makes a message of each attribute of each span, which takes longer than all the rest. But most attributes of a request
are those of many others: the model, the provider, the project. So each is encoded once, as a message that has nothing else, and its bytes
are kept. Joined, the bytes of several messages are those of one message with all of their fields
(https://protobuf.dev/programming-guides/encoding/#last-one-wins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from gw.otel import conventions as names
from gw.otel.spans import Attributes, Span, Value, span_id_of, trace_id_of
from gw.types.usage import NANO, RequestRecord

MOST_KEPT = 10_000
"""Attributes whose bytes are kept, about 150 bytes each; when full, all are forgotten: ids, which do not come back, may fill it."""
MOST_COUNTS = 4_096
_SAMPLED = 1
_KINDS = {"internal": SpanMessage.SPAN_KIND_INTERNAL, "server": SpanMessage.SPAN_KIND_SERVER, "client": SpanMessage.SPAN_KIND_CLIENT}
_SEVERITIES = {
    "success": ("INFO", SeverityNumber.SEVERITY_NUMBER_INFO), "cancelled": ("INFO", SeverityNumber.SEVERITY_NUMBER_INFO),
    "fallback": ("WARN", SeverityNumber.SEVERITY_NUMBER_WARN), "error": ("ERROR", SeverityNumber.SEVERITY_NUMBER_ERROR),
}  # fmt: skip
LOCAL = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
REMOTE = LOCAL | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
SPANS_FIELD, LOGS_FIELD = ScopeSpans.SPANS_FIELD_NUMBER, ScopeLogs.LOG_RECORDS_FIELD_NUMBER
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


class AttributeParts:
    """Attributes as parts of a message."""

    def __init__(self, message: type[SpanMessage | LogRecord] | None = None) -> None:
        """`message`: type of the message; None = of any type, so the parts lack the tag that precedes each (`ATTRIBUTE`)."""
        self._tag = b"" if message is None else ATTRIBUTE[message]
        self._kept: dict[tuple[str, Value], bytes] = {}
        self._before_double: dict[str, bytes] = {}
        self._before_text: dict[tuple[str, int], bytes] = {}
        self._before_count: dict[str, Sequence[bytes]] = {}

    def of(self, attributes: Attributes) -> list[bytes]:
        return [self.part(name, value) for name, value in attributes.items()]

    def part(self, name: str, value: Value) -> bytes:
        """Return an attribute of which the value may come again: its bytes are kept."""
        if type(value) is float:
            return self.double(name, value)
        if type(value) is list:
            return self._encoded(name, value)
        key = (name, value)
        return self._kept[key] if key in self._kept else self._keep(key)

    def double(self, name: str, value: float) -> bytes:
        return self.before_double(name) + _double(value)

    def before_double(self, name: str) -> bytes:
        """Return what precedes the eight bytes of a number."""
        before = self._before_double.get(name)
        if before is None:
            before = self._before_double[name] = self._encoded(name, 0.0)[: -len(_double(0.0))]
        return before

    def count(self, name: str, value: int) -> bytes:
        """Return an attribute that is a whole number. What precedes one of at least 0 depends on its length in bytes alone: 1 to 9."""
        if not 0 <= value < 2**63:
            return self.part(name, value)
        number = LENGTHS[value]
        before = self._before_count.get(name)
        if before is None:
            before = self._before_count[name] = [self._encoded(name, 128**size // 2)[:-size] for size in range(1, 10)]
        return before[len(number) - 1] + number

    def text(self, name: str, value: str) -> bytes:
        """Return an attribute of which the value does not come again. What precedes the text depends on its length alone."""
        text = value.encode()
        before = self._before_text.get((name, len(text)))
        if before is None:
            if len(self._before_text) >= MOST_KEPT:
                self._before_text.clear()
            whole = self._encoded(name, "x" * len(text))
            before = self._before_text[name, len(text)] = whole[: len(whole) - len(text)]
        return before + text

    def _keep(self, key: tuple[str, Value]) -> bytes:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = encoded = self._encoded(*key)
        return encoded

    def _encoded(self, name: str, value: Value) -> bytes:
        message = KeyValue(key=name, value=any_value(value)).SerializeToString()
        return b"".join((self._tag, LENGTHS[len(message)], message))


class BeforeTexts(dict[int, bytes]):
    """Beginnings of an attribute that is a text, by the text's length in bytes."""

    def __init__(self, parts: AttributeParts, name: str) -> None:
        self._parts, self._name = parts, name

    def __missing__(self, size: int) -> bytes:
        before = self._parts.text(self._name, "x" * size)
        before = before[: len(before) - size]
        if len(self) < MOST_COUNTS:
            self[size] = before
        return before


class CountParts(dict[int, bytes]):
    """Bytes of an attribute that is a whole number, by the number. Those of the first MOST_COUNTS numbers are kept."""

    def __init__(self, parts: AttributeParts, name: str) -> None:
        self._parts, self._name = parts, name

    def __missing__(self, value: int) -> bytes:
        encoded = self._parts.count(self._name, value)
        if len(self) < MOST_COUNTS:
            self[value] = encoded
        return encoded


def _varint(value: int) -> bytes:
    head = bytearray()
    while value > 0x7F:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    head.append(value)
    return bytes(head)


class _Lengths(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        return _varint(value)


LENGTHS = _Lengths((value, _varint(value)) for value in range(4_096))
"""Lengths as they are written before a message, or numbers that are not negative: seven bits in a byte, the lowest first.

https://protobuf.dev/programming-guides/encoding/#varints.
"""


def field(number: int, message: bytes) -> bytes:
    """Return a message as a field of another one, with a number up to 15."""
    return b"".join((_tag(number), LENGTHS[len(message)], message))


def _tag(number: int) -> bytes:
    """Return the number and type of a field that holds a message (https://protobuf.dev/programming-guides/encoding/#structure)."""
    return bytes((number << 3 | 2,))


ATTRIBUTE = {message: _tag(message.ATTRIBUTES_FIELD_NUMBER) for message in (SpanMessage, LogRecord)}
"""Tag that precedes an attribute in each type of message."""


def span_message(span: Span, parts: AttributeParts) -> bytes:
    """Return the bytes of a Span. Raises ValueError for what no message can hold."""
    message = SpanMessage(
        trace_id=span.trace_id.to_bytes(16, "big"), span_id=span.span_id.to_bytes(8, "big"), trace_state=span.trace_state,
        parent_span_id=span.parent_id.to_bytes(8, "big") if span.parent_id else b"", name=span.name, kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_ns, end_time_unix_nano=span.end_ns, flags=REMOTE if span.parent_is_remote else LOCAL,
    )  # fmt: skip
    if span.error:
        message.status.code, message.status.message = Status.STATUS_CODE_ERROR, span.error
    for event in span.events:
        message.events.add(time_unix_nano=event.at_ns, name=event.name, attributes=key_values(event.attributes))
    for trace_id, span_id in span.links:
        message.links.add(trace_id=trace_id.to_bytes(16, "big"), span_id=span_id.to_bytes(8, "big"), flags=LOCAL)
    return b"".join((message.SerializeToString(), *parts.of(span.attributes)))


def log_message(record: RequestRecord, attributes: Attributes, parts: AttributeParts) -> bytes:
    """Return the bytes of a record's LogRecord. Raises ValueError for what no message can hold."""
    text, number = _SEVERITIES[record.status]
    ended_ns = int((record.timestamp + record.total_latency_ms / 1_000) * NANO)
    message = LogRecord(
        time_unix_nano=ended_ns, observed_time_unix_nano=ended_ns, severity_text=text, severity_number=number,
        body=AnyValue(string_value=f"{record.modality} {record.status}"), event_name="gw.request", flags=_SAMPLED,
        trace_id=trace_id_of(record).to_bytes(16, "big"), span_id=span_id_of(record.id).to_bytes(8, "big"),
    )  # fmt: skip
    return b"".join((message.SerializeToString(), *parts.of(attributes)))


class ExportRequests:
    """Requests of one gateway, made of messages that are encoded already."""

    def __init__(self, resource: Mapping[str, Value]) -> None:
        """`resource`: attributes of the gateway."""
        about, scope = Resource(attributes=key_values(resource)), InstrumentationScope(name=names.SCOPE)
        self._of_spans = ResourceSpans(resource=about).SerializeToString(), ScopeSpans(scope=scope).SerializeToString()
        self._of_logs = ResourceLogs(resource=about).SerializeToString(), ScopeLogs(scope=scope).SerializeToString()

    def traces(self, spans: Iterable[bytes]) -> bytes:
        """Return an ExportTraceServiceRequest. `spans`: entries of a scope (`SPANS_FIELD`), one or more in each."""
        in_resource, in_request = ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER
        return _request(self._of_spans, in_resource, in_request, spans)

    def logs(self, records: Iterable[bytes]) -> bytes:
        """Return an ExportLogsServiceRequest. `records`: entries of a scope (`LOGS_FIELD`)."""
        in_resource, in_request = ResourceLogs.SCOPE_LOGS_FIELD_NUMBER, ExportLogsServiceRequest.RESOURCE_LOGS_FIELD_NUMBER
        return _request(self._of_logs, in_resource, in_request, records)


def _request(beginnings: tuple[bytes, bytes], in_resource: int, in_request: int, entries: Iterable[bytes]) -> bytes:
    """Return the bytes of a request: entries in a scope, the scope in a resource, the resource in the request.

    They are joined once, since half a megabyte is in memory that the system has to give out for each copy.
    """
    of_resource, of_scope = beginnings
    entries = tuple(entries)
    in_scope = len(of_scope) + sum(map(len, entries))
    of_resource = b"".join((of_resource, _tag(in_resource), LENGTHS[in_scope]))
    return b"".join((_tag(in_request), LENGTHS[len(of_resource) + in_scope], of_resource, of_scope, *entries))
