from contextlib import closing

import apsw
import pytest
from structlog.testing import capture_logs

from gw.store import managed
from gw.store.migrations import migrate
from gw.types.managed import (
    AuditEntry,
    StoredChain,
    StoredKey,
    StoredModel,
    StoredProject,
    StoredProvider,
    name_of,
)

ALL = (
    StoredProvider(id="p", type="openai", base_url="https://x.example", key="token", masked="sk-…"),
    StoredModel(modality="llm", provider="p", name="a/b", display_name="ä", default_voice="v"),
    StoredProject(id="j", daily_budget_nusd=10**15, tags=("a",), fallbacks={"llm": ("p/a/b",)}),
    StoredKey(id="k", digest="00" * 32, masked="gwk_…", expires_at=1.5),
    StoredChain(modality="llm", models=("p/a/b",)),
)


def entry(**fields):
    return AuditEntry(
        **{
            "timestamp": 1.0,
            "entity_type": "project",
            "entity_id": "j",
            "action": "create",
            "changes": {"x": 1},
            "source": "api",
            "actor": "admin",
            **fields,
        }
    )


@pytest.fixture
def db():
    with closing(apsw.Connection(":memory:")) as made:
        migrate(made)
        yield made


def test_what_was_put_comes_back(db):
    managed.apply(db, managed.Change(put=ALL))
    assert sorted(map(name_of, managed.entities(db))) == sorted(map(name_of, ALL))
    assert set(map(repr, managed.entities(db))) == set(map(repr, ALL))


def test_putting_again_replaces_and_removing_removes(db):
    managed.apply(db, managed.Change(put=ALL))
    managed.apply(db, managed.Change(put=(StoredProject(id="j", name="new"),), remove=(("key", "k"),)))
    found = {name_of(entity): entity for entity in managed.entities(db)}
    assert found["project", "j"] == StoredProject(id="j", name="new")
    assert ("key", "k") not in found


def test_a_change_is_all_or_nothing(db):
    bad = entry(actor=None)
    with pytest.raises(apsw.ConstraintError):
        managed.apply(db, managed.Change(put=ALL, audit=(entry(), bad), meta=(("a", "b"),)))
    assert not db.in_transaction
    assert managed.entities(db) == []
    assert managed.meta(db, "a") is None


def test_what_a_newer_version_wrote_is_left_out(db):
    managed.apply(db, managed.Change(put=ALL[:1]))
    db.execute("insert into managed values ('hologram', 'h', '{\"kind\":\"hologram\"}')")
    with capture_logs() as logs:
        assert [name_of(entity) for entity in managed.entities(db)] == [("provider", "p")]
    assert [(line["event"], line["entity_id"]) for line in logs] == [("database_entry_unreadable", "h")]


def test_meta_values(db):
    managed.apply(db, managed.Change(meta=(("a", "1"),)))
    managed.apply(db, managed.Change(meta=(("a", "2"),)))
    assert managed.meta(db, "a") == "2"


def test_ids_of_the_audit_log_are_never_used_again(db):
    managed.apply(db, managed.Change(audit=(entry(), entry())))
    db.execute("delete from audit")
    managed.apply(db, managed.Change(audit=(entry(),)))
    [only] = managed.audit_page(db, limit=9, entity_type=None, entity_id=None, action=None, before=None)
    assert only == entry(id=3)
