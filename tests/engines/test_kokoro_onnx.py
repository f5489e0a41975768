from __future__ import annotations

import pytest
import trio

from gw.engines import kokoro_onnx
from gw.engines.engine_client import engine_process
from gw.errors import ProviderFailed
from gw.wire import wyoming
from tests.engines.test_engine_client import messages

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("libraries")]


async def speak(process, text, voice="af_heart", **more):
    async with process.request("p") as request:
        await request.send(wyoming.Synthesize(text=text, voice=wyoming.Voice(name=voice), **more))
        return [message async for message in messages(request)]


async def test_a_sentence_at_a_time(model):
    process = engine_process(kokoro_onnx, {"model_path": model("m"), "voices_path": model("v"), "device": "cpu"}, "p")
    text = "This is the first sentence. And here is another one."
    with trio.fail_after(60):
        start, *pieces, stop = await speak(process, text)
        assert (start, stop) == (wyoming.AudioStart(rate=24_000), wyoming.AudioStop())
        assert [len(piece.audio) for piece in pieces] == [2 * 240 * 27, 2 * 240 * 24]
        assert pieces[0].audio[:2] == (16_383).to_bytes(2, "little")
        slow = await speak(process, "Slow.", voice="bf_emma", speed=0.1)
        assert len(slow[1].audio) == 2 * 240 * 5 * 2
        assert [m.code for m in await speak(process, "Hi", voice="nobody")] == ["voice"]
        assert [m.code for m in await speak(process, "unspeakable")] == ["failed"]
    assert process.info.voices == ("af_heart", "am_adam", "bf_emma")


async def test_a_file_that_is_missing(model, tmp_path):
    process = engine_process(kokoro_onnx, {"model_path": model("m"), "voices_path": tmp_path / "none"}, "p")
    with trio.fail_after(60), pytest.raises(ProviderFailed, match="cannot load: FileNotFoundError"):
        await process.wait_ready("p")
