"""References between sections of the configuration, and rules about several settings.

Problems go into the document; `warnings` are for settings that are valid but suspicious.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from gw.config import route_rules, shadow_rules
from gw.config.alert_rules import faults
from gw.config.database_rules import POSTGRES
from gw.config.load import Document, Path, dotted
from gw.config.mcp_rules import TOKEN_HINT, open_to_all
from gw.config.node import suggestion
from gw.config.otlp_rules import header_problems
from gw.config.settings import ANY_ORIGIN, AuthKey, Settings
from gw.config.sign_in_settings import faults_of
from gw.config.weak_secrets import HINT, weakness
from gw.errors import Problem
from gw.types.address import is_loopback
from gw.types.bank_address import BankAddress
from gw.types.entities import DEFAULT_PROJECT, Model
from gw.types.ids import ANY_NAME, MODALITIES, Modality, is_model_pattern, split_model_id
from gw.types.provider_types import PROVIDER_TYPES

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#:@A-Z]+)(:[0-9]{1,5})?")
_FLEET_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
Chains = Mapping[Modality, tuple[str, ...]]


class KnownModels(Collection[str]):
    """Ids of one modality that a chain or stack may name: the listed ones, and any name of a provider with a wildcard."""

    def __init__(self, settings: Settings, modality: Modality) -> None:
        models = [model for model in settings.models.values() if model.modality == modality]
        self._listed = [model.id for model in models if not model.is_wildcard]
        self._any_of = {model.provider for model in models if model.is_wildcard}
        self._providers = {
            id_ for id_, provider in settings.providers.items()
            if (kind := PROVIDER_TYPES.get(provider.type)) and kind.own_models and modality in kind.modalities
        }

    def __contains__(self, name: object) -> bool:
        if name in self._listed or not isinstance(name, str):
            return name in self._listed
        provider, bare = split_model_id(name)
        covered = provider in self._any_of or (ANY_NAME in self._any_of and provider in self._providers)
        return covered and bool(bare) and ANY_NAME not in bare

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class CrossChecks:
    def __init__(self, document: Document, settings: Settings) -> None:
        self._document = document
        self._settings = settings
        self._known = {modality: KnownModels(settings, modality) for modality in MODALITIES}

    def run(self) -> None:
        """Report every reference to a missing name and every broken rule."""
        document, settings = self._document, self._settings
        self._models()
        self._aliases()
        self._chains(("fallbacks",), settings.fallbacks)
        route_rules.check(document, settings, self._known)
        shadow_rules.check(document, settings, self._known["stt"])
        for stack in settings.stacks.values():
            for modality in MODALITIES:
                if (model_id := stack.model(modality)) is not None:
                    path = ("stacks", stack.name, modality)
                    if model_id not in settings.routes.get(modality, {}):
                        self._reference(path, model_id, self._known[modality], f"{modality} model")
        self._projects()
        section = "rate_limits" if ("rate_limits",) in document.key_positions else "rate_limiting"
        for provider_id in settings.rate_limiting:
            self._reference((section, provider_id), provider_id, settings.providers, "provider")
        for alias, voices in settings.voices.items():
            for name in voices:
                self._reference(("voices", alias, name), name, [*settings.providers, *PROVIDER_TYPES], "provider")
        self._auth()
        self._serve()
        self._fleet()
        self._otlp()
        self._database()
        self._alerts()

    def _reference(self, path: Path, name: str, known: Collection[str], kind: str) -> None:
        if name not in known:
            hint = suggestion(name, known, listed=f"{kind}s")
            self._document.problem(path, f"unknown {kind} {name!r}", hint, key=path[-1] == name)

    def _models(self) -> None:
        document, settings = self._document, self._settings
        providers: Mapping[str, object] = self._written("providers") or settings.providers
        for model in settings.models.values():
            if model.provider == ANY_NAME:
                continue
            path = self._model_path(model)
            if model.provider not in providers:
                own = (*path, "provider")
                explicit = own in document.key_positions
                hint = suggestion(model.provider, providers, listed="providers")
                what = f"model {model.id!r}: the provider {model.provider!r} is not in 'providers'"
                document.problem(own if explicit else path, what, hint, key=not explicit)
                continue
            provider = settings.providers.get(model.provider)
            if provider is None or provider.type not in PROVIDER_TYPES:
                continue
            offered = PROVIDER_TYPES[provider.type].modalities
            if model.is_wildcard and not PROVIDER_TYPES[provider.type].own_models:
                what = f"the type {provider.type!r} has no models but those listed, so {model.id!r} stands for nothing"
                document.problem(path, what, key=True)
            if model.modality not in offered:
                kind = provider.type
                what = f"model {model.id!r} is listed under {model.modality}, which the type {kind!r} does not offer"
                document.problem(path, what, f"{kind} offers {', '.join(offered)}", key=True)

    def _written(self, section: str) -> Mapping[str, object]:
        """Return the entries of a section as written: an invalid entry must not be reported again as a missing one."""
        value = self._document.data.get(section) if isinstance(self._document.data, dict) else None
        return value if isinstance(value, dict) else {}

    def _model_path(self, model: Model) -> Path:
        """Return the path of the model's id, a key of a mapping or an element of a list."""
        listed = self._written("models").get(model.modality)
        if isinstance(listed, list):
            return ("models", model.modality, listed.index(model.id))
        return ("models", model.modality, model.id)

    def _aliases(self) -> None:
        owners: dict[tuple[str, str], str] = {}
        for model in self._settings.models.values():
            for index, alias in enumerate(model.aliases):
                path: Path = ("models", model.modality, model.id, "aliases", index)
                owner = owners.setdefault((model.modality, alias), model.id)
                if owner != model.id:
                    self._document.problem(path, f"duplicate alias {alias!r}", f"it is an alias of {owner!r} already")
                elif alias in self._settings.stacks or alias in self._known[model.modality]:
                    self._document.problem(path, f"the alias {alias!r} is the name of a stack or model already")

    def _chains(self, path: Path, chains: Chains) -> None:
        for modality, chain in chains.items():
            for index, model_id in enumerate(chain):
                self._reference((*path, modality, index), model_id, self._known[modality], f"{modality} model")

    def _projects(self) -> None:
        for project in self._settings.projects.values():
            path: Path = ("projects", project.id)
            if project.default_stack:
                self._reference((*path, "default_stack"), project.default_stack, self._settings.stacks, "stack")
            self._chains((*path, "fallbacks"), project.fallbacks)
            for provider_id in project.provider_keys:
                self._reference((*path, "providers", provider_id), provider_id, self._settings.providers, "provider")

    def _auth(self) -> None:
        if why := weakness(self._settings.auth.admin_token.reveal()):
            self._document.problem(("auth", "admin_token"), f"auth.admin_token {why}", HINT)
        reported = {problem.where for problem in self._document.problems}  # an invalid value is not missing as well
        for setting, what, hint in faults_of(self._settings.auth.oidc):
            place: Path = ("auth", "oidc", setting)
            if dotted(place) not in reported and not any(where.startswith(f"{dotted(place)}.") for where in reported):
                self._document.problem(place, what, hint)
        positions: dict[str, int] = {}
        projects = sorted({DEFAULT_PROJECT, *self._settings.projects})
        for index, entry in enumerate(self._settings.auth.keys):
            path: Path = ("auth", "keys", index)
            self._reference((*path, "project"), entry.project, projects, "project")
            if why := weakness(entry.key.reveal()):
                self._document.problem((*path, "key"), f"this key {why}", f"{HINT}, or a key of `gw keys add`")
            self._limits(path, index, entry)
            first = positions.setdefault(entry.key.reveal(), index)
            if first != index:
                self._document.problem((*path, "key"), f"this key is the same as that of auth.keys.{first}")

    def _limits(self, path: Path, index: int, entry: AuthKey) -> None:
        """Check the limits of a key; its spend is kept under its name."""
        if entry.limits is None:
            return
        if [other.name for other in self._settings.auth.keys].count(entry.name) > 1 or not entry.name:
            self._document.problem(path, "a key with limits needs a name that no other key has", "name: till, for example")
        for place, pattern in enumerate(entry.limits.models):
            if not is_model_pattern(pattern):
                what = f"{pattern!r} is not a model id"
                self._document.problem((*path, "models", place), what, "write <provider>/<model>, or <provider>/* for all of a provider")

    def _serve(self) -> None:
        settings, serve = self._settings, self._settings.serve
        for one, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
            if getattr(serve, one) is not None and getattr(serve, other) is None:
                self._document.problem(("serve", one), f"serve.{one} needs serve.{other} too")
        if settings.auth.refuses(serve.host):
            what = f"serve.host {serve.host!r} can be reached from other machines, and no credential is required"
            hint = "set auth.admin_token or auth.keys, or auth.allow_open: true"
            self._document.problem(("serve", "host"), what, hint)
        elif settings.mcp.enabled and settings.mcp_refuses(serve.host):
            self._document.problem(("mcp", "enabled"), open_to_all(serve.host), TOKEN_HINT)
        if why := weakness(settings.mcp_token.reveal()):
            what = f"the environment variable GW_MCP_TOKEN {why}"
            self._document.problems.append(Problem(what=what, where="GW_MCP_TOKEN", hint=HINT))
        self._cors()

    def _otlp(self) -> None:
        if (otlp := self._settings.telemetry.otlp) is not None:
            for name, what in header_problems(otlp):
                self._document.problem(("telemetry", "otlp", "headers", name), what, key=True)

    def _fleet(self) -> None:
        fleet = self._settings.fleet
        if fleet.valkey:
            try:
                BankAddress.parse(fleet.valkey.reveal())
            except ValueError as error:
                self._document.problem(("fleet", "valkey"), f"fleet.valkey {error}")
        for setting, name in (("name", fleet.name), ("instance", fleet.instance)):
            if name and not _FLEET_NAME.fullmatch(name):
                what = f"fleet.{setting} {name!r} has a character that is not allowed"
                self._document.problem(("fleet", setting), what, "use letters, digits, dots, dashes and underscores, 64 at most")

    def _database(self) -> None:
        database = self._settings.cost_tracking.database.reveal()
        if not database:
            return
        if ("cost_tracking", "db_path") in self._document.line_numbers():
            what = "cost_tracking has both database and db_path"
            hint = "keep one: database is PostgreSQL, db_path a file of SQLite; `gw db copy` brings the records of a file over"
            self._document.problem(("cost_tracking", "database"), what, hint, key=True)
        if not database.startswith(POSTGRES):
            what = f"cost_tracking.database must begin with {POSTGRES[0]}"
            self._document.problem(("cost_tracking", "database"), what, "a file of SQLite is cost_tracking.db_path")

    def _alerts(self) -> None:
        reported = {problem.where for problem in self._document.problems}  # an invalid value is not missing as well
        for name, receiver in self._settings.alerts.receivers.items():
            for setting, what, hint in faults(receiver):
                place: Path = ("alerts", "receivers", name, setting)
                if dotted(place) not in reported:
                    self._document.problem(place, f"{dotted(place)} {what}", hint)

    def _cors(self) -> None:
        for index, origin in enumerate(self._settings.serve.cors_origins):
            place: Path = ("serve", "cors_origins", index)
            if origin == ANY_ORIGIN:
                if not self._settings.auth.on:
                    what = f"{origin!r} would let every web page use the gateway, because no credential is required"
                    self._document.problem(place, what, "set auth.admin_token or auth.keys, or list the pages' origins")
            elif origin != "null" and not _ORIGIN.fullmatch(origin):
                what = f"{origin!r} is not an origin as browsers send it"
                self._document.problem(place, what, "write scheme://host or scheme://host:port in lower case, without a path")


def warnings(document: Document, settings: Settings) -> Iterator[str]:
    """Yield what is valid but suspicious, with its position."""
    for provider in settings.providers.values():
        own = any(provider.id in project.provider_keys for project in settings.projects.values())
        if provider.enabled and not provider.configured and not own:
            key = PROVIDER_TYPES[provider.type].key
            hint = f" (api_key: ${{{key}}})" if key else ""
            yield _at(document, ("providers", provider.id), f"providers.{provider.id} has no api_key: it is not used{hint}")
        if provider.enabled and not provider.base_url and (ended := PROVIDER_TYPES[provider.type].ended):
            yield _at(document, ("providers", provider.id), f"providers.{provider.id}: the vendor ended this service on {ended}")
    yield from _unknown_regions(document, settings)
    chains: list[tuple[Path, Chains]] = [(("fallbacks",), settings.fallbacks)]
    chains += [(("projects", project.id, "fallbacks"), project.fallbacks) for project in settings.projects.values()]
    for path, chain in chains:
        for modality, models in chain.items():
            if len(models) == 1:
                place = (*path, modality)
                yield _at(document, place, f"{dotted(place)} has one model: nothing to fall back to")
    if ("auth", "admin_token") in document.key_positions and not settings.auth.on:
        yield _at(document, ("auth", "admin_token"), "auth.admin_token is empty: no credential is required")
    if not is_loopback(settings.serve.host) and not settings.auth.on:
        yield _at(document, ("serve", "host"), "open to every machine that can reach it (auth.allow_open)")
    if settings.mcp.enabled and settings.auth.admin_token and not settings.mcp_token:
        what = "mcp.enabled without GW_MCP_TOKEN: every account of this machine can administer the gateway"
        yield _at(document, ("mcp", "enabled"), what)
    if why := weakness(settings.secret.reveal()):
        yield f"GW_SECRET {why}. Whoever copies the database could find it out and decrypt it; `gw secret rotate` changes it ({HINT})"


def _unknown_regions(document: Document, settings: Settings) -> Iterator[str]:
    """Yield the regions of projects and keys that no provider of the file is in."""
    known = {provider.residency for provider in settings.providers.values()}
    named: list[tuple[Path, tuple[str, ...]]] = [(("projects", each.id), each.regions) for each in settings.projects.values()]
    named += [(("auth", "keys", n), key.limits.regions) for n, key in enumerate(settings.auth.keys) if key.limits is not None]
    for path, regions in named:
        for index, region in enumerate(regions):
            if region.lower() not in known:
                place = (*path, "regions", index)
                yield _at(document, place, f"{dotted(place)}: no provider has the region {region!r} (providers.<id>.region)")


def _at(document: Document, path: Path, what: str) -> str:
    line, column = document.position(path, key=True)
    return f"{document.file}:{line}:{column}: {what}"
