import pytest

from gw.admin import keys, logs, projects
from gw.errors import RequestError
from gw.types.entities import Actor
from tests.fakes.answers import as_json
from tests.fakes.registrar import BY

CLI = Actor(source="cli", name="admin")


async def test_newest_first_and_filtered_before_limited(registrar):
    for n in range(5):
        await projects.create(registrar, {"project_id": f"p{n}"}, BY)
    await projects.update(registrar, "p0", {"name": "x"}, CLI)
    await keys.create(registrar, {}, BY)

    async def ids(**filters):
        return [e["entity_id"] for e in as_json(await logs.audit_page(registrar.store, limit="3", **filters))]

    assert (await ids())[1:] == ["p0", "p4"]
    assert await ids(entity_type="project", action="create") == ["p4", "p3", "p2"]
    assert await ids(entity_id="p0") == ["p0", "p0"]
    first_page = as_json(await logs.audit_page(registrar.store, limit="3", entity_type="project"))
    assert await ids(entity_type="project", before=str(first_page[-1]["id"])) == ["p2", "p1", "p0"]
    update = first_page[0]
    assert (update["source"], update["actor"], update["action"]) == ("cli", "admin", "update")
    assert update["changes"] == {"name": {"from": "p0", "to": "x"}}
    now = registrar.clock.now()
    assert update["timestamp"] == now
    assert await ids(entity_id="p0", since=str(now), until=str(now + 1)) == ["p0", "p0"]
    assert await ids(since=str(now + 1), until=str(now + 2)) == await ids(since=str(now - 9), until=str(now)) == []


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "501"},
        {"limit": "x"},
        {"limit": "5", "entity_type": "thing"},
        {"limit": "5", "action": "rename"},
        {"limit": "5", "before": "-1"},
        {"since": "yesterday"},
        {"period": "year"},
    ],
)
async def test_what_cannot_be_is_refused(registrar, query):
    with pytest.raises(RequestError):
        await logs.audit_page(registrar.store, **query)
