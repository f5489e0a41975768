"""Service tokens at the MCP server beside a gateway: each request has the rights of the token it came with."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx2
import pytest
import trio

from gw.admin import tokens
from gw.config.parse import parse
from gw.gateway import open_gateway
from gw.mcp.run import serve_beside
from gw.types.entities import Actor
from gw.types.roles import EVERYTHING
from gw.types.secret import Secret
from tests.fakes.records import record
from tests.mcp.conftest import TEXT, TOKEN, McpGateway, called

pytestmark = pytest.mark.filterwarnings(
    # the official client and its server transport leave generators and streams to the collector when a session ends
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
BY = Actor(source="api", name="admin")
AUTH = "auth: {admin_token: admin-token-8351026789}\nmcp: {enabled: true, port: 0}\n"


@asynccontextmanager
async def open_guarded(folder):
    settings = parse(TEXT + AUTH, file="gw.yaml", env={"GW_MCP_TOKEN": TOKEN}, data_dir=folder)
    async with open_gateway(settings) as gateway, trio.open_nursery() as nursery:
        url = await nursery.start(serve_beside, gateway, Secret(TOKEN))
        yield McpGateway(gateway, url)
        nursery.cancel_scope.cancel()


async def make(created, **rights):
    registrar = created.gateway.registrar
    return await tokens.create(registrar, registrar.catalog, {"name": "agent", **rights}, BY, EVERYTHING)


async def test_a_viewer_reads_and_changes_nothing(tmp_path, transport):
    async with open_guarded(tmp_path) as created:
        token = (await make(created, role="viewer", projects=["shop"])).token
        async with created.client(transport, token) as session:
            names = {tool.name for tool in (await session.list_tools()).tools}
            assert {"get_costs", "list_keys", "get_project"} <= names
            assert not names & {"create_project", "update_key", "delete_model", "add_provider", "list_providers", "set_fallback_chain"}
            answer = await called(session, "list_projects")
            assert [entry["project_id"] for entry in answer.structured_content["projects"]] == ["shop"]
            for name, arguments in (
                ("create_project", {"project_id": "new"}), ("update_project", {"project_id": "shop", "daily_budget": 1.0}),
                ("delete_project", {"project_id": "shop"}), ("list_providers", {}),
            ):  # fmt: skip
                answer = await called(session, name, **arguments)
                assert answer.is_error, name
                assert '"code": "forbidden"' in answer.content[0].text
        assert list(created.gateway.current.catalog.projects) == ["default", "shop"]


async def test_an_operator_changes_what_its_role_allows_under_its_name(tmp_path, transport):
    async with open_guarded(tmp_path) as created:
        made = await make(created, role="operator")
        async with created.client(transport, made.token) as session:
            answer = await called(session, "set_fallback_chain", modality="llm", models=["sim/echo"], confirm=True)
            assert not answer.is_error, answer.content
        (entry,) = await created.gateway.store.audit_log(1, entity_type="fallbacks")
        assert (entry.source, entry.actor) == ("mcp", f"agent ({made.token_id})")


async def test_a_revoked_token_opens_nothing(tmp_path):
    async with open_guarded(tmp_path) as created:
        made = await make(created, role="viewer")
        registrar = created.gateway.registrar
        await tokens.revoke(registrar, registrar.catalog, made.token_id, confirm=True, by=BY)
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(f"{created.url}/mcp", json={}, headers={"authorization": f"Bearer {made.token}"})
        assert (answer.status_code, answer.text) == (401, "Invalid token")


async def test_the_servers_own_token_still_does_everything(tmp_path, transport):
    async with open_guarded(tmp_path) as created:
        created.gateway.store.finish(record("r1"))
        async with created.client(transport) as session:
            answer = await called(session, "create_project", project_id="new")
            assert not answer.is_error, answer.content
    assert "new" in created.gateway.current.catalog.projects
