"""Generates docs/api.md from the OpenAPI document that the gateway serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gw.web.openapi import document

Json = dict[str, Any]

INTRODUCTION = """\
# HTTP API

Written from `/v1/openapi.json` by `uv run nox -s docs -- --write`; that document is served by every gateway, for generators
and for tools. Vendors' protocols other than OpenAI's are described by their vendors; see [clients](clients.md).

**Rights.** `public`: no credential. `data`: a project key or the admin token. `admin`: the admin token. `metrics`: nothing
when the gateway is bound to loopback and asked from there, else the admin token. A gateway without `auth` in `gw.yaml` asks
for none of them. A credential may be sent as `Authorization: Bearer K`, `Authorization: Token K`, `Authorization: K`,
`X-API-Key`, `xi-api-key`, `api-key`, `x-goog-api-key`, in the query as `token`, `access_token`, `api_key` or `key`, or, in a browser, by
the cookie that `POST /api/login` sets (for voice requests only beside the header `X-GW-Dashboard: 1`).

**Requests.** Bodies are JSON in UTF-8 with `Content-Type: application/json`, at most 1 MB. Fields and query parameters that
are not listed here are refused with 422, and so are repeated ones: a misspelt filter must not look like an empty
answer. Requests of foreign pages (`Origin`, `Sec-Fetch-Site`) and for a foreign `Host` are refused with 403; see
`serve.cors_origins` and `serve.allowed_hosts`.

**Errors.** Every answer carries `X-Request-Id`. Every error of the control plane has this body; the facts of the error, such as
`available`, are further members of it:

```json
{"error": {"type": "UnknownProjectError", "code": "project_not_found", "message": "…", "param": null, "request_id": "…"}}
```

Errors of voice requests are the vendor's own, whose protocol the path speaks: `type` and `code` have its words. What gw has to say
stands in `gw`: its class and code, the request's id, and the facts, such as `provider`, `retry_after_s`, `daily_budget` or `attempts`:

```json
{"error": {"message": "…", "type": "insufficient_quota", "param": null, "code": "insufficient_quota",
  "gw": {"type": "BudgetExceededError", "code": "budget_exceeded", "request_id": "…", "daily_budget": 2.5, "spent": 2.6}}}
```
"""


def api_page() -> str:
    spec = document()
    parts = [INTRODUCTION]
    for tag in spec["tags"]:
        parts.append(f"\n## {tag['name']}\n")
        for path, methods in spec["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag["name"]] and not _is_alias(operation):
                    parts += _operation(method.upper(), path, operation, spec)
    parts.append("\n## Shapes\n")
    for name, schema in spec["components"]["schemas"].items():
        parts.append(f"\n### {name}\n\n")
        if description := schema.get("description"):
            parts.append(f"{' '.join(description.split())}\n\n")
        parts += _fields(schema)
    return "".join(parts)


def _is_alias(operation: Json) -> bool:
    return bool(operation["operationId"].endswith("_openai"))


def _operation(method: str, path: str, operation: Json, spec: Json) -> Iterator[str]:
    yield f"\n### {method} {path}\n\n{operation['summary']}"
    if method.lower() in spec["paths"].get("/openai" + path, {}):
        yield f" Also at `/openai{path}`."
    if description := operation.get("description"):
        yield f"\n\n{description}"
    yield f"\n\nRight: `{operation['x-gw-right']}`.\n"
    if parameters := operation.get("parameters"):
        yield "\n| parameter | in | type | default | |\n|---|---|---|---|---|\n"
        for parameter in parameters:
            schema = parameter["schema"]
            default = f"`{schema['default']}`" if "default" in schema else ""
            where, kind = parameter["in"], _type(schema)
            yield f"| `{parameter['name']}` | {where} | {kind} | {default} | {parameter['description']} |\n"
    if body := operation.get("requestBody"):
        for content_type, media in body["content"].items():
            schema = media["schema"]
            yield f"\nBody (`{content_type}`)"
            if "$ref" in schema:
                yield f": {_type(schema)}\n"
            else:
                yield "; members that are not listed go to the provider untouched:\n\n"
                yield from _fields(schema)
    yield "\nAnswer: " + ", or ".join(_answers(operation["responses"]["200"]["content"])) + ".\n"
    errors = [status for status in operation["responses"] if status != "200"]
    yield f"\nErrors: {', '.join(errors)}.\n"


def _answers(content: Json) -> Iterator[str]:
    for content_type, media in content.items():
        schemas = media["schema"].get("anyOf", [media["schema"]])
        for schema in schemas:
            yield _type(schema) if content_type == "application/json" else f"`{content_type}`"


def _fields(schema: Json) -> Iterator[str]:
    required = schema.get("required", ())
    yield "| field | type | |\n|---|---|---|\n"
    for name, field in schema.get("properties", {}).items():
        notes = [] if name in required else ["optional"]
        if field.get("default") not in (None, ""):
            notes.append(f"default `{field['default']}`")
        if description := field.get("description"):
            notes.append(description)
        yield f"| `{name}` | {_type(field)} | {'; '.join(notes)} |\n"


def _type(schema: Json) -> str:
    match schema:
        case {"$ref": ref}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"enum": values}:
            return " \\| ".join("null" if value is None else f"`{value}`" for value in values)
        case {"anyOf": options}:
            return " or ".join(map(_type, options))
        case {"type": "array", "items": items}:
            return f"array of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)} if values:
            return f"object of {_type(values)}"
        case {"type": list(kinds)}:
            return " or ".join(kinds)
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"integer, {least} to {most}"
        case {"type": "string", "pattern": pattern} if "Tt" in pattern:
            return "boolean"
        case {"type": kind}:
            return str(kind)
    return "any"
