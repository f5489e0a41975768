"""What one upstream call costs in gw.net: keep-alive GET and POST over loopback, plain and TLS.

    python -m bench.net_call [CALLS]

The server is a bare selector loop in a process of its own; the figures are CPU time of the calling process, kernel
included, and wall time, in µs per call. The first line is the same exchange with a blocking socket and no HTTP: the
kernel's own share.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import ssl
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio
import trustme

from gw.net.http1 import Origin, Pool

BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 900 + b'"}]}'
ANSWER = b'{"choices":[{"message":{"content":"' + b"y" * 400 + b'"}}],"usage":{"total_tokens":100}}'
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: 1\r\ncontent-length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)
HEADERS = [(b"content-type", b"application/json"), (b"authorization", b"Bearer sk-0000000000000000000000000000")]


def serve(ready, cert: str) -> None:
    """Answers every request that fits one read; with `cert` over TLS."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    ready.send(listener.getsockname()[1])
    context = None
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert)
    select = selectors.DefaultSelector()
    select.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in select.select():
            sock = key.fileobj
            if sock is listener:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                select.register(context.wrap_socket(peer, server_side=True) if context else peer, selectors.EVENT_READ)
            elif sock.recv(65_536):
                sock.sendall(REPLY)
            else:
                select.unregister(sock)
                sock.close()


async def one(pool: Pool, origin: Origin, method: bytes, body: bytes) -> None:
    async with pool.open("bench", method, origin, b"/chat/completions", HEADERS, body) as response:
        assert await response.read() == ANSWER


async def worker(call, calls: int) -> None:
    for _ in range(calls):
        await call()


async def measure(name: str, call, calls: int, in_flight: int) -> None:
    async with trio.open_nursery() as nursery:  # warm up, open the connections
        for _ in range(in_flight):
            nursery.start_soon(worker, call, 50)
    cpu, wall = time.process_time(), time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(worker, call, calls // in_flight)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{name:<22} {in_flight:>3} in flight   {1e6 * cpu / calls:6.1f} µs CPU   {1e6 * wall / calls:6.1f} µs wall")


def floor(port: int, calls: int) -> None:
    sock = socket.create_connection(("127.0.0.1", port))
    request = b"POST / HTTP/1.1\r\n\r\n" + BODY
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        sock.sendall(request)
        sock.recv(65_536)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(
        f"{'blocking socket':<22}   1 in flight   {1e6 * cpu / calls:6.1f} µs CPU   {1e6 * wall / calls:6.1f} µs wall"
    )


def start(cert: str) -> tuple[multiprocessing.Process, int]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, cert), daemon=True)
    server.start()
    return server, ours.recv()


async def run(scheme: str, port: int, context: ssl.SSLContext | None, calls: int) -> None:
    origin = Origin.parse(f"{scheme}://127.0.0.1:{port}/v1")
    pool = Pool(ssl_context=context)
    for in_flight in (1, 32):
        for method, body in ((b"GET", b""), (b"POST", BODY)):
            name = f"{scheme} {method.decode()}"
            await measure(name, partial(one, pool, origin, method, body), calls, in_flight)
    await pool.aclose()


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    plain, port = start("")
    floor(port, calls)
    trio.run(run, "http", port, None, calls)
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder, "chain.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(chain))
        secure, port = start(str(chain))
        trio.run(run, "https", port, context, calls)
    plain.terminate()
    secure.terminate()


if __name__ == "__main__":
    main()
