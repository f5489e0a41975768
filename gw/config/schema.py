"""JSON Schema (draft 7) of gw.yaml, for editors: they complete keys, show meanings and mark mistakes while one types.

Made from the tables of `parse`, so it knows exactly the keys there are; meanings are the comments of gw.yaml.example. It says
less than `gw check`: what one part says about another is not in it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from gw.config import fields, load, parse, starter
from gw.config.fields import Choice, Fields, Integer, Number
from gw.types.ids import ID_PATTERN, MODALITIES
from gw.types.provider_types import PROVIDER_TYPES, SIM_FAULTS

Json = dict[str, Any]

_REFERENCE: Json = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}
"""A value from the environment, as it may stand for a number or a switch too."""
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT, "uniqueItems": True}
_MODEL_ID: Json = {"type": "string", "pattern": r"^[^/\s]+/\S+$", "maxLength": 200}
_BY_NAME: Json = {"type": "object", "additionalProperties": _TEXT}
_MODALITY = re.compile(r"^models\.\w+")
_COMMENT = re.compile(r"\s#\s+(.*)$")


def _either(plain: Json) -> Json:
    return {"anyOf": [plain, _REFERENCE]}


_LEAVES: Mapping[object, Json] = {
    fields.text: _TEXT,
    fields.secret: _TEXT,
    fields.provider_key: _TEXT,
    fields.required_secret: {"type": "string", "minLength": 1},
    fields.required_provider_key: {"type": "string", "minLength": 1},
    fields.texts: _TEXTS,
    fields.boolean: _either({"type": "boolean"}),
    fields.colour: _either({"type": "string", "pattern": "^#[0-9A-Fa-f]{6}$"}),
    fields.http_url: _either({"type": "string", "pattern": "^https?://"}),
    fields.upstream_url: _either({"type": "string", "pattern": "^(https?|tcp)://"}),
    fields.file_path: {"type": "string", "minLength": 1},
}


def _leaf(parser: object, special: Mapping[object, Json]) -> Json:
    match parser:
        case Number(low, high, above):
            return _either({"type": "number", "exclusiveMinimum" if above else "minimum": low, "maximum": high})
        case Integer(low, high):
            return _either({"type": "integer", "minimum": low, "maximum": high})
        case Choice(names):
            return {"enum": list(names)}
        case _:
            return special[parser] if parser in special else _LEAVES[parser]


class _Writer:
    """Builds the schema with the meanings of the keys."""

    def __init__(self, meanings: Mapping[str, str]) -> None:
        self._meanings = meanings

    def mapping(
        self,
        path: str,
        table: Fields,
        special: Mapping[object, Json] | None = None,
        keys: Mapping[str, Json] | None = None,
    ) -> Json:
        """An object with the keys of `table`. Given shapes: of parsers in `special`, of keys in `keys`."""
        given = keys or {}
        found = {name: _leaf(parser, special or {}) for name, parser in table.items() if name not in given} | dict(
            given
        )
        return {
            "type": ["object", "null"],
            "properties": {name: self._told(f"{path}.{name}", shape) for name, shape in found.items()},
            "additionalProperties": False,
        }

    def _told(self, path: str, shape: Json) -> Json:
        meaning = self._meanings.get(path)
        return {**shape, "description": meaning} if meaning else shape

    def named(self, entry: Json) -> Json:
        """id → entry."""
        return {
            "type": ["object", "null"],
            "propertyNames": {"pattern": f"^{ID_PATTERN.pattern}$"},
            "additionalProperties": entry,
        }

    def providers(self) -> Json:
        """The options of all engines; `if` says which belong to the type, where the type is given."""
        special: dict[object, Json] = {
            parse._fault: {"anyOf": [{"enum": list(SIM_FAULTS)}, {"type": "integer", "minimum": 400, "maximum": 599}, _REFERENCE]},
            parse._thinking: {"enum": [True, False, "low", "medium", "high"]},
            parse._texts_by_name: _BY_NAME,
        }  # fmt: skip
        table = {**parse.PROVIDER, "base_url": fields.upstream_url, **parse.OPTIONS}
        entry = self.mapping("providers.*", table, special, {"type": {"enum": list(PROVIDER_TYPES)}})
        entry["allOf"] = [
            {
                "if": {"required": ["type"], "properties": {"type": {"const": name}}},
                "then": {"properties": {option: False for option in parse.OPTIONS if option not in kind.options}},
            }
            for name, kind in PROVIDER_TYPES.items()
        ]
        return self.named(entry)

    def models(self) -> Json:
        """Of one modality."""
        entry = self.mapping("models.*", parse.MODEL, {fields.price: self.mapping("models.*.price", fields.PRICE)})
        named = {"type": ["object", "null"], "propertyNames": _MODEL_ID, "additionalProperties": entry}
        return {"anyOf": [{"type": "array", "items": _MODEL_ID}, named]}

    def sections(self) -> Json:
        limits = self.named(self.mapping("rate_limiting.*", parse.RATE_LIMIT))
        routing = {
            "first_event_s": self.mapping("routing.first_event_s", parse.FIRST_EVENT),
            "breaker": self.mapping("routing.breaker", parse.BREAKER),
        }
        keys = {"type": "array", "items": {**self.mapping("auth.keys", parse.AUTH_KEY), "required": ["key"]}}
        of_project = {"fallbacks": self.mapping("projects.*.fallbacks", parse.CHAINS), "providers": _BY_NAME}
        return {
            "providers": self.providers(),
            "models": {
                "type": ["object", "null"],
                "properties": dict.fromkeys(MODALITIES, self.models()),
                "additionalProperties": False,
            },
            "stacks": self.named(self.mapping("stacks.*", parse.STACK)),
            "projects": self.named(self.mapping("projects.*", parse.PROJECT, keys=of_project)),
            "fallbacks": self.mapping("fallbacks", parse.CHAINS),
            "voices": {"type": ["object", "null"], "additionalProperties": _BY_NAME},
            "rate_limiting": limits,
            "rate_limits": {**limits, "description": "Another name of rate_limiting."},
            "cost_tracking": self.mapping("cost_tracking", parse.COST_TRACKING),
            "serve": self.mapping("serve", parse.SERVE),
            "routing": self.mapping("routing", parse.ROUTING, keys=routing),
            "auth": self.mapping("auth", parse.AUTH, keys={"keys": keys}),
            "mcp": self.mapping("mcp", parse.MCP),
            "latency": self.mapping("latency", parse.LATENCY),
        }


def meanings(example: str) -> dict[str, str]:
    """Key, with chosen names as `*`, → the comment beside it, where it stands alone; the first that has one."""
    document = load.load(example, file="gw.yaml.example", env=None)
    keys_of_line = Counter(line for line, _ in document.key_marks.values())
    found: dict[str, str] = {}
    for path, (line, _) in document.key_marks.items():
        comment = _COMMENT.search(document.lines[line - 1])
        if comment is not None and keys_of_line[line] == 1:
            found.setdefault(_MODALITY.sub("models", starter.general_name(path)), comment[1].strip(" …"))
    return found


def schema() -> Json:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gw.yaml",
        "description": "Configuration of the voice gateway gw.",
        "type": "object",
        "properties": _Writer(meanings(starter.example_text())).sections(),
        "required": list(parse.REQUIRED),
        "additionalProperties": False,
    }


def schema_text() -> str:
    """As `docs/gw.schema.json` and `gw init --schema` have it."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
