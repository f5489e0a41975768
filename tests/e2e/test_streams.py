"""Streamed chats of a vendor over HTTP, through the gateway as a process: there a poller reads the vendors' connections."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.test_workers import wait_until

pytestmark = pytest.mark.process

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"
BODY = json.dumps({"model": "openai/gpt-4o-mini", "stream": True, "messages": [{"role": "user", "content": "hi"}]})
CONFIG = """
providers: {{openai: {{api_key: k, base_url: "http://127.0.0.1:{port}/v1"}}}}
models: {{llm: {{openai/gpt-4o-mini: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}}}}}
routing: {{idle_s: {idle_s}}}
cost_tracking: {{durability: {durability}}}
"""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def word(text: str) -> bytes:
    return chunk(b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode())


@contextmanager
def vendor(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yield the port of a vendor that answers each connection's first request by `answer`, in a thread."""
    threads: list[threading.Thread] = []

    def serve(sock: socket.socket) -> None:
        with sock:
            sock.settimeout(30)
            data = b""
            while b"\r\n\r\n" not in data:
                data += sock.recv(65_536)
            with suppress(OSError):
                answer(sock)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join(30)


class TwoWords:
    """A vendor's answer that has one word at once, another when `second` is set, and no end.

    `left` is set when the gateway has closed the connection.
    """

    def __init__(self) -> None:
        self.second = threading.Event()
        self.left = threading.Event()

    def answer(self, sock: socket.socket) -> None:
        sock.sendall(HEAD + word("one "))
        self.second.wait(30)
        sock.sendall(word("two "))
        sock.recv(1)
        self.left.set()


@contextmanager
def chat(url: str, body: str = BODY, path: str = "/v1/chat/completions") -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("POST", path, body, {"content-type": "application/json"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def text_of(answer: bytes) -> str:
    events = [json.loads(event[6:]) for event in answer.split(b"\n\n") if event.startswith(b"data: {")]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event.get("choices"))


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def record_of(url: str) -> dict[str, object]:
    """Return the only record, once it is there."""
    records: list[dict[str, object]] = []

    def is_there() -> bool:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        connection.request("GET", "/v1/logs")
        records[:] = json.loads(connection.getresponse().read())
        connection.close()
        return bool(records)

    wait_until(is_there)
    return records[0]


@pytest.mark.parametrize("durability", ["crash", "power"])
def test_forty_streams_at_once_are_whole(start, durability):
    words = [f"word{number} " for number in range(60)]

    def answer(sock: socket.socket) -> None:
        sock.sendall(HEAD)
        for each in words:
            sock.sendall(word(each))
        sock.sendall(chunk(DONE) + END)

    def read(_: int) -> bytes:
        with chat(daemon.url) as response:
            return response.read()

    with vendor(answer) as port:
        daemon = start(CONFIG.format(port=port, idle_s=20, durability=durability))
        with ThreadPoolExecutor(40) as callers:
            answers = list(callers.map(read, range(40)))
    assert all(answer.endswith(DONE) for answer in answers)
    assert {text_of(answer) for answer in answers} == {"".join(words)}
    assert record_of(daemon.url)["status"] == "success"


def test_a_vendor_that_falls_silent_in_the_middle_has_failed(start):
    two_words = TwoWords()
    with vendor(two_words.answer) as port:
        daemon = start(CONFIG.format(port=port, idle_s=1, durability="crash"))
        with chat(daemon.url) as response:
            received = response.readline()
            two_words.second.set()
            received += response.read()
        assert two_words.left.wait(30)
    assert text_of(received) == "one two "
    assert b"silent for 1 s in the middle of its answer" in received
    record = record_of(daemon.url)
    assert (record["status"], record["error_code"]) == ("error", "upstream_too_slow")


def test_a_client_that_does_not_read_holds_back_its_vendor_and_loses_nothing(start):
    pieces, piece, blocked = 400, "x" * 65_536, threading.Event()

    def answer(sock: socket.socket) -> None:
        unsent = memoryview(HEAD + word(piece) * pieces + chunk(DONE) + END)
        sock.settimeout(1)
        while unsent:
            try:
                unsent = unsent[sock.send(unsent) :]
            except TimeoutError:
                blocked.set()

    with vendor(answer) as port, ExitStack() as opened:
        daemon = start(CONFIG.format(port=port, idle_s=20, durability="crash"))
        response = opened.enter_context(chat(daemon.url))
        assert response.readline().startswith(b"data: ")
        assert blocked.wait(30)
        received = response.read()
    assert received.endswith(DONE)
    assert received.count(b"x") >= (pieces - 1) * len(piece)


@pytest.mark.parametrize(("prompt_bytes", "field_bytes", "streams"), [(200_000, 10, 80), (1_000_000, 10, 24), (10, 250, 100)])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_stream_keeps_neither_its_prompt_nor_the_head_of_the_answer(start, path, prompt_bytes, field_bytes, streams):
    fields = b"".join(b"x-%d: %b\r\n" % (number, b"x" * field_bytes) for number in range(190))

    def answer(sock: socket.socket) -> None:
        sock.sendall(HEAD[:-2] + fields + b"\r\n" + word("one "))
        while sock.recv(65_536):
            pass

    message = {"role": "user", "content": "x" * prompt_bytes}
    body = json.dumps({"model": "openai/gpt-4o-mini", "stream": True, "max_tokens": 9, "messages": [message]})
    with vendor(answer) as port, ExitStack() as opened:
        daemon = start(CONFIG.format(port=port, idle_s=60, durability="crash"))

        def open_streams(number: int) -> None:
            for _ in range(number):
                response = opened.enter_context(chat(daemon.url, body, path))
                while b"one" not in response.readline():
                    pass

        open_streams(4)  # what decoding a prompt takes is there from now on
        before = resident_bytes(daemon.process.pid)
        open_streams(streams)
        grown = resident_bytes(daemon.process.pid) - before
    assert grown < streams * (prompt_bytes + 190 * field_bytes) * 0.8


def test_a_client_that_leaves_ends_the_vendors_answer(start):
    two_words = TwoWords()
    with vendor(two_words.answer) as port:
        daemon = start(CONFIG.format(port=port, idle_s=20, durability="crash"))
        with chat(daemon.url) as response:
            while b"two" not in response.readline():
                two_words.second.set()
        assert two_words.left.wait(10)
    assert record_of(daemon.url)["status"] == "cancelled"


def test_a_stop_ends_an_answer_that_goes_on_for_too_long(start):
    two_words = TwoWords()
    with vendor(two_words.answer) as port:
        text = CONFIG.format(port=port, idle_s=60, durability="crash") + "serve: {drain_s: 1}\n"
        daemon = start(text)
        with chat(daemon.url) as response:
            received = response.readline()
            two_words.second.set()
            while b"two" not in received:
                received = response.readline()
            daemon.process.send_signal(signal.SIGTERM)
            received = response.read()
        assert daemon.process.wait(60) == 0
    assert b"shutting_down" in received
    record = record_of(start(text).url)
    assert (record["status"], record["error_code"]) == ("error", "shutting_down")
