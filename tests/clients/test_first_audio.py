"""Over loopback and by the real clock: from a vendor's first piece of speech to the caller's, at every endpoint that speaks.

The vendor's second piece waits until the caller has the first one. How long that takes is printed; `bench/speech_delays.py` holds it
against its bound.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.net.connect import connect_tcp
from gw.net.http1 import Origin, Pool
from tests.clients.gateway_pair import hosted
from tests.contract.dripping import FORMS, SPEAKERS, TEXT, Behind, Dripping, Form, is_audio, request_of
from tests.contract.readers import READERS, Reader, send
from tests.e2e.conftest import starter
from tests.fakes.hosting import GATEWAY, open_plane
from tests.fakes.hosting import hosted as in_memory
from tests.fakes.vendors.piper import FakePiper

pytestmark = pytest.mark.clients

ROUNDS = 3
WITHIN_S = 120
GAP_S = 0.05
"""Between two pieces of a vendor: 3 s of speech take 1.5 s."""
CLOUD = tuple(who for who in SPEAKERS if who.type in ("openai", "elevenlabs", "cartesia", "deepgram"))


class Watched:
    """Notes when the last request's first piece of speech went out, and sends no more of it until that `arrived`."""

    def __init__(self, app: Any) -> None:
        app.speech_gap_s = GAP_S
        self.first_at = 0.0
        self._received: tuple[trio.lowlevel.TrioToken, trio.Event] | None = None
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        received: trio.Event | None = None

        async def noted(message: Any) -> None:
            nonlocal received
            audio = is_audio(message.get("body") or message.get("bytes") or message.get("text") or b"")
            if received is not None and (audio or message["type"] == "http.response.body"):
                await received.wait()
            elif received is None and audio:
                received = trio.Event()
                self._received = trio.lowlevel.current_trio_token(), received
                self.first_at = time.monotonic()
            await send(message)

        await self._app(scope, receive, noted)

    def arrived(self) -> None:
        """Let the vendor, in its thread, go on."""
        assert self._received is not None
        token, received = self._received
        token.run_sync_soon(received.set)


@attrs.frozen
class Front:
    """The gateway, as what the readers take for a plane."""

    client: Pool
    watched: dict[str, Watched]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with ExitStack() as stack:
        watched = {who.type: Watched(who.fake()) for who in CLOUD}
        root = {"openai": "/v1"}
        at = {name: stack.enter_context(hosted(app)) + root.get(name, "") for name, app in watched.items()}
        settings = {
            "providers": {name: {"api_key": "k", "base_url": address} for name, address in at.items()},
            "models": {"tts": {f"{who.type}/{who.name}": {"default_voice": "alloy"} for who in CLOUD}},
            "serve": {"allowed_hosts": ["gateway.test"]},
        }
        daemon = stack.enter_context(starter(tmp_path_factory.mktemp("gw")))(json.dumps(settings))
        yield Front(Pool(connect=lambda origin: connect_tcp(Origin.parse(daemon.url))), watched)


async def _over_http(front: Front, form: Form, model: str) -> float:
    path, body = request_of(form, model)
    received = b""
    fields = [(b"content-type", b"application/json")]
    async with front.client.open("client", b"POST", GATEWAY, path.encode(), fields, body) as response:
        assert response.status == 200
        while len(form.audio(received)) <= 44:
            received += await response.receive_some()
        return time.monotonic()


async def _over_a_socket(front: Front, reader: Reader, model: str) -> float:
    async with reader.open(front, model) as ws:  # type: ignore[arg-type]  # it has a client
        await send(ws, [*reader.begin(model), *reader.say(TEXT), *reader.end], model)
        while True:
            received = await ws.receive()
            if reader.audio(received if isinstance(received, bytes) else msgspec.json.decode(received)):
                return time.monotonic()


async def _measured(front: Front, behind: Behind, once: Callable[[str], Awaitable[float]]) -> float:
    """Return the seconds of the fastest round. The first one warms connections."""
    took: list[float] = []
    for _ in range(1 + ROUNDS):
        with trio.fail_after(WITHIN_S):
            heard_at = await once(f"{behind.type}/{behind.name}")
        front.watched[behind.type].arrived()
        took.append(heard_at - front.watched[behind.type].first_at)
    return min(took[1:])


@pytest.mark.parametrize("behind", CLOUD, ids=lambda behind: behind.type)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_over_http(form, behind, front):
    took_s = await _measured(front, behind, lambda model: _over_http(front, form, model))
    await front.client.aclose()
    print(f"first audio {took_s * 1000:.2f} ms")
    assert took_s > 0


@pytest.mark.parametrize("behind", CLOUD[1:], ids=lambda behind: behind.type)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_over_a_socket(reader, behind, front):
    took_s = await _measured(front, behind, lambda model: _over_a_socket(front, reader, model))
    print(f"first audio {took_s * 1000:.2f} ms")
    assert took_s > 0


PIPER = """
providers: {piper: {type: piper, base_url: "http://vendor.test"}}
models: {tts: [piper/voice]}
"""


@pytest.mark.parametrize("encoding", ["mp3", "opus", "aac", "flac"])
async def test_the_first_frame_of_speech_that_is_compressed(encoding, tmp_path):
    """The vendor's second piece waits until the caller has what the first one, of half a second, became."""
    dripping = Dripping(FakePiper(piece_s=0.5), is_audio)
    form = Form(name="openai", path="/v1/audio/speech", body={"input": TEXT, "voice": "alloy", "response_format": encoding})
    path, body = request_of(form, "piper/voice")
    async with open_plane(PIPER, tmp_path) as plane:
        plane.net.hosts["vendor.test", 80] = in_memory(dripping)
        with trio.fail_after(WITHIN_S):
            async with plane.open(path, body) as response:
                assert response.status == 200
                assert await response.receive_some()
                assert not dripping.overtaken
                dripping.received.set()
                while await response.receive_some():
                    pass
    assert dripping.overtaken
