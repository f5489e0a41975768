"""A client's own reconnect, unchanged, where the worker that its session was pinned to is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import TEXT
from tests.e2e.conftest import Daemon, compiled_once, starter
from tests.e2e.test_workers_live import get, wait_for

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),  # of LiveKit's own making
]

RATE_HZ = 16_000
PCM = b"".join(fsk.encode(TEXT, RATE_HZ)) + bytes(4 * RATE_HZ)
"""The sentence, and two seconds of silence."""
FRAME = RATE_HZ // 10 * 2  # a tenth of a second


@pytest.fixture
def daemon(tmp_path) -> Iterator[Daemon]:
    with starter(tmp_path) as start:
        yield start("providers: {sim: {}}\nmodels: {stt: [sim/tone]}\nserve: {workers: 2}\n", **compiled_once(tmp_path))


def busy_workers(url: str) -> list[int]:
    """Return the process ids of the workers that have a session."""
    return [worker["pid"] for worker in get(url, "/v1/status")["workers"] if worker["in_flight"] == 1]


def move_the_session(url: str) -> None:
    """Kill the worker that has the only session, and wait until another one has it."""
    [pid] = wait_for(lambda: busy_workers(url))
    os.kill(pid, signal.SIGKILL)

    def has_moved() -> bool:
        try:
            return any(other != pid for other in busy_workers(url))
        except ConnectionError:  # it had waited at the worker that was killed
            return False

    wait_for(has_moved)


def test_livekit_goes_on_with_another_worker_and_the_cut_session_has_its_record(package, daemon):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import deepgram

    async def say(stream: Any) -> str:
        """Send the sentence at real time, and return what is understood of it."""

        async def send() -> None:
            for begin in range(0, len(PCM), FRAME):
                data = PCM[begin : begin + FRAME]
                stream.push_frame(rtc.AudioFrame(data, RATE_HZ, 1, len(data) // 2))
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(send())
        try:
            async for event in stream:
                if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT and event.alternatives[0].text:
                    return str(event.alternatives[0].text)
        finally:
            await sending
        raise AssertionError("the stream has ended without a transcript")

    async def talk() -> tuple[str, str]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            ears = deepgram.STT(model="sim/tone", base_url=f"{daemon.url}/v1/listen", api_key="any", http_session=http)
            stream = ears.stream()
            before = await say(stream)
            await asyncio.to_thread(move_the_session, daemon.url)
            after = await say(stream)
            await stream.aclose()
        return before, after

    assert asyncio.run(asyncio.wait_for(talk(), 120)) == (TEXT, TEXT)
    records = wait_for(lambda: found if len(found := get(daemon.url, "/v1/logs?modality=stt")) == 2 else None)
    assert sorted((record["status"], record["error_code"]) for record in records) == [("error", "interrupted"), ("success", None)]
    [cut] = [record for record in records if record["error_code"]]
    seconds = len(PCM) / 2 / RATE_HZ
    assert get(daemon.url, f"/v1/requests/{cut['id']}")["usage"]["audio_seconds"] >= seconds - 2
