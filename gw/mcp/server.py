"""The MCP server: tools, resources and prompts over the control plane's API.

One server object serves any number of sessions and keeps no state of them. Arguments are checked against each tool's
schema here, since the library's low-level server does not. An API error becomes a tool result that says what to do about
it, not a protocol error, so that a coding agent can correct its call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

import attrs
import jsonschema
import mcp_types as types
import structlog
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from gw import __version__
from gw.mcp.rows import Json, UnknownCursor
from gw.mcp.tools import TOOLS, McpTool
from gw.types.roles import Access
from gw.web.control_api import ControlApi, path_with
from gw.web.rights import ROLE_OF

FIRST_STRUCTURED = "2025-06-18"
"""The first version of the protocol that has structured content. Source: its changelog."""
RESULT_CHARS = 16_000_000  # longest result: more would fill a model's context many times over
_INSTRUCTIONS = (
    "A self-hosted gateway for voice AI. Start with get_overview or get_health. Money is USD. `period`: today, week and month are "
    "UTC days; 15m, 1h, 24h, 7d, 30d and all end now; `from` and `to` (ISO 8601 or Unix seconds) in its place. A list has at most "
    "20 rows with some of their members: `fields` names others, and `next_cursor` of a page is the `cursor` of the next. `sort`: a "
    "figure, with `-` the largest first, among the newest 5,000 sessions or turns, or 50,000 requests. A deletion or an update "
    "without confirm: true changes nothing and says what it would change. API keys can be written but never read."
)
_HINTS = {
    "unauthorized": "the gateway asks for its admin token: set GW_API_KEY for this server",
    "forbidden": "this needs a token with more rights",
    "read_only": "it is defined in gw.yaml: change it there and send the gateway SIGHUP",
    "already_exists": "choose another id, or change the existing entry",
    "invalid_request": "correct the argument that `param` names",
    "model_not_found": "list_models lists the models",
    "provider_not_found": "list_providers lists the providers",
    "project_not_found": "list_projects lists the projects",
    "usage_store_unavailable": "try again in a moment; get_health says what is wrong",
}
_RESOURCES = {
    "gw://status": ("Status", "Providers, models and projects in numbers.", "/v1/status"),
    "gw://models": ("Models", "Every model and its modality.", "/v1/models"),
    "gw://providers": ("Providers", "Every provider, its key masked.", "/v1/providers"),
    "gw://projects": ("Projects", "Every project and its day so far.", "/v1/projects"),
    "gw://fallbacks": ("Fallback chains", "The chain of each modality and its source.", "/v1/fallbacks"),
}
_TEMPLATES = {
    "gw://projects/{id}": ("Project", "One project with its day so far.", "/v1/projects/{id}"),
    "gw://turns/{id}": ("Turn", "One turn of a conversation as a waterfall.", "/api/turns/{id}"),
    "gw://requests/{id}": ("Request", "One request with its attempts.", "/v1/requests/{id}"),
}
_log = structlog.get_logger("gw.mcp")


@attrs.frozen
class Holder:
    """Sender of a request with a credential of their own. `access`: their rights."""

    api: ControlApi
    access: Access


HolderOf = Callable[[Any], Holder | None]
"""Returns the holder of a request, by its context; None = the server's own credential counts."""


def build(
    api: ControlApi, *, read_only: bool = False, as_text: bool = False, holder_of: HolderOf = lambda _context: None
) -> Server[Any]:
    """Return the server. `read_only` leaves out every tool that changes something; `as_text` sends results as text alone."""
    tools = {tool.name: tool for tool in TOOLS if tool.read_only or not read_only}
    handlers = ToolHandlers(api, tools, as_text=as_text, holder_of=holder_of)
    return Server(
        "gw",
        version=__version__,
        title="gw: voice AI gateway",
        instructions=_INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


class ToolHandlers:
    """The server's request handlers; the library calls each with a context and the request's parameters."""

    def __init__(
        self, api: ControlApi, tools: Mapping[str, McpTool], *, as_text: bool, holder_of: HolderOf = lambda _context: None
    ) -> None:
        self._own_api = api
        self._holder_of = holder_of
        self._tools = tools
        self._as_text = as_text
        self._validators = {name: jsonschema.Draft202012Validator(tool.input_schema) for name, tool in tools.items()}

    async def list_tools(self, context: Any, _params: Any) -> types.ListToolsResult:
        """List the tools that whoever asks may call."""
        holder = self._holder_of(context)
        tools = [tool for tool in self._tools.values() if holder is None or not _lacks(holder.access, tool)]
        return types.ListToolsResult(tools=[_description(tool, as_text=self._as_text) for tool in tools])

    async def call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            return _failure("unknown_tool", f"unknown tool {params.name!r}", f"the tools are: {', '.join(self._tools)}")
        arguments = params.arguments or {}
        for fault in sorted(self._validators[tool.name].iter_errors(arguments), key=str):
            place = ".".join(str(part) for part in fault.absolute_path) or "arguments"
            return _failure("invalid_request", f"{place}: {fault.message}"[:500], _HINTS["invalid_request"], place)
        holder = self._holder_of(context)
        api = self._own_api if holder is None else holder.api
        if holder is not None and (lacking := _lacks(holder.access, tool)):
            return _failure("forbidden", lacking, _HINTS["forbidden"])
        previews = bool(tool.shows_before) and not arguments.get("confirm")
        if previews:
            status, answer = await api.call("GET", tool.request_before(arguments))
        else:
            path, query, body = tool.request(arguments)
            status, answer = await api.call(tool.op.method, path, query, body)
        _log.info("tool_called", tool=tool.name, status=status, preview=previews)
        if status >= 400 or not isinstance(answer, (dict, list)):
            error = _api_error(status, answer)
            code = str(error.get("code"))
            hint = str(error.get("hint") or _HINTS.get(code, ""))
            return _failure(code, str(error.get("message")), hint, error.get("param"))
        try:
            result = tool.preview(answer, arguments) if previews else tool.result(answer, arguments)
        except UnknownCursor:
            return _failure("invalid_request", "cursor: not one of a page of this list", "send `next_cursor` of the page before", "cursor")
        return self._success(result, context.protocol_version)

    def _success(self, result: Json, protocol: str) -> types.CallToolResult:
        """Return the result once: as structured content, or as text for a client that does not read that."""
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        if len(text) > RESULT_CHARS:
            return _failure("too_large", "the result is too large", "ask for less")
        if self._as_text or protocol < FIRST_STRUCTURED:
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
        return types.CallToolResult(content=[types.TextContent(type="text", text=_summary(result))], structured_content=result)

    async def list_resources(self, _context: Any, _params: Any) -> types.ListResourcesResult:
        make = partial(types.Resource, mime_type="application/json")
        resources = [make(uri=uri, name=name, description=text) for uri, (name, text, _) in _RESOURCES.items()]
        return types.ListResourcesResult(resources=resources)

    async def list_templates(self, _context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        make = partial(types.ResourceTemplate, mime_type="application/json")
        templates = [make(uri_template=uri, name=name, description=text) for uri, (name, text, _) in _TEMPLATES.items()]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        path = _resource_path(uri)
        if path is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"unknown resource {uri}")
        holder = self._holder_of(context)
        status, answer = await (self._own_api if holder is None else holder.api).call("GET", path)
        if status >= 400:
            error = _api_error(status, answer)
            raise MCPError(code=types.INVALID_PARAMS, message=f"{uri}: {error['message']} ({error['code']})")
        text = json.dumps(answer, ensure_ascii=False)
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(self, _context: Any, _params: Any) -> types.ListPromptsResult:
        prompts = []
        for prompt in PROMPTS.values():
            facts = prompt.arguments.items()
            arguments = [types.PromptArgument(name=name, description=text, required=False) for name, (text, _) in facts]
            prompts.append(
                types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)
            )
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"no prompt is called {params.name!r}")
        text = prompt.text(params.arguments or {})
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])


def _lacks(access: Access, tool: McpTool) -> str:
    """Say which right somebody lacks for a tool; "" for none."""
    need = tool.op.need
    role = ROLE_OF.get(need.right)
    if role is not None and not access.covers(role):
        return f"this tool needs the role {role}; yours is {access.role}"
    if need.reach == "all" and access.projects is not None:
        return "this tool needs a role for all projects"
    return "" if access.capture or not need.capture else "this tool needs the right to read captured content"


def _summary(result: Json) -> str:
    """Return a sentence for people, and for clients that show only text."""
    if "action" in result:
        return f"{result['action']}. {result.get('hint', '')}".strip()
    counts = [f"{len(value)} {name}" for name, value in result.items() if isinstance(value, (list, dict))]
    more = "; next_cursor continues" if "next_cursor" in result else ""
    return f"{', '.join(counts) or 'The result is'} in structuredContent{more}."


def _description(tool: McpTool, *, as_text: bool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.listed_schema,
        output_schema=None if as_text else tool.output_schema,
        annotations=_annotations(tool),
    )


def _annotations(tool: McpTool) -> types.ToolAnnotations:
    """Return the hints. The protocol gives those about changes no meaning for a tool that only reads; not idempotent is its default."""
    if tool.read_only:
        return types.ToolAnnotations(read_only_hint=True, open_world_hint=tool.open_world)
    return types.ToolAnnotations(
        read_only_hint=False, destructive_hint=tool.destructive, idempotent_hint=tool.idempotent or None, open_world_hint=tool.open_world
    )


def _resource_path(uri: str) -> str | None:
    """Return the API path of a resource; None where there is no such resource."""
    if uri in _RESOURCES:
        return _RESOURCES[uri][2]
    for template, (_, _, path) in _TEMPLATES.items():
        match = re.fullmatch(re.escape(template).replace(r"\{id\}", "([^/]+)"), uri)
        if match:
            return path_with(path, id=unquote(match[1]))
    return None


def _api_error(status: int, answer: Any) -> Json:
    """Return the error object of an answer, with at least `code` and `message`."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else {"code": "gateway_error", "message": f"the gateway answered {status}"}


def _failure(code: str, message: str, hint: str, param: str | None = None) -> types.CallToolResult:
    error = {"code": code, "message": message, "hint": hint} | ({"param": param} if param else {})
    text = json.dumps(error, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


@attrs.frozen(kw_only=True)
class Prompt:
    """`arguments`: name → (description, default). `template` holds each name in braces."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, tuple[str, str]]
    template: str

    def text(self, arguments: Mapping[str, str]) -> str:
        """Fill the template. A caller's value is inserted as it is and never treated as a template."""
        text = self.template
        for name, (_, default) in self.arguments.items():
            text = text.replace(f"{{{name}}}", (arguments.get(name) or default)[:200])
        return text


_ALL = (
    Prompt(
        name="cost_review", title="Review what was spent",
        description="What the money was spent on, what stands out, and what could be cheaper.",
        arguments={"period": ("today, week, month or all", "week")},
        template="Call get_costs with period {period}, then get_latency_stats for the most expensive models. Say where "
        "the money went by project, provider and model, what stands out, and which cheaper model or chain could be tried. "
        "Name requests without a known price.",
    ),
    Prompt(
        name="why_is_it_slow", title="Find out why answers are slow",
        description="From percentiles to the slowest requests, stage by stage.",
        arguments={"model": ("A model id; empty = all of them", "")},
        template="Call get_latency_stats for today{model}, then get_logs for requests above the 95th percentile and "
        "get_request or get_turn for some of them. Say which stage takes the time: the gateway itself, a fallback, the "
        "vendor's first byte, or its stream; and what to change.",
    ),
    Prompt(
        name="add_provider", title="Add a provider",
        description="Step by step: the provider, its models, a test, a chain.",
        arguments={"provider_type": ("Such as deepgram", "")},
        template="Help me add a provider {provider_type}. Ask for an id and for the place of its key; never "
        "repeat the key. Then call add_provider, test_provider, register_model for each model, and propose "
        "set_fallback_chain. Show each step's result.",
    ),
    Prompt(
        name="monthly_reconcile", title="Compare a month with the vendors' bills",
        description="Our records against a vendor's usage export.",
        arguments={"provider": ("openai, deepgram or cartesia", "openai"), "month": ("As 2026-01", "")},
        template="I will give you the usage export of {provider} for {month}. Bring it into the canonical form, call "
        "run_reconcile with the month as window, and explain each flagged row by its cause.",
    ),
    Prompt(
        name="incident_report", title="Write an incident report",
        description="What failed, who was affected, what took over.",
        arguments={"period": ("today or week", "today")},
        template="Call get_overview, get_provider_status, get_logs with status error and with status fallback "
        "({period}), and get_audit_log. Write a short report: what failed and when, which projects were affected, "
        "which candidates took over, what changed before it, and what to do.",
    ),
)  # fmt: skip
PROMPTS: Mapping[str, Prompt] = {prompt.name: prompt for prompt in _ALL}
