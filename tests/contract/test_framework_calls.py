"""Calls of voice frameworks, twenty at once with one key, a thousand at night: their requests are joined, and none to a stranger's."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

import attrs
import pytest
import trio

from gw.net.http1 import Pool
from gw.types.usage import RequestRecord
from tests.contract.framework_calls import FRAMEWORKS, TURNS, Call, Slot, config, host_vendors, slot_of
from tests.fakes.hosting import NOON, Plane, open_plane
from tests.fakes.nightly import NIGHTLY, times

CALLS, AT_ONCE = times(120, 1_000), 20
RIGHT = 0.96 if NIGHTLY else 0.93
"""Share of right joins without ids, at least. In the first minute of a key no connection is known to belong to a call."""
RIGHT_EACH = 0.93 if NIGHTLY else 0.85  # of each framework: Vocode's calls share the connections of one HTTP client

Truth = tuple[int, int]
"""Call and turn."""


@attrs.define
class Found:
    """What the records say, held against what was done."""

    slots: list[Slot]
    frameworks: dict[int, str]
    wrong: list[str] = attrs.field(factory=list)
    wanted: Counter[str] = attrs.field(factory=Counter)
    joined: Counter[str] = attrs.field(factory=Counter)

    def truth(self, model: str, at: float) -> Truth:
        turns = self.slots[slot_of(model)].turns
        return turns[bisect_right(turns, at - NOON + 0.001, key=lambda turn: turn[0]) - 1][1:]

    def check(self, records: list[RequestRecord]) -> None:
        places: dict[str, tuple[str | None, str | None]] = {}
        for record in records:
            for id_ in (record.id, *record.earlier) if record.turn_id is not None else ():
                places.setdefault(id_, (record.session_id, record.turn_id))
        turns: defaultdict[Truth, list[RequestRecord]] = defaultdict(list)
        owners: dict[tuple[str | None, str], Truth] = {}
        sessions: dict[str, int] = {}
        for record in records:
            if record.modality == "stt" and record.stream and record.endpoint == "/v1/listen":
                continue
            truth = self.truth(record.requested_model, record.timestamp)
            turns[truth].append(record)
            session, turn = places.get(record.id, (record.session_id, None))
            if turn is not None and (owner := owners.setdefault((session, turn), truth)) != truth:
                self.wrong.append(f"{self.frameworks[truth[0]]}: {record.modality} of {truth} in the turn of {owner}")
            if session is not None and (other := sessions.setdefault(session, truth[0])) != truth[0]:
                self.wrong.append(f"{self.frameworks[truth[0]]}: {record.modality} of {truth} in a session of call {other}")
            for part in record.heard:
                if (said := self.truth(part.model_id, part.final_at)) != truth:
                    self.wrong.append(f"{self.frameworks[truth[0]]}: {record.modality} of {truth} with words of {said}")
        for truth, stages in turns.items():
            self._count(truth, stages, places)

    def _count(self, truth: Truth, stages: list[RequestRecord], places: dict[str, tuple[str | None, str | None]]) -> None:
        chats = [record for record in stages if record.modality == "llm"]
        if not chats:
            return  # a greeting that stands in the app, or words that were ignored
        ids = {places[record.id] for record in chats if record.id in places}
        parts = [record for record in stages if record.modality == "stt"]
        self._note(truth, "more chats", len(chats) - 1, sum(places.get(record.id) in ids for record in chats) - 1)
        if parts:
            self._note(truth, "stt", len(parts), sum(places.get(record.id) in ids for record in parts))
        elif truth[1] >= 0:  # a greeting answers no words
            self._note(truth, "stt", 1, int(any(record.heard for record in chats)))
        voices = [record for record in stages if record.modality == "tts"]
        self._note(truth, "tts", len(voices), sum(places.get(record.id) in ids for record in voices))

    def _note(self, truth: Truth, kind: str, wanted: int, joined: int) -> None:
        framework = self.frameworks[truth[0]]
        for name in (framework, f"{framework} {kind}"):
            self.wanted[name] += wanted
            self.joined[name] += max(0, joined)


async def one_after_the_other(plane: Plane, slot: Slot, numbers: Iterator[int], with_ids: bool, of_process: Pool) -> None:
    for number in numbers:
        await Call(plane, slot, number, FRAMEWORKS[number % len(FRAMEWORKS)], random.Random(number), with_ids, of_process).run()


@pytest.mark.parametrize("with_ids", [False, True], ids=["without ids", "with ids"])
async def test_no_request_is_joined_to_a_strangers(tmp_path, autojump_clock, with_ids):
    slots = [Slot(number) for number in range(AT_ONCE)]
    numbers = iter(range(CALLS))
    async with open_plane(config(AT_ONCE), tmp_path) as plane:
        host_vendors(plane, slots)
        of_process = Pool(connect=plane.client.connect)
        async with trio.open_nursery() as nursery:
            for slot in slots:
                nursery.start_soon(one_after_the_other, plane, slot, numbers, with_ids, of_process)
        await of_process.aclose()
        found = Found(slots, {number: FRAMEWORKS[number % len(FRAMEWORKS)] for number in range(CALLS)})
        found.check(plane.kept.records)
    shares = {name: found.joined[name] / found.wanted[name] for name in sorted(found.wanted)}
    total = sum(found.joined[name] for name in FRAMEWORKS) / sum(found.wanted[name] for name in FRAMEWORKS)
    print(f"{CALLS} calls, {len(plane.kept.records)} records: {len(found.wrong)} wrong joins, {total:.2%} right:", end=" ")
    print(", ".join(f"{name} {share:.1%}" for name, share in shares.items()))
    assert found.wrong == []
    assert all(found.wanted[name] > CALLS * TURNS / len(FRAMEWORKS) for name in FRAMEWORKS)
    assert total >= (1.0 if with_ids else RIGHT)
    assert min(shares[name] for name in FRAMEWORKS) >= (1.0 if with_ids else RIGHT_EACH)
