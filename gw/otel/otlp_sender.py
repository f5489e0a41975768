"""Sends spans, logs and metrics of records with the OTLP/HTTP exporters of OpenTelemetry's SDK. Runs in the exporting process only.

The exporters know the standard variables, certificates and compression, send, and try again. What they are given to export is empty; the
session of `requests` that they use puts the bytes of `gw.otel.record_encoding` in its place, which take a fraction of the time.

They tell success from failure and no more. The session notes the last response, which says the remainder: whether to try again, when
(`Retry-After`), and how many spans a collector did not accept in spite of status 200 (partial success).
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import requests
import requests.cookies
import urllib3
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.resources import Resource
from requests.adapters import HTTPAdapter

from gw.otel.export_messages import ExportStart, Signal
from gw.otel.otlp_encoding import ExportRequests
from gw.otel.record_metrics import RecordMetrics

TIMEOUT_S = 10.0
"""For a request and the SDK's own repetitions of it, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise."""
AGAIN = frozenset((408, 429, 502, 503, 504))
"""Statuses after which the same data is sent again (OTLP specification 1.9, "Retryable Response Codes"; 408 by HTTP)."""
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


class Sent(NamedTuple):
    """Result of one signal. `error` "" = accepted; `rejected`: spans of an accepted export that the collector did not take."""

    error: str = ""
    again: bool = False
    retry_after_s: float = 0.0
    rejected: int = 0


class ExportAnswer(NamedTuple):
    """Response of a collector, read to its end."""

    status_code: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class _Prepared:
    """Facts that all requests to an address have in common, and the connections for them."""

    def __init__(self, request: requests.PreparedRequest, adapter: HTTPAdapter, *, verify: Any, cert: Any, proxies: Any, **_: Any) -> None:
        """Take the settings of `requests.Session.merge_environment_settings`."""
        self.request = request
        self._connections = adapter.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        adapter.cert_verify(self._connections, str(request.url), verify, cert)
        self._url, self._headers = adapter.request_url(request, proxies), {name: str(value) for name, value in request.headers.items()}
        self._compress = _COMPRESS.get(str(request.headers.get("content-encoding", "")), bytes)

    def send(self, body: bytes, timeout: float | None) -> urllib3.BaseHTTPResponse:
        """Send a body and return the response, read to its end. Raises OSError and the errors of urllib3; ValueError for a timeout of 0."""
        body = self._compress(body)
        self._headers["Content-Length"] = str(len(body))
        return self._connections.urlopen(
            str(self.request.method), self._url, body, self._headers, retries=False, redirect=False, assert_same_host=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
        )  # fmt: skip


class _Session(requests.Session):
    """Sends `body`, and notes the last response or the last fault. Redirects are not followed: headers with credentials would go along.

    What all requests to an address have in common is prepared once, with the proxies, certificates and `.netrc` of the environment. Then
    the connections that the adapter has for them (urllib3) send it: with all that `requests` does for each request, an export takes twice
    the time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._prepared: dict[Any, _Prepared] = {}
        self.body = b""
        self.response: ExportAnswer | None = None
        self.fault = ""

    def request(  # type: ignore[override]  # the arguments that the exporters give it, and what they read of the response
        self, method: str, url: str, *, headers: dict[str, str] | None, timeout: float | None, **_: Any
    ) -> ExportAnswer:
        self.response = None
        try:
            prepared = self._prepare(method, url, headers or {})
            response = prepared.send(self.body, timeout)
        except (urllib3.exceptions.HTTPError, OSError) as error:  # those of `requests` are an OSError
            self.fault = _why(error)
            raise requests.ConnectionError(error) from error
        except ValueError:  # a timeout of 0 s, since the exporter's own deadline has passed between two attempts
            self.fault = self.fault or "no answer in time"
            raise
        if "set-cookie" in response.headers:
            requests.cookies.extract_cookies_to_jar(self.cookies, prepared.request, response)
        if len(self.cookies):
            self._prepared.clear()  # the next request has those that are valid then
        self.response = ExportAnswer(response.status, response.reason or "", response.headers, response.data)
        return self.response

    def _prepare(self, method: str, url: str, headers: dict[str, str]) -> _Prepared:
        key = url, *headers.items()
        prepared = self._prepared.get(key)
        if prepared is None:
            request = self.prepare_request(requests.Request(method, url, headers))
            settings = self.merge_environment_settings(url, proxies={}, stream=None, verify=None, cert=None)
            adapter = self.get_adapter(url)
            assert isinstance(adapter, HTTPAdapter), adapter
            prepared = self._prepared[key] = _Prepared(request, adapter, **settings)
        return prepared


def _why(error: Exception) -> str:
    """Return the innermost reason of a fault of `requests`, which wraps it several times and adds the address."""
    innermost: BaseException = error
    while (inner := innermost.__cause__ or innermost.__context__) is not None:
        innermost = inner
    return os.strerror(innermost.errno) if isinstance(innermost, OSError) and innermost.errno else type(innermost).__name__


class OtlpSender:
    """One exporter for each signal. `metrics`: what `send` sends of metrics."""

    def __init__(self, start: ExportStart) -> None:
        self._start = start
        self._session = _Session()
        facts = {"service.name": start.service or os.environ.get("OTEL_SERVICE_NAME") or "gw"}
        facts |= {"service.version": start.version, "service.instance.id": start.instance}
        # Its values are texts and numbers: they come from the environment and the SDK's name and version.
        resource = {name: value for name, value in Resource.create(facts).attributes.items() if isinstance(value, str | int | float)}
        timed = any(name.startswith("OTEL_EXPORTER_OTLP") and name.endswith("TIMEOUT") for name in os.environ)
        options: dict[str, Any] = {"session": self._session, "headers": start.headers or None, "timeout": None if timed else TIMEOUT_S}
        self._spans = OTLPSpanExporter(endpoint=self._address("traces"), **options)
        self._logs = OTLPLogExporter(endpoint=self._address("logs"), **options)
        self._metric_exporter = OTLPMetricExporter(endpoint=self._address("metrics"), **options)
        self._requests = ExportRequests(resource)
        self.metrics = RecordMetrics(resource)

    def _address(self, signal: Signal) -> str | None:
        return f"{self._start.endpoint.rstrip('/')}/v1/{signal}" if self._start.endpoint else None

    def send(self, signal: Signal, entries: Iterable[bytes]) -> Sent:
        """Send spans or logs (entries of `EncodedRecord`), or all metrics as they are now. Blocks, for TIMEOUT_S."""
        body = self._body(signal, entries)
        if body is None:
            return Sent()
        self._session.body, self._session.response, self._session.fault = body, None, ""
        match signal:
            case "traces":
                self._spans.export(())
            case "logs":
                self._logs.export(())
            case "metrics":
                self._metric_exporter.export(MetricsData(resource_metrics=()))
        return self._result(signal)

    def _body(self, signal: Signal, entries: Iterable[bytes]) -> bytes | None:
        if signal == "metrics":
            return self.metrics.encode()
        return self._requests.traces(entries) if signal == "traces" else self._requests.logs(entries)

    def _result(self, signal: Signal) -> Sent:
        response = self._session.response
        if response is None:
            return Sent(error=f"{signal}: {self._session.fault or 'the exporter did not send it'}", again=bool(self._session.fault))
        if response.status_code // 100 == 2:
            return self._accepted(response) if signal == "traces" else Sent()
        again = response.status_code in AGAIN
        return Sent(f"{signal}: the collector answered {response.status_code}", again, _retry_after_s(response) if again else 0.0)

    def _accepted(self, response: ExportAnswer) -> Sent:
        if not response.headers.get("content-type", "").startswith("application/x-protobuf"):
            return Sent()
        try:
            partial = ExportTraceServiceResponse.FromString(response.content).partial_success
        except Exception:  # protobuf's DecodeError: the status says that it is accepted
            return Sent()
        rejected = int(partial.rejected_spans)
        return Sent(error=f"traces: the collector rejected {rejected} spans" if rejected else "", rejected=rejected)


def _retry_after_s(response: ExportAnswer) -> float:
    """Return the seconds of `Retry-After`; 0 without it. A date is not worth a parser here: the usual pauses follow."""
    value = response.headers.get("retry-after", "").strip()
    return min(float(value), 3_600.0) if value.isdecimal() else 0.0
