"""A whole LiveKit agent session: microphone frames in, speech frames out, three vendors' plugins, nothing but addresses ours.

No room: the session's audio input and output are in memory. Every model behind is the engine inside, whose speech is read
back exactly, so what the agent said can be compared with what it was asked.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from gw.providers.sim import fsk
from tests.clients.conftest import Gateway
from tests.e2e.conftest import starter
from tests.e2e.test_workers_live import wait_for

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of LiveKit's own making
]

CONFIG = """
providers: {sim: {type: sim}}
models: {stt: {sim/tone: {price: {unit: hour, usd: 36}}}, llm: {sim/echo: {}}, tts: {sim/tone: {}}}
"""
RATE_HZ = 16_000
FRAME = RATE_HZ // 50
SAID = ["what is the weather in Paris", "and what is it tomorrow"]
WITHIN_S = 120


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with starter(tmp_path_factory.mktemp("session")) as start:
        yield Gateway(start(CONFIG))


def speech(text: str) -> bytes:
    return b"".join(fsk.encode(text, RATE_HZ)) + bytes(RATE_HZ)   # and half a second of silence


def understood(pcm: bytes, rate_hz: int) -> str:
    decoder = fsk.ToneDecoder(rate_hz)
    return " ".join(event.text for event in decoder.feed(pcm) if isinstance(event, fsk.Done))


@attrs.define
class Call:
    """What came out of one session: the agent's speech, and what its history says."""

    pcm: bytes = b""
    rate_hz: int = 0
    history: list[tuple[str, str]] = attrs.field(factory=list)


async def converse(plugins: dict[str, Any], questions: list[str]) -> Call:
    """One session in which `questions` are spoken at real time, each when the agent has answered the one before."""
    from livekit import rtc
    from livekit.agents import Agent, AgentSession
    from livekit.agents.voice import io

    call = Call()
    answered = asyncio.Event()
    to_say: asyncio.Queue[bytes] = asyncio.Queue()

    class Microphone(io.AudioInput):
        """20 ms at a time, silence between the questions."""

        def __init__(self) -> None:
            super().__init__(label="microphone")
            self.left = b""
            self.next_at = asyncio.get_running_loop().time()

        async def __anext__(self) -> rtc.AudioFrame:
            if not self.left and not to_say.empty():
                self.left = to_say.get_nowait()
            piece, self.left = self.left[: 2 * FRAME], self.left[2 * FRAME :]
            self.next_at += 0.02
            await asyncio.sleep(max(0.0, self.next_at - asyncio.get_running_loop().time()))
            return rtc.AudioFrame(piece.ljust(2 * FRAME, b"\0"), RATE_HZ, 1, FRAME)

    class Loudspeaker(io.AudioOutput):
        """Plays in no time."""

        def __init__(self) -> None:
            super().__init__(label="loudspeaker", capabilities=io.AudioOutputCapabilities(pause=False))
            self.segment_s = 0.0

        async def capture_frame(self, frame: rtc.AudioFrame) -> None:
            await super().capture_frame(frame)
            call.pcm += bytes(frame.data)
            call.rate_hz = frame.sample_rate
            self.segment_s += frame.duration

        def flush(self) -> None:
            super().flush()
            self.on_playback_finished(playback_position=self.segment_s, interrupted=False)
            self.segment_s = 0.0

        def clear_buffer(self) -> None:
            self.flush()

    def added(event: Any) -> None:
        if event.item.type == "message":
            call.history.append((event.item.role, event.item.text_content or ""))
            if event.item.role == "assistant":
                answered.set()

    session: AgentSession[None] = AgentSession(vad=None, turn_handling={"turn_detection": "stt"}, **plugins)
    session.on("conversation_item_added", added)
    session.input.audio = Microphone()
    session.output.audio = Loudspeaker()
    await session.start(Agent(instructions="Be brief."), record=False)
    for text in questions:
        answered.clear()
        to_say.put_nowait(speech(text))
        await asyncio.wait_for(answered.wait(), WITHIN_S)
    await session.aclose()
    return call


async def call_of(gateway: Gateway, questions: list[str]) -> Call:
    import aiohttp
    from livekit.plugins import cartesia, deepgram, openai

    url, key = gateway.daemon.url, "any"
    async with aiohttp.ClientSession() as http:
        plugins = {
            "stt": deepgram.STT(model="sim/tone", base_url=url + "/v1/listen", api_key=key, http_session=http),
            "llm": openai.LLM(model="sim/echo", base_url=url + "/v1", api_key=key),
            "tts": cartesia.TTS(model="sim/tone", base_url=url, api_key=key, http_session=http),
        }
        return await converse(plugins, questions)


def turns(gateway: Gateway, count: int, stages: int = 3) -> list[dict[str, Any]]:
    """Wait for so many turns with all their stages, whose records come a moment after their calls' ends. The newest first."""

    def complete() -> list[dict[str, Any]] | None:
        with urllib.request.urlopen(gateway.daemon.url + "/api/turns") as answer:
            recorded = [turn(gateway, one["turn_id"]) for one in json.load(answer)]
        return recorded if len(recorded) >= count and all(len(one["stages"]) >= stages for one in recorded) else None

    found: list[dict[str, Any]] = wait_for(complete)
    return found


def turn(gateway: Gateway, turn_id: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{gateway.daemon.url}/api/turns/{turn_id}") as answer:
        recorded: dict[str, Any] = json.load(answer)
    return recorded


def shown(gateway: Gateway, turn_id: str) -> list[str]:
    """The lines of `gw turn TURN`."""
    command = [sys.executable, "-m", "gw", "turn", turn_id, "--url", gateway.daemon.url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_session_is_held_and_its_turns_are_waterfalls(gateway, package):
    package("livekit")
    call = asyncio.run(call_of(gateway, SAID))
    assert call.history == [(role, text) for text in SAID for role in ("user", "assistant")]
    assert understood(call.pcm, call.rate_hz).split() == " ".join(SAID).split()

    recorded = turns(gateway, len(SAID))[::-1]
    assert len(recorded) == len(SAID)
    sessions = {turn["session_id"] for turn in recorded}
    assert len(sessions) == 1
    for turn in recorded:
        stages = turn["stages"]
        assert [stage["modality"] for stage in stages] == ["stt", "llm", "tts"]
        assert [stage["shared"] for stage in stages] == [True, False, False]
        assert {stage["status"] for stage in stages} == {"success"}
        assert stages[0]["request_id"] == turn["session_id"]
        ends = [stage["start_ms"] + stage["total_ms"] for stage in stages]
        begins = [stage["start_ms"] for stage in stages]
        assert begins == sorted(begins)
        assert ends[0] <= begins[1] < begins[2] < turn["first_audio_ms"] <= ends[2]
        assert turn["cost_usd"] == pytest.approx(sum(stage["cost_usd"] for stage in stages))
    rows = [line.split("\t") for line in shown(gateway, recorded[0]["turn_id"])]
    assert [row[:3] for row in rows[1:]] == [["stt", "sim/tone", "success"], ["llm", "sim/echo", "success"], ["tts", "sim/tone", "success"]]
    assert [row[-1] for row in rows[1:]] == [stage["request_id"] for stage in recorded[0]["stages"]]
    record = gateway.record(sessions.pop())
    assert (record["modality"], record["turn_id"], record["status"]) == ("stt", None, "success")
    assert record["session_id"] == record["id"]


def test_two_sessions_with_one_key_at_once_are_not_mixed(gateway, package):
    """Their requests differ only in their words."""
    package("livekit")
    questions = [["who lives in the blue house", "and in the green one"], ["when does the train to Rome leave", "and to Oslo"]]
    before = {turn["turn_id"] for turn in turns(gateway, 0)}

    async def both() -> list[Call]:
        return await asyncio.gather(*(call_of(gateway, texts) for texts in questions))

    calls = asyncio.run(both())
    for call, texts in zip(calls, questions, strict=True):
        assert [text for role, text in call.history if role == "assistant"] == texts
    recorded = [turn for turn in turns(gateway, len(before) + 4) if turn["turn_id"] not in before]
    assert [[stage["modality"] for stage in turn["stages"]] for turn in recorded] == [["stt", "llm", "tts"]] * 4
    by_session: dict[str, list[int]] = {}
    for turn in recorded:
        spoken = gateway.record(turn["stages"][2]["request_id"])["input_units"]
        by_session.setdefault(turn["session_id"], []).insert(0, spoken)
    lengths = [[len(text) + 1 for text in texts] for texts in questions]  # the plugin ends each sentence with a space
    assert sorted(by_session.values()) == sorted(lengths)
