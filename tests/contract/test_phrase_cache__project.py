"""`phrase_cache` of a project that was made while running: set, seen, in force at once, and taken away again."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running

CONFIG = """
providers: {sim: {}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 10}}}}
projects: {shop: {phrase_cache: {takes: 2}}}
serve: {port: 0}
"""
DEFAULTS = {"takes": 1, "longest": 300, "sentences": True}


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path, CONFIG) as running:
        yield running


async def say(running, text="Good morning.", project="desk"):
    """Return what the cache had of a text."""
    body = {"model": "sim/tone", "input": text, "response_format": "pcm"}
    answer = await running.ask("POST", "/v1/audio/speech", body, x_gw_project=project)
    assert answer.status == 200
    return answer.headers.get("x-gw-cache")


async def rules_of(running, project="desk"):
    """Return what the lists, the page and the entry say of a project."""
    listed = [
        next(entry for entry in (await running.get(path)).json["projects"] if entry["project_id"] == project)
        for path in ("/v1/projects", "/api/pages/projects")
    ]
    shown = [entry["phrase_cache"] for entry in (*listed, (await running.get(f"/v1/projects/{project}")).json)]
    assert shown[0] == shown[1] == shown[2]
    return shown[0]


async def test_it_is_set_changed_and_taken_away(running):
    made = await running.ask("POST", "/v1/projects", {"project_id": "desk", "phrase_cache": {}})
    assert made.status == 200, made.body
    assert await rules_of(running) == DEFAULTS
    assert [await say(running) for _ in range(2)] == ["miss", "hit"]
    changed = await running.ask("PATCH", "/v1/projects/desk", {"phrase_cache": {"takes": 2, "longest": 5, "sentences": False}})
    assert changed.status == 200, changed.body
    assert await rules_of(running) == {"takes": 2, "longest": 5, "sentences": False}
    assert [await say(running, text) for text in ("Hello", "Hello", "Hello", "Good morning.")] == ["miss", "miss", "hit", None]
    assert (await running.ask("PATCH", "/v1/projects/desk", {"description": "a desk"})).status == 200
    assert (await rules_of(running))["takes"] == 2
    assert (await running.ask("PATCH", "/v1/projects/desk", {"phrase_cache": None})).status == 200
    assert await rules_of(running) is None
    assert await say(running, "Hello") is None
    (entry, *_) = (await running.get("/v1/audit-log?entity_type=project")).json
    assert entry["changes"]["phrase_cache"] == {"from": {"takes": 2, "longest": 5, "sentences": False}, "to": None}


async def test_what_gw_yaml_says_is_shown_and_not_changed(running):
    assert await rules_of(running, "shop") == {**DEFAULTS, "takes": 2}
    refused = await running.ask("PATCH", "/v1/projects/shop", {"phrase_cache": None})
    assert (refused.status, refused.error["code"]) == (403, "read_only")


async def test_a_wrong_one_is_refused_with_its_place(running):
    wrong = {
        "phrase_cache.takes": [{"takes": 0}, {"takes": 17}],
        "phrase_cache.longest": [{"longest": 5_001}],
        "phrase_cache.sentences": [{"sentences": 1}],
        "unknown field 'take'": [{"take": 1}],
        "phrase_cache": [[], "on"],
    }
    for says, each in wrong.items():
        for rules in each:
            refused = await running.ask("POST", "/v1/projects", {"project_id": "desk", "phrase_cache": rules})
            assert refused.status == 422
            assert says in refused.error["message"]
    assert (await running.get("/v1/projects/desk")).status == 404


async def test_without_memory_for_phrases_it_says_what_to_set(tmp_path):
    async with open_running(tmp_path, CONFIG + "routing: {phrase_cache_mb: 0}\n") as running:
        refused = await running.ask("POST", "/v1/projects", {"project_id": "desk", "phrase_cache": {}})
        assert (refused.status, refused.error["param"]) == (422, "phrase_cache")
        assert "routing.phrase_cache_mb is 0; set it" in refused.error["message"]
