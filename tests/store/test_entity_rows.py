import apsw
import psycopg
import pytest
from structlog.testing import capture_logs

from gw.store import entity_rows
from gw.types.entities import (
    AuditEntry,
    Model,
    Project,
    StoredChain,
    StoredKey,
    StoredProvider,
    name_of,
)
from tests.fakes import databases

ALL = (
    StoredProvider(id="p", type="openai", base_url="https://x.example", key="token", masked="sk-…"),
    Model(modality="llm", provider="p", name="a/b", display_name="ä", default_voice="v"),
    Project(id="j", daily_budget_nusd=10**15, tags=("a",), fallbacks={"llm": ("p/a/b",)}),
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


def test_stored_entities_are_read_back(db):
    databases.apply(db, entity_rows.Change(put=ALL))
    assert sorted(map(name_of, entity_rows.entities(db))) == sorted(map(name_of, ALL))
    assert set(map(repr, entity_rows.entities(db))) == set(map(repr, ALL))


def test_putting_again_replaces_and_removing_removes(db):
    databases.apply(db, entity_rows.Change(put=ALL))
    databases.apply(db, entity_rows.Change(put=(Project(id="j", name="new"),), remove=(("key", "k"),)))
    matches = {name_of(entity): entity for entity in entity_rows.entities(db)}
    assert matches["project", "j"] == Project(id="j", name="new")
    assert ("key", "k") not in matches


def test_a_change_is_all_or_nothing(db):
    bad = entry(actor=None)
    with pytest.raises((apsw.ConstraintError, psycopg.IntegrityError)):
        databases.apply(db, entity_rows.Change(put=ALL, audit=(entry(), bad), meta=(("a", "b"),)))
    assert not databases.in_transaction(db)
    assert entity_rows.entities(db) == []
    assert entity_rows.meta(db, "a") is None


def test_entries_of_a_newer_version_are_skipped(db):
    databases.apply(db, entity_rows.Change(put=ALL[:1]))
    db.execute("insert into managed values ('hologram', 'h', '{\"kind\":\"hologram\"}')")
    with capture_logs() as logs:
        assert [name_of(entity) for entity in entity_rows.entities(db)] == [("provider", "p")]
    assert [(line["event"], line["entity_id"]) for line in logs] == [("database_entry_unreadable", "h")]


def test_meta_values(db):
    databases.apply(db, entity_rows.Change(meta=(("a", "1"),)))
    databases.apply(db, entity_rows.Change(meta=(("a", "2"),)))
    assert entity_rows.meta(db, "a") == "2"


def test_ids_of_the_audit_log_are_never_used_again(db):
    databases.apply(db, entity_rows.Change(audit=(entry(), entry())))
    db.execute("delete from audit")
    databases.apply(db, entity_rows.Change(audit=(entry(),)))
    [only] = entity_rows.audit_page(db, limit=9, entity_type=None, entity_id=None, action=None, before=None)
    assert only == entry(id=3)
