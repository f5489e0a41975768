from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError

from gw.mcp.server import PROMPTS
from tests.mcp.conftest import open_mcp_gateway

pytestmark = pytest.mark.filterwarnings(
    # the official client and its server transport leave generators and streams to the collector when a session ends
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
async def mcp_gateway(tmp_path):
    async with open_mcp_gateway(tmp_path) as server:
        yield server


async def test_resources(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        listed = (await session.list_resources()).resources
        for resource in listed:
            assert resource.description
            content = (await session.read_resource(resource.uri)).contents[0]
            assert isinstance(json.loads(content.text), dict)
        templates = (await session.list_resource_templates()).resource_templates
        assert {t.uri_template for t in templates} == {"gw://projects/{id}", "gw://turns/{id}", "gw://requests/{id}"}
        project = json.loads((await session.read_resource("gw://projects/shop")).contents[0].text)
        assert project["daily_budget"] == 2.0


@pytest.mark.parametrize("uri", ["gw://nothing", "gw://projects/x", "gw://projects/a/b", "file:///etc/passwd"])
async def test_resources_there_are_not(mcp_gateway, uri):
    async with mcp_gateway.client() as session:
        with pytest.raises(MCPError, match=uri.replace("/", "/")):
            await session.read_resource(uri)


async def test_keys_are_masked_in_resources(mcp_gateway):
    async with mcp_gateway.client() as session:
        text = (await session.read_resource("gw://providers")).contents[0].text
        assert "sk-from-the-file-0123" not in text
        assert "sk-…0123" in text


async def test_prompts(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        listed = (await session.list_prompts()).prompts
        assert {prompt.name for prompt in listed} == set(PROMPTS)
        for prompt in listed:
            assert prompt.description
            plain = await session.get_prompt(prompt.name, {})
            assert "{" not in plain.messages[0].content.text
            arguments = {argument.name: f"<{argument.name}>" for argument in prompt.arguments}
            filled = (await session.get_prompt(prompt.name, arguments)).messages[0].content.text
            assert all(value in filled for value in arguments.values())
        with pytest.raises(MCPError, match="no prompt"):
            await session.get_prompt("nothing", {})


def test_a_value_is_no_template():
    text = PROMPTS["monthly_reconcile"].text({"provider": "{month}", "month": "{provider}"})
    assert "{month}" not in text or "{provider}" in text
