from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import mcp_types
import pytest
import trio
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from gw.config.parse import parse
from gw.gateway import open_gateway
from gw.mcp.run import listen
from gw.mcp.server import build
from gw.types.secret import Secret
from gw.web.control_api import InProcessApi

TEXT = """
providers: {sim: {}, openai: {api_key: sk-from-the-file-0123}}
models: {llm: [sim/echo, openai/gpt-x], stt: [sim/tone], tts: [sim/tone]}
fallbacks: {llm: [openai/gpt-x, sim/echo]}
projects: {shop: {daily_budget: 2}}
serve: {port: 0}
"""
TOKEN = "a token of gw 5b1f9c04"


@attrs.define
class McpGateway:
    """A gateway with its MCP server on a port of loopback."""

    gateway: object
    url: str

    @asynccontextmanager
    async def client(self, transport="streamable", token=TOKEN):
        """A session of the official client."""
        headers = {"authorization": f"Bearer {token}"}
        async with AsyncExitStack() as stack:
            if transport == "sse":
                opened = sse_client(f"{self.url}/sse", headers=headers)
            else:
                http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
                opened = streamable_http_client(f"{self.url}/mcp", http_client=http)
            streams = await stack.enter_async_context(opened)
            session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
            await session.initialize()
            yield session


async def called(session, name, /, **arguments) -> mcp_types.CallToolResult:
    with trio.fail_after(60):
        return await session.call_tool(name, arguments)


@pytest.fixture(params=["streamable", "sse"])
def transport(request):
    return request.param


@asynccontextmanager
async def open_mcp_gateway(folder, *, read_only=False, as_text=False, token=TOKEN, text=TEXT):
    settings = attrs.evolve(
        parse(text, file="gw.yaml", env={}, data_dir=folder), secret=Secret("x"), secret_folder=folder
    )
    async with open_gateway(settings) as gateway, trio.open_nursery() as nursery:
        server = build(InProcessApi(gateway, settings.auth.admin_token, "mcp"), read_only=read_only, as_text=as_text)
        urls = await nursery.start(listen, server, Secret(token), settings.serve)
        yield McpGateway(gateway, urls[0])
        nursery.cancel_scope.cancel()
