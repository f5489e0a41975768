"""MP3 of every sample rate and bit rate that a dialect has: from a vendor with samples only, and from the vendors that have it.

Sources: `output_format` in elevenlabs 2.78.0; `output_format` of `POST /tts/bytes` in Cartesia's API reference;
developers.deepgram.com/docs/tts-media-output-settings.
"""

from __future__ import annotations

import sys
from urllib.parse import parse_qs

import msgspec
import pytest

from gw.codecs.mp3 import has_bit_rate
from gw.wire.containers import frames
from tests.fakes.cells import Cells
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.word_voice import WordVoice, mp3_frames

CONFIG = """
providers:
  sim: {latency_ms: 0}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
models:
  tts:
    sim/tone: {}
    deepgram/aura-2-thalia-en: {}
    cartesia/sonic-3: {default_voice: v}
    elevenlabs/eleven_flash_v2_5: {default_voice: v}
"""
ELEVENLABS = [(22_050, 32), (24_000, 48), *((44_100, kbit) for kbit in (32, 64, 96, 128, 192))]
CARTESIA = [(rate, kbit) for rate in (8_000, 16_000, 22_050, 24_000, 44_100, 48_000) for kbit in (32, 64, 96, 128, 192)]
DEEPGRAM = [(22_050, kbit) for kbit in (8, 16, 24, 32, 40, 48)]
FORMATS = (
    [("elevenlabs", f) for f in ELEVENLABS] + [("cartesia", f) for f in CARTESIA] + [("deepgram", f) for f in DEEPGRAM]
)
TEXT = "alpha bravo."


@pytest.fixture(autouse=True)
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


def _request(dialect, model, rate, kbit):
    if dialect == "elevenlabs":
        path = f"/v1/text-to-speech/v/stream?output_format=mp3_{rate}_{kbit}"
        return path, msgspec.json.encode({"model_id": model, "text": TEXT})
    if dialect == "deepgram":
        return f"/v1/speak?model={model}&encoding=mp3&bit_rate={kbit}000", msgspec.json.encode({"text": TEXT})
    output = {"container": "mp3", "sample_rate": rate, "bit_rate": 1_000 * kbit}
    body = {"model_id": model, "transcript": TEXT, "voice": {"mode": "id", "id": "v"}, "output_format": output}
    return "/tts/bytes", msgspec.json.encode(body)


def rates_of(data):
    """Return the sample rates and bit rates of all frames."""
    found = set()
    for frame, _ in mp3_frames(data):
        of = frames.mpeg_frame(frame[:4])
        kbit = frames._KBIT[frame[1] >> 3 & 3 == 3, frame[1] >> 1 & 3][frame[2] >> 4]
        found.add((of[2], kbit))
    return found


async def test_a_vendor_with_samples_only(tmp_path, autojump_clock):
    cells = Cells(at_least=39)
    refused = []
    async with open_plane(CONFIG, tmp_path) as plane:
        for dialect, (rate, kbit) in FORMATS:
            with cells.cell(f"{dialect} {rate} {kbit}"):
                plane.kept.records.clear()
                reply = await plane.post(*_request(dialect, "sim/tone", rate, kbit))
                if not has_bit_rate(rate, kbit):
                    refused.append((rate, kbit))
                    assert (reply.status, plane.kept.record.attempts[0].outcome) == (400, "missing_ability")
                    assert f"mp3 of {rate} Hz cannot have {kbit} kbit/s" in plane.kept.record.attempts[0].detail
                else:
                    assert (reply.status, reply.headers["content-type"]) == (200, "audio/mpeg"), reply.body[:300]
                    assert rates_of(reply.body) == {(rate, kbit)}
    cells.check()
    assert refused == [*((8_000, kbit) for kbit in (96, 128, 192)), (16_000, 192), (22_050, 192), (24_000, 192)]


def _asked(entry):
    """Return the rates that a vendor was asked for; None for samples."""
    if "output_format" in entry.fields:
        output = entry.fields["output_format"]
        return (output["sample_rate"], output["bit_rate"] // 1_000) if output["container"] == "mp3" else None
    query = {name: values[0] for name, values in parse_qs(entry.fields["query"]).items()}
    if "output_format" in query:
        kind, rate, *kbit = query["output_format"].split("_")
        return (int(rate), int(kbit[0])) if kind == "mp3" else None
    return (22_050, int(query["bit_rate"]) // 1_000) if query["encoding"] == "mp3" else None


async def test_vendors_are_asked_for_what_they_have_and_else_for_samples(tmp_path, autojump_clock):
    has = {
        "elevenlabs/eleven_flash_v2_5": ELEVENLABS, "cartesia/sonic-3": CARTESIA, "deepgram/aura-2-thalia-en": DEEPGRAM,
    }  # fmt: skip
    cells = Cells(at_least=3 * 33)
    async with open_plane(CONFIG, tmp_path) as plane:
        fakes = {
            "elevenlabs": FakeElevenLabs(api_key="k"), "cartesia": FakeCartesia(api_key="k"), "deepgram": FakeDeepgram(api_key="k"),
        }  # fmt: skip
        for name, fake in fakes.items():
            fake.word_voice = WordVoice()
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        for model, formats in has.items():
            fake = fakes[model.partition("/")[0]]
            for dialect, (rate, kbit) in FORMATS:
                if not has_bit_rate(rate, kbit):
                    continue  # the fakes make real frames
                with cells.cell(f"{dialect} {rate} {kbit} from {model}"):
                    fake.ledger.clear()
                    reply = await plane.post(*_request(dialect, model, rate, kbit))
                    assert reply.status == 200, reply.body[:300]
                    (entry,) = fake.ledger
                    assert _asked(entry) == ((rate, kbit) if (rate, kbit) in formats else None)
                    assert rates_of(reply.body) == {(rate, kbit)}
    cells.check()
