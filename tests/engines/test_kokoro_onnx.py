from __future__ import annotations

import pytest
import trio

from gw.engines import kokoro_onnx
from gw.engines.engine_client import worker
from gw.errors import ProviderFailed
from gw.wire import wyoming
from tests.engines.test_engine_client import messages

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("libraries")]


async def say(made, text, voice="af_heart", **more):
    async with made.ask("p") as asking:
        await asking.send(wyoming.Synthesize(text=text, voice=wyoming.Voice(name=voice), **more))
        return [message async for message in messages(asking)]


async def test_a_sentence_at_a_time(model):
    made = worker(kokoro_onnx.MODULE, {"model_path": model("m"), "voices_path": model("v"), "device": "cpu"})
    text = "This is the first sentence. And here is another one."
    with trio.fail_after(10):
        start, *pieces, stop = await say(made, text)
        assert (start, stop) == (wyoming.AudioStart(rate=24_000), wyoming.AudioStop())
        assert [len(piece.audio) for piece in pieces] == [2 * 240 * 27, 2 * 240 * 24]
        assert pieces[0].audio[:2] == (16_383).to_bytes(2, "little")
        slow = await say(made, "Slow.", voice="bf_emma", speed=0.1)
        assert len(slow[1].audio) == 2 * 240 * 5 * 2
        assert [m.code for m in await say(made, "Hi", voice="nobody")] == ["voice"]
        assert [m.code for m in await say(made, "unspeakable")] == ["failed"]
    assert made.info.voices == ("af_heart", "am_adam", "bf_emma")


async def test_a_file_that_is_missing(model, tmp_path):
    made = worker(kokoro_onnx.MODULE, {"model_path": model("m"), "voices_path": tmp_path / "none"})
    with trio.fail_after(10), pytest.raises(ProviderFailed, match="cannot load: FileNotFoundError"):
        await made.wait_ready("p")
