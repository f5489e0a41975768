"""The tools: which operation of the HTTP API each one is, and what it tells a model beyond the operation's description.

Arguments and results are those of the operation, so the schemas are derived from the table of routes. A list is wrapped
in an object, since a tool's result is one; a deletion without `confirm` returns a preview.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import msgspec

from gw.web.control_api import path_with
from gw.web.route import PATH_PARAMETERS, QueryField, Raw, Route
from gw.web.routes import TABLE

Json = dict[str, Any]
_ROUTES = {route.id: route for route in TABLE.routes}
_READING_POSTS = ("test_provider", "run_reconcile")


@attrs.frozen(kw_only=True, slots=False)
class McpTool:
    """`operation` is an id in the table of routes; `more` is added to the operation's own description."""

    name: str
    operation: str
    title: str
    more: str = ""
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    @property
    def op(self) -> Route:
        return _ROUTES[self.operation]

    @property
    def read_only(self) -> bool:
        return self.op.method == "GET" or self.name in _READING_POSTS

    @property
    def description(self) -> str:
        return " ".join(part for part in (self.op.summary, self.op.notes, self.more) if part)

    @cached_property
    def path_arguments(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.op.path.split("/") if part.startswith("{"))

    @property
    def query(self) -> list[QueryField]:
        """Return the fields that are arguments."""
        return [field for field in self.op.query if not field.makes_file]

    @cached_property
    def input_schema(self) -> Json:
        properties: Json = {
            name: {"type": "string", "minLength": 1, "description": PATH_PARAMETERS[name]} for name in self.path_arguments
        }
        required = list(self.path_arguments)
        for field in self.query:
            properties[field.name] = {**_argument_schema(field.schema), "description": field.description}
        definitions: Json = {}
        if self.op.body is not None and not isinstance(self.op.body, Raw):
            schema = msgspec.json.schema(self.op.body)
            definitions = schema.get("$defs", {})
            body = definitions.pop(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else schema
            properties |= body.get("properties", {})
            required += body.get("required", [])
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return {**schema, "$defs": definitions} if definitions else schema

    @cached_property
    def output_schema(self) -> Json:
        if self.deletes:
            actions = {"action": {"enum": ["would_delete", "deleted"]}}
            return {"type": "object", "properties": actions, "required": ["action"]}
        shapes = [msgspec.json.schema(shape) for shape in self.op.answers if not isinstance(shape, Raw)]
        definitions: Json = {}
        for shape in shapes:
            definitions |= shape.pop("$defs", {})
        result = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
        if result.get("type") == "array":
            members = {"items": result, "count": {"type": "integer"}}
            result = {"properties": members, "required": ["items", "count"]}
        schema: Json = {"type": "object"} | result
        return {**schema, "$defs": definitions} if definitions else schema

    @property
    def deletes(self) -> bool:
        return any(field.name == "confirm" for field in self.op.query)

    def request(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, str], Json | None]:
        """Return path, query and body of the API request that these arguments make."""
        path = {name: str(arguments[name]) for name in self.path_arguments}
        fields = {field.name for field in self.query}
        present = {name: arguments[name] for name in fields if arguments.get(name) is not None}
        query = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in present.items()}
        body = None
        if self.op.body is not None:
            body = {name: value for name, value in arguments.items() if name not in path and name not in fields}
        return path_with(self.op.path, **path), query, body

    def result(self, answer: Any) -> Json:
        """Return the operation's answer as this tool's result."""
        if isinstance(answer, list):
            return {"items": answer, "count": len(answer)}
        if self.deletes and "would_delete" in answer:
            return {"action": "would_delete", **answer["would_delete"], "hint": "call again with confirm: true"}
        if self.deletes and "deleted" in answer:
            return {"action": "deleted", "id": answer["deleted"]}
        return dict(answer)


def _argument_schema(schema: Mapping[str, object]) -> Json:
    """Return the schema of a query field as a tool's argument: a flag is a boolean."""
    if "pattern" in schema and "Tt" in str(schema["pattern"]):
        return {"type": "boolean", "default": False}
    return {"type": "string", **schema} if "enum" in schema else dict(schema)


TOOLS: tuple[McpTool, ...] = (
    McpTool(name="get_health", operation="health", title="Health"),
    McpTool(name="get_provider_status", operation="status", title="Provider status"),
    McpTool(name="get_overview", operation="overview", title="Overview"),
    McpTool(name="get_costs", operation="costs", title="Costs"),
    McpTool(name="get_latency_stats", operation="latency", title="Latency"),
    McpTool(
        name="get_logs", operation="logs", title="Request log",
        more="One per finished request: its project, model and provider, units and cost, time to the first byte and in "
        "total, its outcome and each attempt, which shows a fallback and its reason; never any prompt or transcript. Every "
        "filter applies before the limit: `status: error` with `limit: 20` is the last 20 failures. For older ones, call "
        "again with `before` set to the last id. get_request and get_turn return more about one.",
    ),
    McpTool(name="get_request", operation="request", title="One request"),
    McpTool(name="get_turn", operation="turn", title="One turn of a conversation"),
    McpTool(name="get_audit_log", operation="audit_log", title="Audit log"),
    McpTool(name="list_providers", operation="list_providers", title="Providers"),
    McpTool(name="get_provider", operation="get_provider", title="One provider"),
    McpTool(name="test_provider", operation="test_provider", title="Test a provider", idempotent=True, open_world=True),
    McpTool(
        name="add_provider", operation="create_provider", title="Add a provider",
        more="The API key is stored encrypted and never shown again.",
    ),
    McpTool(name="update_provider", operation="update_provider", title="Change a provider", idempotent=True),
    McpTool(name="delete_provider", operation="delete_provider", title="Delete a provider", destructive=True, idempotent=True),
    McpTool(name="list_models", operation="list_models", title="Models"),
    McpTool(name="register_model", operation="create_model", title="Add a model"),
    McpTool(name="delete_model", operation="delete_model", title="Delete a model", destructive=True, idempotent=True),
    McpTool(
        name="list_voices", operation="list_voices", title="Voices",
        more="Where `skipped` is true, a fallback to that model does not happen for such requests.",
    ),
    McpTool(name="list_projects", operation="list_projects", title="Projects"),
    McpTool(name="get_project", operation="get_project", title="One project"),
    McpTool(name="create_project", operation="create_project", title="Add a project"),
    McpTool(name="update_project", operation="update_project", title="Change a project", idempotent=True),
    McpTool(name="delete_project", operation="delete_project", title="Delete a project", destructive=True, idempotent=True),
    McpTool(name="set_fallback_chain", operation="set_fallbacks", title="Set a fallback chain", idempotent=True),
    McpTool(name="simulate_route", operation="route", title="Preview a route", idempotent=True),
    McpTool(name="run_reconcile", operation="reconcile", title="Compare with a vendor's bill", idempotent=True),
)  # fmt: skip
