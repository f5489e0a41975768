"""A stop of the gateway, as every socket dialect meets it: 1001 at once without a running turn, else after the turn."""

from __future__ import annotations

import trio
import trio.testing

from gw.net.ws import WebSocket, WsClosed
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Received, read, speech
from tests.fakes.conversing import open_conversation
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {house: {type: sim, latency_ms: 0, token_ms: 150}}
models: {stt: [house/tone], tts: [house/tone]}
"""
AT_ONCE_S = 0.2


async def closed_with(ws: WebSocket) -> tuple[int, float]:
    """Read to the close frame; return its code and the seconds until then."""
    began = trio.current_time()
    try:
        while True:
            await ws.receive()
    except WsClosed as closed:
        return closed.code, trio.current_time() - began


async def test_idle_sockets_are_closed_at_once(tmp_path, autojump_clock):
    cells = 0
    for dialect in (*TALKERS, *READERS):
        async with open_plane(CONFIG, tmp_path) as plane:
            async with dialect.open(plane, "house/tone") as ws:
                for frame in dialect.begin("house/tone"):
                    await ws.send(frame.replace("MODEL", "house/tone") if isinstance(frame, str) else frame)
                await trio.sleep(1)
                plane.drain.begin(30)
                code, seconds = await closed_with(ws)
                assert code == 1001, dialect.name
                assert seconds < AT_ONCE_S, dialect.name
            cells += 1
    assert cells == len(TALKERS) + len(READERS) == 14


async def test_a_transcription_gets_the_words_that_were_said(tmp_path, autojump_clock):
    for talker in TALKERS:
        async with open_plane(CONFIG, tmp_path) as plane:
            received = Received()
            async with talker.open(plane, "house/tone") as ws, trio.open_nursery() as nursery:
                for frame in talker.begin("house/tone"):
                    await ws.send(frame)
                nursery.start_soon(read, talker, ws, received)
                for frame in talker.frames(speech(["hello"], talker.format.sample_rate_hz, 0.0)):
                    await ws.send(frame)
                    await trio.sleep(0.04)
                plane.drain.begin(30)
                began = trio.current_time()
                silence = talker.audio(b"\0\0" * int(talker.format.sample_rate_hz / 25))
                with trio.fail_after(10):
                    while received.code is None:
                        try:
                            await ws.send(silence)
                        except WsClosed:
                            break
                        await trio.sleep(0.04)
            assert (received.text, received.code) == ("hello", 1001), talker.name
            assert trio.current_time() - began < 5, talker.name
            await plane.kept.finished.wait()
            await trio.testing.wait_all_tasks_blocked()


async def test_an_utterance_is_spoken_to_its_end(tmp_path, autojump_clock):
    text = "One two three four five six. "
    for reader in READERS:
        async with open_plane(CONFIG, tmp_path) as plane:
            spoken = Spoken()
            async with reader.open(plane, "house/tone") as ws:
                await send(ws, [*reader.begin("house/tone"), *reader.say(text), *reader.end], "house/tone")
                await trio.sleep(0.2)
                plane.drain.begin(30)
                await receive_speech(reader, ws, spoken)
                if spoken.code is None:
                    code, seconds = await closed_with(ws)
                    assert code in (1000, 1001), reader.name
                    assert seconds < AT_ONCE_S + 0.1, reader.name
            assert spoken.text(reader).strip() == text.strip(), reader.name
            assert plane.kept.record.status == "success", reader.name


async def test_a_conversation_finishes_its_answer(tmp_path, autojump_clock):
    async with open_conversation(tmp_path) as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "what is it")
            await client.until("input_audio_buffer.speech_started")
            plane.drain.begin(30)
            done = await client.until("response.done")
        assert (done["response"]["status"], client.spoken) == ("completed", "what is it")
        assert (await closed_with(client.ws))[0] == 1001


async def test_a_conversation_without_a_turn_is_closed_at_once(tmp_path, autojump_clock):
    async with open_conversation(tmp_path) as (client, plane):
        plane.drain.begin(30)
        code, seconds = await closed_with(client.ws)
        assert (code, seconds < AT_ONCE_S) == (1001, True)
