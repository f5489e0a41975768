"""The capture store on the virtual clock: what is put is stored, read back, bounded, and deleted on time and on request."""

from __future__ import annotations

import os
from collections.abc import Mapping

import apsw
import pytest
import trio

from gw.errors import StoreUnavailable
from gw.store import capture_writer
from gw.store.capture_file import CaptureFile, capture_path
from gw.store.capture_writer import CaptureStore
from gw.types.captured import Piece
from tests.fakes.records import HandClock

DAY_S = 86_400


class Bench:
    """A capture store with a clock that stands still until it is set."""

    def __init__(self, folder, max_bytes: int = 10**9) -> None:
        self.clock = HandClock()
        self.keep_s: Mapping[str, float] = {}
        self.key = os.urandom(32)
        self.keys_read = 0
        self.path = folder / "gw.db"
        self.store = CaptureStore(self.path, self.clock, max_bytes=max_bytes, key=self.read_key, keep_s=lambda: self.keep_s)

    async def read_key(self) -> bytes:
        self.keys_read += 1
        return self.key

    def piece(self, request_id: str, content: bytes = b"canary", **changes) -> Piece:
        fields = {
            "request_id": request_id, "project": "shop", "at": self.clock.now(), "expires_at": self.clock.now() + DAY_S,
            "kind": "text", "part": 0, "size": len(content), "make": lambda: content,
        }  # fmt: skip
        return Piece(**(fields | changes))


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
async def running(bench, nursery):
    nursery.start_soon(bench.store.run)
    await trio.testing.wait_all_tasks_blocked()
    return bench


async def contents(bench, *ids) -> list[bytes]:
    return [piece.content for piece in await bench.store.read(ids, "text")]


async def test_a_piece_is_stored_after_a_moment_and_not_in_clear(running, autojump_clock):
    bench = running
    assert not capture_path(bench.path).exists()
    assert bench.store.put(bench.piece("r1", b"a canary sings"))
    await trio.sleep(1)
    assert bench.store.depth == 0
    assert await contents(bench, "r1", "r2") == [b"a canary sings"]
    assert bench.store.bytes > 0
    files = list(bench.path.parent.glob("gw.db.capture*"))
    assert files
    assert all(b"canary" not in file.read_bytes() for file in files)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert bench.keys_read == 1


async def test_nothing_is_opened_or_asked_for_without_a_piece(running, autojump_clock):
    await trio.sleep(3_600)
    assert await running.store.read(["r1"], "text") == []
    assert await running.store.forget(["r1"]) == 0
    assert (await running.store.summary()).pieces == 0
    assert running.keys_read == 0
    assert not list(running.path.parent.iterdir())


async def test_what_does_not_fit_is_dropped_and_counted(bench, monkeypatch):
    monkeypatch.setattr(capture_writer, "QUEUED", 2)
    assert [bench.store.put(bench.piece(str(n))) for n in range(3)] == [True, True, False]
    assert bench.store.counters.dropped == 1
    await bench.store.flush()
    monkeypatch.setattr(capture_writer, "QUEUED_BYTES", 10)
    assert not bench.store.put(bench.piece("large", b"x" * 11))
    assert bench.store.put(bench.piece("small", b"x" * 10))
    assert (bench.store.counters.dropped, bench.store.counters.stored) == (2, 2)


async def test_expired_pieces_are_not_shown_and_are_deleted(bench):
    bench.store.put(bench.piece("old", b"old"))
    bench.store.put(bench.piece("new", b"new", expires_at=bench.clock.now() + 3 * DAY_S))
    await bench.store.flush()
    bench.clock.time += DAY_S + 1
    assert await contents(bench, "old", "new") == [b"new"]
    assert await bench.store.known(["old", "new"]) == {"new": {"text"}}
    await bench.store.prune()
    assert (await bench.store.summary()).pieces == 1
    assert bench.store.counters.expired == 1
    bench.keep_s = {"shop": DAY_S}  # the project keeps less from now on
    bench.clock.time += 1
    await bench.store.prune()
    assert (await bench.store.summary()).pieces == 0
    assert bench.store.counters.expired == 2


async def test_it_is_looked_for_what_has_expired_every_minute(bench, monkeypatch, nursery, autojump_clock):
    looks = []

    async def look(store):
        looks.append(trio.current_time())

    monkeypatch.setattr(CaptureStore, "prune", look)
    nursery.start_soon(bench.store.run)
    await trio.sleep(3 * capture_writer.PRUNE_EVERY_S + 1)
    assert looks == [0, 60, 120, 180]


async def test_forgetting_deletes_what_waits_too_and_leaves_no_bytes(bench):
    bench.store.put(bench.piece("r1"))
    await bench.store.flush()
    sealed = apsw.Connection(str(capture_path(bench.path))).execute("select body from pieces").get
    bench.store.put(bench.piece("r1", part=1))
    bench.store.put(bench.piece("r2", b"stays"))
    assert await bench.store.forget(["r1"]) == 2
    assert await contents(bench, "r1", "r2") == [b"stays"]
    assert all(sealed not in file.read_bytes() for file in bench.path.parent.glob("gw.db.capture*"))
    assert bench.store.counters.forgotten == 2


async def test_the_oldest_make_room(tmp_path):
    bench = Bench(tmp_path, max_bytes=5_000)
    for n in range(20):
        bench.store.put(bench.piece(str(n), os.urandom(1_000), at=float(n)))
    await bench.store.flush()
    summary = await bench.store.summary()
    assert summary.bytes == bench.store.bytes <= 5_000
    assert (summary.pieces, summary.oldest_at) == (4, 16.0)
    assert bench.store.counters.evicted == 16


async def test_a_piece_that_cannot_be_made_costs_nobody_else(bench):
    def fail() -> bytes:
        raise RuntimeError("canary")

    bench.store.put(bench.piece("bad", make=fail))
    bench.store.put(bench.piece("good", b"good"))
    await bench.store.flush()
    assert await contents(bench, "bad", "good") == [b"good"]
    assert (bench.store.counters.failed, bench.store.counters.stored) == (1, 1)


async def test_a_disk_that_fails_is_shown_until_it_works(bench):
    capture_path(bench.path).mkdir()
    bench.store.put(bench.piece("lost"))
    await bench.store.flush()
    assert bench.store.trouble
    assert bench.store.counters.failed == 1
    capture_path(bench.path).rmdir()
    bench.store.put(bench.piece("kept", b"kept"))
    assert await contents(bench, "lost", "kept") == [b"kept"]
    assert not bench.store.trouble


async def test_another_key_or_another_place_reads_nothing(bench):
    bench.store.put(bench.piece("r1"))
    await bench.store.flush()
    other = Bench(bench.path.parent)
    with pytest.raises(StoreUnavailable, match="cannot be decrypted"):
        await contents(other, "r1")
    apsw.Connection(str(capture_path(bench.path))).execute("update pieces set request_id = 'r2'")
    with pytest.raises(StoreUnavailable, match="cannot be decrypted"):
        await contents(bench, "r2")


async def test_what_waits_at_the_end_is_stored(bench):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.store.run)
        await trio.testing.wait_all_tasks_blocked()
        bench.store.put(bench.piece("r1", b"last"))
        nursery.cancel_scope.cancel()
    assert bench.store.counters.stored == 1
    after = Bench(bench.path.parent)
    after.key, after.clock = bench.key, bench.clock
    assert await contents(after, "r1") == [b"last"]


def test_a_file_of_another_program_is_refused(bench):
    path = capture_path(bench.path)
    db = apsw.Connection(str(path))
    db.execute("create table t (x)")
    db.close()
    with pytest.raises(StoreUnavailable, match="not a capture file"):
        CaptureFile(path)
