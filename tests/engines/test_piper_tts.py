from __future__ import annotations

import os
import signal

import pytest
import trio

from gw.engines import piper_tts
from gw.engines.process import process_of
from gw.errors import PluginMissing, ProviderError, ProviderFailed
from gw.net.http1 import Origin, Pool
from tests.fakes.processes import children, wait_gone

pytestmark = pytest.mark.process


@pytest.mark.usefixtures("libraries")
async def test_a_server_of_ours(model):
    options = {"model_path": model("en_US-lessac-medium")}
    pool = Pool()
    with trio.fail_after(60):
        address = await piper_tts.address("p", options)
        assert await piper_tts.address("p", options) == address
        server = process_of(piper_tts.command(options), piper_tts.Server)
        origin = Origin.parse(address)
        async with pool.open("p", b"POST", origin, b"/synthesize", [], b'{"text":"hello"}') as response:
            assert response.status == 200
        with pytest.raises(ProviderError):
            async with pool.open("p", b"POST", origin, b"/synthesize", [], b'{"text":"die"}') as response:
                raise AssertionError
        await server.ended.wait()
        assert await piper_tts.address("p", options) != address
    await pool.aclose()


@pytest.mark.usefixtures("libraries")
async def test_an_invalid_voice(tmp_path):
    with trio.fail_after(60), pytest.raises(ProviderFailed, match="its server ended with code 1"):
        await piper_tts.address("p", {"model_path": tmp_path / "none.onnx"})


async def test_without_the_library():
    with pytest.raises(PluginMissing, match=r"No module named 'piper'; install gw with its extra 'piper'"):
        await piper_tts.address("p", {"model_path": "x.onnx"})


@pytest.mark.usefixtures("libraries")
async def test_a_server_that_hangs_is_started_again(model, monkeypatch):
    monkeypatch.setattr(piper_tts, "PROBE_EVERY_S", 0.1)
    monkeypatch.setattr(piper_tts, "PROBE_S", 0.2)
    options = {"model_path": model("en_US-lessac-medium")}
    with trio.fail_after(60):
        address = await piper_tts.address("p", options)
        server = process_of(piper_tts.command(options), piper_tts.Server)
        await trio.sleep(0.5)
        assert not server.over
        [guard] = children(os.getpid(), "gw.engines.supervise")
        [hung] = children(guard)
        os.kill(hung, signal.SIGSTOP)
        await server.ended.wait()
        assert server.fault == "its server no longer answers"
        assert await piper_tts.address("p", options) != address
        await trio.to_thread.run_sync(wait_gone, hung)
