"""Piper's own HTTP server as a child process, on a free port of loopback. piper-tts is never imported here: it is GPL.

Source: piper-tts 1.8.0, `piper/http_server.py`: `-m` the voice's .onnx file, `--data-dir` where other voices are.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog
import trio

from gw.engines.process import OwnedProcess, process_of, require
from gw.net.connect import Origin, connect_tcp
from gw.net.transport import LOST

_log = structlog.get_logger("gw.engines")
NEEDS = ("piper", "flask")
EXTRA = "piper"
_RETRY_S: Final = 0.1
PROBE_EVERY_S: Final = 10.0
PROBE_S: Final = 10.0  # for the first byte of an answer; Flask answers in other threads while one speaks
PROBES: Final = 2  # left unanswered one after the other: the server has hung
_PROBE: Final = b"GET /voices HTTP/1.0\r\n\r\n"
_HOST = "127.0.0.1"


class Server(OwnedProcess):
    """The server's process. `port` is chosen when it is started."""

    def __init__(self, command: Sequence[str]) -> None:
        self.port = _free_port()
        port = ["--host", _HOST, "--port", str(self.port)]
        super().__init__([sys.executable, "-m", "gw.engines.supervise", *command, *port])

    async def _use(self, process: trio.Process) -> None:
        """Become ready once the server accepts connections: it loads the voice before it listens. End it when it has hung."""
        origin = Origin(scheme="http", host=_HOST, port=self.port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_exit, process, nursery.cancel_scope)
            while not self.ready.is_set():
                try:
                    transport = await connect_tcp(origin)
                except LOST:
                    await trio.sleep(_RETRY_S)
                else:
                    transport.abort()
                    self.ready.set()
            unanswered = 0
            while unanswered < PROBES:
                await trio.sleep(PROBE_EVERY_S)
                unanswered = 0 if await self._answers(origin) else unanswered + 1
            self.fault = "its server no longer answers"
            _log.warning("engine_hung", engine="piper")
            nursery.cancel_scope.cancel()

    async def _answers(self, origin: Origin) -> bool:
        with trio.move_on_after(PROBE_S):
            try:
                transport = await connect_tcp(origin)
                try:
                    await transport.send_all(_PROBE)
                    answered = False
                    while await transport.receive_some():  # to its end, or the server logs a reset
                        answered = True
                    return answered
                finally:
                    transport.abort()
            except LOST:
                return False
        return False

    async def _until_exit(self, process: trio.Process, scope: trio.CancelScope) -> None:
        code = await process.wait()
        self.fault = f"its server ended with code {code}"
        scope.cancel()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def command(options: Mapping[str, object]) -> list[str]:
    """Return the command that starts the server, without its port."""
    model = Path(str(options["model_path"]))
    voices = options.get("voices_path") or model.parent
    cuda = ["--cuda"] if options.get("device") == "cuda" else []
    return [sys.executable, "-m", "piper.http_server", "-m", str(model), "--data-dir", str(voices), *cuda]


async def address(provider: str, options: Mapping[str, object]) -> str:
    """Return the `base_url` of the server with these options, started if it is not running.

    Raises PluginMissing, ProviderFailed.
    """
    require(NEEDS, EXTRA, provider)
    server = process_of(command(options), Server)
    await server.wait_ready(provider)
    return f"http://{_HOST}:{server.port}"
