"""A live session that a kill interrupts is billed for what the journal knows was sent, not for a flat amount."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from gw.net.http1 import Origin
from gw.net.ws import open_ws
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import SetClock
from tests.fakes.vendors.deepgram import FakeDeepgram

YAML = """
providers: {{deepgram: {{api_key: 0123456789abcdef, base_url: "{place}"}}}}
models: {{stt: [deepgram/nova-3], tts: [deepgram/aura-2-thalia-en]}}
"""
TEXT = "Your table is booked for tonight."
"""33 characters."""


@asynccontextmanager
async def opened(folder: Path) -> Any:
    async with trio.open_nursery() as nursery:
        place = await nursery.start(partial(serve_asgi, FakeDeepgram(models=("nova-3", "aura-2-thalia-en"))))
        async with open_running(folder, YAML.format(place=place), SetClock()) as running:
            yield running
        nursery.cancel_scope.cancel()


def killed(folder: Path, copy: Path) -> None:
    """Copy what the disk has at this moment: that is what a kill leaves behind."""
    for path in folder.rglob("*"):
        if path.is_file() and "lock" not in path.name:
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


async def after_the_kill(copy: Path) -> Any:
    """Return the record that the next start makes."""
    async with opened(copy) as running:
        [line] = (await running.get("/v1/logs")).json
        assert (line["status"], line["error_code"]) == ("error", "interrupted")
        record = (await running.get(f"/v1/requests/{line['id']}")).json
        assert (await running.get("/v1/costs")).json["total"] == pytest.approx(record["cost_usd"])
        return record


async def noted(running: Any, name: str) -> None:
    """Wait until the journal has some of this."""
    with trio.fail_after(60):
        while not any(getattr(intent.estimate, name) for intent in await running.gateway.store.running()):
            pass


@pytest.mark.parametrize(("flushed", "characters"), [(True, 33), (False, 100)])
async def test_speech(tmp_path, flushed, characters):
    first, copy = tmp_path / "a", tmp_path / "b"
    async with opened(first) as running:
        target = b"/v1/speak?model=deepgram/aura-2-thalia-en&encoding=linear16&sample_rate=16000"
        async with open_ws("client", Origin.parse(running.url), target, headers=[]) as ws:
            await ws.send(msgspec.json.encode({"type": "Speak", "text": TEXT}).decode())
            await noted(running, "characters")
            if flushed:
                await ws.send('{"type":"Flush"}')
                with trio.fail_after(60):
                    while not isinstance(await ws.receive(), bytes):
                        pass
            killed(first, copy)
    record = await after_the_kill(copy)
    assert record["usage"]["characters"] == characters
    assert record["cost_usd"] == pytest.approx(characters * 0.00003)


async def test_transcription(tmp_path):
    """Twelve seconds were sent, of which the last note covers five more than there were at that time."""
    first, copy = tmp_path / "a", tmp_path / "b"
    async with opened(first) as running:
        target = b"/v1/listen?model=deepgram/nova-3&encoding=linear16&sample_rate=16000"
        async with open_ws("client", Origin.parse(running.url), target, headers=[]) as ws:
            await ws.send(bytes(3_200))
            await noted(running, "audio_seconds")
            for _ in range(119):
                await ws.send(bytes(3_200))
            with trio.fail_after(60):
                while max(i.estimate.audio_seconds for i in await running.gateway.store.running()) < 12:
                    pass
            killed(first, copy)
    seconds = (await after_the_kill(copy))["usage"]["audio_seconds"]
    assert 12.0 <= seconds <= 17.0


async def test_a_session_without_audio_costs_nothing(tmp_path):
    first, copy = tmp_path / "a", tmp_path / "b"
    async with opened(first) as running:
        target = b"/v1/listen?model=deepgram/nova-3&encoding=linear16&sample_rate=16000"
        async with open_ws("client", Origin.parse(running.url), target, headers=[]):
            with trio.fail_after(60):
                while not await running.gateway.store.running():
                    pass
            killed(first, copy)
    assert (await after_the_kill(copy))["cost_usd"] == 0
