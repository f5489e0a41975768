"""YAML and environment to one frozen `Settings`, or a ConfigError with every problem at once.

The tables of keys are made from the classes that declare the settings; an absent key keeps the default of its class.
References between sections, such as a chain that names a model, are checked afterwards (`cross_checks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from gw.config import cross_checks, fields, gw_yaml
from gw.config.fields import Named, Section, settings_of
from gw.config.load import load
from gw.config.node import Node, Parser, Setting, read, record, suggestion
from gw.config.settings import (
    SIGNALS,
    Auth,
    AuthKey,
    CostTracking,
    Otlp,
    ProviderOptions,
    RateLimit,
    Serve,
    Settings,
    Signal,
    Telemetry,
)
from gw.errors import ConfigError, Problem
from gw.types.entities import Model, Project, Provider, Stack, nano_usd
from gw.types.ids import ANY_NAME, LONGEST_NAME, MODALITIES, KeyLimits, Modality, split_model_id
from gw.types.model_routes import ModelRoute, RouteMember
from gw.types.pronunciation import MOST_PRONUNCIATIONS, Pronunciation, problem_of
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.shadow import ShadowModel, ShadowSettings

REQUIRED = ("providers", "models")
_ANY_MODEL = "any"
"""In place of the models of a modality: any name of every provider that offers it."""
_OF_WILDCARDS = ("default_language", "default_voice")

_COMPUTED = ("id", "location", "source", "key_error", "options", "requests_per_minute", "max_concurrent", "public_only")
PROVIDER = settings_of(Provider, without=_COMPUTED, base_url=fields.http_url, api_key=fields.provider_key)
OPTIONS = settings_of(ProviderOptions)
MODEL = settings_of(Model, without=("id", "modality", "source"), renamed={"name": "model", "prices": "price"}, prices=fields.prices)
CHAINS = Section(dict, fields.by_modality(fields.texts))
_BUDGETS = {name: f"{name}_nusd" for name in ("daily_budget", "weekly_budget", "monthly_budget", "total_budget")}
"""Name in the file → attribute."""


def _budget(node: Node) -> int:
    return nano_usd(fields.Number()(node))


def _modalities(node: Node) -> tuple[Modality, ...]:
    return tuple(fields.Choice(MODALITIES)(element) for element in node.elements())


_NAMES = {attribute: name for name, attribute in _BUDGETS.items()}
_PARSERS: dict[str, Parser] = dict.fromkeys(_NAMES, _budget)
LIMITS = settings_of(KeyLimits, without=(), renamed=_NAMES, **_PARSERS | {"modalities": _modalities})
AUTH_KEY = settings_of(AuthKey, without=("limits",)) | LIMITS


def _auth_keys(node: Node) -> tuple[AuthKey, ...]:
    keys: list[AuthKey] = []
    for element in node.elements():
        values = record(element, AUTH_KEY)
        if "key" in values:
            limits = {each.attribute: values.pop(each.attribute) for each in LIMITS.values() if each.attribute in values}
            keys.append(AuthKey(**values, limits=KeyLimits(**limits) if limits else None))
        elif isinstance(element.value, dict) and element.value.get("key") is None:
            element.problem(f"{element.name} needs a key", "key: ${NAME}, project: <project id>")
    return tuple(keys)


def _providers(node: Node) -> dict[str, Provider]:
    return fields.by_id(node, _provider)


def _provider(provider_id: str, node: Node) -> Provider:
    entry = node.value if isinstance(node.value, dict) else {}
    declared = entry.get("type", provider_id)
    name = declared if isinstance(declared, str) else provider_id
    kind = PROVIDER_TYPES.get(name)
    if kind is None:
        at = Node(node.document, (*node.path, "type"), name) if "type" in entry else node
        hint = suggestion(name, list(PROVIDER_TYPES), listed="known types")
        if "type" not in entry:
            hint += "; an entry of another name needs 'type'"
        at.problem(f"unknown provider type {name!r}", hint, key="type" not in entry)
    options = {option: OPTIONS[option] for option in (kind.options if kind else ())}
    address = {"base_url": Setting("base_url", fields.upstream_url)} if kind and kind.tcp else {}
    values = record(node, {**PROVIDER, **address, **options})
    if kind is not None and kind.address and not entry.get("base_url"):
        node.problem(f"a provider of type {name} needs base_url", f"base_url: {kind.address}", key=True)
    location = kind.location if kind else "local"
    chosen = {option: values.pop(option) for option in options if option in values}
    return Provider(**values | {"id": provider_id, "type": name, "location": location, "options": chosen})


def _models(node: Node) -> dict[str, Model]:
    result: dict[str, Model] = {}
    for modality, section in node.items():
        if modality not in MODALITIES:
            hint = suggestion(modality, MODALITIES, listed="modalities")
            section.problem(f"unknown key {section.name!r}", hint, key=True)
            continue
        if section.value == _ANY_MODEL:
            result[f"{modality}:{_ANY_MODEL}"] = Model(id=_ANY_MODEL, modality=modality, provider=ANY_NAME, name=ANY_NAME)
            continue
        for model_id, child in _model_entries(section):
            model = _model(model_id, modality, child)
            key = f"{modality}:{model_id}"
            if key in result:
                child.problem(f"{model_id!r} appears twice in {section.name}")
            elif model is not None:
                result[key] = model
    return result


def _model_entries(section: Node) -> list[tuple[str, Node]]:
    """Return the entries of a list of ids, or of a mapping of id → options."""
    if not isinstance(section.value, list):
        return list(section.items())
    entries: list[tuple[str, Node]] = []
    for element in section.elements():
        if model_id := read(element, fields.text, ""):
            entries.append((model_id, Node(section.document, element.path, None)))
    return entries


def _model(model_id: str, modality: Modality, node: Node) -> Model | None:
    provider, name = split_model_id(model_id)
    values = record(node, MODEL)
    if not provider or not name or any(c.isspace() for c in model_id) or len(model_id) > 200:
        node.problem(f"{model_id[:80]!r} is not a model id", "a model id is <provider>/<model>", key=True)
        return None
    if name == ANY_NAME and (more := sorted(values.keys() - _OF_WILDCARDS)):
        what = f"{model_id!r} stands for any name of the provider, so it takes no {', '.join(more)}"
        node.problem(what, f"it takes {' and '.join(_OF_WILDCARDS)}; list a model to set more for it", key=True)
        return None
    return Model(id=model_id, modality=modality, **{"provider": provider, "name": name} | values)


ROUTE_MEMBER = settings_of(RouteMember)


def _route_models(node: Node) -> tuple[RouteMember, ...]:
    members: list[RouteMember] = []
    for element in node.elements():
        values = {"model": element.value} if isinstance(element.value, str) else record(element, ROUTE_MEMBER)
        if "model" in values:
            members.append(RouteMember(**values))
        elif isinstance(element.value, dict) and element.value.get("model") is None:
            element.problem(f"{element.name} needs a model", "{model: <provider>/<model>, weight: 5}")
    return tuple(members)


ROUTE = settings_of(ModelRoute, without=("name",), models=_route_models)


def _routes(node: Node) -> dict[str, ModelRoute]:
    routes: dict[str, ModelRoute] = {}
    for name, child in node.items():
        if 0 < len(name) <= LONGEST_NAME and name.isprintable() and not any(c.isspace() for c in name):
            routes[name] = ModelRoute(name=name, **record(child, ROUTE))
        else:
            hint = f"use up to {LONGEST_NAME} printable characters without spaces, as in a model's name"
            child.problem(f"{name[:80]!r} cannot be the name of a route", hint, key=True)
    return routes


PRONUNCIATION = settings_of(Pronunciation)


def _pronunciations(node: Node) -> tuple[Pronunciation, ...]:
    entries: list[Pronunciation] = []
    for element in node.elements():
        values = record(element, PRONUNCIATION)
        if "word" in values and "say" in values:
            entry = Pronunciation(**values)
            if problem := problem_of(entry, entries):
                element.problem(problem, "{word: Nguyen, say: win}")
            entries.append(entry)
        elif isinstance(element.value, dict) and not {"word", "say"} <= element.value.keys():
            element.problem(f"{element.name} needs a word and what to say", "{word: Nguyen, say: win}")
    if len(entries) > MOST_PRONUNCIATIONS:
        node.problem(f"a project has at most {MOST_PRONUNCIATIONS} pronunciations", key=True)
    return tuple(entries)


def _signals(node: Node) -> tuple[Signal, ...]:
    return tuple(fields.Choice(SIGNALS)(element) for element in node.elements())


SHADOW = settings_of(
    ShadowSettings, renamed=_NAMES, daily_budget_nusd=_budget, models=fields.ByName(Section(ShadowModel, settings_of(ShadowModel)))
)
OTLP = settings_of(Otlp, endpoint=fields.http_url, headers=fields.ByName(fields.Required(fields.provider_key)), signals=_signals)
_RATE_LIMITS = Named(Section(RateLimit, settings_of(RateLimit)))
_PROJECT = settings_of(
    Project,
    without=("id", "source"),
    renamed=_NAMES | {"provider_keys": "providers"},
    **_PARSERS
    | {
        "accent": fields.colour, "fallbacks": CHAINS, "provider_keys": fields.ByName(fields.Required(fields.provider_key)),
        "pronunciations": _pronunciations,
    },
)  # fmt: skip
_NO_SECTIONS = ("path", "secret", "previous_secret", "secret_folder", "mcp_token", "warnings", "lines")
SECTIONS = settings_of(
    Settings,
    without=_NO_SECTIONS,
    providers=_providers,
    models=_models,
    stacks=Named(Section(Stack, settings_of(Stack, without=("name",))), "name"),
    projects=Named(Section(Project, _PROJECT), "id"),
    fallbacks=CHAINS,
    routes=Section(dict, fields.by_modality(_routes)),
    voices=fields.ByName(fields.ByName(fields.text)),
    rate_limiting=_RATE_LIMITS,
    cost_tracking=Section(dict, settings_of(CostTracking)),  # completed by `_cost_tracking`
    serve=Section(dict, settings_of(Serve)),  # completed with the environment's port
    shadow=Section(ShadowSettings, SHADOW),
    auth=Section(Auth, settings_of(Auth, keys=_auth_keys)),
    telemetry=Section(Telemetry, settings_of(Telemetry, otlp=Section(Otlp, OTLP))),
) | {"rate_limits": Setting("rate_limits", _RATE_LIMITS)}


def parse(text: str, *, file: str, env: Mapping[str, str], data_dir: Path) -> Settings:
    """Return the settings of a configuration text. `file` names it in messages; relative paths begin in its folder.

    `data_dir` holds the database unless `GW_DB_PATH` or `cost_tracking.db_path` names another node. Raises ConfigError
    with every problem, in the order of the file.
    """
    document = load(text, file=file, env=env)
    values = record(Node(document, (), document.data), SECTIONS)
    sections = document.data if isinstance(document.data, dict) else {}
    for name in REQUIRED:
        if name not in sections and (document.data is None or isinstance(document.data, dict)):
            document.add(1, 1, f"the section {name!r} is missing", "gw.yaml needs 'providers' and 'models'", name)
    if "rate_limits" in values and "rate_limiting" in sections:
        what = "rate_limits is another name of rate_limiting: keep one of them"
        document.problem(("rate_limits",), what, key=True)
    values.setdefault("rate_limiting", values.pop("rate_limits", {}))
    values["serve"] = Serve(**{"port": _port(env, document.problems), **values.get("serve", {})})
    values["cost_tracking"] = _cost_tracking(values.get("cost_tracking", {}), env, data_dir)
    values["secret"] = Secret(env.get("GW_SECRET", ""))
    values["previous_secret"] = Secret(env.get("GW_SECRET_PREVIOUS", ""))
    values["mcp_token"] = Secret(env.get("GW_MCP_TOKEN", ""))
    values["secret_folder"] = gw_yaml.user_config_dir()
    settings = Settings(path=Path(file), **{"providers": {}, "models": {}, **values})
    if all(isinstance(sections.get(name, ""), (dict, type(None))) for name in REQUIRED):
        cross_checks.CrossChecks(document, settings).run()
    if document.problems:
        raise ConfigError(problems=tuple(sorted(document.problems, key=lambda p: (p.line, p.column))))
    lines = document.line_numbers()
    if "rate_limits" in sections:
        lines |= {("rate_limiting", *path[1:]): line for path, line in lines.items() if path[:1] == ("rate_limits",)}
    return attrs.evolve(settings, warnings=tuple(cross_checks.warnings(document, settings)), lines=lines)


def _port(env: Mapping[str, str], problems: list[Problem]) -> int:
    """Return the default of `serve.port`: the variable PORT, else 8080."""
    value = env.get("PORT", "")
    if not value:
        return Serve().port
    if value.isascii() and value.isdigit() and int(value) <= 65_535:
        return int(value)
    problems.append(Problem(what="the environment variable PORT must be a port number", where="PORT"))
    return Serve().port


def _cost_tracking(values: Mapping[str, Any], env: Mapping[str, str], data_dir: Path) -> CostTracking:
    override = env.get("GW_DB_PATH", "")
    path = Path(override).expanduser() if override else values.get("db_path", data_dir / "gw.db")
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
    return parse(text, file=str(path), env=env, data_dir=gw_yaml.user_data_dir())


def demo_settings(data_dir: Path, admin_token: str = "") -> Settings:
    """Return the settings of the demo with its database in `data_dir`; it asks nobody for a credential without `admin_token`.

    Raises ConfigError for a weak token.
    """
    text = Path(__file__).with_name("demo.yaml").read_text(encoding="utf-8")
    if admin_token:
        text += "auth: {admin_token: '${GW_ADMIN_TOKEN}'}\n"
    settings = parse(text, file="demo", env={"GW_ADMIN_TOKEN": admin_token}, data_dir=data_dir)
    return attrs.evolve(settings, path=None, secret_folder=data_dir)
