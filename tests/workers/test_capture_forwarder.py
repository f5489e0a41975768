from functools import partial

import trio
import trio.lowlevel

from gw.types.captured import Piece
from gw.workers import capture_forwarder
from gw.workers.capture_forwarder import CaptureForwarder
from tests.fakes.records import NOON


def piece(number: int, size: int = 100) -> Piece:
    return Piece(f"r{number}", "default", NOON, NOON + 60, "text", 0, size, partial(str.encode, f"words {number}"), "en_core_web_sm")


async def test_pieces_are_made_and_sent_in_order():
    sent = []
    forwarder = CaptureForwarder(lambda message: sent.append(message) or True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forwarder.run)
        assert all(forwarder.put(piece(number)) for number in range(5))
        while len(sent) < 5:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [(m.request_id, m.content, m.presidio) for m in sent] == [(f"r{n}", b"words %d" % n, "en_core_web_sm") for n in range(5)]


async def test_a_full_queue_refuses_and_what_nobody_takes_is_counted():
    forwarder = CaptureForwarder(lambda message: False)
    assert forwarder.put(piece(0, capture_forwarder.QUEUED_BYTES))
    assert not forwarder.put(piece(1))
    await forwarder.flush()
    assert forwarder.lost == 1
    assert forwarder.put(piece(2))
