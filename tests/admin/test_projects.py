import math

import msgspec
import pytest

from gw.admin import keys, projects
from gw.admin.registrar import Deleted
from gw.errors import ConflictError, ReadOnlyError, RequestError, UnknownProjectError
from tests.fakes.registrar import BY, open_registrar

WHOLE = {
    "project_id": "app",
    "name": "App",
    "description": "line 1\nline 2",
    "daily_budget": 1.25,
    "budget_action": "block",
    "default_stack": "demo",
    "tags": ["a", "b"],
    "accent": "#AABBCC",
    "fallbacks": {"llm": ["sim/echo"]},
}


async def test_a_project_is_there_for_the_next_request(registrar):
    assert await projects.create(registrar, WHOLE, BY) == projects.ProjectCreated(project_id="app", source="db", created=True)
    entry = registrar.catalog.project("app")
    assert (entry.name, entry.daily_budget_nusd, entry.budget_action) == ("App", 1_250_000_000, "block")
    assert (entry.default_stack, entry.tags, entry.accent, entry.source) == ("demo", ("a", "b"), "#aabbcc", "db")
    assert entry.fallbacks == {"llm": ("sim/echo",)}


async def test_only_the_id_is_required(registrar):
    nothing = dict.fromkeys(("name", "description", "daily_budget", "default_stack", "tags", "accent"))
    await projects.create(registrar, {"project_id": "app", **nothing}, BY)
    entry = registrar.catalog.project("app")
    assert (entry.name, entry.daily_budget_nusd, entry.budget_action) == ("app", 0, "warn")
    assert entry.accent.startswith("#")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"project_id": ""}, "project_id"),
        ({"daily_budget": -1}, "daily_budget"),
        ({"daily_budget": math.nan}, "daily_budget"),
        ({"daily_budget": math.inf}, "daily_budget"),
        ({"daily_budget": 1e12}, "daily_budget"),
        ({"daily_budget": "5"}, "daily_budget"),
        ({"daily_budget": True}, "daily_budget"),
        ({"budget_action": "stop"}, "budget_action"),
        ({"default_stack": "nobody"}, "default_stack"),
        ({"tags": "a"}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"tags": [str(n) for n in range(60)]}, "tags"),
        ({"accent": "red"}, "accent"),
        ({"accent": "#12345g"}, "accent"),
        ({"fallbacks": {"llm": ["nobody/x"]}}, "fallbacks"),
        ({"fallbacks": {"llm": ["sim/echo", "sim/echo"]}}, "fallbacks"),
        ({"name": "\x1b[31m"}, "name"),
        ({"name": "\udc80"}, "name"),
        ({"owner": "me"}, "owner"),
    ],
)
async def test_invalid_bodies_are_refused(registrar, fields, param):
    with pytest.raises(RequestError) as caught:
        await projects.create(registrar, {**WHOLE, **fields}, BY)
    assert caught.value.param == param
    assert "app" not in registrar.catalog.projects


async def test_an_update_changes_only_its_fields(registrar):
    await projects.create(registrar, WHOLE, BY)
    updated = await projects.update(registrar, "app", {"daily_budget": 3}, BY)
    assert updated == projects.ProjectUpdated(project_id="app", updated=True)
    entry = registrar.catalog.project("app")
    assert (entry.daily_budget_nusd, entry.name, entry.tags) == (3_000_000_000, "App", ("a", "b"))
    await projects.update(registrar, "app", {"daily_budget": None, "tags": [], "fallbacks": None}, BY)
    entry = registrar.catalog.project("app")
    assert (entry.daily_budget_nusd, entry.tags, entry.fallbacks) == (0, (), {})


@pytest.mark.parametrize("fields", [{"project_id": "other"}, {"budget_action": None}, {"name": 1}])
async def test_an_update_that_cannot_be(registrar, fields):
    await projects.create(registrar, WHOLE, BY)
    with pytest.raises(RequestError):
        await projects.update(registrar, "app", fields, BY)


async def test_an_existing_id_is_a_conflict(registrar):
    for taken in ("shop", "default"):
        with pytest.raises(ConflictError):
            await projects.create(registrar, {"project_id": taken}, BY)


async def test_those_of_the_file_are_read_only(registrar):
    for taken in ("shop", "default"):
        with pytest.raises(ReadOnlyError):
            await projects.delete(registrar, taken, confirm=True, by=BY)
        with pytest.raises(ReadOnlyError):
            await projects.update(registrar, taken, {"name": "x"}, BY)
    with pytest.raises(UnknownProjectError):
        await projects.delete(registrar, "nobody", confirm=True, by=BY)


async def test_deleting_takes_two_steps_and_its_keys_along(registrar):
    await projects.create(registrar, WHOLE, BY)
    await keys.create(registrar, {"project": "app"}, BY)
    preview = await projects.delete(registrar, "app", confirm=False, by=BY)
    assert msgspec.to_builtins(preview) == {"would_delete": {"project_id": "app"}}
    assert len(registrar.catalog.keys) == 1
    assert await projects.delete(registrar, "app", confirm=True, by=BY) == Deleted(deleted="app")
    assert "app" not in registrar.catalog.projects
    assert registrar.catalog.keys == ()


async def test_one_that_the_file_names_later_gives_way(tmp_path):
    async with open_registrar(tmp_path) as first:
        await projects.create(first, {"project_id": "app", "daily_budget": 1}, BY)
    text = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\nprojects: {app: {daily_budget: 9}}"
    async with open_registrar(tmp_path, text) as second:
        assert second.catalog.project("app").daily_budget_nusd == 9_000_000_000
        assert "ignored" in second.warnings[0]
