"""A TCP proxy in threads that can break all its connections with RST, and refuse new ones, as a failing network does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

_NO_LINGER = struct.pack("ii", 1, 0)  # close() sends RST


class ResetProxy:
    """`with ResetProxy(port) as proxy`: what connects to `proxy.port` is connected to `port` of this machine."""

    def __init__(self, port: int, *, replace: tuple[bytes, bytes] = (b"", b"")) -> None:
        """`replace`: in what the server sends, the first by the second, which is as long."""
        self._target = port
        self._replace = replace
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> ResetProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Reset all connections, and each new one, until `mend`."""
        with self._lock:
            self._is_cut = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                    one.shutdown(socket.SHUT_RD)  # wakes its thread, which closes it

    def mend(self) -> None:
        self._is_cut = False

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with contextlib.ExitStack() as opened:
                opened.callback(client.close)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                if self._is_cut:
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    continue
                opened.pop_all()
            with self._lock:
                self._sockets |= {client, server}
            self._start(self._pass, client, server, (b"", b""))
            self._start(self._pass, server, client, self._replace)

    def _pass(self, source: socket.socket, target: socket.socket, replace: tuple[bytes, bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data.replace(*replace) if replace[0] else data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RD)
            with self._lock:
                self._sockets.discard(one)
            one.close()
