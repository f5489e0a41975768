"""Every endpoint and every live protocol: what passes is captured, words and sound, and nothing of it where that is off."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from gw.types.captured import CapturedText, Piece
from tests.contract import readers, talkers
from tests.contract.endpoints import ENDPOINTS, TEXT, recording
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {first: {type: sim, latency_ms: 0, token_ms: 0}}
models: {llm: [first/echo], stt: [first/tone], tts: [first/tone]}
projects: {default: {capture: {text: TEXT, audio: AUDIO, share: SHARE, names: [marvin]}}}
"""
ROLES = {"llm": ["user", "answer"], "stt": ["transcript"], "tts": ["speech"]}


class Sink:
    """Keeps the pieces in memory."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def put(self, piece: Piece) -> bool:
        self.pieces.append(piece)
        return True

    def take(self) -> tuple[dict[str, str], float]:
        """Return what was said by role, and the seconds of samples, of what was captured since the last look."""
        pieces, self.pieces = self.pieces, []
        texts = [msgspec.json.decode(piece.make(), type=CapturedText) for piece in pieces if piece.kind == "text"]
        said: dict[str, str] = {}
        for one in [said for text in texts for said in text.said]:
            said[one.role] = f"{said[one.role]} {one.text}" if one.role in said else one.text
        return said, sum(fmt.seconds(len(data)) for data, fmt in (piece.make.args for piece in pieces if piece.kind == "audio"))


def config(*, text: bool = True, audio: bool = True, share: float = 1) -> str:
    values = {"TEXT": str(text).lower(), "AUDIO": str(audio).lower(), "SHARE": str(share)}
    made = CONFIG
    for name, value in values.items():
        made = made.replace(name, value)
    return made


@pytest.fixture(autouse=True)
def _codec(monkeypatch):
    """Capture sound without the codec, which only the writer needs; tests/clients/test_capture_sound.py has it."""
    monkeypatch.setattr("gw.config.capture_rules.find_spec", lambda name: name)


async def test_every_endpoint_over_http(tmp_path, autojump_clock):
    sink, answered = Sink(), 0
    async with open_plane(config(), tmp_path, captures=sink) as plane:
        for endpoint in ENDPOINTS:
            reply = await endpoint.ask(plane, {"llm": "first/echo"}.get(endpoint.modality, "first/tone"))
            assert reply.status == 200, endpoint.name
            said, seconds = sink.take()
            assert [role for role in said if role != "system"] == ROLES[endpoint.modality], endpoint.name
            assert plane.kept.records[-1].captured == "stored"
            expected = "hello there" if endpoint.modality == "stt" else TEXT
            assert {text for role, text in said.items() if role != "system"} == {expected}, endpoint.name
            if endpoint.modality == "stt":
                assert seconds == pytest.approx((len(recording()) - 44) / 32_000)
            elif endpoint.modality == "tts":
                content = endpoint.content(reply)
                assert seconds == pytest.approx(len(content) / 48_000)
            else:
                assert seconds == 0
            answered += 1
    assert answered == len(ENDPOINTS) == 13


async def test_every_live_transcription(tmp_path, autojump_clock):
    sink = Sink()
    for talker in talkers.TALKERS:
        async with open_plane(config(), tmp_path / talker.name, captures=sink) as plane:
            texts = ["one two three", "four marvin five"]
            received = await talkers.converse(talker, plane, "first/tone", texts)
            assert received.finals == texts
            await plane.kept.finished.wait()
            said, seconds = sink.take()
            assert said == {"transcript": "one two three four [name] five"}, talker.name
            sent = len(talkers.speech(texts, talker.format.sample_rate_hz))
            assert seconds == pytest.approx(sent / 2 / talker.format.sample_rate_hz), talker.name
            assert [record.captured for record in plane.kept.records] == ["stored"]


async def test_every_live_speech(tmp_path, autojump_clock):
    sink = Sink()
    for reader in readers.READERS:
        async with open_plane(config(), tmp_path / reader.name, captures=sink) as plane:
            spoken = await readers.converse(reader, plane, "first/tone", ["Hello there. ", "Good bye."])
            await plane.kept.finished.wait()
            await trio.testing.wait_all_tasks_blocked()
            said, seconds = sink.take()
            assert said["speech"].split() == ["Hello", "there.", "Good", "bye."], reader.name
            assert seconds == pytest.approx(len(spoken.pcm) / 2 / reader.format.sample_rate_hz), reader.name


@pytest.mark.parametrize("off", [{"text": False, "audio": False}, {"share": 0}], ids=str)
async def test_nothing_is_captured_where_it_is_off(off: dict[str, Any], tmp_path, autojump_clock):
    sink = Sink()
    async with open_plane(config(**off), tmp_path, captures=sink) as plane:
        for endpoint in ENDPOINTS:
            await endpoint.ask(plane, {"llm": "first/echo"}.get(endpoint.modality, "first/tone"))
        await talkers.converse(talkers.DEEPGRAM, plane, "first/tone", ["one"])
        await readers.converse(readers.DEEPGRAM, plane, "first/tone", ["one"])
        assert {record.captured for record in plane.kept.records} == {None}
    assert sink.pieces == []


async def test_text_alone_and_sound_alone(tmp_path, autojump_clock):
    for kinds, expected in (({"audio": False}, {"text"}), ({"text": False}, {"audio"})):
        sink = Sink()
        async with open_plane(config(**kinds), tmp_path, captures=sink) as plane:
            await talkers.converse(talkers.DEEPGRAM, plane, "first/tone", ["one"])
            await readers.converse(readers.DEEPGRAM, plane, "first/tone", ["one"])
        assert {piece.kind for piece in sink.pieces} == expected
