"""A relay before a gateway that says afterwards which requests it had, for suites that verify their requests.

Such suites ask WireMock, a mock server, by `POST /__admin/requests/find`; its documents describe that call. Of its conditions those
are known here that the suites use: method, path, and headers and query parameters that equal something.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

FIND = "/__admin/requests/find"
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
WITHIN_S = 30.0


@attrs.frozen
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    """With names in lower case."""

    def meets(self, conditions: dict[str, Any]) -> bool:
        wanted = {name.lower(): each["equalTo"] for name, each in conditions.get("headers", {}).items()}
        return (
            self.method == conditions["method"]
            and self.path == conditions["urlPath"]
            and all(self.headers.get(name) == value for name, value in wanted.items())
            and all(self._has(name, each) for name, each in conditions.get("queryParameters", {}).items())
        )

    def _has(self, name: str, condition: dict[str, Any]) -> bool:
        values = self.query.get(name, [])
        if "hasExactly" in condition:
            return sorted(values) == sorted(each["equalTo"] for each in condition["hasExactly"])
        return str(condition["equalTo"]) in values


class _Relay(BaseHTTPRequestHandler):
    address: str
    requests: list[Request]

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        if parts.path == FIND:
            conditions = json.loads(body)
            met = [attrs.asdict(request) for request in self.requests if request.meets(conditions)]
            return self._answer(200, [("content-type", "application/json")], json.dumps({"requests": met}).encode())
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.requests.append(Request(self.command, parts.path, parse_qs(parts.query, keep_blank_values=True), headers))
        upstream = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=WITHIN_S)
        try:
            upstream.request(self.command, self.path, body, {name: value for name, value in headers.items() if name not in _HOP})
            response = upstream.getresponse()
            kept = [(name, value) for name, value in response.getheaders() if name.lower() not in _HOP]
            self._answer(response.status, kept, response.read())
        finally:
            upstream.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _relay

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest reports."""


@contextmanager
def recorded(address: str) -> Iterator[str]:
    """Relay to `address`, and yield the address at which requests are recorded. Each body is read to its end before it goes on."""
    handler = type("Relay", (_Relay,), {"address": address, "requests": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
