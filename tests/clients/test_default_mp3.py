"""`audio.speech.create` of OpenAI's SDK without a format, decoded by PyAV: from the demo, and from a vendor with samples only."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import av
import openai
import pytest
import trio

from gw.providers.sim import fsk
from tests.clients.conftest import Gateway
from tests.e2e.conftest import starter
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.piper import FakePiper

pytestmark = pytest.mark.clients

TEXT = "one two three four five six"
PIPER = "piper/en_US-lessac-medium"


@pytest.fixture(scope="module")
def piper() -> Iterator[str]:
    """The address of a fake Piper, on a thread of its own."""
    address: list[str] = []
    ready, ended = threading.Event(), trio.Event()
    token: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            address.append(await nursery.start(serve_asgi, FakePiper(piece_s=0.1, speech_gap_s=0.05)))
            token.append(trio.lowlevel.current_trio_token())
            ready.set()
            await ended.wait()
            nursery.cancel_scope.cancel()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert ready.wait(120)
    yield address[0]
    trio.from_thread.run_sync(ended.set, trio_token=token[0])
    thread.join()


@pytest.fixture(scope="module")
def gateway(piper, tmp_path_factory) -> Iterator[Gateway]:
    text = f"""
providers: {{sim: , piper: {{base_url: "{piper}"}}}}
models: {{tts: [sim/tone, {PIPER}]}}
serve: {{port: 0}}
"""
    with starter(tmp_path_factory.mktemp("mp3")) as start:
        yield Gateway(start(text))


def decoded(mp3: bytes) -> tuple[str, bytes]:
    """Return the name of the codec, and the samples at 24 kHz."""
    with av.open(io.BytesIO(mp3)) as container:
        resampler = av.AudioResampler(format="s16", layout="mono", rate=24_000)
        frames = [made for frame in container.decode(audio=0) for made in resampler.resample(frame)]
        frames += resampler.resample(None)
        samples = b"".join(bytes(frame.planes[0])[: frame.samples * 2] for frame in frames)
        return container.streams.audio[0].codec_context.name, samples


@pytest.mark.parametrize("model", ["sim/tone", PIPER])
def test_the_sdks_default_is_an_mp3(gateway, model):
    with openai.OpenAI(base_url=gateway.base, api_key="any", max_retries=0) as client:
        speech = client.audio.speech.with_raw_response.create(model=model, voice="alloy", input=TEXT)
        assert speech.headers["content-type"] == "audio/mpeg"
        codec, samples = decoded(speech.content)
        with client.audio.speech.with_streaming_response.create(model=model, voice="alloy", input=TEXT) as response:
            pieces = list(response.iter_bytes())
    assert codec in ("mp3", "mp3float")
    assert len(samples) / 48_000 == pytest.approx(fsk.duration_s(TEXT), abs=0.06)
    assert [done.text for done in fsk.decode(samples, 24_000)] == [TEXT]
    assert b"".join(pieces) == speech.content
    assert len(pieces) > 5, "it is sent while it is made"
    record = gateway.record(speech.headers["x-request-id"])
    assert (record["model_id"], record["status"], record["input_units"]) == (model, "success", len(TEXT))
