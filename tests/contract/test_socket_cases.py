"""RFC 6455 case by case on every socket endpoint, after the list of Autobahn's test suite: framing, pings, reserved bits and opcodes,
fragmentation, UTF-8, closing, and what is too large. Each ends in a pong, in the protocol's own answer or in the right close code.
"""

from __future__ import annotations

import struct

import attrs
import trio
from websockets.frames import Opcode

from tests.contract.test_socket_rules import CONFIG, MEBIBYTE, PATHS, Peer
from tests.fakes.cells import Cells
from tests.fakes.hosting import GATEWAY, open_plane
from tests.fakes.nightly import cells

PART = 9
KEY = b"\1\2\3\4"
GOOD_CODES = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
BAD_CODES = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535)
PONG = "pong"
"""The session goes on, and a ping after the case is answered."""


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, bits: int = 0, masked: bool = True) -> bytes:
    mask, size = masked << 7, len(data)
    head = bytes([fin << 7 | bits << 4 | opcode])
    head += bytes([mask | size]) if size < 126 else struct.pack("!BH", mask | 126, size)
    return head + (KEY + bytes(byte ^ KEY[n % 4] for n, byte in enumerate(data)) if masked else data)


def close(code: int | None = None, reason: bytes = b"") -> bytes:
    return frame(8, b"" if code is None else code.to_bytes(2, "big") + reason)


@attrs.frozen
class Case:
    """`codes`: of the close frame that may answer; PONG: or none."""

    name: str
    data: bytes
    codes: tuple[int | str, ...]
    in_bytes: bool = False
    """One byte at a time."""


PING = frame(9, b"x")
CASES = (
    # 2: pings and pongs
    Case("ping, empty", frame(9), (PONG,)),
    Case("ping of 125 bytes", frame(9, b"a" * 125), (PONG,)),
    Case("ping of bytes that are no text", frame(9, b"\0\xff\xfe\xfd"), (PONG,)),
    Case("ping of 126 bytes", frame(9, b"a" * 126), (1002,)),
    Case("ping byte by byte", frame(9, b"abc"), (PONG,), in_bytes=True),
    Case("pong that nobody asked for", frame(10, b"abc"), (PONG,)),
    Case("ten pings", PING * 10, (PONG,)),
    Case("a flood of pings", PING * 300, (PONG, 1008)),
    Case("ping, fragmented", frame(9, b"a", fin=False), (1002,)),
    Case("pong, fragmented", frame(10, b"a", fin=False), (1002,)),
    # 3: reserved bits
    *(Case(f"reserved bits {bits} in text", frame(1, b"a", bits=bits), (1002,)) for bits in range(1, 8)),
    *(Case(f"reserved bits {bits} in a ping", frame(9, b"a", bits=bits), (1002,)) for bits in (1, 2, 4)),
    Case("reserved bits in a close", frame(8, b"\3\xe8", bits=4), (1002,)),
    # 4: opcodes
    *(Case(f"opcode {opcode}", frame(opcode, b"a"), (1002,)) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
    # 5: fragmentation
    Case("continuation of nothing", frame(0, b"a"), (1002,)),
    Case("continuation of nothing, unfinished", frame(0, b"a", fin=False), (1002,)),
    Case("text in the middle of a message", frame(1, b"a", fin=False) + frame(1, b"b"), (1002,)),
    Case("binary in the middle of a text", frame(1, b"a", fin=False) + frame(2, b"b"), (1002,)),
    Case("continuation after the end", frame(2, b"", fin=False) + frame(0, b"") + frame(0, b"c"), (1002,)),
    Case("a ping between fragments", frame(2, b"\0\0", fin=False) + PING + frame(0, b"\0\0"), (PONG, 1003, 1007, 1008, 1011, 4000, 3007)),
    Case("a close between fragments", frame(1, b"a", fin=False) + close(1000), (1000, 1001, 1002)),  # `websockets` calls it wrong
    Case("a thousand empty fragments", frame(2, b"", fin=False) + frame(0, b"", fin=False) * 200 + PING, (PONG, 1008)),
    # 6: UTF-8
    Case("no UTF-8", frame(1, b"\xce\xba\xed\xa0\x80"), (1007,)),
    Case("UTF-8, overlong", frame(1, b"\xc0\xaf"), (1007,)),
    Case("UTF-8 beyond Unicode", frame(1, b"\xf4\x90\x80\x80"), (1007,)),
    Case("UTF-8 that ends too early", frame(1, b"abc\xe2\x82"), (1007,)),
    Case("no UTF-8 in the second fragment", frame(1, b"\xce", fin=False) + frame(0, b"\xff"), (1007,)),
    Case("no UTF-8, byte by byte", frame(1, b"\xff\xfe"), (1007,), in_bytes=True),
    # 7: closing
    Case("close without a code", close(), (1000, 1001, 1005)),
    *(Case(f"close {code}", close(code), (code, 1000, 1001)) for code in GOOD_CODES),
    *(Case(f"close {code}, which is not one", close(code), (1002,)) for code in BAD_CODES),
    Case("close of one byte", frame(8, b"\3"), (1002,)),
    Case("close of 126 bytes", close(1000, b"a" * 124), (1002,)),
    Case("close with the longest reason", close(1000, b"a" * 123), (1000, 1001)),
    Case("close with a reason that is no UTF-8", close(1000, b"\xff"), (1007, 1002)),
    Case("two closes", close(1000) * 2, (1000, 1001)),
    Case("a ping after the close", close(1000) + PING, (1000, 1001)),
    Case("close byte by byte", close(1000, b"bye"), (1000, 1001), in_bytes=True),
    # 9: sizes
    Case("17 MB announced", b"\x82\xff" + (17 * MEBIBYTE).to_bytes(8, "big") + KEY, (1009,)),
    Case("2^63 announced", b"\x82\xff" + (2**63).to_bytes(8, "big") + KEY, (1002, 1009)),
    Case("2^62 of text announced", b"\x81\xff" + (2**62).to_bytes(8, "big") + KEY, (1009,)),
    # masks
    Case("text without a mask", frame(1, b"{}", masked=False), (1002,)),
    Case("ping without a mask", frame(9, b"x", masked=False), (1002,)),
    Case("close without a mask", frame(8, b"\3\xe8", masked=False), (1002,)),
)  # fmt: skip


async def run(peer: Peer, case: Case) -> int | str:
    """Return how the case ended. A server that closes in its own words has answered before."""
    data = case.data + frame(9, b"still there")
    for piece in [data[at : at + 1] for at in range(len(data))] if case.in_bytes else [data]:
        try:
            await peer.transport.send_all(piece)
        except trio.BrokenResourceError:
            break  # it has closed, and reads no more
    with trio.fail_after(30):
        while peer.protocol.close_rcvd is None:
            if any(event.opcode is Opcode.PONG and bytes(event.data) == b"still there" for event in peer.frames):
                return PONG
            assert await peer.read(), "closed without a close frame"
    return 1005 if peer.protocol.close_rcvd.code is None else peer.protocol.close_rcvd.code


async def test_a_message_that_is_answered_and_then_a_wrong_frame_is_no_crash(tmp_path, autojump_clock):
    """The answer to the first meets a session that has been closed; `open_plane` fails the test for a logged error."""
    wrong = frame(2, b"", fin=False) + frame(0, b"") + frame(0, b"c")
    async with open_plane(CONFIG, tmp_path) as plane:
        for path in PATHS.values():
            peer = Peer(await plane.client.connect(GATEWAY), path)
            await peer.open()
            await peer.transport.send_all(wrong)
            assert await peer.closed() == 1002
            peer.transport.abort()


async def test_every_case_on_every_socket(tmp_path, autojump_clock):
    chosen = list(cells(tuple(PATHS), CASES, part=PART))
    ran = Cells(at_least=len(chosen))
    async with open_plane(CONFIG, tmp_path) as plane:
        for name, case in chosen:
            with ran.cell(f"{name}, {case.name}"):
                peer = Peer(await plane.client.connect(GATEWAY), PATHS[name])
                await peer.open()
                ended = await run(peer, case)
                peer.transport.abort()
                assert ended in case.codes, ended
    ran.check()
    assert {name for name, _ in chosen} == set(PATHS)
    assert len({case.name for _, case in chosen}) == len(CASES)
    assert len(CASES) >= 80
    assert len(PATHS) >= 15
