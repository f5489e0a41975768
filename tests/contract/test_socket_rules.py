"""RFC 6455 on every socket endpoint: what a client may send, and which close code it gets otherwise."""

from __future__ import annotations

import zlib

import pytest
import trio
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from gw.providers.sim.fsk import encode
from gw.wire import gemini_live
from tests.contract.readers import READERS
from tests.contract.talkers import TALKERS
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers: {first: {type: sim, latency_ms: 0}}
models: {stt: [first/tone], tts: [first/tone], llm: [first/echo]}
stacks: {talk: {stt: first/tone, tts: first/tone, llm: first/echo}}
"""
PATHS = {talker.name: talker.path("first/tone") for talker in TALKERS}
PATHS |= {reader.name + " speech": reader.path("first/tone") for reader in READERS}
PATHS["openai conversation"] = "/v1/realtime?model=talk"
PATHS["gemini live"] = gemini_live.path("v1beta")
every = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
MEBIBYTE = 1_048_576


class Peer:
    """A client by the Sans-I/O protocol of `websockets`, so that it can also send what is wrong."""

    def __init__(self, transport, path):
        self.transport = transport
        self.protocol = ClientProtocol(parse_uri("ws://gateway.test" + path), max_size=None)
        self.frames = []

    async def flush(self):
        for data in self.protocol.data_to_send():
            if data:
                await self.transport.send_all(data)

    async def read(self):
        data = await self.transport.receive_some(65_536)
        if not data:
            self.protocol.receive_eof()
            return False
        self.protocol.receive_data(data)
        self.frames += [event for event in self.protocol.events_received() if isinstance(event, Frame)]
        return True

    async def open(self):
        self.protocol.send_request(self.protocol.connect())
        await self.flush()
        while self.protocol.state is State.CONNECTING:
            assert await self.read()

    async def closed(self):
        with trio.fail_after(30):
            while self.protocol.close_rcvd is None:
                assert await self.read(), "closed without a close frame"
        return self.protocol.close_rcvd.code

    async def until(self, opcode):
        with trio.fail_after(30):
            while True:
                matching = [frame for frame in self.frames if frame.opcode is opcode]
                if matching:
                    return matching[0]
                assert await self.read()


@pytest.fixture
def peer(tmp_path):
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened(path):
        async with open_plane(CONFIG, tmp_path) as plane:
            transport = await plane.client.connect(GATEWAY)
            made = Peer(transport, path)
            await made.open()
            assert made.protocol.handshake_exc is None
            try:
                yield made
            finally:
                transport.abort()

    return opened


@every
async def test_a_ping_is_answered_with_its_own_data(path, peer, autojump_clock):
    async with peer(path) as made:
        made.protocol.send_ping(b"mark")
        await made.flush()
        assert bytes((await made.until(Opcode.PONG)).data) == b"mark"


@every
async def test_a_close_is_answered(path, peer, autojump_clock):
    async with peer(path) as made:
        made.protocol.send_close(1000, "bye")
        await made.flush()
        assert await made.closed() in (1000, 1001)


@every
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x82\0\0\0\0\xc3\x28", 1007),  # text that is not UTF-8
        (b"\x82\x01\x00", 1002),  # without a mask
        (b"\x80\x80\0\0\0\0", 1002),  # a continuation of nothing
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that is reserved
        (b"\xc2\x80\0\0\0\0", 1002),  # a reserved bit
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in fragments
        (b"\x82\xff" + (17 * MEBIBYTE).to_bytes(8, "big") + b"\0\0\0\0", 1009),  # larger than is taken
    ],
    ids=["UTF-8", "no mask", "continuation", "opcode", "reserved bit", "fragmented ping", "too large"],
)
async def test_what_must_not_be_sent_closes_with_its_code(path, data, code, peer, autojump_clock):
    async with peer(path) as made:
        await made.transport.send_all(data)
        assert await made.closed() == code


@every
async def test_compression_is_never_agreed_on(path, tmp_path, autojump_clock):
    """A small compressed message could become a huge one: 305 kB of zeros' deflate are 300 MB."""
    async with open_plane(CONFIG, tmp_path) as plane:
        peer = Peer(await plane.client.connect(GATEWAY), path)
        request = peer.protocol.connect()
        request.headers["Sec-WebSocket-Extensions"] = "permessage-deflate; client_max_window_bits"
        peer.protocol.send_request(request)
        await peer.flush()
        while peer.protocol.state is State.CONNECTING:
            assert await peer.read()
        assert peer.protocol.extensions == []
        bomb = zlib.compress(bytes(1_000_000), wbits=-15)
        await peer.transport.send_all(b"\xc2\xfe" + len(bomb).to_bytes(2, "big") + bytes(4) + bomb)
        assert await peer.closed() == 1002
        peer.transport.abort()


@every
async def test_empty_messages_do_no_harm(path, peer, autojump_clock):
    """They are answered, ignored or refused in the protocol's own way; nothing crashes."""
    async with peer(path) as made:
        made.protocol.send_binary(b"")
        made.protocol.send_text(b"")
        made.protocol.send_ping(b"still there")
        await made.flush()
        with trio.fail_after(30):
            while await made.read():
                if made.protocol.close_rcvd is not None:
                    break
                if any(frame.opcode is Opcode.PONG for frame in made.frames):
                    break
        if made.protocol.close_rcvd is not None:
            assert made.protocol.close_rcvd.code != 1011


@pytest.mark.parametrize("talker", [t for t in TALKERS if isinstance(t.audio(b""), bytes)], ids=lambda t: t.name)
async def test_audio_in_fragments_is_heard(talker, peer, autojump_clock):
    async with peer(talker.path("first/tone")) as made:
        pcm = b"".join(encode("one two three", talker.format.sample_rate_hz)) + bytes(8_000)
        third = len(pcm) // 6 * 2
        made.protocol.send_binary(pcm[:third], fin=False)
        made.protocol.send_continuation(pcm[third : 2 * third], fin=False)
        made.protocol.send_ping(b"")
        made.protocol.send_continuation(pcm[2 * third :], fin=True)
        for frame in talker.finish:
            made.protocol.send_text(frame.encode())
        await made.flush()
        await made.closed()
        assert b"one two three" in b"".join(bytes(frame.data) for frame in made.frames)
