"""YAML + environment → one frozen `Settings`, or a ConfigError with every problem at once.

Each section is a table of key → parser; a key that is absent keeps the default of its class in `settings`. What one
part says about another (a chain naming a model) is checked afterwards, in `references`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from gw.config import cross_checks, find
from gw.config.fields import (
    Fields,
    Place,
    Rejected,
    boolean,
    choice,
    colour,
    file_path,
    http_url,
    identifier,
    integer,
    number,
    price,
    provider_key,
    read,
    record,
    required_provider_key,
    required_secret,
    secret,
    suggestion,
    text,
    texts,
    upstream_url,
)
from gw.config.load import load
from gw.config.settings import (
    Auth,
    AuthKey,
    BreakerSettings,
    CostTracking,
    Latency,
    Mcp,
    ModelSettings,
    ProjectSettings,
    ProviderSettings,
    RateLimit,
    Routing,
    Serve,
    Settings,
    StackSettings,
)
from gw.errors import ConfigError, Problem
from gw.types.ids import MODALITIES, Modality, split_model_id
from gw.types.provider_types import PROVIDER_TYPES, SIM_FAULTS
from gw.types.secret import Secret

T = TypeVar("T")



def _fault(place: Place) -> int | str:
    """An HTTP status, or one of the faults the demo engine can play."""
    return choice(*SIM_FAULTS)(place) if isinstance(place.value, str) else integer(400, 599)(place)


def _texts_by_name(place: Place) -> dict[str, str]:
    return {name: read(child, text, "") for name, child in place.items()}


def _thinking(place: Place) -> bool | str:
    """On, off, or how much."""
    return boolean(place) if isinstance(place.value, bool) else choice("low", "medium", "high")(place)


PROVIDER: Fields = {"type": text, "api_key": provider_key, "base_url": http_url, "enabled": boolean}
OPTIONS: Fields = {
    **dict.fromkeys(("model_path", "voices_path"), file_path),
    **dict.fromkeys(("device", "compute_type", "keep_alive"), text),
    "api": choice("native", "openai"),
    "num_ctx": integer(1, 100_000_000),
    "think": _thinking,
    "latency_ms": number(0, 600_000),
    "token_ms": number(0, 600_000),
    "fail_rate": number(0, 1),
    "fail_with": _fault,
    "retry_after_s": number(0, 86_400),
    "rate_limit": integer(1, 10_000_000),
    "refuse": boolean,
    "cut_after": integer(0, 10_000_000),
    "script": _texts_by_name,
}
MODEL: Fields = {
    "provider": text,
    "model": text,
    "display_name": text,
    "default_language": text,
    "default_voice": text,
    "price": price,
    "aliases": texts,
}
STACK: Fields = dict.fromkeys(MODALITIES, text)
CHAINS: Fields = dict.fromkeys(MODALITIES, texts)
RATE_LIMIT: Fields = {"requests_per_minute": integer(1), "max_concurrent": integer(1)}
COST_TRACKING: Fields = {
    "db_path": file_path,
    "durability": choice("crash", "power"),
    "on_unpriced": choice("flag", "refuse"),
    "retention_days": integer(1, 36_500),
}
SERVE: Fields = {
    "host": text,
    "port": integer(0, 65_535),
    "drain_s": number(0, 3_600),
    "max_body_mb": number(0, 1_000, above=True),
    "max_upload_mb": number(0, 10_000, above=True),
    "max_in_flight": integer(1, 1_000_000),
    "tls_cert": file_path,
    "tls_key": file_path,
    "allowed_hosts": texts,
    "cors_origins": texts,
    "provider_base_url_hosts": texts,
}
BREAKER: Fields = {"failures": integer(1, 10_000), "open_s": number(0, 3_600, above=True)}
FIRST_EVENT: Fields = dict.fromkeys(MODALITIES, number(0, 3_600, above=True))
MCP: Fields = {"enabled": boolean, "port": integer(0, 65_535)}
LATENCY: Fields = {"ttfb_warning_ms": number(0, 3_600_000, above=True)}


def _built(kind: Callable[..., T], fields: Fields) -> Callable[[Place], T]:
    """A section whose keys are the arguments of `kind`."""
    return lambda place: kind(**record(place, fields))


def _first_event_s(place: Place) -> dict[Any, float]:
    """One modality given leaves the others at their default."""
    return {**Routing().first_event_s, **record(place, FIRST_EVENT)}


ROUTING: Fields = {
    "first_event_s": _first_event_s,
    "whole_answer_s": number(0, 3_600, above=True),
    "idle_s": number(0, 3_600, above=True),
    "hedge_after_ms": number(0, 3_600_000, above=True),
    "keepalive_s": number(0, 3_600, above=True),
    "breaker": _built(BreakerSettings, BREAKER),
}


def _named(place: Place, parse: Callable[[str, Place], T]) -> dict[str, T]:
    """A section of id → entry. An entry whose id or content is wrong is left out and noted."""
    result: dict[str, T] = {}
    for name, child in place.items():
        try:
            identifier(name)
        except Rejected as rejected:
            child.problem(rejected.what, rejected.hint, key=True)
            continue
        result[name] = parse(name, child)
    return result


def _provider(provider_id: str, place: Place) -> ProviderSettings:
    given = place.value if isinstance(place.value, dict) else {}
    declared = given.get("type", provider_id)
    kind = declared if isinstance(declared, str) else provider_id
    if kind not in PROVIDER_TYPES:
        at = Place(place.document, (*place.path, "type"), kind) if "type" in given else place
        hint = suggestion(kind, list(PROVIDER_TYPES), listed="known types")
        if "type" not in given:
            hint += "; an entry of another name needs 'type'"
        at.problem(f"unknown provider type {kind!r}", hint, key="type" not in given)
    known = PROVIDER_TYPES.get(kind)
    options = {name: OPTIONS[name] for name in (known.options if known else ())}
    address: Fields = {"base_url": upstream_url} if known and known.tcp else {}
    values = record(place, {**PROVIDER, **address, **options})
    values.pop("type", None)
    own = {name: values.pop(name) for name in options if name in values}
    return ProviderSettings(id=provider_id, type=kind, options=own, **values)


def _models(place: Place) -> dict[str, ModelSettings]:
    """Keyed `<modality>:<id>`: one id may serve two modalities."""
    result: dict[str, ModelSettings] = {}
    for modality, section in place.items():
        if modality not in MODALITIES:
            hint = suggestion(modality, MODALITIES, listed="modalities")
            section.problem(f"unknown key {section.name!r}", hint, key=True)
            continue
        for model_id, child in _model_entries(section):
            model = _model(model_id, modality, child)
            key = f"{modality}:{model_id}"
            if key in result:
                child.problem(f"{model_id!r} stands twice in {section.name}")
            elif model is not None:
                result[key] = model
    return result


def _model_entries(section: Place) -> list[tuple[str, Place]]:
    """A list of ids, or a mapping of id → options."""
    if not isinstance(section.value, list):
        return list(section.items())
    entries: list[tuple[str, Place]] = []
    for element in section.elements():
        model_id = read(element, text, "")
        if model_id:
            entries.append((model_id, Place(section.document, element.path, None)))
    return entries


def _model(model_id: str, modality: Modality, place: Place) -> ModelSettings | None:
    provider, name = split_model_id(model_id)
    values = record(place, MODEL)
    if not provider or not name or any(c.isspace() for c in model_id) or len(model_id) > 200:
        place.problem(f"{model_id[:80]!r} is not a model id", "a model id is <provider>/<model>", key=True)
        return None
    settings = {"provider": provider, "model": name, **values}
    return ModelSettings(id=model_id, modality=modality, **settings)


def _project(project_id: str, place: Place) -> ProjectSettings:
    fields: Fields = {**PROJECT, "fallbacks": lambda at: record(at, CHAINS), "providers": _own_keys}
    return ProjectSettings(id=project_id, **{"name": project_id, **record(place, fields)})


PROJECT: Fields = {
    "name": text,
    "description": text,
    "daily_budget": number(0, 1e9),
    "budget_action": choice("warn", "block"),
    "max_concurrent": integer(1),
    "default_stack": text,
    "tags": texts,
    "accent": colour,
}


def _own_keys(place: Place) -> dict[str, object]:
    return {name: read(child, required_provider_key, None) for name, child in place.items()}


def _voices(place: Place) -> dict[str, dict[str, str]]:
    return {alias: _texts_by_name(child) for alias, child in place.items()}


def _auth_keys(place: Place) -> tuple[AuthKey, ...]:
    keys: list[AuthKey] = []
    for element in place.elements():
        values = record(element, AUTH_KEY)
        if "key" in values:
            keys.append(AuthKey(**{"project": "default", **values}))
        elif isinstance(element.value, dict) and element.value.get("key") is None:
            element.problem(f"{element.name} needs a key", "key: ${NAME}, project: <project id>")
    return tuple(keys)


AUTH_KEY: Fields = {"key": required_secret, "project": text, "name": text}
AUTH: Fields = {"admin_token": secret, "keys": _auth_keys, "allow_open": boolean}

SECTIONS: Mapping[str, Callable[[Place], Any]] = {
    "providers": lambda place: _named(place, _provider),
    "models": _models,
    "stacks": lambda place: _named(place, lambda name, at: StackSettings(name=name, **record(at, STACK))),
    "projects": lambda place: _named(place, _project),
    "fallbacks": lambda place: record(place, CHAINS),
    "voices": _voices,
    "rate_limiting": lambda place: _named(place, lambda _, at: RateLimit(**record(at, RATE_LIMIT))),
    "rate_limits": lambda place: _named(place, lambda _, at: RateLimit(**record(at, RATE_LIMIT))),
    "cost_tracking": lambda place: record(place, COST_TRACKING),
    "serve": lambda place: record(place, SERVE),
    "routing": _built(Routing, ROUTING),
    "auth": _built(Auth, AUTH),
    "mcp": _built(Mcp, MCP),
    "latency": _built(Latency, LATENCY),
}
REQUIRED = ("providers", "models")


def parse(text: str, *, file: str, env: Mapping[str, str], data_dir: Path) -> Settings:
    """The settings of a configuration text. `file` names it in messages, and its folder is where relative paths begin.

    `data_dir` holds the database unless `GW_DB_PATH` or `cost_tracking.db_path` says otherwise. Raises ConfigError with
    every problem, in the order of the file.
    """
    document = load(text, file=file, env=env)
    root = Place(document, (), document.data)
    values = record(root, SECTIONS)
    given = document.data if isinstance(document.data, dict) else {}
    for name in REQUIRED:
        if name not in given and (document.data is None or isinstance(document.data, dict)):
            document.add(1, 1, f"the section {name!r} is missing", "gw.yaml needs 'providers' and 'models'", name)
    if "rate_limits" in values and "rate_limiting" in given:
        what = "rate_limits is another name of rate_limiting: keep one of them"
        document.problem(("rate_limits",), what, key=True)
    values.setdefault("rate_limiting", values.pop("rate_limits", {}))
    values["serve"] = Serve(**{"port": _port(env, document.problems), **values.get("serve", {})})
    values["cost_tracking"] = _cost_tracking(values.get("cost_tracking", {}), env, data_dir)
    values["secret"] = Secret(env.get("GW_SECRET", ""))
    values["previous_secret"] = Secret(env.get("GW_SECRET_PREVIOUS", ""))
    values["mcp_token"] = Secret(env.get("GW_MCP_TOKEN", ""))
    values["secret_folder"] = find.user_config_dir()
    settings = Settings(path=Path(file), **{"providers": {}, "models": {}, **values})
    if all(isinstance(given.get(name, ""), (dict, type(None))) for name in REQUIRED):
        cross_checks.check(document, settings)
    if document.problems:
        raise ConfigError(problems=tuple(sorted(document.problems, key=lambda p: (p.line, p.column))))
    lines = document.line_numbers()
    if "rate_limits" in given:
        lines |= {("rate_limiting", *path[1:]): line for path, line in lines.items() if path[:1] == ("rate_limits",)}
    return attrs.evolve(settings, warnings=tuple(cross_checks.warnings(document, settings)), lines=lines)


def _port(env: Mapping[str, str], problems: list[Problem]) -> int:
    """`serve.port` goes before this: the variable PORT, else 8080."""
    value = env.get("PORT", "")
    if not value:
        return Serve().port
    if value.isascii() and value.isdigit() and int(value) <= 65_535:
        return int(value)
    problems.append(Problem(what="the environment variable PORT must be a port number", where="PORT"))
    return Serve().port


def _cost_tracking(values: Mapping[str, Any], env: Mapping[str, str], data_dir: Path) -> CostTracking:
    chosen = env.get("GW_DB_PATH", "")
    path = Path(chosen).expanduser() if chosen else values.get("db_path", data_dir / "gw.db")
    return CostTracking(**{**values, "db_path": path})


def load_settings(path: Path, env: Mapping[str, str]) -> Settings:
    """Read and parse a file. Blocks on the disk; raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(problems=(Problem(file=str(path), what=f"cannot be read: {error.strerror}"),)) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        what = "the file is not UTF-8 text"
        raise ConfigError(problems=(Problem(file=str(path), line=line, column=column, what=what),)) from None
    return parse(text, file=str(path), env=env, data_dir=find.user_data_dir())
