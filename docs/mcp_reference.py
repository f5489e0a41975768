"""docs/mcp.md, made from what the MCP server tells a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mcp_types as types
import trio
from mcp import Client

from gw.mcp.server import build
from gw.mcp.tools import TOOLS

Json = dict[str, Any]
_CHECKED: dict[str, Json] = {tool.name: tool.input_schema for tool in TOOLS}

INTRODUCTION = """\
# MCP server

Written from what the server tells its clients, by `uv run nox -s docs -- --write`.

A coding agent can inspect and manage the gateway over the Model Context Protocol. The tools do what the
[HTTP API](api.md) does, with the same checks and errors; the audit log records their changes with the source `mcp`. They
work through the running gateway, or on the database itself where none runs.

It needs the extra `mcp`: `pip install '.[mcp]'` or `uv run --extra mcp gw mcp` in a checkout ([installation](install.md#extras)).

On the agent's own machine, over stdio:

<!-- not run: needs a coding agent -->
```bash
claude mcp add gw -- gw mcp --transport stdio
```

Over HTTP: `gw mcp --transport http --port 8090`, or `mcp: {enabled: true}` in `gw.yaml`, which serves it beside the gateway.
Streamable HTTP is at `/mcp`, server-sent events at `/sse` with `/messages/`.

```json
{"mcpServers": {"gw": {"url": "http://127.0.0.1:8090/mcp", "headers": {"Authorization": "Bearer …"}}}}
```

- `GW_MCP_TOKEN`: the bearer token that every HTTP request must carry. Stdio never requires one. Unset, the
  tools are served on loopback only, to every program of the machine: on another address `gw serve` and `gw mcp --host` refuse
  to start (unless `auth.allow_open` opens the whole gateway to everybody). Put TLS in front of a port that others can reach.
- `gw mcp --url` (or `GW_URL`): the gateway to work through. Without a configuration file it is the one at the default
  address, so that `gw mcp` works beside `gw serve --demo`.
- `gw mcp --key` (or `GW_API_KEY`): the admin token of a running gateway that asks for one.
- `gw mcp --read-only` offers no tool that changes anything.
- A deletion or an update without `confirm: true` changes nothing and says what it would change.
- A list has at most 20 rows with the members that are needed most. `fields` names others, and `next_cursor` of a page is the
  `cursor` of the next one. Longer lists within a result are cut, and `left_off` counts the rest.
- A result is sent once, as structured content. A client of a protocol before 2025-06-18 gets it as text; so does every client with
  `gw mcp --text` (or `GW_MCP_TEXT=1`), for programs that read only text, such as OpenAI's Agents SDK without
  `use_structured_content=True`.
- Provider keys can be written but never read.
- A failure is a result with `isError` and `{code, message, hint}`, so that an agent can correct its call.
"""


def mcp_page() -> str:
    return "".join(trio.run(_parts))


async def _parts() -> list[str]:
    async with Client(build(_NoApi())) as client:
        tools, prompts = (await client.list_tools()).tools, (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
    parts = [INTRODUCTION, "\n## Tools\n"]
    for tool in tools:
        parts += _tool(tool)
    parts.append("\n## Resources\n\n| address | |\n|---|---|\n")
    parts += [f"| `{resource.uri}` | {resource.description} |\n" for resource in resources]
    parts += [f"| `{template.uri_template}` | {template.description} |\n" for template in templates]
    parts.append("\n## Prompts\n\n| name | arguments | |\n|---|---|---|\n")
    for prompt in prompts:
        taken = "; ".join(f"`{each.name}`: {each.description}" for each in prompt.arguments or ())
        parts.append(f"| `{prompt.name}` | {taken} | {prompt.description} |\n")
    return parts


class _NoApi:
    """An API that nothing calls: the page is made of lists."""

    async def call(self, *request: Any) -> tuple[int, Any]:
        raise AssertionError("only lists are read")


def _tool(tool: types.Tool) -> Iterator[str]:
    hints = tool.annotations
    assert hints is not None, "every tool has annotations"
    kind = "Reads" if hints.read_only_hint else "Deletes" if hints.destructive_hint else "Changes"
    calls = ", calls the provider" if hints.open_world_hint else ""
    yield f"\n### {tool.name}\n\n{tool.description}\n\n{kind}{calls}.\n"
    fields: Json = _CHECKED[tool.name].get("properties", {})  # what the server lists is shorter
    if fields:
        yield "\n| argument | type | |\n|---|---|---|\n"
    for name, schema in fields.items():
        notes = ["required"] if name in tool.input_schema.get("required", ()) else []
        if schema.get("default") not in (None, "", False):
            notes.append(f"default `{schema['default']}`")
        if description := schema.get("description"):
            notes.append(description)
        yield f"| `{name}` | {_type(schema)} | {'; '.join(notes)} |\n"


def _type(schema: Json) -> str:
    match schema:
        case {"enum": values}:
            return " \\| ".join("null" if value is None else f"`{value}`" for value in values)
        case {"pattern": str(pattern)} if pattern.startswith("^("):
            return " \\| ".join(f"`{value}`" for value in pattern[2:-2].split("|"))
        case {"anyOf": options}:
            return " or ".join(dict.fromkeys(map(_type, options)))
        case {"type": "array", "items": dict(items)}:
            return f"array of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)} if values:
            return f"object of {_type(values)}"
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"integer, {least} to {most}"
        case {"type": list(kinds)}:
            return " or ".join(kinds)
        case {"type": kind}:
            return str(kind)
    return "any"
