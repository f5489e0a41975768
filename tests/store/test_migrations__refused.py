"""Requests of earlier versions: refused ones are told from errors, and fallbacks whose caller left count as fallbacks."""

from __future__ import annotations

import msgspec
import pytest

from gw.store import migrations
from gw.store.sqlite import open_writer
from tests.fakes.databases import drop_later
from tests.fakes.records import NOON

VERSION = 13
"""The version that counts them anew."""
COLUMNS = "id, timestamp, project, modality, model_id, provider, requested_model, status, total_latency_ms, pricing_source, usage_source"
UNITS = (
    "input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, input_audio_tokens, output_audio_tokens, audio_seconds, "
    "characters"
)
REJECTED = [{"model_id": "a/x", "outcome": "rejected", "upstream_status": 400}]
WRONG_KEY = [{"model_id": "a/x", "outcome": "rejected", "upstream_status": 401}]


@pytest.fixture
def db(tmp_path):
    connection = open_writer(tmp_path / "gw.db")
    drop_later(connection)
    for name in ("requests", "rollup_hour", "rollup_day"):
        connection.execute(f"alter table {name} drop column refused")
    later = ("first_audio_hour", "first_audio_day", "owner_spend", "alert_incidents", "alert_outbox", "alert_mutes")
    for name in later:
        connection.execute(f"drop table {name}")
    connection.pragma("user_version", VERSION - 1)
    yield connection
    connection.close()


def insert(db, number, status, error_code=None, attempts=(), fallback_from=None):
    columns = f"{COLUMNS}, {UNITS}, attempts, error_code, fallback_from, stream, endpoint"
    sql = f"insert into requests ({columns}) values ({', '.join('?' * 24)})"
    values = (f"{number}", NOON, "p", "llm", "a/x", "a", "a/x", status, 1.0, "", "measured", *([0] * 8))
    db.execute(sql, (*values, msgspec.json.encode(attempts).decode(), error_code, fallback_from, 0, ""))
    sums = ("requests", "errors", "fallbacks", "cancelled")
    counts = (1, status == "error", status == "fallback", status == "cancelled")
    for table, seconds in (("rollup_hour", 3_600), ("rollup_day", 86_400)):
        rest = [row[1] for row in db.execute(f"pragma table_info({table})") if row[1] not in (*sums, "ttfb", "latency")][5:]
        db.execute(
            f"insert into {table} (bucket, project, provider, model_id, modality, {', '.join(sums)}, {', '.join(rest)}, ttfb, latency) "
            f"values (?, 'p', 'a', 'a/x', 'llm', ?, ?, ?, ?, {', '.join('0' for _ in rest)}, x'', x'') on conflict do update set "
            + ", ".join(f"{name} = {name} + excluded.{name}" for name in sums),
            (int(NOON) // seconds, *counts),
        )


def test_they_are_counted_anew(db):
    insert(db, 1, "success")
    insert(db, 2, "error", "budget_exceeded")
    insert(db, 3, "error", "upstream_rejected", REJECTED)
    insert(db, 4, "error", "upstream_rejected", WRONG_KEY)
    insert(db, 5, "error", "upstream_failed")
    insert(db, 6, "fallback", fallback_from="b/x")
    insert(db, 7, "cancelled", fallback_from="b/x")
    insert(db, 8, "cancelled")
    assert migrations.migrate(db) == migrations.VERSION - VERSION + 1
    assert db.execute("select group_concat(id, ' ') from requests where refused").get == "2 3"
    for table in ("rollup_hour", "rollup_day"):
        assert db.execute(f"select requests, errors, refused, fallbacks, cancelled from {table}").get == (8, 2, 2, 2, 2)
