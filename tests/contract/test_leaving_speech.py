"""A caller who leaves live speech, at every dialect: the vendor's connection is closed at once, also one that takes no more."""

from __future__ import annotations

from itertools import product

import msgspec
import trio

from gw.net.ws import WebSocket
from tests.contract.dripping import SPEAKERS, TEXT, Upstream
from tests.contract.readers import READERS, Reader, send
from tests.contract.test_barge_in import _plane
from tests.fakes.hosting import Plane

CLOSED_WITHIN_S, RECORDED_WITHIN_S = 0.05, 0.1
VENDOR = next(who for who in SPEAKERS if who.type == "deepgram")
WAYS = ("close frame", "connection cut")
VENDOR_TAKES = ("everything", "nothing more", "nothing more, and text is under way")


async def _stuck(data: bytes) -> None:
    """Write as to a full socket."""
    await trio.sleep_forever()


async def _first_audio(reader: Reader, ws: WebSocket) -> None:
    while True:
        received = await ws.receive()
        if reader.audio(received if isinstance(received, bytes) else msgspec.json.decode(received)):
            return


async def _leave(plane: Plane, reader: Reader, how: str, vendor_takes: str) -> tuple[list[float], float]:
    """Leave in mid-speech; return the seconds until each vendor connection was closed, and until the record."""
    async with reader.open(plane, VENDOR.model) as ws:
        await send(ws, [*reader.begin(VENDOR.model), *reader.say(TEXT), *reader.end], VENDOR.model)
        await _first_audio(reader, ws)
        if vendor_takes != "everything":
            for transport in plane.net.transports:
                transport.send_all = _stuck
        if "text" in vendor_takes:
            await send(ws, [*reader.say("And more. "), *reader.end], VENDOR.model)
            await trio.sleep(0.01)
        left_at = trio.current_time()
        if how == "close frame":
            await ws.send_close(1000)
        else:
            ws.abort()
        await plane.kept.finished.wait()
        recorded_s = trio.current_time() - left_at
        await trio.sleep(1)
        return [at - left_at for transport in plane.net.transports if (at := transport.aborted_at) is not None], recorded_s


async def test_every_way_to_leave(tmp_path, autojump_clock):
    cells = 0
    for reader, how, vendor_takes in product(READERS, WAYS, VENDOR_TAKES):
        async with _plane(tmp_path, VENDOR, Upstream(VENDOR.fake())) as plane:
            closed_s, recorded_s = await _leave(plane, reader, how, vendor_takes)
            cell = (reader.name, how, vendor_takes)
            assert len(closed_s) == len(plane.net.transports) >= 1, cell
            assert max(closed_s) < CLOSED_WITHIN_S, cell
            assert recorded_s < RECORDED_WITHIN_S, cell
            assert {record.status for record in plane.kept.records} == {"cancelled"}, cell
            cells += 1
    assert cells == len(READERS) * 6 == 36
