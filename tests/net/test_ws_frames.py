"""What is read without the machine is what the machine would have read."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol, Side, State

from gw.net.ws_frames import (
    BINARY,
    MACHINE,
    TEXT,
    FrameTurn,
    Masks,
    Splitter,
    from_server,
    plain_from_client,
    plain_from_server,
)

MOST = 70_000
SIZES = [0, 1, 125, 126, 127, 65_535, 65_536]


def splitter(side: Side) -> Splitter:
    """That of what `side` receives."""
    return Splitter(masked=side is SERVER, most=MOST)


def wire(frame: Frame, side: Side) -> bytes:
    """Also frames that the library refuses to make."""
    made = bytearray(Frame(Opcode.BINARY, frame.data).serialize(mask=side is SERVER))
    made[0] = frame.fin << 7 | frame.opcode
    return bytes(made)


frames = st.builds(
    Frame,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG, Opcode.CLOSE]),
    st.one_of(st.binary(max_size=20), st.sampled_from([bytes(size) for size in SIZES])),
    st.booleans(),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_what_is_made_is_what_the_library_makes_and_reads(size, opcode):
    data = b"x" * size
    assert from_server(opcode, data) == Frame(Opcode(opcode), data).serialize(mask=False)
    server = Protocol(SERVER, max_size=MOST)
    server.receive_data(Masks().from_client(opcode, data))
    assert [(int(f.opcode), bytes(f.data)) for f in server.events_received()] == [(opcode, data)]


def test_every_message_has_a_key_of_its_own():
    masks = Masks()
    keys = [masks.from_client(BINARY, b"")[2:6] for _ in range(3_000)]
    assert len(set(keys)) > 2_990


@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["from a server", "from a client"])
def test_plain_messages_however_they_are_cut(side):
    frames_sent = [(TEXT, b"one"), (BINARY, b""), (BINARY, bytes(130)), (TEXT, b"end")]
    data = b"".join(wire(Frame(Opcode(opcode), payload), side) for opcode, payload in frames_sent)
    for at in range(len(data) + 1):
        cut = splitter(side)
        assert [*cut.feed(data[:at]), *cut.feed(data[at:])] == frames_sent
    cut = splitter(side)
    assert [found for byte in data for found in cut.feed(bytes((byte,)))] == frames_sent


@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["from a server", "from a client"])
@given(sent=st.lists(frames, max_size=8), cuts=st.lists(st.integers(0, 200_000), max_size=5))
def test_with_the_machine_it_reads_what_the_machine_alone_reads(side, sent, cuts):
    data = b"".join(wire(frame, side) for frame in sent)
    alone, helped = Protocol(side, max_size=MOST), Protocol(side, max_size=MOST)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cut = splitter(side)
    read: list[tuple[int, bytes]] = []
    for begin, end in pairwise(places):
        alone.receive_data(data[begin:end])
        for opcode, found in cut.feed(data[begin:end]):
            if opcode == MACHINE:
                helped.receive_data(found)
                read += [(int(f.opcode), bytes(f.data)) for f in helped.events_received()]
            elif helped.state is State.OPEN:
                read.append((opcode, found))
    assert read == [(int(f.opcode), bytes(f.data)) for f in alone.events_received()]
    assert (helped.state, helped.close_code) == (alone.state, alone.close_code)


@pytest.mark.parametrize(
    "data",
    [b"\xc2\x80", b"\x83\x80", b"\x82\x00", b"\x89\xfe", b"\x09\x80", b"\x82\xff" + (MOST + 1).to_bytes(8, "big")],
    ids=["reserved bit", "unknown opcode", "no mask", "long ping", "ping in pieces", "too large"],
)
def test_what_cannot_be_is_the_machines_at_once_and_for_good(data):
    cut = splitter(SERVER)
    assert cut.feed(data) == [(MACHINE, data)]
    assert cut.feed(b"\x81\x80") == [(MACHINE, b"\x81\x80")]


async def test_turns_go_round_in_order_and_one_who_leaves_takes_none():
    turn, wrote = FrameTurn(), []
    await turn.take()

    async def write(name: str, scope: trio.CancelScope) -> None:
        with scope:
            await turn.take()
            wrote.append(name)
            await trio.lowlevel.checkpoint()
            turn.give_back()

    scopes = [trio.CancelScope() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for name, scope in zip("abc", scopes, strict=True):
            nursery.start_soon(write, name, scope)
            await trio.testing.wait_all_tasks_blocked()
        scopes[1].cancel()
        await trio.testing.wait_all_tasks_blocked()
        turn.give_back()
    assert wrote == ["a", "c"]
    assert not turn.taken


@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["from a server", "from a client"])
@given(sent=st.lists(frames, min_size=1, max_size=3), cut=st.integers(0, 3))
def test_plain_messages_are_those_that_the_splitter_reads(side, sent, cut):
    data = b"".join(wire(frame, side) for frame in sent)
    data, at = data[: len(data) - cut], 0
    read = []
    while (frame := (plain_from_client if side is SERVER else plain_from_server)(data, at, MOST)) is not None:
        message, at = frame
        read.append((TEXT, message.encode()) if isinstance(message, str) else (BINARY, message))
    assert splitter(side).feed(data[:at]) == read


@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["from a server", "from a client"])
@pytest.mark.parametrize("size", [4, 125, 126, 640, 65_535])
def test_plain_messages_are_read_where_they_begin(side, size):
    plain = plain_from_client if side is SERVER else plain_from_server
    encode = Masks().from_client if side is SERVER else from_server
    for before in (b"", b"before"):
        at, binary = len(before), before + encode(BINARY, bytes(size))
        assert plain(binary, at, MOST) == (bytes(size), len(binary))
        assert plain(binary + b"\x82", at, MOST) == (bytes(size), len(binary))
        assert plain(before + encode(TEXT, b"x" * size), at, MOST) == ("x" * size, len(binary))
        assert plain(before + encode(TEXT, b"\xff" * size), at, MOST) is None
        assert plain(binary, at, size) is None
        assert plain(binary[:-1], at, MOST) is None
