"""Speech as a WAV whose samples are not 16-bit PCM: what callers get from every vendor.

Sources: developers.deepgram.com/docs/tts-media-output-settings ("Audio Format Combinations"): a WAV is the default for µ-law and
A-law as well; `output_format` of `POST /tts/bytes` in cartesia 4.2.0, whose WAV has any of the four encodings.
"""

from __future__ import annotations

import msgspec
import pytest

from gw.types.audio import AudioFormat
from gw.wire import wav
from gw.wire.convert import converter
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  sim: {latency_ms: 0}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
models:
  tts:
    sim/tone: {}
    deepgram/aura-2-thalia-en: {}
    cartesia/sonic-3: {default_voice: v}
"""
TEXT = "alpha bravo."
MODELS = ["sim/tone", "deepgram/aura-2-thalia-en", "cartesia/sonic-3"]
DEEPGRAM = {"mulaw": "mulaw", "alaw": "alaw"}
CARTESIA = {"pcm_mulaw": "mulaw", "pcm_alaw": "alaw", "pcm_f32le": "pcm_f32le"}
CALLERS = [("deepgram", name) for name in DEEPGRAM] + [("cartesia", name) for name in CARTESIA]


def _request(dialect, encoding, container, model):
    if dialect == "deepgram":
        return f"/v1/speak?model={model}&encoding={encoding}{container}", msgspec.json.encode({"text": TEXT})
    output = {"container": container, "encoding": encoding, "sample_rate": 8_000}
    body = {"model_id": model, "transcript": TEXT, "voice": {"mode": "id", "id": "v"}, "output_format": output}
    return "/tts/bytes", msgspec.json.encode(body)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("dialect", "encoding"), CALLERS)
async def test_samples_follow_the_header_that_describes_them(dialect, encoding, model, tmp_path, autojump_clock):
    fmt = AudioFormat(encoding={**DEEPGRAM, **CARTESIA}[encoding], sample_rate_hz=8_000)
    in_wav, bare = {"deepgram": ("", "&container=none"), "cartesia": ("wav", "raw")}[dialect]
    async with open_plane(CONFIG, tmp_path) as plane:
        for name, fake in (("deepgram", FakeDeepgram(api_key="k")), ("cartesia", FakeCartesia(api_key="k"))):
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        whole = await plane.post(*_request(dialect, encoding, in_wav, model))
        samples = await plane.post(*_request(dialect, encoding, bare, model))
    assert (whole.status, whole.headers["content-type"]) == (200, "audio/wav"), whole.body[:300]
    assert samples.headers["content-type"] != "audio/wav"
    info = wav.parse(whole.body)
    assert info is not None
    assert info.format == fmt
    assert whole.body[info.data_offset :] == samples.body
    assert any(converter(fmt, AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)).feed(samples.body))
