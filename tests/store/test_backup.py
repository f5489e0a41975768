import stat

import apsw
import pytest
import trio

from gw.errors import StoreUnavailable
from gw.store import migrations
from gw.store.backup import PAGES, back_up, copy
from gw.store.sqlite import open_reader, open_writer, schema_version
from gw.store.store import open_store
from tests.fakes.records import HandClock, record

PAGE_BYTES = 4_096


def ignore(done, total):
    pass


def count(path) -> int:
    db = open_reader(path)
    try:
        return db.execute("select count(*) from meta").get
    finally:
        db.close()


@pytest.fixture
def path(tmp_path):
    """A database of three steps."""
    path = tmp_path / "gw.db"
    db = open_writer(path)
    db.execute("insert into meta values ('large', ?)", ("x" * (PAGE_BYTES * PAGES * 5 // 2),))
    db.close()
    return path


async def test_a_copy_of_a_database_in_use(tmp_path):
    async with open_store(tmp_path / "gw.db", clock=HandClock()) as store:
        store.finish(record("r1"))
        await store.flush()
        size = await back_up(tmp_path / "gw.db", tmp_path / "copy.db")
    assert size == (tmp_path / "copy.db").stat().st_size
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    async with open_store(tmp_path / "copy.db", clock=HandClock()) as copied:
        assert await copied.request("r1") == record("r1")


def test_somebody_who_writes_all_the_time_does_not_hold_it_up(path, tmp_path):
    """SQLite begins anew when the database changes between two steps, unless a snapshot is held."""
    writer = open_writer(path)
    steps = []

    def write_meanwhile(done, total):
        steps.append((done, total))
        assert len(steps) < 10
        writer.execute("insert into meta values (?, '')", (str(len(steps)),))

    copy(path, tmp_path / "copy.db", on_step=write_meanwhile)
    writer.close()
    assert [done for done, _ in steps[:2]] == [PAGES, 2 * PAGES]
    assert steps[-1][0] == steps[-1][1]
    assert count(tmp_path / "copy.db") == 1, "the state of the moment when it began"
    assert count(path) == 1 + len(steps)


def test_a_file_is_not_replaced(path, tmp_path):
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(StoreUnavailable, match="does not replace a file"):
        copy(path, tmp_path / "copy.db", on_step=ignore)
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_damaged_database_makes_no_copy(path, tmp_path):
    content = bytearray(path.read_bytes())
    content[5 * PAGE_BYTES : 5 * PAGE_BYTES + 2_000] = b"\xa5" * 2_000
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="damaged"):
        copy(path, tmp_path / "copy.db", on_step=ignore)
    assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == []


@pytest.mark.parametrize("target", ["no-folder/copy.db", "gw.db/copy.db"])
def test_where_nothing_can_be_written(path, tmp_path, target):
    with pytest.raises(StoreUnavailable, match="cannot"):
        copy(path, tmp_path / target, on_step=ignore)


def test_without_a_database(tmp_path):
    with pytest.raises(StoreUnavailable, match="there is no database"):
        copy(tmp_path / "none.db", tmp_path / "copy.db", on_step=ignore)
    assert list(tmp_path.iterdir()) == []


def test_one_of_an_older_version_can_be_kept_before_it_is_upgraded(path, tmp_path):
    db = apsw.Connection(str(path))
    db.pragma("user_version", 1)
    db.close()
    copy(path, tmp_path / "copy.db", on_step=ignore)
    assert (schema_version(path), schema_version(tmp_path / "copy.db")) == (1, 1)
    assert migrations.VERSION > 1


async def test_who_breaks_off_leaves_nothing_behind(path, tmp_path):
    with trio.CancelScope() as scope:
        await back_up(path, tmp_path / "copy.db", on_progress=lambda done, total: trio.from_thread.run_sync(scope.cancel))
    assert scope.cancelled_caught
    assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == []
