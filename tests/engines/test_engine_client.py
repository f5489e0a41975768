"""Real processes with stand-ins for the libraries: loading, answers, aborted requests, crashes."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest
import trio

from gw.engines import engine_client, faster_whisper
from gw.engines.engine_client import engine_process, engine_request
from gw.errors import PluginMissing, ProviderFailed
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wyoming
from tests.fakes.processes import children

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("libraries")]


def engine(path):
    return engine_process(faster_whisper, {"model_path": path}, "p")


async def transcribe(process, text, **options):
    async with process.request("p") as request:
        await request.send(wyoming.Transcribe(**options), wyoming.AudioStart(rate=16_000))
        for piece in fsk.encode(text, 16_000):
            await request.send(wyoming.AudioPiece(rate=16_000, audio=piece))
        await request.send(wyoming.AudioStop())
        return [message async for message in messages(request)]


async def messages(request):
    while True:
        message = await request.receive()
        yield message
        if isinstance(message, (wyoming.FinalTranscript, wyoming.AudioStop, wyoming.ErrorMessage)):
            return


async def test_it_answers_again_and_again(model):
    process = engine(model())
    with trio.fail_after(60):
        first = await transcribe(process, "hello|there", words=True)
        assert [m.text for m in first] == ["hello", " there", "hello there"]
        assert first[-1].segments[1].words[0].word == " there"
        assert first[-1].duration == pytest.approx(PCM_16K.seconds(sum(map(len, fsk.encode("hello|there", 16_000)))))
        assert [m.text for m in await transcribe(process, "ça va, 你好")] == ["ça va, 你好", "ça va, 你好"]
    assert engine(model()) is process
    assert process.info.models == ("small",)


async def test_what_is_refused_and_what_fails_ends_the_answer(model):
    with trio.fail_after(60):
        assert [m.code for m in await transcribe(engine(model()), "x", language="tlh")] == ["language"]
        (failed,) = await transcribe(engine(model("broken")), "x")
        assert (failed.code, failed.text) == ("failed", "RuntimeError")
        assert [m.text for m in await transcribe(engine(model("broken")), "x")] == ["RuntimeError"]


async def test_two_requests_take_turns(model):
    process = engine(model())
    texts = []

    async def one(text):
        texts.append((await transcribe(process, text))[-1].text)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for text in ("a", "b", "c"):
                nursery.start_soon(one, text)
    assert sorted(texts) == ["a", "b", "c"]


async def test_an_aborted_request_does_not_spoil_the_next(model):
    process = engine(model("slow"))
    with trio.fail_after(60):
        async with process.request("p") as request:
            await request.send(wyoming.Transcribe(), wyoming.AudioStart(rate=16_000))
            for piece in fsk.encode("|".join("abcdefghij"), 16_000):
                await request.send(wyoming.AudioPiece(rate=16_000, audio=piece))
            await request.send(wyoming.AudioStop())
            assert (await request.receive()).text == "a"
        assert (await transcribe(process, "z"))[-1].text == "z"
        async with process.request("p") as request:   # before its audio has arrived
            await request.send(wyoming.Transcribe(), wyoming.AudioStart(rate=16_000))
        async with process.request("p"):
            pass
        with trio.move_on_after(0.01):
            await transcribe(process, "|".join("abcdefghij"))
        assert (await transcribe(process, "y"))[-1].text == "y"


async def test_an_engine_that_hangs_is_started_again(model, monkeypatch):
    monkeypatch.setattr(engine_client, "ABORTED_S", 0.3)
    process = engine(model("slow"))
    with trio.fail_after(60):
        async with process.request("p") as request:
            await request.send(wyoming.Transcribe(), wyoming.AudioStart(rate=16_000))
            [pid] = children(os.getpid(), "gw.engines.faster_whisper")
            os.kill(pid, signal.SIGSTOP)
            await request.send(wyoming.AudioStop())
        with pytest.raises(ProviderFailed, match="no longer answers"):
            await transcribe(process, "x")
        again = engine(model("slow"))
        assert (await transcribe(again, "y"))[-1].text == "y"


async def test_an_invalid_model(tmp_path):
    process = engine(tmp_path / "nowhere")
    with trio.fail_after(60), pytest.raises(ProviderFailed, match=r"cannot load: FileNotFoundError: Unable to open"):
        await process.wait_ready("p")
    assert engine(tmp_path / "nowhere") is not process


async def test_an_engine_that_crashes_is_started_again(model):
    with trio.fail_after(60):
        process = engine(model("crashing"))
        with pytest.raises(ProviderFailed, match="has ended"):
            await transcribe(process, "x")
        again = engine(model("crashing"))
        assert again is not process
        await again.wait_ready("p")


async def test_a_missing_library_names_its_extra():
    module = SimpleNamespace(MODULE="m", NEEDS=("no_such_library",), EXTRA="whisper", OPTIONS=())
    with pytest.raises(PluginMissing) as caught:
        async with engine_request(module, {}, "p"):
            raise AssertionError
    error = caught.value
    assert isinstance(error, ModuleNotFoundError)
    assert (error.name, error.extra, error.provider, error.retryable) == ("no_such_library", "whisper", "p", True)
    assert str(error) == "No module named 'no_such_library'; install gw with its extra 'whisper': pip install '.[whisper]' in a checkout"
