"""A small gateway for the command line's tests: real HTTP on loopback in a thread, answers laid down beforehand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import attrs


@attrs.frozen
class ReceivedRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        return json.loads(self.body)


@attrs.frozen
class Reply:
    """`chunks` go out one by one, chunked. `cut` drops the connection instead of ending the body."""

    chunks: Iterable[bytes]
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    cut: bool = False


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply([json.dumps(value).encode()], status, {"Content-Type": "application/json", **named})


@attrs.define
class FakeGateway:
    """`replies` by "METHOD /path"; of a list each is used once. A path without one is a 404 in the gateway's own form."""

    url: str
    replies: dict[str, Reply | list[Reply]] = attrs.field(factory=dict)
    requests: list[ReceivedRequest] = attrs.field(factory=list)

    def answer(self, requests: ReceivedRequest) -> Reply:
        self.requests.append(requests)
        missing = {"error": {"type": "RequestError", "code": "not_found", "message": f"no such path: {requests.path}"}}
        reply = self.replies.get(f"{requests.method} {requests.path}") or json_reply(missing, 404)
        return reply.pop(0) if isinstance(reply, list) else reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: FakeGateway

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        target = urlsplit(self.path)
        requests = ReceivedRequest(self.command, target.path, dict(parse_qsl(target.query)), self.headers, self._body())
        reply = self.gateway.answer(requests)
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for chunk in reply.chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if reply.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def fake_gateway() -> Iterator[FakeGateway]:
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.gateway = FakeGateway(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield handler.gateway
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
