"""Calls that end without the vendor's figures bill each channel that the vendor transcribes by itself.

Deepgram bills each channel with `multichannel=true` (the vendor in github.com/orgs/deepgram/discussions/932), ElevenLabs with
`use_multi_channel` (elevenlabs 2.78.0, `speech_to_text/client.py`).
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from gw.net.http1 import Origin
from gw.net.ws import open_ws
from gw.types.audio import AudioFormat
from gw.wire import wav
from tests.contract.money_cases import form
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import SetClock
from tests.fakes.vendors.deepgram import FakeDeepgram

YAML = """
providers:
  deepgram: {{api_key: 0123456789abcdef, base_url: "{deepgram}"}}
  elevenlabs: {{api_key: 0123456789abcdef, base_url: "{cut}"}}
  cut: {{type: deepgram, api_key: 0123456789abcdef, base_url: "{cut}"}}
models:
  stt: [deepgram/nova-3, cut/nova-3, elevenlabs/scribe_v2]
"""
STEREO = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2)
RECORDING = wav.header(STEREO, 256_000) + bytes(256_000)
"""Four seconds."""


async def breaks_off(scope: Any, receive: Any, send: Any) -> None:
    """Read a request, and break off in the middle of the answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b'{"results":', "more_body": True})


@asynccontextmanager
async def opened(folder: Any) -> Any:
    async with trio.open_nursery() as nursery:
        places = {
            "deepgram": await nursery.start(partial(serve_asgi, FakeDeepgram(stalls_after=1))),
            "cut": await nursery.start(partial(serve_asgi, breaks_off)),
        }
        async with open_running(folder, YAML.format(**places), SetClock()) as running:
            yield running
        nursery.cancel_scope.cancel()


async def seconds_and_cost(running: Any, model: str) -> tuple[float, float]:
    """Return what the rollups and the newest record have, which must agree."""
    [line] = (await running.get(f"/v1/logs?limit=1&model={model}")).json
    record = (await running.get(f"/v1/requests/{line['id']}")).json
    charges = [charge for charge in (await running.get("/v1/costs")).json["charges"] if charge["model_id"] == model]
    assert sum(charge["audio_seconds"] for charge in charges) == pytest.approx(record["usage"]["audio_seconds"])
    return record["usage"]["audio_seconds"], record["cost_usd"]


@pytest.mark.parametrize(("query", "channels"), [("&multichannel=true", 2), ("", 1)])
async def test_a_cut_recording(tmp_path, query, channels):
    async with opened(tmp_path) as running:
        answer = await running.ask("POST", f"/v1/listen?model=cut/nova-3{query}", RECORDING, content_type="audio/wav")
        assert answer.status == 502
        seconds, cost = await seconds_and_cost(running, "cut/nova-3")
        assert (seconds, cost) == (4.0 * channels, round(4.0 * channels * 0.0043 / 60, 9))


async def test_a_cut_recording_of_elevenlabs(tmp_path):
    async with opened(tmp_path) as running:
        body, headers = form("elevenlabs/scribe_v2", 1.0, use_multi_channel="true")
        at = body.index(b"RIFF")
        body = body[:at] + RECORDING + b"\r\n--b--\r\n"
        answer = await running.ask("POST", "/v1/speech-to-text", body, **headers)
        assert answer.status == 502, answer.body
        seconds, cost = await seconds_and_cost(running, "elevenlabs/scribe_v2")
        assert (seconds, cost) == (8.0, round(8 * 0.22 / 3_600, 9))


@pytest.mark.parametrize(("query", "channels"), [("&multichannel=true", 2), ("", 1)])
async def test_a_live_session_whose_vendor_says_nothing(tmp_path, mock_clock, query, channels):
    async with opened(tmp_path) as running:
        target = f"/v1/listen?model=deepgram/nova-3&encoding=linear16&sample_rate=16000&channels=2{query}".encode()
        async with open_ws("client", Origin.parse(running.url), target, headers=[]) as ws:
            for _ in range(20):
                await ws.send(bytes(6_400))
            with trio.fail_after(5):
                while not any(intent.estimate.audio_seconds for intent in await running.gateway.store.running()):
                    pass
        with trio.fail_after(5):
            while not (await running.get("/v1/logs?limit=1")).json:
                mock_clock.jump(0.1)
        seconds, cost = await seconds_and_cost(running, "deepgram/nova-3")
        assert (seconds, cost) == (2.0 * channels, pytest.approx(2.0 * channels * 0.00008))
