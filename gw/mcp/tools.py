"""The tools: which operation of the HTTP API each one is, and when a model should use it.

Arguments and results are those of the operation, so the schemas are derived from the table of routes. What a model does not
need to choose a tool is left out of them: the list of tools is sent at the start of every session.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import msgspec

from gw.mcp.rows import MOST_ROWS, Json, RowPages, cut
from gw.web.control_api import path_with
from gw.web.route import QueryField, Raw, Route
from gw.web.routes import TABLE

_ROUTES = {route.id: route for route in TABLE.routes}
_READING_POSTS = ("test_provider", "run_reconcile", "check_config")
_PAGING = ("limit", "before")  # query fields that `RowPages` sets
_FOR_SDKS = ("after_id", "before_id", "api-version")  # query fields that no tool has
_CONFIRM: Json = {"type": "boolean"}
_PLAIN = (
    "project", "modality", "status", "model", "provider", "error_code", "session", "turn", "trouble", "confirm", "entity_type",
    "entity_id", "action",
)  # fmt: skip
"""Arguments whose name says all."""
_BODY_MEMBERS: Json = {
    "price": {"type": "object", "description": "As `price` in gw.yaml, such as {unit: 1M_tokens, input: 2.5, output: 10}."},
    "rows": {"type": "array", "items": {"type": "object"}},
}
"""Members whose schema is long, described by an example."""
_NOT_FOR_AGENTS = ("capture", "phrase_cache")
"""Members that no tool sets: what is kept of callers' words, and of speech, is for people to decide."""
_PERIOD = ("period", "from", "to")
_BOUNDS = ("minLength", "minimum", "maximum", "exclusiveMinimum")
_EXPLAINED_ONCE = (*_PERIOD, "sort", "limit", "cursor", "fields")  # by the server's instructions


@attrs.frozen(kw_only=True, slots=False)
class McpTool:
    """`operation` is an id in the table of routes; `use` says when to call the tool, after the operation's own summary.

    A change without `confirm` returns a preview: the API's own for a deletion, else what `shows_before` has now.
    """

    name: str
    operation: str
    title: str
    use: str = ""
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    rows: RowPages | None = None
    whole: tuple[str, ...] = ()
    """Members of the result that are not cut."""
    without: tuple[str, ...] = ()
    """Query fields that are no arguments."""
    shows_before: str = ""
    """Id of the operation that returns what this one changes."""

    @property
    def op(self) -> Route:
        return _ROUTES[self.operation]

    @property
    def read_only(self) -> bool:
        return self.op.method == "GET" or self.name in _READING_POSTS

    @property
    def description(self) -> str:
        return " ".join(part for part in (self.op.summary, self.use) if part)

    @cached_property
    def path_arguments(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.op.path.split("/") if part.startswith("{"))

    @property
    def query(self) -> list[QueryField]:
        """Return the fields that are arguments."""
        paged = _PAGING if self.rows is not None else ()
        left_out = (*paged, *_FOR_SDKS, *self.without)
        return [field for field in self.op.query if not field.makes_file and field.name not in left_out]

    @cached_property
    def input_schema(self) -> Json:
        properties: Json = {name: {"type": "string", "minLength": 1} for name in self.path_arguments}
        required = list(self.path_arguments)
        for field in self.query:
            properties[field.name] = _argument_schema(field)
        if self.rows is not None:
            properties |= self._page_schema(self.rows)
        definitions: Json = {}
        if self.op.body is not None and not isinstance(self.op.body, Raw):
            schema = msgspec.json.schema(self.op.body)
            definitions = {name: _plain(each) for name, each in schema.get("$defs", {}).items()}
            body = definitions.pop(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else _plain(schema)
            members = {name: each for name, each in body.get("properties", {}).items() if name not in _NOT_FOR_AGENTS}
            properties |= {name: _BODY_MEMBERS.get(name, each) for name, each in members.items()}
            definitions = definitions if "$ref" in str(properties) else {}
            required += body.get("required", [])
        if self.shows_before:
            properties["confirm"] = _CONFIRM
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return schema | ({"required": required} if required else {}) | ({"$defs": definitions} if definitions else {})

    @cached_property
    def listed_schema(self) -> Json:
        """Return the input schema as the list of tools has it, without what the server's instructions or a row say anyway.

        A call is checked by the whole one; its errors name all that can be.
        """
        properties = {name: _without(each, *_BOUNDS) for name, each in self.input_schema["properties"].items()}
        properties |= {name: {"type": "string"} for name in _PERIOD if name in properties}
        if self.rows is not None:
            properties["limit"] = {"type": "integer"}
            columns, names = self.rows.columns, self._row_members(self.rows)
            if names:
                also = f"Also {', '.join(name for name in names if name not in columns)}."
                shown = {"type": "array", "items": {"type": "string"}}
                properties["fields"] = shown | {"description": also} if columns else shown
        return {**self.input_schema, "properties": properties}

    def _page_schema(self, rows: RowPages) -> Json:
        page: Json = {
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS},
            "cursor": {"type": "string"},
        }
        if names := self._row_members(rows):
            page["fields"] = {"type": "array", "items": _one_of(names)}
        return page

    def _row_members(self, rows: RowPages) -> list[str]:
        shape, definitions = self._answer_schema()
        listed = shape.get("properties", {}).get(rows.member, {}) if rows.member else shape
        row = _resolved(listed.get("items") or listed.get("additionalProperties") or {}, definitions)
        return list(row.get("properties", {}))

    def _answer_schema(self) -> tuple[Json, Json]:
        """Return the schema of the operation's answer (the first, if there are alternatives), and its definitions."""
        shape = next(shape for shape in self.op.answers if not isinstance(shape, Raw))
        schema = msgspec.json.schema(shape)
        definitions = schema.pop("$defs", {})
        return _resolved(schema, definitions), definitions

    @cached_property
    def output_schema(self) -> Json:
        """Return what tells results of one tool apart; the rest can be seen in one."""
        return {"type": "object", "required": ["action"]} if self.action else {"type": "object"}

    @property
    def action(self) -> str:
        """Return what the tool previews: delete, update, or "" for none."""
        return "delete" if any(field.name == "confirm" for field in self.op.query) else "update" if self.shows_before else ""

    def request(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, str], Json | None]:
        """Return path, query and body of the API request that these arguments make."""
        path = {name: str(arguments[name]) for name in self.path_arguments}
        fields = {field.name for field in self.query}
        present = {name: arguments[name] for name in fields if arguments.get(name) is not None}
        if self.rows is not None:
            present |= self.rows.query(arguments)
        query = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in present.items()}
        body = None
        if self.op.body is not None:
            others = {*path, *fields, *(("confirm",) if self.shows_before else ())}
            body = {name: value for name, value in arguments.items() if name not in others}
        return path_with(self.op.path, **path), query, body

    def request_before(self, arguments: Mapping[str, Any]) -> str:
        """Return the path of what the tool would change."""
        path = _ROUTES[self.shows_before].path
        return path_with(path, **{name: str(arguments[name]) for name in self.path_arguments if f"{{{name}}}" in path})

    def preview(self, answer: Any, arguments: Mapping[str, Any]) -> Json:
        """Return what would change, with `answer` as the state before. Raises KeyError if it is not there."""
        name = arguments.get("modality")
        state = answer["fallbacks"][name] if "fallbacks" in answer else answer
        changes = {}
        for key, value in arguments.items():
            if key == "api_key":
                changes[key] = {"before": state.get("api_key_masked"), "after": "a new key"}
            elif key not in (*self.path_arguments, "confirm") and state.get(key) != value:
                changes[key] = {"before": state.get(key), "after": value}
        return {"action": "would_update", "changes": changes, "hint": "call again with confirm: true"}

    def result(self, answer: Any, arguments: Mapping[str, Any]) -> Json:
        """Return the operation's answer as this tool's result. Raises UnknownCursor."""
        if self.rows is not None:
            return cut(self.rows.result(answer, arguments), keep=self.whole)
        if self.action == "delete" and "would_delete" in answer:
            return {"action": "would_delete", **answer["would_delete"], "hint": "call again with confirm: true"}
        if self.action == "delete" and "deleted" in answer:
            return {"action": "deleted", "id": answer["deleted"]}
        return cut({"action": "updated", **answer} if self.shows_before else dict(answer), keep=self.whole)


def _argument_schema(field: QueryField) -> Json:
    """Return the schema of a query field as a tool's argument: a flag is a boolean."""
    schema: Json = dict(field.schema)
    if "pattern" in schema and "Tt" in str(schema["pattern"]):
        schema = _CONFIRM
    elif "anyOf" in schema:  # a time
        schema = {"type": ["string", "number"]}
    elif "enum" in schema:
        schema = _sorting(schema["enum"]) if field.name == "sort" else {"enum": schema["enum"]}
    return schema if field.name in (*_PLAIN, *_EXPLAINED_ONCE) else {**schema, "description": field.description}


def _sorting(values: list[str]) -> Json:
    """Return a schema that names a figure once for both directions: it is half as long as the list of values."""
    both = [value for value in values if f"-{value}" in values]
    one_way = [value for value in values if value.removeprefix("-") not in both]
    return _one_of([*one_way, *([f"-?({'|'.join(both)})"] if both else [])])


def _one_of(values: list[str]) -> Json:
    """Return a schema that is shorter than an enum."""
    return {"type": "string", "pattern": f"^({'|'.join(values)})$"}


def _without(schema: Json, *names: str) -> Json:
    return {key: value for key, value in schema.items() if key not in names}


def _resolved(schema: Json, definitions: Json) -> Json:
    result: Json = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return result


def _plain(schema: Any) -> Any:
    """Return a body's schema without titles, descriptions of definitions, and null: an argument is left out instead."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    alternatives = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(alternatives) == 1:
        schema = {**alternatives[0], **{name: each for name, each in schema.items() if name not in ("anyOf", "default")}}
    return {name: _plain(each) for name, each in schema.items() if name not in ("title", "description") or isinstance(each, dict)}


_LOG_COLUMNS = (
    "id", "timestamp", "project", "modality", "model_id", "status", "error_code", "fallback_from", "ttfb_ms", "total_latency_ms",
    "cost_usd",
)  # fmt: skip
_TURN_COLUMNS = (
    "turn_id", "session_id", "timestamp", "first_audio_ms", "duration_ms", "cost_usd", "errors", "fallbacks", "interrupted", "requests",
)
_SESSION_COLUMNS = (
    "session_id", "project", "timestamp", "length_ms", "turns", "first_audio_p50_ms", "first_audio_p95_ms", "interruptions",
    "fallbacks", "errors", "cost_usd",
)
_RELIABILITY_COLUMNS = ("provider", "configured", "breaker", "models", "availability", "totals", "in_flight", "last_error")
_PRICE_COLUMNS = ("model_id", "modality", "free", "rates", "price_source")
TOOLS: tuple[McpTool, ...] = (
    McpTool(name="get_health", operation="health", title="Health", use="Call it first when something is wrong."),
    McpTool(name="get_alerts", operation="alerts", title="Alerts", without=("limit",)),
    McpTool(name="test_alerts", operation="test_alerts", title="Test alerts", open_world=True),
    McpTool(name="mute_alert", operation="mute_alert", title="Mute a rule of alerts", idempotent=True, use="`hours: 0` ends it."),
    McpTool(
        name="get_provider_status", operation="status", title="Provider status",
        use="Shows which vendors have keys; get_reliability says how they fare.",
    ),
    McpTool(
        name="get_overview", operation="overview", title="Overview",
        use="Start here for \"how are we doing\": requests, errors, waits, costs.",
    ),
    McpTool(
        name="get_costs", operation="costs", title="Costs",
        use="`charges` has units, `wasted` what failed attempts cost.",
    ),
    McpTool(
        name="get_latency_stats", operation="latency", title="Latency", rows=RowPages(entries="models"),
        use="Finds slow models; list_turns shows what callers waited.",
    ),
    McpTool(
        name="get_logs", operation="logs", title="Request log", rows=RowPages(columns=_LOG_COLUMNS, before="id", page=10),
        use="`status: error` lists the last failures; get_request tells all about one.",
    ),
    McpTool(
        name="get_request", operation="request", title="One request",
        use="Shows each attempt, why it fell back, units, costs.",
    ),
    McpTool(
        name="list_sessions", operation="sessions", title="Conversations",
        rows=RowPages(columns=_SESSION_COLUMNS, before="first_request_id"),
        use="`sort: -first_audio_p95_ms` lists the slowest, `-cost_usd` the most expensive.",
    ),
    McpTool(name="get_session", operation="conversation", title="One conversation"),
    McpTool(
        name="list_turns", operation="turns", title="Turns",
        rows=RowPages(columns=_TURN_COLUMNS, before="first_request_id"),
        use="`first_audio_ms`: what the caller waited, from their last word to the answer's first sound.",
    ),
    McpTool(
        name="get_turn", operation="turn", title="One turn",
        use="Shows which stage took the time.",
    ),
    McpTool(
        name="get_reliability", operation="reliability", title="Reliability",
        rows=RowPages(member="providers", columns=_RELIABILITY_COLUMNS, leave_out=("times",)),
    ),
    McpTool(
        name="get_audit_log", operation="audit_log", title="Audit log", rows=RowPages(before="id", page=10),
        use="Shows who made them.",
    ),
    McpTool(name="list_providers", operation="list_providers", title="Providers", rows=RowPages(member="providers")),
    McpTool(name="get_provider", operation="get_provider", title="One provider"),
    McpTool(
        name="test_provider", operation="test_provider", title="Test a provider", idempotent=True, open_world=True,
        use="Shows whether a key works; calls the vendor.",
    ),
    McpTool(
        name="add_provider", operation="create_provider", title="Add a provider",
        use="The API key is stored encrypted and never shown again.",
    ),
    McpTool(
        name="update_provider", operation="update_provider", title="Change a provider", destructive=True, idempotent=True,
        shows_before="get_provider",
    ),
    McpTool(name="delete_provider", operation="delete_provider", title="Delete a provider", destructive=True, idempotent=True),
    McpTool(
        name="list_models", operation="list_models", title="Models",
        rows=RowPages(member="models", leave_out=("object", "data", "has_more", "first_id", "last_id", "stt", "tts")),
        use="Has the ids that requests, chains and projects take.",
    ),
    McpTool(
        name="get_prices", operation="page_models", title="Prices",
        rows=RowPages(member="models", columns=_PRICE_COLUMNS, leave_out=("providers", "fallbacks")),
        use="One without `rates` is not priced.",
    ),
    McpTool(name="register_model", operation="create_model", title="Add a model"),
    McpTool(name="delete_model", operation="delete_model", title="Delete a model", destructive=True, idempotent=True),
    McpTool(
        name="list_voices", operation="list_voices", title="Voices", rows=RowPages(member="voices"),
        use="`skipped`: a fallback to that model does not happen for such requests.",
    ),
    McpTool(name="list_projects", operation="list_projects", title="Projects", rows=RowPages(member="projects")),
    McpTool(name="get_project", operation="get_project", title="One project"),
    McpTool(
        name="list_keys", operation="list_keys", title="Project keys", rows=RowPages(member="keys"),
        use="With what each spends, and its limits.",
    ),
    McpTool(
        name="update_key", operation="update_key", title="Change a key's limits", destructive=True, idempotent=True,
        shows_before="get_key",
        use="It makes no key: only people see those.",
    ),
    McpTool(name="create_project", operation="create_project", title="Add a project"),
    McpTool(
        name="update_project", operation="update_project", title="Change a project", destructive=True, idempotent=True,
        shows_before="get_project",
    ),
    McpTool(name="delete_project", operation="delete_project", title="Delete a project", destructive=True, idempotent=True),
    McpTool(
        name="set_fallback_chain", operation="set_fallbacks", title="Set a fallback chain", destructive=True, idempotent=True,
        shows_before="list_fallbacks", use="simulate_route then shows what a request would do.",
    ),
    McpTool(
        name="simulate_route", operation="route", title="Preview a route", idempotent=True,
    ),
    McpTool(
        name="check_config", operation="check_config", title="Check gw.yaml", idempotent=True,
        use="Of the file before a reload, or of `content`.",
    ),
    McpTool(
        name="run_reconcile", operation="reconcile", title="Compare with a vendor's bill", idempotent=True,
    ),
)  # fmt: skip
