"""Callbacks over a restart: real gateways one after the other on one database, a receiver that is not there at first."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from gw.dialects import callbacks
from gw.net.http1 import Origin, Pool
from gw.serve import serve
from gw.web.drain import Drain
from tests.contract.endpoints import recording
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import open_test_gateway

YAML = """
providers: {{sim: {{latency_ms: {latency_ms}}}}}
models: {{stt: {{sim/tone: {{}}}}}}
serve: {{port: 0, recording_hosts: [127.0.0.1]}}
"""


class Receiver:
    """Takes callbacks, with these statuses in order, then 200; None = it never answers."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.calls = []

    async def __call__(self, scope, receive, send):
        body = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.calls.append((scope["method"], headers, msgspec.json.decode(body)))
        status = self.statuses.pop(0) if self.statuses else 200
        if status is None:
            await trio.sleep_forever()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def running(folder, latency_ms=0):
    """Yield the gateway, its drain and a function that asks; leaving stops the gateway at once, as a kill does."""
    async with open_test_gateway(folder, YAML.format(latency_ms=latency_ms)) as gateway:
        drain, client = Drain(), Pool()
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(serve, gateway, drain, nursery.cancel_scope)

            async def ask(method, path, body=b"", kind=b"audio/wav"):
                head = [(b"content-type", kind)]
                async with client.open("client", method, Origin.parse(url), path.encode(), head, body) as response:
                    return response.status, msgspec.json.decode(await response.read())

            try:
                yield gateway, drain, ask
            finally:
                with trio.CancelScope(shield=True):
                    await client.aclose()
            drain.halt()
            nursery.cancel_scope.cancel()


async def due(gateway):
    return [row.id for row in await gateway.store.callbacks()]


async def until(condition):
    with trio.fail_after(60):
        while not await condition():
            await trio.lowlevel.checkpoint()


async def listen(ask, place, secret=""):
    at = place.replace("http://", f"http://{secret}@") if secret else place
    status, answer = await ask(b"POST", f"/v1/listen?model=sim/tone&callback={at}/done&callback_method=put", recording())
    assert status == 200
    return answer["request_id"]


async def transcribe(ask, place):
    _, uploaded = await ask(b"POST", "/v2/upload", recording())
    hook = {"webhook_url": f"{place}/hook", "webhook_auth_header_name": "X-Secret", "webhook_auth_header_value": "s 1"}
    body = msgspec.json.encode({"audio_url": uploaded["upload_url"], "speech_model": "sim/tone", **hook})
    status, job = await ask(b"POST", "/v2/transcript", body, b"application/json")
    assert status == 200
    return job["id"]


@pytest.fixture
async def receiver():
    app = Receiver()
    async with trio.open_nursery() as nursery:
        app.place = await nursery.start(partial(serve_asgi, app))
        yield app
        nursery.cancel_scope.cancel()


async def test_a_result_that_was_refused_is_sent_after_the_restart_with_its_proof_and_once(tmp_path, receiver):
    receiver.statuses = [500, 500]
    async with running(tmp_path) as (gateway, _, ask):
        first = await listen(ask, receiver.place, "me:pass")
        second = await transcribe(ask, receiver.place)
        await until(lambda: _true(len(receiver.calls) == 2))
        assert sorted(await due(gateway)) == sorted((first, second))
        rows = b"".join(row.body for row in await gateway.store.callbacks())
        assert b"s 1" not in rows
        assert b"bWU6cGFzcw==" not in rows  # of me:pass
    async with running(tmp_path) as (gateway, _, ask):
        await until(lambda: _true(len(receiver.calls) == 4))
        await until(lambda: _empty(gateway))
        job = (await ask(b"GET", f"/v2/transcript/{second}"))[1]
        assert job["status"] == "completed"
    calls = {headers.get("x-secret", "deepgram"): (method, headers, body) for method, headers, body in receiver.calls[2:]}
    method, headers, body = calls["deepgram"]
    assert (method, headers["authorization"], headers["dg-token"]) == ("PUT", "Basic bWU6cGFzcw==", "default")
    assert (body["metadata"]["request_id"], len(body["results"]["channels"])) == (first, 1)
    assert calls["s 1"][0::2] == ("POST", {"transcript_id": second, "status": "completed"})
    async with running(tmp_path) as (gateway, _, _):
        assert await due(gateway) == []
    assert len(receiver.calls) == 4


async def test_what_a_stop_cut_is_told_after_the_restart(tmp_path, receiver):
    async with running(tmp_path, latency_ms=60_000) as (gateway, _, ask):
        first = await listen(ask, receiver.place)
        second = await transcribe(ask, receiver.place)
        assert sorted(await due(gateway)) == sorted((first, second))
    assert receiver.calls == []
    async with running(tmp_path) as (gateway, _, ask):
        await until(lambda: _true(len(receiver.calls) == 2))
        await until(lambda: _empty(gateway))
        assert (await ask(b"GET", f"/v2/transcript/{second}"))[1]["status"] == "error"
    bodies = {method: body for method, _, body in receiver.calls}
    assert bodies["POST"] == {"transcript_id": second, "status": "error"}
    assert bodies["PUT"]["request_id"] == first
    assert callbacks.CUT in str(bodies["PUT"])


async def test_tries_are_counted_over_restarts_and_end(tmp_path, receiver):
    receiver.statuses = [*[500] * 9, None]  # the gateway stops within the last try
    with capture_logs() as logs:
        async with running(tmp_path) as (_, _, ask):
            id_ = await listen(ask, receiver.place)
            await until(lambda: _true(len(receiver.calls) == 1))
        for number in range(2, 11):
            async with running(tmp_path) as (gateway, _, _):
                await until(lambda number=number: _true(len(receiver.calls) == number))
        async with running(tmp_path) as (gateway, _, _):
            await until(lambda: _empty(gateway))
    assert len(receiver.calls) == 10
    assert [(line["request_id"], line["tries"]) for line in logs if line["event"] == "callback_failed"] == [(id_, 10)]


async def test_no_drain_waits_for_a_receiver_that_is_tried_again_later(tmp_path, receiver):
    receiver.statuses = [500]
    async with running(tmp_path) as (gateway, drain, ask):
        await listen(ask, receiver.place)
        await until(lambda: _true(len(receiver.calls) == 1))
        with trio.CancelScope(shield=True), trio.fail_after(60):  # the end of the drain cancels what runs here
            drain.begin(30.0)
            await drain.wait_idle()
            assert len(await due(gateway)) == 1


async def test_a_callback_older_than_a_day_is_not_sent(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(callbacks, "LIFETIME_S", -1.0)
    receiver.statuses = [500]
    async with running(tmp_path) as (_, _, ask):
        await listen(ask, receiver.place)
        await until(lambda: _true(len(receiver.calls) == 1))
    with capture_logs() as logs:
        async with running(tmp_path) as (gateway, _, _):
            await until(lambda: _empty(gateway))
    assert len(receiver.calls) == 1
    assert [line["outcome"] for line in logs if line["event"] == "callback_failed"] == ["it is older than a day"]


async def _true(value):
    return value


async def _empty(gateway):
    return await due(gateway) == []
