from __future__ import annotations

import pytest

from gw.config.parse import parse
from gw.errors import DatabaseLocked
from gw.store.store import open_store
from gw.telemetry.clock import SystemClock
from gw.types.secret import Secret
from gw.web.control_api import HttpApi, InProcessApi, open_control_api, open_in_process, path_with
from tests.fakes.gateway_http import Reply, fake_gateway, json_reply

TEXT = """
providers: {sim: {}}
models: {llm: [sim/echo]}
auth: {keys: [{key: gwk_8351026789c4e7f1, project: default}]}
"""
TOKEN = Secret("admin-8351026789")


@pytest.fixture
def settings(tmp_path):
    return parse(TEXT, file="gw.yaml", env={"GW_SECRET": "s"}, data_dir=tmp_path)


def test_names_cannot_leave_their_place_in_a_path():
    escaped = "/v1/models/a%2F..%2Fb%3Fc%23d%25"
    assert path_with("/v1/models/{}", "a/../b?c#d%") == escaped
    assert path_with("/v1/models/{model_id}", model_id="a/../b?c#d%") == escaped


async def test_a_change_in_process_is_admin_without_a_token_and_is_audited(settings):
    async with open_in_process(settings, "cli") as api:
        status, created = await api.call("POST", "/v1/projects", body={"project_id": "app"})
        assert (status, created["created"]) == (200, True)
        assert (await api.call("POST", "/v1/projects", body={"project_id": "app"}))[0] == 409
        (entry,) = (await api.call("GET", "/v1/audit-log", {"limit": "5"}))[1]
    assert (entry["entity_id"], entry["source"], entry["actor"]) == ("app", "cli", "admin")


async def test_reading_without_a_database_makes_none(settings):
    path = settings.cost_tracking.db_path
    async with open_in_process(settings, "cli", read_only=True) as api:
        assert list((await api.call("GET", "/v1/models"))[1]["models"]) == ["sim/echo"]
        assert (await api.call("GET", "/v1/costs"))[1]["total"] == 0
    assert not path.exists()


async def test_a_database_is_read_while_another_process_holds_it_and_cannot_be_changed(settings):
    path = settings.cost_tracking.db_path
    async with open_store(path, clock=SystemClock()), open_in_process(settings, "cli", read_only=True) as api:
        assert (await api.call("GET", "/v1/projects"))[0] == 200
        status, answer = await api.call("POST", "/v1/projects", body={"project_id": "app"})
        assert (status, answer["error"]["code"]) == (503, "usage_store_unavailable")


async def test_a_process_that_does_not_say_where_it_listens(settings):
    async with open_store(settings.cost_tracking.db_path, clock=SystemClock()):
        with pytest.raises(DatabaseLocked, match="does not answer at any address"):
            async with open_control_api(settings, TOKEN, "mcp"):
                pass


async def test_the_gateway_that_holds_the_database_is_called_over_http(settings):
    with fake_gateway() as gateway:
        gateway.replies["GET /v1/costs"] = json_reply({"total": 1})
        async with open_store(settings.cost_tracking.db_path, clock=SystemClock()) as store:
            store.set_address(gateway.url)
            async with open_control_api(settings, TOKEN, "mcp") as (api, place):
                assert await api.call("GET", "/v1/costs", {"period": "week"}) == (200, {"total": 1})
        (requests,) = gateway.requests
    assert place == f"the gateway at {gateway.url}"
    assert (requests.query, requests.headers["X-GW-Source"]) == ({"period": "week"}, "mcp")
    assert requests.headers["Authorization"] == f"Bearer {TOKEN.reveal()}"


async def test_without_a_gateway_the_database_is_opened(settings):
    async with open_control_api(settings, TOKEN, "mcp") as (api, place):
        assert isinstance(api, InProcessApi)
        assert place == f"the database {settings.cost_tracking.db_path}"


async def test_a_gateway_that_cannot_be_reached_is_an_answer():
    status, answer = await HttpApi("http://127.0.0.1:1", TOKEN, "mcp").call("GET", "/health")
    assert (status, answer["error"]["code"]) == (502, "gateway_unreachable")


async def test_an_answer_that_is_not_json_comes_as_text():
    with fake_gateway() as gateway:
        gateway.replies["GET /health"] = Reply([b"<html>"])
        answer = await HttpApi(gateway.url, Secret(""), "cli").call("GET", "/health")
    assert answer == (200, "<html>")
