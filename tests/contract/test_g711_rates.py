"""µ-law and A-law at rates that a vendor does not have: samples are requested, and gw encodes them.

Sources: developers.deepgram.com/docs/tts-media-output-settings (8 and 16 kHz); docs.rime.ai/api-reference (8 kHz); `output_format` in
cartesia 4.2.0 (any of its rates).
"""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec
import pytest

from gw.net.ws import open_ws
from tests.contract.talkers import as_json
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.rime import FakeRime

CONFIG = """
providers:
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  rime: {api_key: k, base_url: "http://rime.test"}
models:
  tts:
    deepgram/aura-2-thalia-en: {}
    cartesia/sonic-3: {default_voice: v}
    rime/coda: {default_voice: v}
"""
TEXT = "alpha bravo."


def _requested(entry):
    """Return the encoding and the rate of a request to a vendor, in the vendor's own words."""
    if "output_format" in entry.fields:
        return entry.fields["output_format"]["encoding"], entry.fields["output_format"]["sample_rate"]
    if "samplingRate" in entry.fields:
        return entry.headers["accept"], entry.fields["samplingRate"]
    query = parse_qs(entry.fields["query"])
    return query["encoding"][0], int(query["sample_rate"][0])


@pytest.mark.parametrize(
    ("model", "rate", "requested"),
    [
        ("deepgram/aura-2-thalia-en", 8_000, ("mulaw", 8_000)),
        ("deepgram/aura-2-thalia-en", 16_000, ("mulaw", 16_000)),
        ("deepgram/aura-2-thalia-en", 24_000, ("linear16", 24_000)),
        ("cartesia/sonic-3", 24_000, ("pcm_mulaw", 24_000)),
        ("rime/coda", 8_000, ("audio/PCMU", 8_000)),
        ("rime/coda", 16_000, ("audio/L16", 16_000)),
    ],
)
async def test_over_http(model, rate, requested, tmp_path, autojump_clock):
    fakes = {"deepgram": FakeDeepgram(api_key="k"), "cartesia": FakeCartesia(api_key="k"), "rime": FakeRime(api_key="k")}
    output = {"container": "raw", "encoding": "pcm_mulaw", "sample_rate": rate}
    body = {"model_id": model, "transcript": TEXT, "voice": {"mode": "id", "id": "v"}, "output_format": output}
    async with open_plane(CONFIG, tmp_path) as plane:
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        reply = await plane.post("/tts/bytes", msgspec.json.encode(body))
        assert (reply.status, reply.headers["content-type"]) == (200, "audio/basic"), reply.body[:300]
        seconds = len(reply.body) / rate
        eight = await plane.post("/tts/bytes", msgspec.json.encode(body | {"output_format": output | {"sample_rate": 8_000}}))
        assert seconds == pytest.approx(len(eight.body) / 8_000, rel=0.01)
    (entry, _) = fakes[model.partition("/")[0]].ledger
    assert _requested(entry) == requested


@pytest.mark.parametrize(("rate", "requested"), [(8_000, ("mulaw", 8_000)), (24_000, ("linear16", 24_000))])
async def test_over_a_socket(rate, requested, tmp_path, autojump_clock):
    fake = FakeDeepgram(api_key="k")
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["deepgram.test", 80] = hosted(fake)
        path = f"/v1/speak?model=deepgram/aura-2-thalia-en&encoding=mulaw&sample_rate={rate}"
        pieces = []
        async with open_ws("client", GATEWAY, path.encode(), headers=[], connect=plane.client.connect) as ws:
            await ws.send(as_json(type="Speak", text=TEXT))
            await ws.send(as_json(type="Flush"))
            while isinstance(frame := await ws.receive(), bytes) or msgspec.json.decode(frame)["type"] != "Flushed":
                if isinstance(frame, bytes):
                    pieces.append(frame)
    assert len(b"".join(pieces)) > rate / 4
    (entry,) = fake.ledger
    assert _requested(entry) == requested
