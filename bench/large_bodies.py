"""Longest stall of the event loop while large JSON bodies arrive: `python bench/large_bodies.py`.

A gateway runs in a process of its own, and in another an upstream that refuses every request once it has read it. Each body of up
to `--megabytes` goes to each endpoint, for models of the same and of other dialects, while `GET /health` is requested on another
connection all the time. Printed is the longest that one of these took, in milliseconds: what every other caller would have waited.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UPSTREAM = """
import socketserver
class Refuses(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            length = 0
            while (line := self.rfile.readline()) not in (b"", b"\\r\\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line[15:])
            while length > 0:
                length -= len(self.rfile.read(min(length, 1 << 20))) or length
            body = b'{"error":{"message":"no","type":"invalid_request_error","code":"no"}}'
            self.wfile.write(b"HTTP/1.1 400 X\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
with Server(("127.0.0.1", 0), Refuses) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""
CONFIG = """
providers:
  openai: {{api_key: k, base_url: "http://127.0.0.1:{port}/v1"}}
  anthropic: {{api_key: k, base_url: "http://127.0.0.1:{port}"}}
  ollama: {{base_url: "http://127.0.0.1:{port}"}}
  deepgram: {{api_key: k, base_url: "http://127.0.0.1:{port}"}}
models:
  llm: [openai/m, anthropic/m, ollama/m]
  tts: [openai/m, deepgram/aura-2-thalia-en]
serve: {{port: {own}}}
"""
USER = '{"role":"user","content":"hi"}'
PARTS = '{"type":"text","text":"a"}'


def filled(head: str, unit: str, tail: str, size: int) -> bytes:
    return (head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail).encode()


def chat_bodies(model: str, size: int, member: str = "messages", tools: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield bodies of about `size` bytes, each large in another way."""
    begin = f'{{"model":"{model}","max_tokens":9,"{member}":['
    image = '{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aaaa"}},' + PARTS
    yield "one text", filled(begin + '{"role":"user","content":"', "x", '"}]}', size)
    yield "escapes", filled(begin + '{"role":"user","content":"', "\\u00e9", '"}]}', size)
    yield "messages", filled(begin + USER, "," + USER, "]}", size)
    yield "turns", filled(begin + USER, ',{"role":"assistant","content":"a"},' + USER, "]}", size)
    yield "parts", filled(begin + '{"role":"user","content":[' + PARTS, "," + PARTS, "]}]}", size)
    yield "image and parts", filled(begin + image, "," + PARTS, "]}]}", size)
    yield "image and messages", filled(begin + image + "]}", "," + USER, "]}", size)
    yield "tools", filled(begin + USER + f'],"tools":[{tools}', "," + tools, "]}", size)
    yield "unknown numbers", filled(begin + USER + '],"x":[0', ",0", "]}", size)
    yield "unknown lists", filled(begin + USER + '],"x":[[]', ",[]", "]}", size)


OPENAI_TOOL = '{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}'
ANTHROPIC_TOOL = '{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}'
RESPONSES_TOOL = '{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}'


def cases(size: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, path and body."""
    for model in ("openai/m", "anthropic/m", "ollama/m"):
        for path, member, tool in (
            ("/v1/chat/completions", "messages", OPENAI_TOOL), ("/v1/messages", "messages", ANTHROPIC_TOOL),
            ("/v1/responses", "input", RESPONSES_TOOL), ("/ollama/api/chat", "messages", OPENAI_TOOL),
        ):  # fmt: skip
            for name, body in chat_bodies(model, size, member, tool):
                yield f"{path} {model} {name}", path, body
    yield "/v1/embeddings", "/v1/embeddings", filled('{"model":"openai/m","input":["a"', ',"a"', "]}", size)
    for model in ("openai/m", "deepgram/aura-2-thalia-en"):
        speech = f'{{"model":"{model}","voice":"alloy","input":"'
        yield f"/v1/audio/speech {model} text", "/v1/audio/speech", filled(speech, "one two. ", '"}', size)
        yield f"/v1/audio/speech {model} unknown", "/v1/audio/speech", filled(speech + 'a","x":[0', ",0", "]}", size)
    yield "/v1/projects unknown", "/v1/projects", filled('{"project_id":"a","x":[0', ",0", "]}", size)
    yield "/v1/projects tags", "/v1/projects", filled('{"project_id":"a","tags":["a"', ',"a"', "]}", size)
    yield "/v1/projects lists", "/v1/projects", filled('{"project_id":"a","tags":[[]', ",[]", "]}", size)
    yield "/v1/reconcile rows", "/v1/reconcile", filled('{"rows":[{"model":"m"}', ',{"model":"m"}', "]}", size)
    yield "/v1/reconcile lists", "/v1/reconcile", filled('{"rows":[[]', ",[]", "]}", size)
    yield "/v1/reconcile content", "/v1/reconcile", filled('{"content":"', "day,model\\n", '"}', size)
    yield "/v1/config/check unknown", "/v1/config/check", filled('{"content":"","x":[0', ",0", "]}", size)
    yield "/v1/config/check content", "/v1/config/check", filled('{"content":"', "# a\\n", '"}', size)


class Prober(threading.Thread):
    """Requests /health again and again; `take` returns the longest of these since the last call, in milliseconds."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self._longest_s = port, 0.0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        while True:
            began = time.perf_counter()
            try:
                connection.request("GET", "/health")
                connection.getresponse().read()
            except (http.client.HTTPException, OSError):  # the gateway has been stopped
                return
            self._longest_s = max(self._longest_s, time.perf_counter() - began)
            time.sleep(0.001)

    def take(self) -> float:
        longest, self._longest_s = self._longest_s, 0.0
        return longest * 1_000


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def measure(size: int, only: str) -> list[tuple[float, str, int]]:
    own = free_port()
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
        [sys.executable, "-c", UPSTREAM], stdout=subprocess.PIPE, text=True
    ) as upstream:  # fmt: skip
        assert upstream.stdout is not None
        config = Path(folder, "gw.yaml")
        config.write_text(CONFIG.format(port=int(upstream.stdout.readline()), own=own))
        env = {**os.environ, "GW_DB_PATH": str(Path(folder, "gw.db")), "GW_SECRET": "bench", "GW_LOG_LEVEL": "error"}
        command = [sys.executable, "-m", "gw", "serve", "--config", str(config)]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as gateway:
            assert gateway.stderr is not None
            while "ready in" not in gateway.stderr.readline():
                pass
            try:
                return list(_measured(own, size, only))
            finally:
                gateway.terminate()
                upstream.terminate()


def _measured(port: int, size: int, only: str) -> Iterator[tuple[float, str, int]]:
    prober = Prober(port)
    prober.start()
    for name, path, body in cases(size):
        if only in name:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            time.sleep(0.05)
            prober.take()
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before it was read; the answer is there
                connection.request("POST", path, body, {"content-type": "application/json", "anthropic-version": "2023-06-01"})
            status = connection.getresponse().status
            time.sleep(0.02)
            yield prober.take(), name, status
            connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=9.0)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = sorted(measure(int(options.megabytes * 1_000_000), options.only), reverse=True)
    if options.json:
        print(json.dumps([{"case": name, "longest_ms": round(ms, 1), "status": status} for ms, name, status in rows]))
        return
    for ms, name, status in rows:
        print(f"{ms:9.1f} ms  {status}  {name}")


if __name__ == "__main__":
    main()
