import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store import lock_file, requests
from gw.store.journal_files import read_lines, segment_paths
from gw.store.requests import LogFilter
from gw.store.store import open_readonly, open_store
from gw.store.writer import GATHER_S
from gw.telemetry.clock import DAY_S
from gw.types.usage import AttemptRecord, Usage
from tests.fakes import stored
from tests.fakes.records import DAY, NOON, HandClock, intent, record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "gw.db"


async def test_what_was_finished_can_be_read(path):
    async with open_store(path, clock=HandClock()) as store:
        store.intent(intent())
        store.finish(record())
        await store.flush()
        assert await store.request("r1") == record()
        assert await store.request("r2") is None
        assert await stored.logs(store, log_filter=LogFilter(project="default", status="success")) == [record()]
        assert await stored.logs(store, log_filter=LogFilter(project="other")) == []
        assert (await stored.totals(store, DAY)).cost_nusd == 1_000
        assert [row.model_id for row in await stored.costs(store, DAY, "default")] == ["openai/gpt-x"]
        assert (await stored.latency(store, DAY))["openai/gpt-x"].ttfb.count == 1
        assert await store.spend(DAY) == {"default": (1_000, 0)}
        assert (await store.stats()).requests == 1
        assert store._journal.open_intents == 0


async def test_flush_with_nothing_to_wait_for(path):
    async with open_store(path, clock=HandClock()) as store:
        await store.flush()


async def test_every_file_is_private_and_nothing_is_left_over(path):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record())
        await store.flush()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    names = ("gw.db", "gw.db-shm", "gw.db-wal", "gw.db.journal.1", "gw.db.lock")
    assert modes == dict.fromkeys(names, 0o600)
    assert sorted(file.name for file in path.parent.iterdir()) == ["gw.db", "gw.db.lock"]


async def test_a_second_instance_is_refused_and_a_reader_is_not(path, autojump_clock):
    async with open_store(path, clock=HandClock(), holder={"version": "9"}) as store:
        store.set_address("http://127.0.0.1:8080")
        store.finish(record())
        await store.flush()
        with pytest.raises(DatabaseLocked, match=f"process {os.getpid()} on .*, http://127.0.0.1:8080; stop it"):
            async with open_store(path, clock=HandClock()):
                pass
        async with open_readonly(path) as reader:
            assert await stored.logs(reader) == [record()]
        assert lock_file.holder(path)["version"] == "9"
    assert lock_file.holder(path) is None
    async with open_readonly(path) as reader:
        assert await stored.logs(reader) == [record()]


async def test_a_reader_of_nothing_makes_nothing(path):
    with pytest.raises(StoreUnavailable, match="there is no database"):
        async with open_readonly(path):
            pass
    assert not path.parent.exists()


async def test_a_damaged_database_stops_the_start_and_frees_the_lock(path):
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable, match="restore a backup"):
        async with open_store(path, clock=HandClock()):
            pass
    assert path.read_bytes() == b"not a database" * 1000
    assert lock_file.holder(path) is None


async def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot create the folder"):
        async with open_store(tmp_path / "file" / "gw.db", clock=HandClock()):
            pass


async def test_cancelled_with_records_waiting(path):
    with trio.CancelScope() as scope:
        async with open_store(path, clock=HandClock()) as store:
            for n in range(1_500):
                store.finish(record(f"{n}"))
            scope.cancel()
            await trio.sleep_forever()
    assert segment_paths(path) == []
    async with open_readonly(path) as reader:
        assert (await reader.stats()).requests == 1_500


async def test_an_error_in_the_block_comes_out_unconverted(path):
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block is what is tested
        async with open_store(path, clock=HandClock()) as store:
            store.finish(record())
            raise ZeroDivisionError
    async with open_readonly(path) as reader:
        assert await stored.logs(reader) == [record()]


async def test_a_request_unfinished_at_the_end_is_interrupted_at_the_next_start(path):
    async with open_store(path, clock=HandClock()) as store:
        store.intent(intent("lost"))
        store.finish(record("kept"))
    async with open_store(path, clock=HandClock()) as store:
        assert (store.replayed.records, store.replayed.interrupted) == (0, 1)
        assert (await store.request("lost")).error_code == "interrupted"
        assert await store.spend(DAY) == {"default": (1_000 + 5_000, 0)}


async def test_text_that_utf8_cannot_carry_is_kept_readable(path):
    attempt = AttemptRecord(model_id="x\udcff", outcome="ok", started_ms=0, duration_ms=1)
    async with open_store(path, clock=HandClock()) as store:
        store.intent(intent(session_id="caf\udce9"))
        store.finish(record(session_id="caf\udce9", attempts=(attempt,)))
        await store.flush()
        scrubbed = await store.request("r1")
        assert (scrubbed.session_id, scrubbed.attempts[0].model_id) == ("caf?", "x?")


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e308])
async def test_what_a_line_cannot_hold_is_readable_after_a_kill(path, seconds):
    """The journal alone, as a killed process leaves it: JSON has no infinity, and digits have a limit."""
    usage = Usage(audio_seconds=seconds, input_tokens=10**5000)
    async with open_store(path, clock=HandClock()) as store:
        store.intent(intent("open", estimate=Usage(audio_seconds=seconds), estimate_nusd=10**5000))
        store.finish(record(usage=usage, cost_nusd=10**5000))
        store.finish(record("seconds alone", usage=Usage(audio_seconds=seconds)))
        [segment] = segment_paths(path)
        matches = [line for _, line in read_lines(segment)]
        assert [line.id for line in matches] == ["open", "r1", "seconds alone"]
        assert matches[1].usage.input_tokens == matches[1].cost_nusd == requests.LARGEST
        assert 0 <= matches[2].usage.audio_seconds <= requests.LARGEST
        await store.flush()
        assert (await store.stats()).requests == 2


async def test_pages_follow_each_other(path):
    async with open_store(path, clock=HandClock()) as store:
        for n in range(5):
            store.finish(record(f"{n}", timestamp=NOON + n))
        await store.flush()
        first = await stored.logs(store, limit=3)
        remainder = await stored.logs(store, limit=3, before=first[-1].id)
        assert [r.id for r in first + remainder] == ["4", "3", "2", "1", "0"]


async def test_loaded_records_are_in_the_reports_once(path):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record("own"))
        await store.flush()
        past = [record("own", cost_nusd=9), *(record(f"s{n}", timestamp=NOON - DAY_S * n) for n in range(1, 4))]
        assert await store.load(iter(past)) == 3
        assert await store.load(past) == 0
        assert await store.spend(DAY) == {"default": (1_000, 0)}
        assert await store.spend(DAY - 3) == {"default": (1_000, 0)}
        assert (await stored.totals(store)).cost_nusd == 4_000
        assert [r.id for r in await stored.logs(store)] == ["own", "s1", "s2", "s3"]
        assert (store.queue_depth, store.counters.finished, store._journal.open_intents) == (0, 1, 0)
    assert segment_paths(path) == []


CHILD = """
import os, sys, trio
from pathlib import Path
from gw.store.store import open_store
from tests.fakes.records import HandClock, intent, record

async def main(path, tag):
    async with open_store(Path(path), clock=HandClock()) as store:
        n = 0
        while True:
            n += 1
            store.intent(intent(f"{tag}-{n}"))
            os.write(1, f"called {tag}-{n}\\n".encode())
            store.finish(record(f"{tag}-{n}", cost_nusd=n))
            os.write(1, f"acknowledged {tag}-{n}\\n".encode())
            await trio.lowlevel.checkpoint()

trio.run(main, *sys.argv[1:])
"""


def _run_and_kill(path, tag, after):
    """Kill -9 a process that uses the store, after so many lines; returns the ids it called for and acknowledged."""
    command = [sys.executable, "-c", CHILD, str(path), tag]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        lines = [child.stdout.readline() for _ in range(after)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    spoken = [line.split() for line in lines if line.endswith("\n") and line.startswith(("called", "acknowledged"))]
    return {name for word, name in spoken if word == "called"}, {name for word, name in spoken if word == "acknowledged"}


@pytest.mark.process
async def test_kill_9_loses_no_record_and_no_call(path):
    """Three lives of one database, killed when idle, busy and spilling; each request is there exactly once."""
    called, acknowledged = set(), set()
    for tag, after in (("a", 1), ("b", 500), ("c", 3_000)):
        more_called, more_acknowledged = await trio.to_thread.run_sync(_run_and_kill, path, tag, after)
        called |= more_called
        acknowledged |= more_acknowledged
    assert len(acknowledged) > 1_500
    async with open_store(path, clock=HandClock()) as store:
        rows = []
        before = None
        while page := await stored.logs(store, limit=1_000, before=before):
            rows += page
            before = page[-1].id
        totals = await stored.totals(store)
    status = {row.id: row.status for row in rows}
    assert len(status) == len(rows)
    assert {name for name in acknowledged if status.get(name) != "success"} == set()
    assert called <= set(status)
    assert len(set(status) - called) <= 3  # journaled, but killed before it could say so
    assert totals.requests == len(rows)
    assert totals.cost_nusd == sum(row.cost_nusd for row in rows)


async def test_reports_in_a_row_share_commits_and_each_sees_what_was_finished_before_it(path, mock_clock):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record("r1"))
        await store.catch_up()  # at once
        assert store.counters.committed == 1
        async with trio.open_nursery() as nursery:
            for n in (2, 3):
                store.finish(record(f"r{n}"))
                nursery.start_soon(store.catch_up)
            await trio.testing.wait_all_tasks_blocked()
            assert store.counters.committed == 1
            mock_clock.jump(GATHER_S)
        assert store.counters.committed == 3
        assert await store.request("r3") is not None


async def test_catching_up_with_nothing_new_waits_for_no_commit(path, autojump_clock):
    async with open_store(path, clock=HandClock()) as store:
        await store.catch_up()
        assert store.counters.committed == 0
