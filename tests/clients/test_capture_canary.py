"""The sound of a captured call, with the codec and a gateway as a process: it is stored, and in clear it is nowhere, also after a crash."""

from __future__ import annotations

import json
import signal
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.contract.talkers import speech
from tests.e2e.conftest import Daemon, starter
from tests.e2e.test_workers_live import wait_for

pytestmark = pytest.mark.clients

CONFIG = """
providers: {sim: {latency_ms: 0}}
models: {stt: [sim/tone], tts: [sim/tone]}
projects: {default: {capture: {text: true, audio: true, share: 1}}}
"""
RATE_HZ = 16_000
REPORTS = (
    "/v1/metrics", "/v1/logs", "/v1/audit-log", "/v1/capture", "/v1/capture/call", "/v1/sessions/call", "/api/turns",
    "/api/turns/turn?session=call", "/health",
)  # fmt: skip


def forms(samples: bytes) -> Iterator[bytes]:
    """Yield pieces of the sound as they may stand somewhere: samples, hexadecimal, base64, a Python literal."""
    for at in range(len(samples) // 4 & ~1, len(samples) - 96, len(samples) // 5 & ~1):
        piece = samples[at : at + 96]
        if len(set(piece)) > 8:  # no silence
            yield from (piece, piece.hex().encode(), repr(piece)[2:-1].encode())
            yield from (b64encode(piece[n:])[:-4] for n in range(3))


@contextmanager
def session(daemon: Daemon, path: str) -> Iterator[ClientConnection]:
    url = f"{daemon.url.replace('http', 'ws')}{path}?model=sim/tone&encoding=linear16&sample_rate={RATE_HZ}"
    with connect(url, additional_headers={"x-gw-session": "call", "x-gw-turn": "turn"}, proxy=None, max_size=None) as socket:
        yield socket


def ask(daemon: Daemon, path: str) -> bytes:
    with urllib.request.urlopen(daemon.url + path, timeout=90) as answer:
        data: bytes = answer.read()
        return data


def call(daemon: Daemon, heard: bytes) -> bytes:
    """Say something, have an answer spoken, and return its sound."""
    with session(daemon, "/v1/listen") as socket:
        for at in range(0, len(heard), 640):
            socket.send(heard[at : at + 640])
        socket.send('{"type":"CloseStream"}')
        assert any("weather" in str(message) for message in socket)
    spoken = bytearray()
    with session(daemon, "/v1/speak") as socket:
        socket.send('{"type":"Speak","text":"It is sunny in Paris."}')
        socket.send('{"type":"Flush"}')
        while '"Flushed"' not in str(message := socket.recv(timeout=90)):
            spoken += message if isinstance(message, bytes) else b""
    return bytes(spoken)


def captured(daemon: Daemon) -> dict[str, int]:
    """Return the bytes of sound that were captured of each request."""
    requests = json.loads(ask(daemon, "/v1/capture/call"))["requests"]
    try:
        return {one["modality"]: len(ask(daemon, f"/v1/capture-audio/{one['request_id']}")) - 44 for one in requests}
    except HTTPError:  # of a request that has not ended
        return {}


def test_the_sound_of_a_call_is_in_clear_nowhere(tmp_path: Path):
    heard, temporary = speech(["what is the weather"], RATE_HZ), tmp_path / "temporary"
    temporary.mkdir()
    env = {"GW_SECRET": "a long secret that nobody knows", "GW_LOG_LEVEL": "debug", "PYTHONFAULTHANDLER": "1", "TMPDIR": str(temporary)}
    with starter(tmp_path) as start:
        daemon = start(CONFIG, **env)
        spoken = call(daemon, heard)
        canaries = [*forms(heard), *forms(spoken), b"OggS", b"OpusHead"]
        assert all(any(form in sound for form in forms(sound)) for sound in (heard, spoken))
        lengths = {"stt": len(heard), "tts": len(spoken)}
        wait_for(lambda: captured(daemon) == lengths)  # a moment after the sockets were closed
        shown = {path: ask(daemon, path) for path in REPORTS}
        with session(daemon, "/v1/listen") as socket:
            for _ in range(2 + 6 * 2 * RATE_HZ // len(heard)):
                socket.send(heard)  # more than a part of five seconds: one is handed over, one is in memory
            socket.send('{"type":"Finalize"}')
            socket.recv(timeout=90)
            daemon.stop(signal.SIGABRT)
        daemon.reader.join()
        shown["the log"] = daemon.text().encode()
        shown |= {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert {"gw.db", "gw.db.capture"} <= set(shown)
        assert [(where, canary) for where, data in shown.items() for canary in canaries if canary in data] == []
