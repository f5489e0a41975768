"""Real processes with stand-ins for the libraries: loading, answers, giving up, dying."""

from __future__ import annotations

import pytest
import trio

from gw.engines import faster_whisper
from gw.engines.engine_client import at_engine, worker
from gw.errors import PluginMissing, ProviderFailed
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wyoming

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("libraries")]


def engine(path):
    return worker(faster_whisper.MODULE, {"model_path": path})


async def hear(made, text, **asked):
    async with made.ask("p") as asking:
        await asking.send(wyoming.Transcribe(**asked), wyoming.AudioStart(rate=16_000))
        for piece in fsk.encode(text, 16_000):
            await asking.send(wyoming.AudioPiece(rate=16_000, audio=piece))
        await asking.send(wyoming.AudioStop())
        return [message async for message in messages(asking)]


async def messages(asking):
    while True:
        message = await asking.receive()
        yield message
        if isinstance(message, (wyoming.WholeTranscript, wyoming.AudioStop, wyoming.Failed)):
            return


async def test_it_answers_again_and_again(model):
    made = engine(model())
    with trio.fail_after(10):
        first = await hear(made, "hello|there", words=True)
        assert [m.text for m in first] == ["hello", " there", "hello there"]
        assert first[-1].segments[1].words[0].word == " there"
        assert first[-1].duration == pytest.approx(PCM_16K.seconds(sum(map(len, fsk.encode("hello|there", 16_000)))))
        assert [m.text for m in await hear(made, "ça va, 你好")] == ["ça va, 你好", "ça va, 你好"]
    assert engine(model()) is made
    assert made.info.models == ("small",)


async def test_what_is_refused_and_what_fails_ends_the_answer(model):
    with trio.fail_after(10):
        assert [m.code for m in await hear(engine(model()), "x", language="tlh")] == ["language"]
        (failed,) = await hear(engine(model("broken")), "x")
        assert (failed.code, failed.text) == ("failed", "RuntimeError")
        assert [m.text for m in await hear(engine(model("broken")), "x")] == ["RuntimeError"]


async def test_two_requests_take_turns(model):
    made = engine(model())
    heard = []

    async def one(text):
        heard.append((await hear(made, text))[-1].text)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for text in ("a", "b", "c"):
                nursery.start_soon(one, text)
    assert sorted(heard) == ["a", "b", "c"]


async def test_a_request_that_is_given_up_does_not_spoil_the_next(model):
    made = engine(model("slow"))
    with trio.fail_after(10):
        async with made.ask("p") as asking:
            await asking.send(wyoming.Transcribe(), wyoming.AudioStart(rate=16_000))
            for piece in fsk.encode("|".join("abcdefghij"), 16_000):
                await asking.send(wyoming.AudioPiece(rate=16_000, audio=piece))
            await asking.send(wyoming.AudioStop())
            assert (await asking.receive()).text == "a"
        began = trio.current_time()
        assert (await hear(made, "z"))[-1].text == "z"
        assert trio.current_time() - began < 1.5
        async with made.ask("p") as asking:   # before its audio has come
            await asking.send(wyoming.Transcribe(), wyoming.AudioStart(rate=16_000))
        async with made.ask("p"):
            pass
        with trio.move_on_after(0.01):
            await hear(made, "|".join("abcdefghij"))
        assert (await hear(made, "y"))[-1].text == "y"


async def test_a_model_that_is_none(tmp_path):
    made = engine(tmp_path / "nowhere")
    with trio.fail_after(10), pytest.raises(ProviderFailed, match=r"cannot load: FileNotFoundError: Unable to open"):
        await made.wait_ready("p")
    assert engine(tmp_path / "nowhere") is not made


async def test_an_engine_that_dies_is_started_anew(model):
    with trio.fail_after(20):
        made = engine(model("crashing"))
        with pytest.raises(ProviderFailed, match="has ended"):
            await hear(made, "x")
        again = engine(model("crashing"))
        assert again is not made
        await again.wait_ready("p")


async def test_the_module_and_the_extra_that_are_missing():
    with pytest.raises(PluginMissing) as caught:
        async with at_engine(faster_whisper.MODULE, ("no_such_library",), "whisper", {}, "p"):
            raise AssertionError
    error = caught.value
    assert isinstance(error, ModuleNotFoundError)
    assert (error.name, error.extra, error.provider, error.retryable) == ("no_such_library", "whisper", "p", True)
    assert str(error) == "No module named 'no_such_library'; install it with: pip install 'gw[whisper]'"
