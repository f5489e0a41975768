"""No provider can be reached and there is no chain: every socket dialect gets one typed error in its own shape, with a reason."""

from __future__ import annotations

import errno
import socket
from base64 import b64encode
from typing import Any

import msgspec
import trio

from gw.net.ws import WebSocket, WsClosed, open_ws
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Received, as_json, read
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers: {dg: {type: deepgram, api_key: k, base_url: "http://vendor.test"}, sim: {}}
routing: {breaker: {failures: 1000}}
models: {stt: [dg/nova-3], tts: [dg/aura-2-thalia-en], llm: [sim/echo]}
stacks: {voice: {stt: dg/nova-3, llm: sim/echo, tts: dg/aura-2-thalia-en}}
"""
FAULTS = {
    "refused": ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
    "no such name": socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    "no route": OSError(errno.EHOSTUNREACH, "No route to host"),
}


async def test_every_dialect_says_what_happened(tmp_path, autojump_clock):
    cells = 0
    for fault in FAULTS.values():
        async with open_plane(CONFIG, tmp_path) as plane:  # it fails the test for what is logged as an error
            plane.net.hosts["vendor.test", 80] = fault
            for talker in TALKERS:
                received = Received()
                async with talker.open(plane, "dg/nova-3") as ws:
                    for frame in (*talker.begin("dg/nova-3"), talker.audio(b"\0\0" * 640)):
                        await ws.send(frame)
                    with trio.fail_after(30):
                        await read(talker, ws, received)
                assert received.code is not None, talker.name
                assert "dg: unreachable" in " ".join([*received.errors, received.reason]), (talker.name, received.code)
                assert not received.finals, talker.name
                cells += 1
            for reader in READERS:
                spoken = Spoken()
                async with reader.open(plane, "dg/aura-2-thalia-en") as ws:
                    await send(ws, [*reader.begin("dg/aura-2-thalia-en"), *reader.say("Hi."), *reader.end], "dg/aura-2-thalia-en")
                    with trio.fail_after(30):
                        await receive_speech(reader, ws, spoken)
                assert "dg: unreachable" in " ".join([*spoken.errors, spoken.reason]), (reader.name, spoken.code)
                assert spoken.errors, reader.name  # an error event: the socket is for many utterances
                cells += 1
            assert {record.error_code for record in plane.kept.records} == {"provider_unreachable"}
    assert cells == len(FAULTS) * (len(TALKERS) + len(READERS)) == 42


async def read_to_close(ws: WebSocket, events: list[dict[str, Any]]) -> WsClosed:
    try:
        while True:
            events.append(msgspec.json.decode(await ws.receive()))
    except WsClosed as closed:
        return closed


async def test_a_conversation_says_what_happened(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["vendor.test", 80] = FAULTS["refused"]
        events = []
        async with open_ws("client", GATEWAY, b"/v1/realtime?model=voice", headers=[], connect=plane.client.connect) as ws:
            audio = b64encode(b"\0\0" * 2_400).decode()
            await ws.send(as_json(type="input_audio_buffer.append", audio=audio))
            with trio.fail_after(30):
                closed = await read_to_close(ws, events)
        assert closed.code == 1011
        assert "dg: unreachable" in closed.reason
        [error] = [event["error"] for event in events if event["type"] == "error"]
        assert (error["type"], "dg: unreachable" in error["message"]) == ("server_error", True)
