import pytest
import trio
from structlog.testing import capture_logs

from gw.admin import audit, projects, providers
from gw.errors import DatabaseLocked, StoreUnavailable
from tests.fakes.records import record
from tests.fakes.registrar import BY, open_registrar, settings_of

MINE = {"provider_id": "mine", "provider_type": "openai", "api_key": "sk-canary-0123456789"}


class Broken(Exception):
    pass


async def test_a_change_that_fails_changes_nothing(registrar):
    async def break_off():
        async with registrar.change(BY) as draft:
            draft.meta.append(("a", "b"))
            raise Broken

    with pytest.raises(Broken):
        await break_off()
    assert await registrar.store.meta("a") is None


async def test_what_the_database_refuses_is_not_in_force(registrar, tmp_path):
    """The entity and its audit entry: both or neither."""
    await registrar.store.flush()
    import apsw

    with apsw.Connection(str(tmp_path / "gw.db")) as other:
        other.execute("create trigger no before insert on audit begin select raise(abort, 'no'); end")
    with pytest.raises(apsw.ConstraintError):
        await projects.create(registrar, {"project_id": "app"}, BY)
    assert "app" not in registrar.catalog.projects
    assert await registrar.store.entities() == []


async def test_a_foreign_writer_is_told(registrar, tmp_path):
    import apsw

    other = apsw.Connection(str(tmp_path / "gw.db"))
    other.execute("begin immediate")
    with pytest.raises(DatabaseLocked, match="database is locked"):
        await projects.create(registrar, {"project_id": "app"}, BY)
    other.execute("rollback")
    other.close()
    await projects.create(registrar, {"project_id": "app"}, BY)
    assert "app" in registrar.catalog.projects


async def test_changes_at_the_same_time_are_made_one_after_the_other(registrar):
    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(projects.create, registrar, {"project_id": f"p{n}"}, BY)
    assert {f"p{n}" for n in range(10)} <= set(registrar.catalog.projects)
    assert len(await audit.page(registrar.store, limit="50")) == 10


async def test_a_changed_secret_disables_what_was_stored_and_nothing_else(tmp_path):
    async with open_registrar(tmp_path) as first:
        await providers.create(first, MINE, BY)
    with capture_logs() as logs:
        async with open_registrar(tmp_path, secret="another") as second:
            entry = second.catalog.provider("mine")
            assert not entry.configured
            assert "set the old GW_SECRET or store the key again" in entry.key_error
            assert second.catalog.provider("openai").configured
    assert {"secret_changed", "database_entry_set_aside"} <= {line["event"] for line in logs}
    async with open_registrar(tmp_path) as third:  # nothing was overwritten
        assert third.catalog.provider("mine").configured


async def test_the_key_can_be_stored_again_under_the_new_secret(tmp_path):
    async with open_registrar(tmp_path) as first:
        await providers.create(first, MINE, BY)
    async with open_registrar(tmp_path, secret="another") as second:
        await providers.update(second, "mine", {"api_key": "sk-again-0123456789"}, BY)
        assert second.catalog.provider("mine").configured
    async with open_registrar(tmp_path, secret="another") as third:
        assert third.catalog.provider("mine").api_key.reveal() == "sk-again-0123456789"


async def test_without_stored_keys_no_secret_is_made(tmp_path):
    async with open_registrar(tmp_path, secret="") as made:
        await projects.create(made, {"project_id": "app"}, BY)
        assert not (tmp_path / "config").exists()
        await providers.create(made, MINE, BY)
        assert (tmp_path / "config" / ".secret").exists()


async def test_rotation_reencrypts_everything(tmp_path):
    async with open_registrar(tmp_path, secret="old") as first:
        await providers.create(first, MINE, BY)
    async with open_registrar(tmp_path, secret="new", previous="old") as second:
        assert await second.rotate(BY) == 1
    async with open_registrar(tmp_path, secret="new") as third:
        assert third.catalog.provider("mine").api_key.reveal() == MINE["api_key"]


async def test_rotation_of_the_secret_file(tmp_path):
    async with open_registrar(tmp_path, secret="") as first:
        await providers.create(first, MINE, BY)
        before = (tmp_path / "config" / ".secret").read_text()
        assert await first.rotate(BY) == 1
        after = (tmp_path / "config" / ".secret").read_text()
        assert before.strip() not in after
        assert len(after.split()) == 1
        assert first.catalog.provider("mine").configured
    async with open_registrar(tmp_path, secret="") as second:
        assert second.catalog.provider("mine").api_key.reveal() == MINE["api_key"]


async def test_a_reload_keeps_what_was_made(registrar, tmp_path):
    await providers.create(registrar, MINE, BY)
    text = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}"
    await registrar.reload(settings_of(tmp_path, text))
    assert set(registrar.catalog.providers) == {"sim", "mine"}


async def test_a_backup_can_be_opened(registrar, tmp_path):
    await projects.create(registrar, {"project_id": "app"}, BY)
    registrar.store.finish(record("r1"))
    await registrar.store.flush()
    (tmp_path / "copy").mkdir()
    target = tmp_path / "copy" / "gw.db"
    assert await registrar.store.backup(target) > 0
    assert target.stat().st_mode & 0o077 == 0
    with pytest.raises(StoreUnavailable, match="exists"):
        await registrar.store.backup(target)
    async with open_registrar(tmp_path / "copy") as copy:
        assert "app" in copy.catalog.projects
        assert await copy.store.request("r1") == record("r1")
