"""A stdlib HTTP server that answers every chat request, streamed where asked, and counts it by model: the other side's ledger for the
kill test."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}'
)
STREAM = b"".join(
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":' + rest + b"}\n\n"
    for rest in (
        b'[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]',
        b'[{"index":0,"delta":{},"finish_reason":"stop"}]',
        b'[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}',
    )
) + b"data: [DONE]\n\n"


class CountingUpstream:
    def __init__(self, *, numbers_calls: bool) -> None:
        self.calls = 0
        self.models: Counter[str] = Counter()
        self.times: list[float] = []
        """When each call came, in monotonic seconds."""
        self.base_url = ""
        self._numbers_calls = numbers_calls
        self._lock = threading.Condition()

    def count(self, model: str) -> int:
        """Count a call; return its input tokens."""
        with self._lock:
            self.calls += 1
            self.models[model] += 1
            self.times.append(time.monotonic())
            self._lock.notify_all()
            return self.calls if self._numbers_calls else 10

    def wait_calls(self, count: int, within_s: float = 60.0) -> None:
        """Wait until there were so many calls."""
        with self._lock:
            assert self._lock.wait_for(lambda: self.calls >= count, within_s), f"{self.calls} calls within {within_s:g} s"


@contextmanager
def counting_upstream(*, numbers_calls: bool = False, port: int = 0) -> Iterator[CountingUpstream]:
    """`numbers_calls`: the nth call uses n input tokens, so that each call has a cost of its own by which its record is known."""
    upstream = CountingUpstream(numbers_calls=numbers_calls)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            tokens = upstream.count(request["model"])
            answer, kind = (STREAM, "text/event-stream") if request.get("stream") else (ANSWER, "application/json")
            answer = answer.replace(b'"prompt_tokens":10,', b'"prompt_tokens":%d,' % tokens).replace(b":12}", b":%d}" % (tokens + 2))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the gateway was killed

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        upstream.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield upstream
        finally:
            server.shutdown()
            thread.join()
