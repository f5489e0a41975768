"""SIGTERM: idle connections do not hold it, running streams finish, a stalled reader cannot hold it for ever."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.process


def connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc)


def chat(connection: http.client.HTTPConnection, model: str, text: str, *, stream: bool) -> http.client.HTTPResponse:
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    return connection.getresponse()


def test_idle_connections_of_both_planes_exit_at_once(start):
    """A stop that waited for one of them would take an hour."""
    daemon = start("providers: {sim: {}}\nmodels: {llm: [sim/echo]}\nserve: {drain_s: 3600}\n")
    voice, browser = connect(daemon.url), connect(daemon.url)
    assert chat(voice, "sim/echo", "hi", stream=False).read()
    records: list[object] = []
    while not records:  # then the process that writes has started, too
        browser.request("GET", "/v1/logs")
        records = json.loads(browser.getresponse().read())
    assert daemon.stop() == 0, daemon.text()
    assert voice.sock.recv(1) == b""
    voice.close()
    browser.close()


def test_a_running_stream_finishes_and_new_connections_are_refused(start):
    daemon = start("providers: {sim: {token_ms: 150}}\nmodels: {llm: [sim/echo]}\n")
    connection = connect(daemon.url)
    response = chat(connection, "sim/echo", "one two three four five six seven eight", stream=True)
    first = response.readline()
    daemon.process.send_signal(signal.SIGTERM)
    remainder = response.read()
    assert first.startswith(b"data: ")
    assert remainder.endswith(b"data: [DONE]\n\n")
    assert daemon.process.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        connect(daemon.url).connect()
    connection.close()


def test_a_stalled_reader_cannot_hold_it_beyond_drain_s(start):
    daemon = start("providers: {sim: {}}\nmodels: {tts: [sim/tone]}\nserve: {drain_s: 1}\n")
    stalled = socket.create_connection(urlsplit(daemon.url).netloc.split(":"))
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps({"model": "sim/tone", "voice": "tone", "input": "word " * 2000, "response_format": "pcm"}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    stalled.sendall(head + body)
    assert stalled.recv(10)
    assert daemon.stop() == 0, daemon.text()
    stalled.close()


@pytest.mark.parametrize("how", ["second signal", "end of the drain"])
def test_a_stream_that_cannot_finish_is_told_and_recorded(start, how):
    text = "providers: {sim: {token_ms: 300}}\nmodels: {llm: [sim/echo]}\nserve: {drain_s: 1}\n"
    daemon = start(text if how == "end of the drain" else text.replace("drain_s: 1", "drain_s: 30"))
    connection = connect(daemon.url)
    response = chat(connection, "sim/echo", "word " * 400, stream=True)
    first = response.readline()
    daemon.process.send_signal(signal.SIGTERM)
    if how == "second signal":
        daemon.wait_for('"draining"')  # two signals at once would be one
        daemon.process.send_signal(signal.SIGTERM)
    remainder = response.read()
    assert daemon.process.wait(60) == 0, daemon.text()
    connection.close()
    assert first.startswith(b"data: ")
    *_, last = remainder.strip().split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "shutting_down"
    again = start(text)
    reader = connect(again.url)
    reader.request("GET", "/v1/logs")
    (record,) = json.loads(reader.getresponse().read())
    assert (record["status"], record["error_code"]) == ("error", "shutting_down")
    assert record["output_units"] > 0
    reader.close()


def test_a_second_gateway_on_the_same_database_is_refused_and_told_who_holds_it(start, tmp_path):
    text = f"providers: {{sim: {{}}}}\nmodels: {{llm: [sim/echo]}}\ncost_tracking: {{db_path: {tmp_path}/gw.db}}\n"
    first = start(text)
    with pytest.raises(AssertionError) as caught:
        start(text)
    assert str(first.process.pid) in str(caught.value)
    assert threading.active_count() < 50
    first.process.kill()
    first.process.wait()
    start(text)
