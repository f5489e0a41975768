"""Writes `src/lib/types.gen.ts`, the types of the API that the dashboard uses, from this checkout's OpenAPI document.

Only the schemas that `frontend/src` names as `Shapes["…"]`, and those they refer to.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gw.web.openapi import document

SOURCES = Path(__file__).resolve().parent.parent / "src"
TYPES = SOURCES / "lib" / "types.gen.ts"
HEAD = "// Written by `python frontend/scripts/write_types.py` from the gateway's OpenAPI document. Do not edit.\n"
REFERENCE = "#/components/schemas/"


def used_names() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in SOURCES.rglob("*") if path.suffix in (".ts", ".svelte"))
    return {name for text in texts for name in re.findall(r'Shapes\["(\w+)"\]', text)}


def reachable(names: set[str], schemas: dict[str, Any]) -> list[str]:
    """Return `names` and all that they refer to, sorted."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += re.findall(rf"{REFERENCE}(\w+)", json.dumps(schemas[name]))
    return sorted(found)


def interface(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    fields = (
        f"    {field}{'' if field in required else '?'}: {type_of(value)};\n"
        for field, value in schema["properties"].items()
    )
    return f"  {name}: {{\n{''.join(fields)}  }};\n"


def type_of(schema: dict[str, Any]) -> str:
    """Translate a JSON Schema to TypeScript."""
    match schema:
        case {"$ref": reference}:
            return f'Shapes["{reference.removeprefix(REFERENCE)}"]'
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": options}:
            return " | ".join(map(type_of, options))
        case {"type": "array", "items": items}:
            item = type_of(items)
            return f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": "object", "additionalProperties": dict(values)} if values:
            return f"{{ [key: string]: {type_of(values)} }}"
        case {"type": "object"}:
            return "{ [key: string]: unknown }"
        case {"type": list(kinds)}:
            return " | ".join(type_of({**schema, "type": kind}) for kind in kinds)
        case {"type": kind}:
            return {"integer": "number"}.get(kind, kind)
    return "unknown"


def types() -> str:
    schemas = document()["components"]["schemas"]
    interfaces = (interface(name, schemas[name]) for name in reachable(used_names(), schemas))
    return f"{HEAD}\nexport interface Shapes {{\n{''.join(interfaces)}}}\n"


if __name__ == "__main__":
    TYPES.write_text(types(), encoding="utf-8")
