"""Which settings a reload puts in force."""

from __future__ import annotations

import pytest

from gw.config.parse import parse
from gw.config.reload_rules import reloaded


def settings(tmp_path, text=""):
    return parse("providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n" + text, file="gw.yaml", env={}, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "restart"),
    [
        ("routing: {breaker: {failures: 7}}", ()),
        ("cost_tracking: {journal_mb: 50}", ()),
        ("cost_tracking: {journal_mb: 50, retention_days: 9}", ("cost_tracking",)),
        ("serve: {port: 81, workers: 2, max_body_mb: 9}\nfleet: {name: other}", ("serve.port", "serve.workers", "fleet")),
    ],
)
def test_what_needs_a_restart_keeps_its_value(tmp_path, text, restart):
    running, read = settings(tmp_path), settings(tmp_path, text)
    result, named = reloaded(running, read)
    assert named == restart
    assert result.cost_tracking.journal_mb == read.cost_tracking.journal_mb
    assert result.cost_tracking.retention_days == running.cost_tracking.retention_days
    assert (result.serve.port, result.serve.workers, result.fleet) == (running.serve.port, running.serve.workers, running.fleet)
    assert (result.serve.max_body_mb, result.routing) == (read.serve.max_body_mb, read.routing)


def test_the_disk_of_the_phrase_cache_needs_a_restart_and_its_memory_does_not(tmp_path):
    result, named = reloaded(settings(tmp_path), settings(tmp_path, "routing: {phrase_cache_mb: 7, phrase_cache_disk_mb: 5}"))
    assert named == ("routing.phrase_cache_disk_mb",)
    assert (result.routing.phrase_cache_mb, result.routing.phrase_cache_disk_mb) == (7, 0)
