"""The MCP server: tools, resources and prompts over the control plane's API.

One server object serves any number of sessions; it keeps nothing of them. Arguments are checked against each tool's
schema here, since the library's low-level server does not. An API error is a tool result that says what to do about it,
not a protocol error, so that an agent can mend its call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
import mcp_types as types
import structlog
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from gw import __version__
from gw.mcp.api import Api, path_with
from gw.mcp.prompts import PROMPTS
from gw.mcp.tools import TOOLS, Json, Tool

_INSTRUCTIONS = (
    "A self-hosted gateway for voice AI. Start with get_overview or get_health. Money is USD, days are UTC. A deletion "
    "without confirm: true deletes nothing and tells what it would delete. API keys are written, never read."
)
_HINTS = {
    "unauthorized": "the gateway asks for its admin token: set GW_API_KEY for this server",
    "forbidden": "this needs the admin token",
    "read_only": "it is defined in gw.yaml: change it there and send the gateway SIGHUP",
    "already_exists": "choose another id, or change the one there is",
    "invalid_request": "mend the argument that `param` names",
    "model_not_found": "list_models tells which there are",
    "provider_not_found": "list_providers tells which there are",
    "project_not_found": "list_projects tells which there are",
    "usage_store_unavailable": "try again in a moment; get_health tells what is wrong",
}
_RESOURCES = {
    "gw://status": ("Status", "Providers, models and projects in numbers.", "/v1/status"),
    "gw://models": ("Models", "Every model and its modality.", "/v1/models"),
    "gw://providers": ("Providers", "Every provider, its key masked.", "/v1/providers"),
    "gw://projects": ("Projects", "Every project and its day so far.", "/v1/projects"),
    "gw://fallbacks": ("Fallback chains", "The chain of each modality, and where it is from.", "/v1/fallbacks"),
}
_TEMPLATES = {
    "gw://projects/{id}": ("Project", "One project with its day so far.", "/v1/projects/{id}"),
    "gw://turns/{id}": ("Turn", "One turn of a conversation as a waterfall.", "/api/turns/{id}"),
    "gw://requests/{id}": ("Request", "One request with its attempts.", "/v1/requests/{id}"),
}
_log = structlog.get_logger("gw.mcp")


def tools_offered(*, read_only: bool) -> dict[str, Tool]:
    return {tool.name: tool for tool in TOOLS if tool.read_only or not read_only}


def build(api: Api, *, read_only: bool = False) -> Server[Any]:
    """`read_only` leaves out every tool that changes something."""
    house = _House(api, tools_offered(read_only=read_only))
    return Server(
        "gw",
        version=__version__,
        title="gw: voice AI gateway",
        instructions=_INSTRUCTIONS,
        on_list_tools=house.list_tools,
        on_call_tool=house.call_tool,
        on_list_resources=house.list_resources,
        on_list_resource_templates=house.list_templates,
        on_read_resource=house.read_resource,
        on_list_prompts=house.list_prompts,
        on_get_prompt=house.get_prompt,
    )


class _House:
    def __init__(self, api: Api, tools: Mapping[str, Tool]) -> None:
        self._api = api
        self._tools = tools
        self._checks = {name: jsonschema.Draft202012Validator(tool.input_schema) for name, tool in tools.items()}

    async def list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_told(tool) for tool in self._tools.values()])

    async def call_tool(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            what = f"there is no tool {params.name!r}"
            return _failed("unknown_tool", what, f"there are: {', '.join(self._tools)}")
        arguments = params.arguments or {}
        fault = next(iter(sorted(self._checks[tool.name].iter_errors(arguments), key=str)), None)
        if fault is not None:
            place = ".".join(str(part) for part in fault.absolute_path) or "arguments"
            return _failed("invalid_request", f"{place}: {fault.message}"[:500], _HINTS["invalid_request"], place)
        path, query, body = tool.call(arguments)
        status, answer = await self._api.call(tool.op.method, path_with(tool.op.path, path), query, body)
        _log.info("tool_called", tool=tool.name, status=status)
        if status >= 400 or not isinstance(answer, (dict, list)):
            return _refused(status, answer)
        result = tool.result(answer)
        text = json.dumps(result, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=result)

    async def list_resources(self, _context: Any, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=name, description=what, mime_type="application/json")
                for uri, (name, what, _) in _RESOURCES.items()
            ]
        )

    async def list_templates(self, _context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=uri, name=name, description=what, mime_type="application/json")
                for uri, (name, what, _) in _TEMPLATES.items()
            ]
        )

    async def read_resource(self, _context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        path = _path_of(uri)
        if path is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no resource {uri}")
        status, answer = await self._api.call("GET", path, {}, None)
        if status >= 400:
            code, message, _ = _error_of(status, answer)
            raise MCPError(code=types.INVALID_PARAMS, message=f"{uri}: {message} ({code})")
        text = json.dumps(answer, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
        )

    async def list_prompts(self, _context: Any, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(name=name, description=what, required=False)
                        for name, (what, _) in prompt.arguments.items()
                    ],
                )
                for prompt in PROMPTS.values()
            ]
        )

    async def get_prompt(self, _context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no prompt {params.name!r}")
        text = prompt.text(params.arguments or {})
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])


def _told(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or tool.read_only,
            open_world_hint=tool.open_world,
        ),
    )


def _path_of(uri: str) -> str | None:
    if uri in _RESOURCES:
        return _RESOURCES[uri][2]
    for template, (_, _, path) in _TEMPLATES.items():
        found = re.fullmatch(re.escape(template).replace(r"\{id\}", "([^/]+)"), uri)
        if found:
            from urllib.parse import unquote

            return path_with(path, {"id": unquote(found[1])})
    return None


def _error_of(status: int, answer: Any) -> tuple[str, str, str | None]:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return "gateway_error", f"the gateway answered {status}", None
    return str(error.get("code")), str(error.get("message")), error.get("param")


def _refused(status: int, answer: Any) -> types.CallToolResult:
    code, message, param = _error_of(status, answer)
    given = answer.get("error", {}) if isinstance(answer, dict) else {}
    return _failed(code, message, str(given.get("hint") or _HINTS.get(code, "")), param)


def _failed(code: str, message: str, hint: str, param: str | None = None) -> types.CallToolResult:
    told: Json = {"code": code, "message": message, "hint": hint}
    if param:
        told["param"] = param
    text = json.dumps(told, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
