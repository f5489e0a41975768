"""A receiver of OTLP over HTTP that decodes every export strictly, with the messages of `opentelemetry-proto`, and answers as scripted.

Shapes: an OpenTelemetry Collector, and Jaeger, whose receiver is the collector's (`POST /v1/traces`, 200 with an ExportTraceServiceResponse
in protobuf; errors as google.rpc.Status; OTLP specification 1.9, "OTLP/HTTP Response"); Langfuse (`/api/public/otel`, Basic credentials,
401 without; langfuse/langfuse web/src/pages/api/public/otel/v1/traces/index.ts).
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PROTOBUF = "application/x-protobuf"
KINDS: dict[str, tuple[type[Any], type[Any]]] = {
    "traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}
Answer = tuple[int, dict[str, str], bytes]


@attrs.frozen
class ReceivedSpan:
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    status: int
    status_message: str
    trace_state: str
    events: list[tuple[str, dict[str, Any]]]
    links: list[tuple[str, str]]
    resource: dict[str, Any]


@attrs.define
class Receiver:
    """`answers` are given to the next exports, one each; then every export is accepted."""

    url: str = ""
    prefix: str = ""
    authorization: str = ""
    answers: list[Answer] = attrs.field(factory=list)
    spans: list[ReceivedSpan] = attrs.field(factory=list)
    metrics: dict[str, list[Any]] = attrs.field(factory=dict)
    logs: list[Any] = attrs.field(factory=list)
    requests: list[tuple[str, dict[str, str]]] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    """What is wrong with what was received; a test that uses the receiver fails by it."""
    changed: threading.Condition = attrs.field(factory=threading.Condition)

    def wait_for(self, condition: Callable[[], object], within_s: float = 60.0) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, within_s):
                names = [span.name for span in self.spans]
                raise AssertionError(f"not received within {within_s} s; faults {self.faults}, requests {self.requests}, spans {names}")

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self.changed:
            self.requests.append((path, headers))
            try:
                return self._answer(path, headers, body)
            finally:
                self.changed.notify_all()

    def _answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        signal = path.removeprefix(self.prefix + "/v1/")
        if signal not in KINDS:
            return 404, {"content-type": "application/json"}, b'{"message":"Not Found"}'
        if self.authorization and headers.get("authorization") != self.authorization:
            return 401, {"content-type": "application/json"}, b'{"message":"Invalid authorization header"}'
        if self.answers:
            answer = self.answers.pop(0)
            if answer[0] != 200:
                return answer
        else:
            answer = 200, {"content-type": PROTOBUF}, KINDS[signal][1]().SerializeToString()
        if headers.get("content-type") != PROTOBUF:
            self.faults.append(f"content-type {headers.get('content-type')}")
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        message = KINDS[signal][0].FromString(body)
        self.faults += _unknown(message)
        getattr(self, f"_take_{signal}")(message)
        return answer

    def _take_traces(self, message: Any) -> None:
        for of_resource in message.resource_spans:
            resource = _values(of_resource.resource.attributes)
            for scope in of_resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(_span(span, resource))
                    self.faults += _span_faults(span)

    def _take_metrics(self, message: Any) -> None:
        for of_resource in message.resource_metrics:
            for scope in of_resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    self.metrics[metric.name] = [(_values(point.attributes), point) for point in data.data_points]

    def _take_logs(self, message: Any) -> None:
        for of_resource in message.resource_logs:
            for scope in of_resource.scope_logs:
                self.logs += scope.log_records


def _span(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, span.kind, span.start_time_unix_nano,
        span.end_time_unix_nano, _values(span.attributes), span.status.code, span.status.message, span.trace_state,
        [(event.name, _values(event.attributes)) for event in span.events],
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links], resource,
    )  # fmt: skip


def _span_faults(span: Any) -> Iterator[str]:
    if len(span.trace_id) != 16 or not any(span.trace_id):
        yield f"trace id {span.trace_id.hex()}"
    if len(span.span_id) != 8 or not any(span.span_id):
        yield f"span id {span.span_id.hex()}"
    if span.parent_span_id and (len(span.parent_span_id) != 8 or not any(span.parent_span_id)):
        yield f"parent id {span.parent_span_id.hex()}"
    if not span.name or not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
        yield f"span {span.name!r} from {span.start_time_unix_nano} to {span.end_time_unix_nano}"
    names = [attribute.key for attribute in span.attributes]
    if len(names) != len(set(names)) or "" in names:
        yield f"attributes {names}"


def _values(attributes: Any) -> dict[str, Any]:
    def value(any_value: Any) -> Any:
        kind = any_value.WhichOneof("value")
        return [value(each) for each in any_value.array_value.values] if kind == "array_value" else getattr(any_value, kind)

    return {attribute.key: value(attribute.value) for attribute in attributes}


def _unknown(message: Message) -> Iterator[str]:
    """Yield the fields that the protocol's messages do not have, at any depth."""
    if len(UnknownFieldSet(message)):
        yield f"unknown fields in {message.DESCRIPTOR.full_name}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from _unknown(each)


def partial(rejected: int) -> Answer:
    """An answer that accepts all but some spans."""
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = "too old"
    return 200, {"content-type": PROTOBUF}, response.SerializeToString()


@contextmanager
def otlp_receiver(*, prefix: str = "", authorization: str = "", port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(prefix=prefix, authorization=authorization)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, answer = receiver.answer(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}{prefix}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
    assert receiver.faults == []
