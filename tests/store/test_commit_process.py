"""The process that writes, inside an open store: what dies, is killed or stands still, and what is in the database afterwards."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store import writer
from gw.store.commit_process import CommitProcess
from gw.store.commit_program import CommitStart
from gw.store.committer import Committer, ProcessEnded
from gw.store.entity_rows import Change
from gw.store.journal_files import segment_paths
from gw.store.pipe_messages import LENGTH, framed
from gw.store.sqlite import open_writer
from gw.store.sqlite_records import SqliteTarget
from gw.store.store import open_store
from gw.telemetry.clock import DAY_S
from gw.types.entities import AuditEntry, Project
from tests.fakes import stored
from tests.fakes.disk import refuse
from tests.fakes.processes import children, state, wait_stopped
from tests.fakes.records import DAY, NOON, HandClock, intent, record

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


@asynccontextmanager
async def opened(path, **options):
    with trio.fail_after(60):
        async with open_store(path, clock=HandClock(), processes=True, **options) as store:
            yield store


async def until(condition):
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in another process
            await trio.sleep(0.002)


def executor(store) -> CommitProcess:
    return store._writer._executor


async def started(store) -> int:
    """Return the id of the process once it has written a record."""
    store.finish(record("first"))
    await store.flush()
    return executor(store).pid


def audit(entity_id):
    return AuditEntry(
        timestamp=NOON, entity_type="project", entity_id=entity_id, action="create", changes={}, source="api", actor="admin"
    )


def project(entity_id):
    return Change(put=(Project(id=entity_id, source="db"),), audit=(audit(entity_id),))


async def test_records_changes_and_imports_go_through_the_process(path):
    async with opened(path) as store:
        assert executor(store).pid is None  # nothing waits for it at the start
        assert store.starting
        store.intent(intent())
        store.finish(record())
        await store.flush()
        assert not store.starting
        pid = executor(store).pid
        assert children(os.getpid(), "gw.store.commit_program") == [pid]
        assert os.getpgid(pid) == pid  # Ctrl-C in a terminal does not reach it, also while it starts
        assert await store.load([record("old", timestamp=NOON - DAY_S), record()]) == 1
        await store.change(project("shop"))
        assert executor(store).pid == pid
        assert await store.request("r1") == record()
        assert [entity.id for entity in await store.entities()] == ["shop"]
        assert await store.spend(DAY) == {"default": (1_000, 0)}
        assert store._journal.open_intents == 0
    assert children(os.getpid(), "gw.store.commit_program") == []
    assert sorted(file.name for file in path.parent.iterdir()) == ["gw.db", "gw.db.lock"]


async def test_the_process_offers_its_core_while_it_writes(path, tmp_path, monkeypatch):
    """A module that Python imports at its start notes each offer."""
    offers = tmp_path / "offers"
    (folder := tmp_path / "customized").mkdir()
    noting = f"import os\noffer = os.sched_yield\nos.sched_yield = lambda: (open({str(offers)!r}, 'a').write('.'), offer())"
    (folder / "sitecustomize.py").write_text(noting)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
    async with opened(path) as store:
        await started(store)
    assert len(offers.read_text()) > 5


async def test_a_store_without_a_record_starts_no_process(path):
    async with opened(path) as store:
        assert executor(store).pid is None
    assert sorted(file.name for file in path.parent.iterdir()) == ["gw.db", "gw.db.lock"]


async def test_old_records_are_deleted_soon_after_the_start(path):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record("old", timestamp=NOON - 91 * DAY_S))
        store.finish(record("young", timestamp=NOON - 89 * DAY_S))
        await store.flush()
    async with opened(path) as store:
        assert store.counters.pruned == 0
        await until(lambda: store.counters.pruned)
        assert [r.id for r in await stored.logs(store)] == ["young"]


async def test_what_is_sent_when_it_is_killed_is_written_once(path):
    """Records and changes go on while the process is killed again and again."""
    with capture_logs():
        async with opened(path) as store:
            await started(store)
            names = [f"p{n}" for n in range(40)]
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def kill_it():
                    for _ in range(5):
                        await until(lambda: executor(store).pid is not None)
                        os.kill(executor(store).pid, signal.SIGKILL)
                        await trio.sleep(0.05)

                for n, name in enumerate(names):
                    store.finish(record(f"{n}"))
                    while True:
                        try:
                            await store.change(project(name))
                            break
                        except StoreUnavailable:  # killed once more in each of its attempts
                            pass
            await store.flush()
            assert store.queue_depth == 0
            assert (await stored.totals(store)).requests == (await store.stats()).requests == 41
            assert sorted(entry.entity_id for entry in await store.audit_log(100)) == sorted(names)
            assert store.degraded == ""


async def test_one_that_was_killed_while_idle_is_started_again(path):
    async with opened(path) as store:
        pid = await started(store)
        os.kill(pid, signal.SIGKILL)
        with capture_logs() as logs:
            store.finish(record("after"))
            await store.flush()
        assert executor(store).pid != pid
        assert (await store.stats()).requests == 2
    ended = [line for line in logs if line["event"] == "writer_process_ended"]
    assert [line["why"] for line in ended] in ([], ["the process that writes to the database was ended by SIGKILL"])
    assert ended or [line["event"] for line in logs] == ["usage_store_degraded", "usage_store_recovered"]


async def test_the_signals_that_reach_a_whole_group_do_not_end_it(path):
    """Ctrl-C, and a service manager that stops all processes: the gateway has records to write after them."""
    async with opened(path) as store:
        pid = await started(store)
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, sent)
        store.finish(record("after"))
        await store.flush()
        assert executor(store).pid == pid


async def test_one_that_does_not_answer_is_replaced(path, monkeypatch):
    monkeypatch.setitem(CommitProcess.__init__.__kwdefaults__, "answer_s", 10.0)  # a new one needs seconds to start on a busy machine
    async with opened(path) as store:
        pid = await started(store)
        os.kill(pid, signal.SIGSTOP)
        with capture_logs() as logs:
            store.finish(record("after"))
            await store.flush()
        assert executor(store).pid != pid
        assert (await store.stats()).requests == 2
        assert store.degraded == ""
    assert [line["event"] for line in logs] == ["usage_store_degraded", "usage_store_recovered"]
    assert "the process that writes to the database did not answer for 10 s" in logs[0]["why"]


async def test_one_that_cannot_be_started(path, monkeypatch):
    async with opened(path) as store:
        monkeypatch.setattr(sys, "executable", str(path.parent / "none"))
        store.finish(record())
        await until(lambda: store.degraded)
        assert "the process that writes to the database cannot be started" in store.degraded
        with pytest.raises(StoreUnavailable, match="cannot be started"):
            await store.change(project("shop"))
        monkeypatch.undo()
        await store.flush()
        assert store.degraded == ""
        await store.change(project("shop"))


async def test_with_durability_power_the_answer_waits_for_the_process(path):
    async with opened(path, durability="power") as store:
        for n in range(20):
            store.finish(record(f"{n}"))
            await store.wait_committed(f"{n}")
            assert await store.request(f"{n}") is not None


async def test_a_report_gets_a_commit_at_once(path):
    async with opened(path) as store:
        await started(store)
        store.finish(record())
        await store.catch_up()
        assert await store.request("r1") == record()


async def test_a_full_queue_leaves_the_rest_in_the_journal(path):
    async with opened(path) as store:
        many = 2_600
        for n in range(many):
            store.intent(intent(f"{n:04}"))
            store.finish(record(f"{n:04}"))
        assert store.counters.spilled == many - writer.QUEUED
        await store.flush()
        assert (await store.stats()).requests == many
    assert segment_paths(path) == []


async def test_a_full_disk_and_another_program_are_waited_out(path):
    async with opened(path) as store:
        pid = await started(store)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        store.finish(record("full"))
        await until(lambda: store.counters.retries)
        assert "gw.db cannot be used" in store.degraded
        assert store.accepting
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.flush()
        assert store.degraded == ""
        other = apsw.Connection(str(path))
        other.set_busy_timeout(5_000)
        other.execute("begin immediate")
        retries = store.counters.retries
        store.finish(record("locked"))
        await until(lambda: store.counters.retries > retries)
        assert store.degraded.startswith("database is locked: another program is writing to")
        with pytest.raises(DatabaseLocked):
            await store.change(project("shop"))
        other.close()
        await store.flush()
        assert (await store.stats()).requests == 3


@pytest.mark.parametrize("killed", [False, True])
async def test_a_deleted_database_gets_nothing_until_it_is_back(path, killed):
    """A process that is started meanwhile does not write to another file of that name either."""
    async with opened(path) as store:
        pid = await started(store)
        kept = path.with_name("kept.db")
        path.rename(kept)
        path.write_bytes(kept.read_bytes())
        if killed:
            os.kill(pid, signal.SIGKILL)
        store.finish(record("after"))
        await until(lambda: store.counters.retries > 3)
        assert "was replaced while gw runs" in store.degraded
        assert path.read_bytes() == kept.read_bytes()
        kept.rename(path)
        await store.flush()
        assert (await store.stats()).requests == 2
        await until(lambda: not store.degraded)  # looked at once a second


async def test_a_record_that_cannot_be_written_is_set_aside(path):
    db = open_writer(path)
    refuse(db, "bad")
    db.close()
    with capture_logs() as logs:
        async with opened(path) as store:
            for name in ("a", "bad", "b"):
                store.finish(record(name))
            await store.flush()
            assert (store.counters.committed, store.counters.set_aside) == (2, 1)
    [line] = logs
    assert (line["event"], line["id"], line["why"]) == ("usage_record_unwritable", "bad", "ConstraintError: refused")
    assert line["record"]["model_id"] == record().model_id


async def test_a_bug_ends_the_gateway_with_the_traceback_of_the_process(path):
    with pytest.raises(apsw.SQLError, match="no such table") as caught:  # noqa: PT012  # the owner's whole block ends
        async with opened(path) as store:
            await started(store)
            with apsw.Connection(str(path)) as vandal:
                vandal.set_busy_timeout(5_000)
                vandal.execute("drop table requests")
            store.finish(record())
            await trio.sleep_forever()
    assert "commit_program.py" in "".join(caught.value.__notes__)
    assert len(segment_paths(path)) == 1


async def test_who_is_cancelled_while_a_change_is_written_learns_that_it_was(path):
    async with opened(path) as store:
        pid, turn, tasks = await started(store), executor(store)._turn, []

        async def change(task_status):
            tasks.append(trio.lowlevel.current_task())
            task_status.started()
            await store.change(project("shop"))

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                while turn.statistics().owner not in tasks:  # a job of the store itself may have the next turn
                    await turn.acquire()
                    await nursery.start(change)
                    await until(lambda: turn.statistics().tasks_waiting)
                    turn.release()
                os.kill(pid, signal.SIGSTOP)
                scope.cancel()
                os.kill(pid, signal.SIGCONT)
        assert [entity.id for entity in await store.entities()] == ["shop"]


async def test_it_inherits_no_secret(path, monkeypatch):
    monkeypatch.setenv("GW_SECRET", "s")
    async with opened(path) as store:
        pid = await started(store)
        variables = Path(f"/proc/{pid}/environ").read_bytes()  # noqa: ASYNC240
    assert b"PATH=" in variables
    assert b"GW_SECRET" not in variables


def test_it_imports_little():
    listing = "import sys, gw.store.commit_program, gw.store.sqlite_records; print(*{n.partition('.')[0] for n in sys.modules})"
    modules = subprocess.run([sys.executable, "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"trio", "structlog", "asyncio", "rich", "quart", "psycopg"} & {*modules.split()} == set()


GATEWAY = """
import os, sys, trio
from pathlib import Path
from gw.store.store import open_store
from tests.fakes.records import HandClock, record

async def main(path):
    async with open_store(Path(path), clock=HandClock(), processes=True) as store:
        store.finish(record("0"))
        await store.flush()
        os.write(1, f"{store._writer._executor.pid}\\n".encode())
        for n in range(1, 10_000_000):
            store.finish(record(f"{n}"))
            os.write(1, f"{n}\\n".encode())
            await trio.lowlevel.checkpoint()

trio.run(main, *sys.argv[1:])
"""


def kill_a_gateway(path, *, stopped: bool) -> tuple[int, int, list[int]]:
    """Kill -9 a process with a store, under load; return its id, that of its process that writes, and what it acknowledged."""
    with subprocess.Popen([sys.executable, "-c", GATEWAY, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        pid = int(gateway.stdout.readline())
        acknowledged = [int(gateway.stdout.readline()) for _ in range(2_000)]
        if stopped:
            os.kill(pid, signal.SIGSTOP)
            wait_stopped(pid)
        gateway.kill()
        acknowledged += [int(line) for line in gateway.stdout.readlines() if line.endswith("\n")]
        return gateway.pid, pid, acknowledged


def runs(pid: int) -> bool:
    return state(pid) not in ("", "Z")


async def test_a_killed_gateway_leaves_no_process_and_loses_nothing(path):
    _, pid, acknowledged = await trio.to_thread.run_sync(lambda: kill_a_gateway(path, stopped=False))
    async with opened(path) as store:  # at once
        assert not runs(pid)
        assert (await store.stats()).requests >= len(acknowledged) + 1
        assert await store.request(f"{acknowledged[-1]}") is not None
        assert (await stored.totals(store)).requests == (await store.stats()).requests


@contextmanager
def adopting_orphans():
    """Become the parent of orphans: the kernel wakes stopped ones with SIGHUP and SIGCONT where no parent of their session is left."""
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(set_child_subreaper, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        prctl(set_child_subreaper, 0, 0, 0, 0)


async def test_the_next_gateway_waits_for_the_last_ones_process(path):
    """Stopped for a moment, it holds the lock although its gateway is dead."""
    with adopting_orphans():
        _, pid, acknowledged = await trio.to_thread.run_sync(lambda: kill_a_gateway(path, stopped=True))
    assert state(pid) == "T"
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def go_on():
            await trio.sleep(0.3)
            assert state(pid) == "T"
            os.kill(pid, signal.SIGCONT)

        async with opened(path) as store:
            assert not runs(pid)
            assert await store.request(f"{acknowledged[-1]}") is not None
    await trio.to_thread.run_sync(os.waitpid, pid, 0)


async def test_a_job_is_not_repeated_by_the_executor(path):
    """The writer decides: it repeats records at once, and changes while their caller waits."""
    open_writer(path).close()
    with path.with_name("lock").open("w") as lock, trio.fail_after(60):
        process = CommitProcess(SqliteTarget(path), 90, lock.fileno())  # without a store, which has jobs of its own
        await process.run(Committer.prune, 0.0, 1)
        os.kill(process.pid, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def job():
                with pytest.raises(ProcessEnded, match="was ended by SIGKILL"):
                    await process.run(Committer.prune, 0.0, 1)

            await trio.testing.wait_all_tasks_blocked()
            os.kill(process.pid, signal.SIGKILL)
        assert process.pid is None


def test_a_job_that_it_cannot_read_ends_it():
    """As after an upgrade of the package below a running gateway: it must not wait for a job that never comes."""
    message = framed(CommitStart(SqliteTarget(Path("none.db")), 90)) + LENGTH.pack(3) + b"not"
    command = [sys.executable, "-c", "from gw.store.commit_program import main; main()"]
    done = subprocess.run(command, cwd=ROOT, input=message, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"UnpicklingError" in done.stderr
