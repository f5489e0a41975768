"""`durability: power`: what was acknowledged is there after a power cut at any write, whatever the disk did with those not synced."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import trio

from gw.store.journal_files import segment_paths
from gw.store.store import open_store
from tests.fakes import stored
from tests.fakes.nightly import times
from tests.fakes.power_cut import Disk
from tests.fakes.records import HandClock, intent, record

CUTS = times(150, 3_000)
CUTS_A_RUN = 50
CALLERS = 4


class Cuts:
    """Takes, at writes chosen by chance, what a power cut would leave, with what had been acknowledged by then."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.disk = Disk(self._maybe)
        self.acknowledged: list[str] = []
        self.called: list[str] = []
        self.taken: list[tuple[Path, list[str]]] = []
        self.armed = False
        self._folder = folder

    def _maybe(self, name: str) -> None:
        if self.armed and len(self.taken) < CUTS_A_RUN and self.chance.random() < 0.15:
            after = self._folder / f"cut-{len(self.taken)}"
            after.mkdir()
            self.disk.cut(after, self.chance)
            self._cut_journal(after)
            self.taken.append((after, self.acknowledged.copy()))

    def _cut_journal(self, after: Path) -> None:
        """Of the journal, which is never synced, any pages may be on the disk, or no file at all."""
        for segment in segment_paths(self._folder / "gw.db"):
            try:
                content = bytearray(segment.read_bytes())
            except FileNotFoundError:  # just unlinked
                continue
            if self.chance.random() < 0.3:
                continue
            for start in range(0, len(content), 4096):
                if self.chance.random() < 0.5:
                    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
            (after / segment.name).write_bytes(content)


async def _caller(store, cuts: Cuts, name: str) -> None:
    n = 0
    while len(cuts.taken) < CUTS_A_RUN:
        n += 1
        id_ = f"{name}-{n}"
        cuts.called.append(id_)
        store.intent(intent(id_))
        await trio.lowlevel.checkpoint()
        store.finish(record(id_, cost_nusd=n, turn_id="t" * (n % 100)))
        await store.wait_committed(id_)
        cuts.acknowledged.append(id_)


async def _after_the_cut(folder: Path, cuts: Cuts, acknowledged: list[str]) -> None:
    async with open_store(folder / "gw.db", clock=HandClock(), durability="power") as store:
        rows = []
        before = None
        while page := await stored.logs(store, limit=1_000, before=before):
            rows += page
            before = page[-1].id
        totals = await stored.totals(store)
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids)), "a record stands twice"
    assert set(acknowledged) - {row.id for row in rows if row.status == "success"} == set(), "an acknowledged record is lost"
    assert set(ids) <= set(cuts.called)
    assert (totals.requests, totals.cost_nusd) == (len(rows), sum(row.cost_nusd for row in rows))


@pytest.mark.parametrize("run", range(CUTS // CUTS_A_RUN))
async def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path, run):
    cuts = Cuts(tmp_path, random.Random(run))
    try:
        async with open_store(tmp_path / "gw.db", clock=HandClock(), durability="power") as store:
            cuts.armed = True
            async with trio.open_nursery() as nursery:
                for n in range(CALLERS):
                    nursery.start_soon(_caller, store, cuts, f"r{n}")
            cuts.armed = False
    finally:
        cuts.disk.unregister()
    assert len(cuts.taken) == CUTS_A_RUN
    assert len({len(acknowledged) for _, acknowledged in cuts.taken}) > 5, "all cuts in one moment"
    for folder, acknowledged in cuts.taken:
        await _after_the_cut(folder, cuts, acknowledged)
        shutil.rmtree(folder)
