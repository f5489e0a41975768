"""Live transcription that moves on: audio in over a WebSocket, its attempts and losses out of the reports."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gw.net.http1 import Origin
from gw.net.ws import WsClosed, open_ws
from gw.providers.sim import fsk
from gw.relay import session_audio
from gw.store.writer import GATHER_S
from gw.types.stt import Interim
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import SetClock
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.live import FakeListener

YAML = """
providers:
  first: {{type: deepgram, api_key: 0123456789abcdef, base_url: "{first}"}}
  second: {{type: deepgram, api_key: 0123456789abcdef, base_url: "{second}"}}
models: {{stt: [first/nova-3, second/nova-3]}}
fallbacks: {{stt: {chain}}}
"""
FRAME = 3_200  # a tenth of a second


class NeverFinal(FakeListener):
    def feed(self, data):
        return [event for event in super().feed(data) if isinstance(event, Interim)]


class Setup:
    def __init__(self, running, first, jump):
        self.running = running
        self._first = first
        self._jump = jump

    async def listen(self, pcm):
        """Hold a session; return its final transcripts and its record."""
        target = b"/v1/listen?model=first/nova-3&encoding=linear16&sample_rate=16000&interim_results=true"
        finals = []
        async with open_ws("client", Origin.parse(self.running.url), target, headers=[]) as ws:
            for at in range(0, len(pcm), FRAME):
                await ws.send(pcm[at : at + FRAME])
                while not at and not (self._first.ledger and self._first.ledger[0].audio):  # the vendor hears
                    await trio.lowlevel.checkpoint()
            await ws.send('{"type":"CloseStream"}')
            with trio.fail_after(20), suppress(WsClosed):
                while True:
                    frame = msgspec.json.decode(await ws.receive())
                    if frame.get("is_final") and (text := frame["channel"]["alternatives"][0]["transcript"]):
                        finals.append(text)
        self._jump(GATHER_S)
        [line] = (await self.running.get("/v1/logs?limit=1")).json
        return finals, (await self.running.get(f"/v1/requests/{line['id']}")).json

    async def metric(self, name):
        text = (await self.running.get("/v1/metrics")).body.decode()
        [family] = [family for family in text_string_to_metric_families(text) if family.name == name]
        return {sample.labels.get("model"): sample.value for sample in family.samples}


@asynccontextmanager
async def setup(tmp_path, mock_clock, first, chain):
    async with trio.open_nursery() as nursery:
        apps = {"first": first, "second": FakeDeepgram()}
        places = {name: await nursery.start(partial(serve_asgi, app)) for name, app in apps.items()}
        async with open_running(tmp_path, YAML.format(**places, chain=chain), SetClock()) as running:
            yield Setup(running, first, mock_clock.jump)
        nursery.cancel_scope.cancel()


async def test_speech_that_was_lost_is_in_the_request_and_in_the_metrics(tmp_path, mock_clock, monkeypatch):
    monkeypatch.setattr(session_audio, "MAX_S", 2.0)
    first = FakeDeepgram(make_listener=NeverFinal, close_after=(30, 1011))
    async with setup(tmp_path, mock_clock, first, "[first/nova-3, second/nova-3]") as made:
        pcm = b"".join(fsk.encode("a bc de " * 12, 16_000))
        _, record = await made.listen(pcm)
        assert [(a["model_id"], a["outcome"]) for a in record["attempts"]] == [("first/nova-3", "failed"), ("second/nova-3", "ok")]
        before, after = (attempt["lost_s"] for attempt in record["attempts"])
        assert before is None
        assert after == pytest.approx(len(pcm) / 32_000 - 2.0, abs=1.2)  # as far as it had been sent by then
        assert await made.metric("gw_replay_lost_seconds") == {"second/nova-3": pytest.approx(after)}


async def test_the_same_vendor_again_is_in_the_request(tmp_path, mock_clock):
    first = FakeDeepgram(close_after=(4, 1011), faulty_sockets=1)
    async with setup(tmp_path, mock_clock, first, "[first/nova-3]") as made:
        finals, record = await made.listen(b"".join(fsk.encode("one two three", 16_000)))
        assert finals == ["one two three"]
        assert [(a["model_id"], a["outcome"]) for a in record["attempts"]] == [("first/nova-3", "failed"), ("first/nova-3", "ok")]
        assert (record["status"], record["fallback_from"]) == ("success", None)
        assert await made.metric("gw_replay_lost_seconds") == {}
