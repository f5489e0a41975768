"""CPU per trivial request on the HTTP host: keep-alive, a 200-byte JSON body in, a small one out.

    python bench/host_echo.py [requests] [connections]

The client is a second process, so only the server's own CPU time counts.
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
import threading
import time

import trio

from gw.net.tcp import TcpStream
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer

BODY = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"x" * 150)
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer sk-test\r\nContent-Type: application/json\r\n"
    b"User-Agent: bench\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


async def app(scope, receive, send):
    body = (await receive())["body"]
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def client(address, requests, connections):
    def talk():
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(requests // connections):
                sock.sendall(REQUEST)
                got = sock.recv(65536)
                assert got.endswith(BODY), got

    threads = [threading.Thread(target=talk) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def main(requests, connections):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    hosted = HostedApp(app=app, counted=True)
    server = HttpServer(lambda method, path: hosted, Drain())
    process = multiprocessing.get_context("spawn").Process(
        target=client, args=(listener.getsockname(), requests, connections)
    )
    process.start()
    async with trio.open_nursery() as nursery:
        for index in range(connections):
            await trio.lowlevel.wait_readable(listener)
            sock, _ = listener.accept()
            if not index:
                cpu, wall = time.process_time(), time.perf_counter()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nursery.start_soon(server.run_connection, TcpStream(sock))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    process.join()
    print(f"{cpu / requests * 1e6:.1f} us CPU a request, {requests / wall:.0f} requests/s, {connections} connections")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    trio.run(main, *(numbers + [20_000, 1][len(numbers) :]))
