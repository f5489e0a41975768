import os
import stat

import pytest

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store import lock, lock_file


async def test_a_second_opener_is_told_who_holds_it(tmp_path, autojump_clock):
    acquired = await lock.acquire(tmp_path / "gw.db", started=5.0, facts={"version": "1"})
    acquired.set_address("http://127.0.0.1:8080")
    with pytest.raises(DatabaseLocked, match=rf"database is locked: .*process {os.getpid()} on .*http://127.0.0.1:8080"):
        await lock.acquire(tmp_path / "gw.db", started=6.0, facts={})
    acquired.release()


async def test_the_holder_can_be_asked_for(tmp_path):
    path = tmp_path / "gw.db"
    assert lock_file.holder(path) is None
    acquired = await lock.acquire(path, started=5.0, facts={"version": "1"})
    facts = lock_file.holder(path)
    assert facts["pid"] == os.getpid()
    assert (facts["url"], facts["started"], facts["version"]) == ("", 5.0, "1")
    acquired.release()
    assert lock_file.holder(path) is None


async def test_a_shorter_address_replaces_a_longer_one(tmp_path):
    acquired = await lock.acquire(tmp_path / "gw.db", started=5.0, facts={})
    acquired.set_address("http://127.0.0.1:8080/a/long/one")
    acquired.set_address("http://[::1]:1")
    assert lock_file.holder(tmp_path / "gw.db")["url"] == "http://[::1]:1"
    acquired.release()


async def test_what_a_dead_holder_left_does_not_matter(tmp_path):
    lock.lock_path(tmp_path / "gw.db").write_text('{"pid": 1, "url": "http://127.0.0.1:1"}')
    assert lock_file.holder(tmp_path / "gw.db") is None
    (await lock.acquire(tmp_path / "gw.db", started=1.0, facts={})).release()


async def test_two_names_of_one_database_share_a_lock(tmp_path, autojump_clock):
    (tmp_path / "link.db").symlink_to(tmp_path / "gw.db")
    acquired = await lock.acquire(tmp_path / "gw.db", started=1.0, facts={})
    with pytest.raises(DatabaseLocked):
        await lock.acquire(tmp_path / "link.db", started=1.0, facts={})
    acquired.release()


async def test_the_file_is_private(tmp_path):
    acquired = await lock.acquire(tmp_path / "gw.db", started=1.0, facts={})
    assert stat.S_IMODE((tmp_path / "gw.db.lock").stat().st_mode) == 0o600
    acquired.release()


async def test_a_lock_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "gw.db.lock").mkdir()
    with pytest.raises(StoreUnavailable, match="lock file"):
        await lock.acquire(tmp_path / "gw.db", started=1.0, facts={})
