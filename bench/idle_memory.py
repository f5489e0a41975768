"""Measure what idle connections hold of the gateway's memory: WebSockets and streams, open at once, with nothing to say.

    python bench/idle_memory.py [--connections 1000] [--python PATH] [kind ...]

Starts a gateway and a vendor, opens `--connections` of each kind one after another, waits until the gateway is at rest, and prints the
difference of its resident memory for each connection. Each kind has a gateway of its own, which some connections have warmed up before.
Buffers of the kernel are not in the figure, TLS is not used. Needs Linux. Other programs on the machine do not change the figures.

    socket   `WS /v1/speak` before the first text: a connection of a client, and none to the vendor
    session  `WS /v1/listen` before the first audio: a connection of a client, and one to the vendor, which speaks Deepgram's protocol
    stream   `POST /v1/chat/completions` after its first token: a connection of a client, and one to the vendor
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import trio
from run import CACHED, free_port

WARM_UP = 100
"""Connections that are opened and closed before, so that modules and caches are loaded."""
AT_ONCE = 20  # connections that open at the same time
STEADY_KB = 64
TARGETS_KB = {"socket": 20.0, "session": 20.0, "stream": 12.0}

_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_SPEAK = "/v1/speak?model=deepgram/aura-2-thalia-en&encoding=linear16&sample_rate=16000"
_LISTEN = "/v1/listen?model=deepgram/nova-3&encoding=linear16&sample_rate=16000&interim_results=true"
_CHAT = b'{"model":"openai/gpt-4o-mini","stream":true,"messages":[{"role":"user","content":"hi"}]}'
REQUESTS = {
    "socket": _UPGRADE.format(path=_SPEAK).encode(),
    "session": _UPGRADE.format(path=_LISTEN).encode(),
    "stream": b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    % (len(_CHAT), _CHAT),
}
_OPENED = {"socket": b"HTTP/1.1 101", "session": b"HTTP/1.1 101", "stream": b"HTTP/1.1 200"}
_TOKEN = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o-mini",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n'
)
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(_TOKEN), _TOKEN)


class Vendor:
    """Accepts WebSockets and answers chats with one token; then it says nothing more until the gateway leaves."""

    def __init__(self) -> None:
        self.open = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += (data := await stream.receive_some())
            if not data:
                return
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n\r\n")[0].split(b"\r\n")[1:])
        key = next((value for name, value in fields.items() if name.lower() == b"sec-websocket-key"), b"")
        if key:
            digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            accept = base64.b64encode(digest)
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n"
            await stream.send_all(head % accept)
        else:
            await stream.send_all(_STREAM)
        self.open += 1
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        finally:
            self.open -= 1
            await stream.aclose()


def start_gateway(folder: Path, python: str, vendor: int, port: int, connections: int) -> subprocess.Popen[bytes]:
    address = f"http://127.0.0.1:{vendor}"
    (folder / "gw.yaml").write_text(f"""
providers: {{deepgram: {{api_key: k, base_url: "{address}"}}, openai: {{api_key: k, base_url: "{address}/v1"}}}}
models: {{stt: [deepgram/nova-3], tts: [deepgram/aura-2-thalia-en], llm: [openai/gpt-4o-mini]}}
cost_tracking: {{db_path: {folder}/gw.db}}
serve: {{port: {port}, max_in_flight: {2 * connections + 500}}}
routing: {{idle_s: 600}}
""")
    log = (folder / "gw.log").open("wb")
    command = [python, "-m", "gw", "serve", "--config", str(folder / "gw.yaml")]
    return subprocess.Popen(command, stdout=log, stderr=log, env=CACHED)


async def opened(kind: str, port: int, request: bytes) -> trio.SocketStream:
    """Connect, and return when the gateway has answered."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(request)
    answer = b""
    while b"\r\n\r\n" not in answer or (kind == "stream" and b"Hello" not in answer):
        data = await stream.receive_some()
        answer += data
        if not data or not answer.startswith(_OPENED[kind]):
            raise RuntimeError(f"{kind}: {answer[:500]!r}")
    return stream


async def open_all(kind: str, port: int, count: int, request: bytes = b"") -> list[trio.SocketStream]:
    """Open `count` connections. `request`: in place of the kind's usual one."""
    streams: list[trio.SocketStream] = []

    async def some(share: int) -> None:
        for _ in range(share):
            streams.append(await opened(kind, port, request or REQUESTS[kind]))

    async with trio.open_nursery() as nursery:
        for number in range(AT_ONCE):
            nursery.start_soon(some, (count - number + AT_ONCE - 1) // AT_ONCE)
    return streams


async def at_rest(pid: int) -> None:
    """Wait until the memory of the process has stayed the same for two seconds."""
    last = 0
    with trio.fail_after(60):
        while abs((now := rss_kb(pid)) - last) > STEADY_KB:
            last = now
            await trio.sleep(2)


def rss_kb(pid: int) -> int:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1])


async def measure(kind: str, count: int, python: str) -> float:
    """Return the kilobytes (1,000 bytes) of each connection."""
    vendor = Vendor()
    with tempfile.TemporaryDirectory(prefix="gw-idle-") as name:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, vendor.serve, 0)
            vendor_port, port = listeners[0].socket.getsockname()[1], free_port()
            gateway = start_gateway(Path(name), python, vendor_port, port, count)
            try:
                await until_listens(port, gateway, Path(name) / "gw.log")
                for stream in await open_all(kind, port, WARM_UP):
                    await stream.aclose()
                await at_rest(gateway.pid)
                before = rss_kb(gateway.pid)
                streams = await open_all(kind, port, count)
                await at_rest(gateway.pid)
                if kind != "socket" and vendor.open != count:
                    raise RuntimeError(f"{kind}: {vendor.open} connections to the vendor for {count} of clients")
                each = (rss_kb(gateway.pid) - before) * 1.024 / count
                for stream in streams:
                    await stream.aclose()
            finally:
                gateway.send_signal(signal.SIGTERM)
                await trio.to_thread.run_sync(gateway.wait, 30)
                nursery.cancel_scope.cancel()
    return each


async def until_listens(port: int, gateway: subprocess.Popen[bytes], log: Path) -> None:
    while gateway.poll() is None:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            return
        except OSError:
            await trio.sleep(0.05)
    raise RuntimeError(await trio.Path(log).read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="kind", help="one of " + ", ".join(REQUESTS))
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    print(f"{options.connections} connections, Python {sys.version.split()[0]}\n\n| idle | kB each | target |\n|---|---|---|")
    met = True
    for kind in options.kinds or REQUESTS:
        each = trio.run(measure, kind, options.connections, options.python)
        target = TARGETS_KB[kind]
        met = met and each <= target
        print(f"| {kind} | {each:.1f}{'' if each <= target else ' (missed)'} | ≤ {target:.0f} |", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
