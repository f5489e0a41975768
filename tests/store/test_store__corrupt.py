"""A database whose bytes were changed: refused with the path and the remedy, or used; never changed before that, never a crash."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import trio

from gw.errors import StoreError
from gw.store.entity_rows import Change
from gw.store.store import open_store
from gw.types.entities import AuditEntry, Project
from tests.fakes import stored
from tests.fakes.nightly import times
from tests.fakes.records import DAY, NOON, HandClock, record

MUTATIONS = times(100, 2_000)
WHILE_IT_RUNS = times(30, 1_000)


@pytest.fixture
async def sound(tmp_path) -> bytes:
    """The bytes of a database with records, sums, an entity and its audit entry, and no WAL."""
    path = tmp_path / "sound.db"
    async with open_store(path, clock=HandClock()) as store:
        for n in range(60):
            store.finish(record(f"s{n}", turn_id=f"t{n % 5}", cost_nusd=n, timestamp=NOON + n))
        await store.flush()
        entry = AuditEntry(
            timestamp=NOON, entity_type="project", entity_id="shop", action="create", changes={}, source="api", actor="admin"
        )
        await store.change(Change(put=(Project(id="shop", source="db"),), audit=(entry,)))
    return path.read_bytes()


def mutated(sound: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return what was done, and the result. Half of the changes are where the structure is: at the beginning of a page."""
    image = bytearray(sound)
    kind = chance.choice(("byte", "byte", "bytes", "page", "swap", "cut", "zeros", "header"))
    at = chance.randrange(len(image))
    page = at - at % 4096
    if kind == "byte":
        at = page + chance.randrange(64) if chance.random() < 0.5 else at
        image[at] ^= 1 << chance.randrange(8)
    elif kind == "bytes":
        image[at : at + 40] = chance.randbytes(len(image[at : at + 40]))
    elif kind == "page":
        image[page : page + 4096] = chance.randbytes(4096)
    elif kind == "swap":
        other = chance.randrange(len(image) // 4096) * 4096
        image[page : page + 4096], image[other : other + 4096] = image[other : other + 4096], image[page : page + 4096]
    elif kind == "cut":
        del image[chance.randrange(len(image)) :]
    elif kind == "zeros":
        image[page : page + 4096] = bytes(4096)
    else:
        image[chance.randrange(100)] = chance.randrange(256)
    return f"{kind} at {at}", bytes(image)


def named(error: StoreError, path: Path, outcome: str) -> str:
    """Return the outcome; the message for people must name the file."""
    return outcome if str(path) in str(error) else f"{outcome}, without its path: {error}"


async def use(path: Path) -> str:
    """Open it like a start, read everything and write a record; return what happened. Raises what is no policy."""
    try:
        async with open_store(path, clock=HandClock()) as store:
            try:
                await store.entities()
                await store.spend(DAY)
                await stored.logs(store, limit=1_000)
                await stored.totals(store)
                await store.audit_log()
            except StoreError as error:
                outcome = named(error, path, "a report is refused")
            else:
                outcome = "used"
            store.finish(record("late"))
            await settled(store)
            if store.queue_depth:
                outcome = "records wait"
    except StoreError as error:
        return named(error, path, "the start is refused")
    return outcome


async def settled(store) -> None:
    """Wait until what was recorded is stored, or the store says why it waits."""
    while store.queue_depth and not store.degraded:
        with trio.move_on_after(0.5):
            await store.flush()


async def test_mutations(tmp_path, sound):
    seen = Counter[str]()
    for seed in range(MUTATIONS):
        what, content = mutated(sound, random.Random(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = folder / "gw.db"
        path.write_bytes(content)
        try:
            with trio.fail_after(60):
                outcome = await use(path)
        except Exception as error:
            raise AssertionError(f"mutation {seed}, {what}") from error
        seen[outcome] += 1
        assert path.exists()
        if outcome == "the start is refused":
            assert path.read_bytes() == content, f"mutation {seed}, {what}: refused, but changed"
        if outcome == "records wait":  # they are in the journal, for the database that is restored
            path.write_bytes(sound)
            for left in folder.glob("gw.db-*"):
                left.unlink()
            async with open_store(path, clock=HandClock()) as store:
                assert await store.request("late") == record("late")
    assert set(seen) <= {"the start is refused", "used", "records wait", "a report is refused"}
    assert seen["used"] > MUTATIONS // 20
    assert seen["the start is refused"] > MUTATIONS // 4


async def use_while_it_runs(path: Path, content: bytes, seen: Counter[str]) -> None:
    """Change the open database, then go on with it; reads and changes that meet the damage are errors that name the file."""
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record("before"))
        await store.flush()
        with path.open("r+b") as file:  # the file that is open, not another of its name
            file.truncate(len(content))
            file.write(content)
        for read in (store.entities, store.audit_log, partial(stored.logs, store, limit=1_000), partial(stored.totals, store)):
            try:
                await read()
            except StoreError as error:
                seen[named(error, path, "a report is refused")] += 1
            else:
                seen["a report is given"] += 1
        store.finish(record("after"))  # never refused
        await settled(store)


async def test_mutations_while_it_runs(tmp_path, sound):
    """The next start uses the database, with what was recorded after the damage, or refuses it."""
    seen = Counter[str]()
    for seed in range(WHILE_IT_RUNS):
        what, content = mutated(sound, random.Random(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = folder / "gw.db"
        path.write_bytes(sound)
        try:
            with trio.fail_after(60):
                await use_while_it_runs(path, content, seen)
                outcome = await use(path)
                if outcome == "used":
                    async with open_store(path, clock=HandClock()) as store:
                        assert await store.request("after") == record("after")
        except Exception as error:
            raise AssertionError(f"mutation {seed}, {what}") from error
        seen[f"then {outcome}"] += 1
    assert {name for name in seen if "without its path" in name} == set()
    assert seen["a report is refused"] > WHILE_IT_RUNS // 4
    assert seen["a report is given"] > WHILE_IT_RUNS
    assert min(seen["then used"], seen["then the start is refused"]) > WHILE_IT_RUNS // 4
