import pytest
import trio
from structlog.testing import capture_logs

from gw.admin import logs, projects, providers
from gw.errors import DatabaseLocked, ReadOnlyError
from tests.fakes.answers import as_json
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


async def test_a_change_that_the_database_refuses_is_not_in_force(registrar, tmp_path):
    """The entity and its audit entry: both or neither."""
    await registrar.store.flush()
    import apsw

    with apsw.Connection(str(tmp_path / "gw.db")) as other:
        other.set_busy_timeout(5_000)  # the writer may be at its own start
        other.execute("create trigger no before insert on audit begin select raise(abort, 'no'); end")
    with pytest.raises(apsw.ConstraintError):
        await projects.create(registrar, {"project_id": "app"}, BY)
    assert "app" not in registrar.catalog.projects
    assert await registrar.store.entities() == []


async def test_a_foreign_writer_is_waited_for_a_little(registrar, tmp_path, autojump_clock):
    import apsw

    other = apsw.Connection(str(tmp_path / "gw.db"))
    other.set_busy_timeout(5_000)  # the writer may be at its own start
    other.execute("begin immediate")
    with pytest.raises(DatabaseLocked, match="database is locked"):
        await projects.create(registrar, {"project_id": "app"}, BY)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(projects.create, registrar, {"project_id": "app"}, BY)
        await trio.testing.wait_all_tasks_blocked()
        other.execute("rollback")
    other.close()
    assert "app" in registrar.catalog.projects
    assert len(as_json(await logs.audit_page(registrar.store, limit="9"))) == 1


async def test_concurrent_changes_run_one_at_a_time(registrar):
    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(projects.create, registrar, {"project_id": f"p{n}"}, BY)
    assert {f"p{n}" for n in range(10)} <= set(registrar.catalog.projects)
    assert len(as_json(await logs.audit_page(registrar.store, limit="50"))) == 10


async def test_a_changed_secret_disables_only_stored_providers(tmp_path):
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


async def test_without_stored_keys_no_secret_is_created(tmp_path):
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


async def test_a_reload_keeps_stored_entities(registrar, tmp_path):
    await providers.create(registrar, MINE, BY)
    text = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}"
    await registrar.reload(settings_of(tmp_path, text))
    assert set(registrar.catalog.providers) == {"sim", "mine"}


async def test_one_that_the_file_names_later_cannot_be_changed_any_more(registrar, tmp_path):
    await providers.create(registrar, MINE, BY)
    text = "providers: {mine: {type: groq, api_key: gsk-of-the-file-0123}}\nmodels: {llm: [mine/m]}"
    await registrar.reload(settings_of(tmp_path, text))
    for change in (
        providers.update(registrar, "mine", {"api_key": "sk-other"}, BY),
        providers.delete(registrar, "mine", confirm=True, cascade=True, by=BY),
    ):
        with pytest.raises(ReadOnlyError):
            await change
    await registrar.reload(settings_of(tmp_path))
    assert registrar.catalog.provider("mine").api_key.reveal() == MINE["api_key"]


async def test_a_cancelled_change_is_complete_or_absent(registrar):
    """In the database, the audit log and the catalog alike."""
    for steps in range(12):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(projects.create, registrar, {"project_id": f"p{steps}"}, BY)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    stored = {entity.id for entity in await registrar.store.entities()}
    changed = {entry["entity_id"] for entry in as_json(await logs.audit_page(registrar.store, limit="50"))}
    assert stored == changed == {p.id for p in registrar.catalog.projects.values() if p.source == "db"}
    await projects.create(registrar, {"project_id": "last"}, BY)
    assert "last" in registrar.catalog.projects
