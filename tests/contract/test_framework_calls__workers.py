"""Calls of voice frameworks over two workers and their keeper: a call's connections end up at any of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import attrs
import trio

from gw.net.http1 import Pool
from gw.policy.turn_events import TurnEvent
from gw.relay.turn_reporter import TurnReporter
from gw.store.record_lines import decode_record, encode_record
from gw.store.writer import GATHER_S
from gw.types.usage import RequestRecord
from gw.workers.shared_turns import SharedTurns
from tests.contract.framework_calls import FRAMEWORKS, Slot, config, host_vendors
from tests.contract.test_framework_calls import RIGHT, RIGHT_EACH, Found, one_after_the_other
from tests.fakes.hosting import Kept, VirtualWallClock, open_plane
from tests.fakes.nightly import times

CALLS, AT_ONCE = times(48, 1_000), 20
WORKERS = ["worker-1", "worker-2"]
PLACES = [*WORKERS * 10, "keeper"]
"""Where a connection ends up. Few end up at the keeper: those that also carried a request of the control plane."""


class WorkerRecords(Kept):
    """Records of a worker, on their way through the keeper: messages take no time, and are those that a worker sends."""

    def __init__(self, name: str, shared: SharedTurns, clock: VirtualWallClock, nursery: trio.Nursery) -> None:
        super().__init__()
        self._name, self._shared, self._nursery = name, shared, nursery
        self.reporter = TurnReporter(self._take, clock)
        shared.expect(name)
        nursery.start_soon(self.reporter.run)

    def _take(self, events: Sequence[TurnEvent], until: float) -> bool:
        self._shared.take(self._name, events, until)
        return True

    def finish(self, record: RequestRecord) -> None:
        self._nursery.start_soon(self._commit, record)

    async def _commit(self, record: RequestRecord) -> None:
        await trio.sleep(GATHER_S)
        self.reporter.flush(also_empty=True)
        await self._shared.wait_applied(self._shared.until(self._name), trio.current_time())
        complete, line = self._shared.completed(self._name, record, encode_record(record))
        assert decode_record(line) == complete
        self.records.append(complete)


async def test_no_request_is_joined_to_a_strangers_at_whichever_process_it_arrives(tmp_path, autojump_clock):
    slots, numbers, dice = [Slot(number) for number in range(AT_ONCE)], iter(range(CALLS)), random.Random(1)
    connections: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        shared, clock = SharedTurns(), VirtualWallClock(step_s=1e-6)  # one after the other is never at the same time
        nursery.start_soon(shared.run)
        kept = {name: WorkerRecords(name, shared, clock, nursery) if name != "keeper" else Kept() for name in set(PLACES)}
        async with AsyncExitStack() as stack:
            planes = {}
            for name, sink in kept.items():
                plane = planes[name] = await stack.enter_async_context(open_plane(config(AT_ONCE), tmp_path, kept=sink, clock=clock))
                plane.gateway.relay.turns = sink.reporter if isinstance(sink, WorkerRecords) else shared
                host_vendors(plane, slots)

            async def connect(places, origin):
                name = dice.choice(places)
                connections[name] += 1
                return await planes[name].client.connect(origin)

            front = attrs.evolve(planes["keeper"], client=Pool(connect=partial(connect, PLACES)))
            # These voices answer at once, sooner than the keeper looks for the turns of its own requests.
            of_process = Pool(connect=partial(connect, WORKERS))
            async with trio.open_nursery() as calls:
                for slot in slots:
                    calls.start_soon(one_after_the_other, front, slot, numbers, False, of_process)
            await of_process.aclose()
        nursery.cancel_scope.cancel()
    found = Found(slots, {number: FRAMEWORKS[number % len(FRAMEWORKS)] for number in range(CALLS)})
    found.check(sorted((record for sink in kept.values() for record in sink.records), key=lambda record: record.timestamp))
    shares = {name: found.joined[name] / found.wanted[name] for name in FRAMEWORKS}
    total = sum(found.joined[name] for name in FRAMEWORKS) / sum(found.wanted[name] for name in FRAMEWORKS)
    print(f"{CALLS} calls, {dict(connections)} connections: {len(found.wrong)} wrong joins, {total:.2%} right:", shares)
    assert all(connections[name] for name in kept)
    assert found.wrong == []
    assert total >= RIGHT
    assert min(shares.values()) >= RIGHT_EACH
