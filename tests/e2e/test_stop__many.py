"""SIGTERM with everything at once: idle WebSockets, running streams, stalled readers and recordings that are being transcribed.

`GW_NIGHTLY=1` makes it 1,000 WebSockets, 100 streams, 10 stalled readers and 5 recordings.
"""

from __future__ import annotations

import json
import resource
import signal
import time
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import apsw
import attrs
import pytest
import trio

from gw.net.http1 import Origin, Pool
from tests.dialects.test_assemblyai_jobs import recording
from tests.fakes.fork_server import fork_server
from tests.fakes.nightly import times

pytestmark = pytest.mark.process

SOCKETS, STREAMS, STALLED, JOBS = times(100, 1_000), times(20, 100), times(3, 10), times(2, 5)
DRAIN_S = times(6, 12)
CONFIG = f"""
providers: {{sim: {{token_ms: {DRAIN_S * 40}}}, slow: {{type: sim, latency_ms: {DRAIN_S * 400}}}}}
models: {{llm: [sim/echo], tts: [sim/tone], stt: [slow/tone]}}
serve: {{drain_s: {DRAIN_S}}}
"""
JSON = [(b"content-type", b"application/json")]
HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
PATHS = (
    b"/v1/listen?model=slow/tone&encoding=linear16&sample_rate=16000", b"/v1/speak?model=sim/tone",
    b"/v1/realtime?model=sim/echo", b"/tts/websocket?cartesia_version=2025-04-16",
)  # fmt: skip
KEEP_ALIVE = b"\x81\x95" + bytes(4) + b'{"type": "KeepAlive"}'
KEEP_ALIVE_S = 3.0  # Deepgram closes a connection on which nothing came for 10 s, and these open slowly on a busy machine


@attrs.define
class Seen:
    """What the callers saw."""

    started: int = 0
    closes: list[tuple[int, float]] = attrs.field(factory=list)
    """Close code and time of each WebSocket."""
    streams: list[bytes] = attrs.field(factory=list)
    stalled_cut: int = 0
    ids: list[str] = attrs.field(factory=list)

    async def until(self, started: int) -> None:
        while self.started < started:
            await trio.lowlevel.checkpoint()


async def idle_socket(address: tuple[str, int], path: bytes, seen: Seen) -> None:
    stream = await trio.open_tcp_stream(*address)
    await stream.send_all(HANDSHAKE % path)
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    assert data.startswith(b"HTTP/1.1 101"), data
    data = data.partition(b"\r\n\r\n")[2]
    seen.started += 1
    async with stream, trio.open_nursery() as nursery:
        if path.startswith(b"/v1/listen"):
            nursery.start_soon(keep_alive, stream)
        seen.closes.append((await close_code(stream, data), time.monotonic()))
        nursery.cancel_scope.cancel()


async def keep_alive(stream: trio.SocketStream) -> None:
    while True:
        await trio.sleep(KEEP_ALIVE_S)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(KEEP_ALIVE)


async def close_code(stream: trio.SocketStream, data: bytes) -> int:
    """Read until the server closes a WebSocket, and return the code; `data`: what was read already."""
    while True:
        while len(data) >= 2 and data[0] != 0x88:  # a frame of the server before its close: skip it
            size, start = data[1], 2
            if size == 126:
                size, start = int.from_bytes(data[2:4], "big"), 4
            if len(data) < start + size:
                break
            data = data[start + size :]
        if len(data) >= 4 and data[0] == 0x88:
            return int.from_bytes(data[2:4], "big")
        more = await stream.receive_some()
        if not more:
            return 1006
        data += more


async def running_stream(pool: Pool, origin: Origin, seen: Seen) -> None:
    words = " ".join(["word"] * 10)  # DRAIN_S * 0.4 s of tokens
    body = json.dumps({"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": words}]}).encode()
    async with pool.open("client", b"POST", origin, b"/v1/chat/completions", JSON, body) as response:
        seen.started += 1
        seen.streams.append(await response.read())


async def stalled_reader(address: tuple[str, int], seen: Seen) -> None:
    stream = await trio.open_tcp_stream(*address)
    stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
    async with stream:
        await stall(stream, seen)


async def stall(stream: trio.SocketStream, seen: Seen) -> None:
    body = json.dumps({"model": "sim/tone", "voice": "tone", "input": "word " * 2000, "response_format": "pcm"}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    await stream.send_all(head % len(body) + body)
    assert await stream.receive_some(10)
    seen.started += 1
    await trio.sleep_forever()


async def ask(pool: Pool, origin: Origin, method: bytes, path: str, body: bytes = b"") -> Any:
    async with pool.open("client", method, origin, path.encode(), JSON, body) as response:
        assert response.status == 200, await response.read()
        return json.loads(await response.read())


async def begin_recording(pool: Pool, origin: Origin, seen: Seen) -> None:
    uploaded = await ask(pool, origin, b"POST", "/v2/upload", recording())
    order = {"audio_url": uploaded["upload_url"], "speech_model": "slow/tone"}
    job = await ask(pool, origin, b"POST", "/v2/transcript", json.dumps(order).encode())
    assert job["status"] != "completed"
    seen.ids.append(job["id"])
    seen.started += 1


async def test_everything_ends_as_promised(tmp_path):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with fork_server() as gateways:
        gateway = await trio.to_thread.run_sync(gateways.start, tmp_path, CONFIG)
        where = urlsplit(gateway.url)
        address, origin, pool, seen = (where.hostname or "", where.port or 0), Origin.parse(gateway.url), Pool(), Seen()
        with trio.fail_after(DRAIN_S + 120):
            async with trio.open_nursery() as readers, trio.open_nursery() as callers:
                for n in range(SOCKETS):
                    callers.start_soon(idle_socket, address, PATHS[n % len(PATHS)], seen)
                for _ in range(STALLED):
                    readers.start_soon(stalled_reader, address, seen)
                await seen.until(SOCKETS + STALLED)
                for _ in range(JOBS):
                    await begin_recording(pool, origin, seen)
                for _ in range(STREAMS):
                    callers.start_soon(running_stream, pool, origin, seen)
                await seen.until(SOCKETS + STALLED + JOBS + STREAMS)
                began = time.monotonic()
                await trio.to_thread.run_sync(partial(gateway.kill, signal.SIGTERM, DRAIN_S + 60))
                took_s = time.monotonic() - began
                await pool.aclose()
                readers.cancel_scope.cancel()
        last_close_s = max(at for _, at in seen.closes) - began
        print(f"{SOCKETS} WebSockets closed within {last_close_s:.2f} s, all ended after {took_s:.1f} s of {DRAIN_S}")
        again = await trio.to_thread.run_sync(gateways.start, tmp_path, CONFIG)
        origin, pool = Origin.parse(again.url), Pool()
        jobs = [await ask(pool, origin, b"GET", f"/v2/transcript/{id_}") for id_ in seen.ids]
        await pool.aclose()
        await trio.to_thread.run_sync(again.kill, signal.SIGTERM)
    assert [code for code, _ in seen.closes] == [1001] * SOCKETS
    assert last_close_s < DRAIN_S, "idle WebSockets were held until the end of the drain"
    assert len(seen.streams) == STREAMS
    assert [answer[-80:] for answer in seen.streams if not answer.endswith(b"data: [DONE]\n\n")] == []
    assert took_s > DRAIN_S - 0.5, "the stalled readers are waited for until drain_s"
    assert [job["status"] for job in jobs] == ["completed"] * JOBS
    with apsw.Connection(str(tmp_path / "gw.db"), flags=apsw.SQLITE_OPEN_READONLY) as db:
        found = dict(db.execute("select modality || ' ' || status, count(*) from requests group by 1").fetchall())
    assert found.pop("llm success") == STREAMS
    # The jobs, and the live sessions, which had no audio: cancelled where the vendor was not even connected.
    assert found.pop("stt success", 0) + found.pop("stt cancelled", 0) == JOBS + len(range(0, SOCKETS, len(PATHS)))
    assert sum(count for name, count in found.items() if name.startswith("tts")) >= STALLED, found
    assert "Traceback" not in gateway.log.read_text()
