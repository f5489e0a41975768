"""Calls of voice frameworks over two gateways of a fleet: a call's requests end up at either of them."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from itertools import repeat

import attrs
import trio

from gw.fleet_turns import FleetTurns
from gw.net.http1 import Pool
from gw.store.record_lines import decode_record, encode_record
from gw.store.writer import GATHER_S
from gw.types.usage import RequestRecord
from gw.vault import ContentCipher
from tests.contract.framework_calls import FRAMEWORKS, Slot, config, host_vendors
from tests.contract.test_framework_calls import RIGHT, RIGHT_EACH, Found, one_after_the_other
from tests.fakes.hosting import Kept, VirtualWallClock, open_plane
from tests.fakes.nightly import times
from tests.fakes.turn_boards import BoardServer

CALLS, AT_ONCE = times(48, 1_000), 20
GATEWAYS = ["gateway-1", "gateway-2"]
KEY = ContentCipher.new_key()


class GatewayRecords(Kept):
    """Records of a gateway, which its writer commits after GATHER_S; a turn that becomes known later is written to the row."""

    def __init__(self, name: str, server: BoardServer, clock: VirtualWallClock, nursery: trio.Nursery) -> None:
        super().__init__()
        self._nursery = nursery
        self.turns = FleetTurns(server.board(), ContentCipher(KEY), name, clock, self._join)
        self.late = 0
        nursery.start_soon(self.turns.run)

    def finish(self, record: RequestRecord) -> None:
        self._nursery.start_soon(self._commit, record)

    async def _commit(self, record: RequestRecord) -> None:
        await trio.sleep(GATHER_S)
        [line] = self.turns.completed_lines([(record.id, encode_record(record))])
        self.records.append(decode_record(line))

    def _join(self, record: RequestRecord) -> None:
        self.late += 1
        [at] = [number for number, known in enumerate(self.records) if known.id == record.id]
        self.records[at] = record


async def test_no_request_is_joined_to_a_strangers_at_whichever_gateway_it_arrives(tmp_path, autojump_clock):
    slots, numbers, dice = [Slot(number) for number in range(AT_ONCE)], iter(range(CALLS)), random.Random(1)
    connections: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        clock = VirtualWallClock(step_s=1e-6)  # one after the other is never at the same time
        server = BoardServer(repeat(0.001), clock)
        kept = {name: GatewayRecords(name, server, clock, nursery) for name in GATEWAYS}
        async with AsyncExitStack() as stack:
            planes = {}
            for name, sink in kept.items():
                plane = planes[name] = await stack.enter_async_context(open_plane(config(AT_ONCE), tmp_path, kept=sink, clock=clock))
                plane.gateway.relay.turns = sink.turns
                host_vendors(plane, slots)

            async def connect(origin):
                name = dice.choice(GATEWAYS)
                connections[name] += 1
                return await planes[name].client.connect(origin)

            front = attrs.evolve(planes[GATEWAYS[0]], client=Pool(connect=connect))
            of_process = Pool(connect=connect)
            async with trio.open_nursery() as calls:
                for slot in slots:
                    calls.start_soon(one_after_the_other, front, slot, numbers, False, of_process)
            await of_process.aclose()
            await trio.sleep(1)  # for the turns that become known after their records
        nursery.cancel_scope.cancel()
    found = Found(slots, {number: FRAMEWORKS[number % len(FRAMEWORKS)] for number in range(CALLS)})
    found.check(sorted((record for sink in kept.values() for record in sink.records), key=lambda record: record.timestamp))
    shares = {name: found.joined[name] / found.wanted[name] for name in FRAMEWORKS}
    total = sum(found.joined[name] for name in FRAMEWORKS) / sum(found.wanted[name] for name in FRAMEWORKS)
    print(f"{CALLS} calls, {dict(connections)} connections: {len(found.wrong)} wrong joins, {total:.2%} right:", shares)
    print(f"{sum(sink.late for sink in kept.values())} turns late, {len(server.messages)} messages")
    assert all(connections[name] for name in kept)
    assert found.wrong == []
    assert total >= RIGHT
    assert min(shares.values()) >= RIGHT_EACH
