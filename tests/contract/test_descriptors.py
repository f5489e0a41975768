"""This process has no file descriptor left: that is its own overload, and no vendor's breaker learns of it."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager

import msgspec
import pytest
import trio

from gw.errors import OutOfDescriptors
from gw.net.connect import Origin, connect_tcp
from gw.net.unreachable import unreachable
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Received, read
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {far: {type: openai, api_key: k, base_url: "http://vendor.test/v1"}, dg: {type: deepgram, api_key: k, base_url: "http://vendor.test"}}
models: {llm: [far/gpt-x], stt: [dg/nova-3], tts: [dg/aura-2-thalia-en]}
routing: {breaker: {failures: 1}}
"""


@contextmanager
def no_descriptor():
    """Take all descriptors of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://localhost:9", "http://nowhere.invalid"])
async def test_connecting_fails_as_what_it_is(url):
    await trio.to_thread.run_sync(lambda: None)  # its thread is there
    with no_descriptor(), pytest.raises(OSError) as caught:  # noqa: PT011  # the number is compared
        await connect_tcp(Origin.parse(url))
    assert caught.value.errno == errno.EMFILE
    error = unreachable("far", caught.value)
    assert isinstance(error, OutOfDescriptors)
    assert (error.status, error.code, error.retryable) == (503, "overloaded", False)


async def test_callers_are_told_to_come_again_and_the_breaker_stays_closed(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["vendor.test", 80] = OSError(errno.EMFILE, "Too many open files")
        body = msgspec.json.encode({"model": "far/gpt-x", "messages": [{"role": "user", "content": "hi"}]})
        for _ in range(3):
            reply = await plane.post("/v1/chat/completions", body)
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert reply.json["error"]["gw"]["code"] == "overloaded"
        for talker in TALKERS:
            received = Received()
            async with talker.open(plane, "dg/nova-3") as ws:
                for frame in (*talker.begin("dg/nova-3"), talker.audio(b"\0\0" * 640)):
                    await ws.send(frame)
                await read(talker, ws, received)
            assert received.errors or received.reason, talker.name
            assert "descriptor" in " ".join([*received.errors, received.reason]), talker.name
        for reader in READERS:
            spoken = Spoken()
            async with reader.open(plane, "dg/aura-2-thalia-en") as ws:
                await send(ws, [*reader.begin("dg/aura-2-thalia-en"), *reader.say("Hi."), *reader.end], "dg/aura-2-thalia-en")
                await receive_speech(reader, ws, spoken)
            assert "descriptor" in " ".join([*spoken.errors, spoken.reason]), reader.name
        assert {record.error_code for record in plane.kept.records} == {"overloaded"}
        gates = plane.gateway.limits.view(trio.current_time())
        assert {gate.breaker for gate in gates.values()} == {"closed"}
        assert all(not gate.models for gate in gates.values())
