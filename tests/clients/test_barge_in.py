"""Over loopback and by the real clock: from a caller's goodbye to its vendor's."""

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
from tests.contract.dripping import FORMS, SPEAKERS, TEXT, Upstream, request_of
from tests.contract.readers import READERS, send
from tests.e2e.conftest import starter
from tests.fakes.hosting import GATEWAY

pytestmark = pytest.mark.clients

MOST_S = 0.1
HEARD_S = 0.3
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
        upstreams = {who.type: Upstream(who.fake(), time.monotonic) for who in CLOUD}
        at = {name: stack.enter_context(hosted(app)) for name, app in upstreams.items()}
        settings = {
            "providers": {name: {"api_key": "k", "base_url": address} for name, address in at.items()},
            "models": {"tts": {f"{who.type}/{who.name}": VOICE for who in CLOUD}},
            "serve": {"allowed_hosts": ["gateway.test"]},
        }
        daemon = stack.enter_context(starter(tmp_path_factory.mktemp("gw")))(json.dumps(settings))
        yield Front(Pool(connect=lambda origin: connect_tcp(Origin.parse(daemon.url))), upstreams, Gateway(daemon))


async def _stopped_after_s(upstream: Upstream, left_at: float) -> float:
    with trio.fail_after(5):
        while not upstream.learnt:  # noqa: ASYNC110  # another thread sets it
            await trio.sleep(0.005)
    return upstream.left_at() - left_at


@everybody
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_a_caller_who_drops_its_request(form, behind, front):
    upstream = front.upstreams[behind.type]
    upstream.learnt.clear()
    path, body = request_of(form, f"{behind.type}/{behind.name}")
    fields = [(b"content-type", b"application/json")]
    async with front.client.open("client", b"POST", GATEWAY, path.encode(), fields, body) as response:
        with trio.move_on_after(HEARD_S):
            while await response.receive_some():
                pass
    stopped_s = await _stopped_after_s(upstream, time.monotonic())
    print(f"stopped after {stopped_s * 1000:.2f} ms")
    assert stopped_s < MOST_S
    record = await trio.to_thread.run_sync(front.gateway.record, (response.header(b"x-request-id") or b"").decode())
    assert record["status"] == "cancelled"
    assert 0 < record["wasted_usd"] == record["wasted_units"] <= record["cost_usd"] == record["input_units"]


@everybody
@pytest.mark.parametrize("how", ["closes", "says so"])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_a_client_of_a_socket(reader, how, behind, front):
    """`says so` where the protocol has a word for it; the others close."""
    upstream, model = front.upstreams[behind.type], f"{behind.type}/{behind.name}"
    upstream.learnt.clear()
    async with reader.open(front, model) as ws:
        await send(ws, [*reader.begin(model), *reader.say(TEXT), *reader.end], model)
        while not _audio(reader, await ws.receive()):
            pass
        with trio.move_on_after(HEARD_S):
            while True:
                await ws.receive()
        left_at = time.monotonic()
        if how == "says so" and reader.dialect != "elevenlabs" and reader.interrupt:
            await send(ws, reader.interrupt, model)
            stopped_s = await _stopped_after_s(upstream, left_at)
    if how == "closes" or reader.dialect == "elevenlabs" or not reader.interrupt:
        stopped_s = await _stopped_after_s(upstream, left_at)
    print(f"stopped after {stopped_s * 1000:.2f} ms")
    assert stopped_s < MOST_S


async def test_it_is_all_in_the_report(front):
    """Runs last."""
    costs, log = [await trio.to_thread.run_sync(_get, front, path) for path in ("/costs", "/logs?limit=1000")]
    assert costs["wasted"] == pytest.approx(sum(record["wasted_usd"] for record in log))
    assert costs["wasted"] > len(FORMS) * len(CLOUD)


def _get(front: Front, path: str) -> Any:
    with urllib.request.urlopen(front.gateway.base + path) as response:
        return json.load(response)


def _audio(reader: Any, received: str | bytes) -> bytes:
    audio: bytes = reader.audio(received if isinstance(received, bytes) else msgspec.json.decode(received))
    return audio
