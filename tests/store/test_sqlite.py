import stat

import apsw
import pytest

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store import migrations
from gw.store.sqlite import open_reader, open_writer, translated


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "gw.db"
    open_writer(path).close()
    return path


def test_the_settings_in_force(path):
    db = open_writer(path)
    names = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "cell_size_check", "busy_timeout")
    assert [db.pragma(name) for name in names] == ["wal", 2, 1, 0, 1, 5000]
    db.close()


def test_every_file_is_private(tmp_path):
    path = tmp_path / "new" / "gw.db"
    path.parent.mkdir()
    db = open_writer(path)
    db.execute("create table t (x)")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"gw.db": 0o600, "gw.db-wal": 0o600, "gw.db-shm": 0o600}
    db.close()


def test_a_file_open_to_others_is_closed(path):
    path.chmod(0o644)
    open_writer(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("opener", "at"), [(open_writer, 0), (open_writer, 4096), (open_reader, 0)])
def test_a_damaged_database_is_refused_and_left_alone(path, opener, at):
    content = bytearray(path.read_bytes())
    content[at : at + 2000] = b"\xa5" * 2000
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"gw\.db is damaged or not a database .* restore a backup, or move the file away"):
        opener(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("create table t (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="another program"):
        open_writer(path)
    assert path.read_bytes() == before


def test_a_database_from_the_future_is_refused(path):
    db = open_writer(path)
    db.pragma("user_version", migrations.VERSION + 1)
    db.close()
    with pytest.raises(StoreUnavailable, match="newer gw"):
        open_writer(path)


def test_a_reader_does_not_upgrade(path):
    db = open_writer(path)
    db.pragma("user_version", 0)
    db.close()
    with pytest.raises(StoreUnavailable, match="`gw db migrate` or"):
        open_reader(path)


def test_a_reader_wants_a_database(tmp_path):
    with pytest.raises(StoreUnavailable, match="there is no database"):
        open_reader(tmp_path / "gw.db")


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot open the database"):
        open_writer(tmp_path / "no such folder" / "gw.db")


def test_a_reader_cannot_write(path):
    db = open_reader(path)
    with pytest.raises(apsw.ReadOnlyError):
        db.execute("delete from requests")
    db.close()


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        (apsw.BusyError("x"), DatabaseLocked, "database is locked"),
        (apsw.FullError("x"), StoreUnavailable, "disk full"),
        (apsw.IOError("disk I/O error"), StoreUnavailable, "disk I/O error"),
    ],
)
def test_faults_get_our_names(tmp_path, fault, error, text):
    with pytest.raises(error, match=text), translated(tmp_path):
        raise fault


def test_a_bug_keeps_its_name(tmp_path):
    with pytest.raises(apsw.SQLError), translated(tmp_path):
        raise apsw.SQLError("no such table")
