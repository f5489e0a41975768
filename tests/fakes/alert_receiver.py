"""Receivers of alerts, which verify each message by the recipe of docs/alerts.md: in memory, and on loopback for processes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import attrs
import trio

from tests.fakes.net import ServerSide

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
Mode = Literal["accept", "slow", "fail", "hang", "close", "wait"]
SLOW_S = 5.0


def _documented_recipe() -> Callable[..., bool]:
    text = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    return names["verify"]


verify = _documented_recipe()


@attrs.define
class AlertReceiver:
    """Keeps what it accepted. `mode`: what it does with a request; `clock` gives the time against which signatures are checked."""

    clock: Callable[[], float]
    mode: Mode = "accept"
    accepted: list[dict[str, Any]] = attrs.field(factory=list)
    """Bodies, each with the `webhook-id` as `message_id`, in the order of their arrival."""
    tries: int = 0
    arrived: threading.Condition = attrs.field(factory=threading.Condition)

    def take(self, headers: dict[str, str], body: bytes) -> None:
        assert headers["content-type"] == "application/json"
        assert verify(SECRET, headers, body, self.clock())
        assert not verify(SECRET, headers, body + b" ", self.clock())
        assert not verify(SECRET, headers, body, self.clock() + 301)
        with self.arrived:
            self.accepted.append({"message_id": headers["webhook-id"], **json.loads(body)})
            self.arrived.notify_all()

    @property
    def incidents(self) -> list[tuple[str, str, str]]:
        """State, rule and subject of everything accepted, in order; a message that came twice counts once."""
        messages = {message["message_id"]: message for message in self.accepted}
        return [(one["state"], one["rule"], one["subject"]) for message in messages.values() for one in message["data"]["incidents"]]

    def wait_for(self, condition: Callable[[AlertReceiver], bool], within_s: float = 60.0) -> None:
        """Wait in a thread."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: condition(self), within_s), self.incidents

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Handle a connection of a `FakeNet`."""
        side = ServerSide(stream)
        while (request := await side.request()) is not None:
            self.tries += 1
            match self.mode:
                case "accept" | "slow" as mode:
                    await trio.sleep(SLOW_S if mode == "slow" else 0)
                    self.take({name.decode(): value.decode() for name, value in request.headers.items()}, request.body)
                    await side.respond(204)
                case "fail":
                    await side.respond(500, b"no")
                case "wait":
                    await side.respond(429, b"slow down", (b"retry-after", b"30"))
                case "close":
                    return
                case "hang":
                    await trio.sleep_forever()


@contextmanager
def loopback_receiver(clock: Callable[[], float]) -> Iterator[tuple[AlertReceiver, str]]:
    """Run a receiver on loopback, and yield it with its address."""
    receiver = AlertReceiver(clock)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with receiver.arrived:
                receiver.tries += 1
                receiver.arrived.notify_all()
            body = self.rfile.read(int(self.headers["content-length"]))
            if receiver.mode == "accept":
                receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(200 if receiver.mode == "accept" else 500)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver, f"http://127.0.0.1:{server.server_port}/alerts?token=s3cr3t-query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
