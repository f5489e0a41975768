"""JSON Schema (draft 7) of gw.yaml, with which editors complete keys, show meanings and mark mistakes.

It is made from the tables of `parse`, so it has exactly the keys there are. It checks less than `gw check`: references
between sections are not part of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from gw.config import alert_settings, fields, parse, sign_in_settings
from gw.config.fields import ByName, Choice, Integer, Named, Number, NumberOrOff, Required, Section
from gw.config.node import Parser, Setting, SettingTable
from gw.config.settings import SIGNALS
from gw.types.alerts import ALERT_RULES
from gw.types.ids import ID_PATTERN, LONGEST_NAME, MODALITIES
from gw.types.provider_types import PROVIDER_TYPES

Json = dict[str, Any]

_REFERENCE: Json = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}
"""A value from the environment, which may stand for a number or a boolean too."""
_TEXT: Json = {"type": "string"}
_MODEL_ID: Json = {"type": "string", "pattern": r"^[^/\s]+/\S+$", "maxLength": 200}


def _or_reference(*shapes: Json) -> Json:
    return {"anyOf": [*shapes, _REFERENCE]}


_LEAVES: Mapping[object, Json] = {
    fields.text: _TEXT,
    fields.secret: _TEXT,
    fields.provider_key: _TEXT,
    fields.texts: {"type": "array", "items": _TEXT, "uniqueItems": True},
    fields.boolean: _or_reference({"type": "boolean"}),
    fields.day: {"type": "string", "format": "date"},
    fields.colour: _or_reference({"type": "string", "pattern": "^#[0-9A-Fa-f]{6}$"}),
    fields.http_url: _or_reference({"type": "string", "pattern": "^https?://"}),
    sign_in_settings.issuer: _or_reference({"type": "string", "pattern": "^https?://"}),
    fields.upstream_url: _or_reference({"type": "string", "pattern": "^(https?|tcp)://"}),
    fields.file_path: {"type": "string", "minLength": 1},
    alert_settings.signing_secret: _or_reference({"type": "string", "pattern": "^whsec_"}),
    alert_settings.rule_names: {"type": "array", "items": {"enum": list(ALERT_RULES)}},
    alert_settings.quiet_times: {"type": "array", "items": _TEXT},
    alert_settings.time_zone: _TEXT,
    parse._modalities: {"type": "array", "items": {"enum": list(MODALITIES)}},
    parse._signals: {"type": "array", "items": {"enum": list(SIGNALS)}},
    parse._budget: _or_reference({"type": "number", "minimum": 0, "maximum": Number().high}),
}


def _shape(parser: Parser) -> Json:
    match parser:
        case fields.steps:
            return {"type": "array", "items": {"$ref": "#/definitions/step"}}
        case fields.tiers:
            return {"type": "object", "additionalProperties": {"$ref": "#/definitions/tier"}}
        case Number(low, high, above):
            return _or_reference({"type": "number", "exclusiveMinimum" if above else "minimum": low, "maximum": high})
        case Integer(low, high):
            return _or_reference({"type": "integer", "minimum": low, "maximum": high})
        case Choice(names, None):
            return {"enum": list(names)}
        case Choice(names, fields.boolean):
            return {"enum": [True, False, *names]}
        case Choice(names, NumberOrOff(low, high)):
            return _or_reference({"enum": [*names, False]}, {"type": "number", "exclusiveMinimum": low, "maximum": high})
        case Choice(names, Integer(low, high)):
            return _or_reference({"enum": list(names)}, {"type": "integer", "minimum": low, "maximum": high})
        case Required():
            return {"type": "string", "minLength": 1}
        case Section(_, settings):
            return _object(settings)
        case Named(section):
            return _named(_object(section.settings))
        case ByName(value):
            return {"type": ["object", "null"] if isinstance(value, ByName) else "object", "additionalProperties": _shape(value)}
        case _ if parser in _SPECIAL:
            return _SPECIAL[parser]()
        case _:
            return _LEAVES[parser]


def _object(settings: SettingTable) -> Json:
    properties = {
        key: _shape(setting.parser) | ({"description": setting.description.strip(" …")} if setting.description else {})
        for key, setting in settings.items()
    }
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _named(entry: Json) -> Json:
    names = {"pattern": f"^{ID_PATTERN.pattern}$"}
    return {"type": ["object", "null"], "propertyNames": names, "additionalProperties": entry}


def _providers() -> Json:
    """Allow the options of all types; an `if` forbids the others where the type is known."""
    url = Setting("base_url", fields.upstream_url, parse.PROVIDER["base_url"].description)
    entry = _object({**parse.PROVIDER, "base_url": url, **parse.OPTIONS})
    entry["properties"]["type"] = entry["properties"]["type"] | {"enum": list(PROVIDER_TYPES)}
    entry["allOf"] = [
        {
            "if": {"required": ["type"], "properties": {"type": {"const": name}}},
            "then": {"properties": {option: False for option in parse.OPTIONS if option not in kind.options}},
        }
        for name, kind in PROVIDER_TYPES.items()
    ]
    return _named(entry)


def _models() -> Json:
    named = {"type": ["object", "null"], "propertyNames": _MODEL_ID, "additionalProperties": _object(parse.MODEL)}
    models = {"anyOf": [{"const": "any"}, {"type": "array", "items": _MODEL_ID}, named]}
    properties = dict.fromkeys(MODALITIES, models)
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _route_models() -> Json:
    member = {**_object(parse.ROUTE_MEMBER), "type": "object", "required": ["model"]}
    member["properties"]["model"] = _MODEL_ID
    return {"type": "array", "items": {"anyOf": [_MODEL_ID, member]}, "minItems": 1}


def _routes() -> Json:
    route = _object(parse.ROUTE) | {"type": "object", "required": ["models"]}
    names = {"pattern": rf"^\S{{1,{LONGEST_NAME}}}$"}
    return {"type": ["object", "null"], "propertyNames": names, "additionalProperties": route}


def _prices() -> Json:
    return {"anyOf": [_object(fields.PRICE), {"type": "array", "items": {"$ref": "#/definitions/price"}}]}


def _role_rules() -> Json:
    return {"type": "array", "items": {**_object(sign_in_settings.RULE), "required": ["claim", "value", "role"]}}


def _pronunciations() -> Json:
    return {"type": "array", "items": {**_object(parse.PRONUNCIATION), "required": ["word", "say"]}}


def _auth_keys() -> Json:
    return {"type": "array", "items": {**_object(parse.AUTH_KEY), "required": ["key"]}}


_SPECIAL: Mapping[object, Callable[[], Json]] = {
    parse._providers: _providers,
    parse._models: _models,
    parse._auth_keys: _auth_keys,
    parse._pronunciations: _pronunciations,
    sign_in_settings.role_rules: _role_rules,
    fields.prices: _prices,
    parse._route_models: _route_models,
    parse._routes: _routes,
}


def schema() -> Json:
    sections = _object(parse.SECTIONS)["properties"]
    sections["rate_limits"] = {**sections["rate_limits"], "description": "Another name of rate_limiting."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gw.yaml",
        "description": "Configuration of the voice gateway gw.",
        "type": "object",
        "properties": sections,
        "required": list(parse.REQUIRED),
        "additionalProperties": False,
        "definitions": {
            "price": _object(fields.PRICE),
            "step": _shape(fields.steps.value),
            "tier": _shape(fields.tiers.value),
        },
    }


def schema_text() -> str:
    """Return the content of docs/gw.schema.json."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
