"""Over loopback and by the real clock: from a caller's goodbye to its vendor's.

The vendor does not go on after some pieces, so it ends only when it learns that the caller has left. How long that takes is printed;
`bench/speech_delays.py` holds it against its bound.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.net.connect import connect_tcp
from gw.net.http1 import Origin, Pool
from tests.clients.conftest import Gateway
from tests.clients.gateway_pair import hosted
from tests.contract.dripping import FORMS, SPEAKERS, TEXT, Behind, Form, Upstream, request_of
from tests.contract.readers import READERS, send
from tests.e2e.conftest import starter
from tests.fakes.hosting import GATEWAY

pytestmark = pytest.mark.clients

WITHIN_S = 120
HEARD_S = 0.3
PIECES = 5
"""Pieces of a tenth of a second, out of some thirty."""
VOICE = {"default_voice": "alloy", "price": {"unit": "1M_characters", "usd": 1_000_000}}
"""A dollar a character."""
CLOUD = tuple(who for who in SPEAKERS if who.type in ("elevenlabs", "cartesia", "deepgram"))
everybody = pytest.mark.parametrize("behind", CLOUD, ids=lambda behind: behind.type)


@attrs.frozen
class Front:
    """The gateway, as what the readers take for a plane."""

    client: Pool
    upstreams: dict[str, Upstream]
    gateway: Gateway


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with ExitStack() as stack:
        upstreams = {who.type: Upstream(who.fake(), time.monotonic, most=PIECES) for who in CLOUD}
        at = {name: stack.enter_context(hosted(app)) for name, app in upstreams.items()}
        settings = {
            "providers": {name: {"api_key": "k", "base_url": address} for name, address in at.items()},
            "models": {"tts": {f"{who.type}/{who.name}": VOICE for who in CLOUD}},
            "serve": {"allowed_hosts": ["gateway.test"]},
        }
        daemon = stack.enter_context(starter(tmp_path_factory.mktemp("gw")))(json.dumps(settings))
        yield Front(Pool(connect=lambda origin: connect_tcp(Origin.parse(daemon.url))), upstreams, Gateway(daemon))


async def _stopped(upstream: Upstream, left_at: float) -> None:
    """Wait until the vendor has learnt it, and print how long that took."""
    with trio.fail_after(WITHIN_S):
        while not upstream.silenced:  # noqa: ASYNC110  # another thread sets it
            await trio.sleep(0.005)
    print(f"stopped after {(min(upstream.silenced) - left_at) * 1000:.2f} ms")


async def _drops(front: Front, form: Form, behind: Behind) -> dict[str, Any]:
    """Leave in the middle of the speech, and return the record."""
    upstream = front.upstreams[behind.type]
    upstream.silenced.clear()
    path, body = request_of(form, f"{behind.type}/{behind.name}")
    fields, received = [(b"content-type", b"application/json")], b""
    with trio.fail_after(WITHIN_S):
        async with front.client.open("client", b"POST", GATEWAY, path.encode(), fields, body) as response:
            while len(form.audio(received)) <= 44:
                received += await response.receive_some()
            with trio.move_on_after(HEARD_S):
                while await response.receive_some():
                    pass
    await _stopped(upstream, time.monotonic())
    record: dict[str, Any] = await trio.to_thread.run_sync(front.gateway.record, (response.header(b"x-request-id") or b"").decode())
    return record


@everybody
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_a_caller_who_drops_its_request(form, behind, front):
    record = await _drops(front, form, behind)
    assert record["status"] == "cancelled"
    assert 0 < record["wasted_usd"] == record["wasted_units"] <= record["cost_usd"] == record["input_units"]


@everybody
@pytest.mark.parametrize("how", ["closes", "says so"])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_a_client_of_a_socket(reader, how, behind, front):
    """`says so` where the protocol has a word for it; the others close."""
    upstream, model = front.upstreams[behind.type], f"{behind.type}/{behind.name}"
    upstream.silenced.clear()
    async with reader.open(front, model) as ws:
        await send(ws, [*reader.begin(model), *reader.say(TEXT), *reader.end], model)
        with trio.fail_after(WITHIN_S):
            while not _audio(reader, await ws.receive()):
                pass
        with trio.move_on_after(HEARD_S):
            while True:
                await ws.receive()
        left_at = time.monotonic()
        if how == "says so" and reader.dialect != "elevenlabs" and reader.interrupt:
            await send(ws, reader.interrupt, model)
            await _stopped(upstream, left_at)
    if how == "closes" or reader.dialect == "elevenlabs" or not reader.interrupt:
        await _stopped(upstream, left_at)


async def test_it_is_all_in_the_report(front):
    wasted = sum([(await _drops(front, FORMS[0], behind))["wasted_usd"] for behind in CLOUD])
    with trio.fail_after(WITHIN_S):
        while True:  # records of sockets that other tests have closed come a moment later
            costs, log = [await trio.to_thread.run_sync(_get, front, path) for path in ("/costs", "/logs?limit=1000")]
            if costs["wasted"] == pytest.approx(sum(record["wasted_usd"] for record in log)):
                break
    assert 0 < wasted <= costs["wasted"] + 1e-9


def _get(front: Front, path: str) -> Any:
    with urllib.request.urlopen(front.gateway.base + path) as response:
        return json.load(response)


def _audio(reader: Any, received: str | bytes) -> bytes:
    audio: bytes = reader.audio(received if isinstance(received, bytes) else msgspec.json.decode(received))
    return audio
