"""What one part of the configuration says about another: names must exist, and safety rules must hold.

Problems go into the document; `warnings` are for what works but deserves a look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gw.config.load import Document, Path
from gw.config.loopback import bind_refused, is_loopback
from gw.config.place import suggestion
from gw.config.settings import Settings
from gw.types.entities import Model
from gw.types.ids import MODALITIES, Modality
from gw.types.project import DEFAULT_PROJECT
from gw.types.provider_types import PROVIDER_TYPES

Chains = Mapping[Modality, tuple[str, ...]]


def check(document: Document, settings: Settings) -> None:
    """Add a problem for every name that leads nowhere and every rule that is broken."""
    known = {m: {model.id for model in settings.models.values() if model.modality == m} for m in MODALITIES}
    _models(document, settings)
    _aliases(document, settings, known)
    _chains(document, ("fallbacks",), settings.fallbacks, known)
    _stacks(document, settings, known)
    _projects(document, settings, known)
    section = "rate_limits" if ("rate_limits",) in document.key_marks else "rate_limiting"
    for provider_id in settings.rate_limiting:
        _named(document, (section, provider_id), provider_id, settings.providers, "provider")
    for alias, voices in settings.voices.items():
        for name in voices:
            _named(document, ("voices", alias, name), name, [*settings.providers, *PROVIDER_TYPES], "provider")
    _auth(document, settings)
    _serve(document, settings)


def _named(document: Document, path: Path, name: str, known: Collection[str], kind: str) -> None:
    if name not in known:
        in_key = path[-1] == name
        document.problem(path, f"unknown {kind} {name!r}", suggestion(name, known, listed=f"{kind}s"), key=in_key)


def _models(document: Document, settings: Settings) -> None:
    providers: Mapping[str, object] = _declared(document, "providers") or settings.providers
    for model in settings.models.values():
        path = _model_path(document, model)
        if model.provider not in providers:
            own = (*path, "provider")
            explicit = own in document.key_marks
            hint = suggestion(model.provider, providers, listed="providers")
            what = f"model {model.id!r}: the provider {model.provider!r} is not in 'providers'"
            document.problem(own if explicit else path, what, hint, key=not explicit)
            continue
        provider = settings.providers.get(model.provider)
        if provider is None or provider.type not in PROVIDER_TYPES:
            continue
        offered = PROVIDER_TYPES[provider.type].modalities
        if model.modality not in offered:
            what = f"model {model.id!r} is listed under {model.modality}, which the type {provider.type!r} does not offer"
            document.problem(path, what, f"{provider.type} offers {', '.join(offered)}", key=True)


def _declared(document: Document, section: str) -> Mapping[str, object]:
    """The entries of a section as written, so that a faulty entry is not reported a second time as a missing one."""
    value = document.data.get(section) if isinstance(document.data, dict) else None
    return value if isinstance(value, dict) else {}


def _model_path(document: Document, model: Model) -> Path:
    """Where the model's id stands: a key of a mapping, or an element of a list."""
    listed = _declared(document, "models").get(model.modality)
    if isinstance(listed, list):
        return ("models", model.modality, listed.index(model.id))
    return ("models", model.modality, model.id)


def _aliases(document: Document, settings: Settings, known: Mapping[Modality, Collection[str]]) -> None:
    taken: dict[tuple[str, str], str] = {}
    for model in settings.models.values():
        for index, alias in enumerate(model.aliases):
            path: Path = ("models", model.modality, model.id, "aliases", index)
            owner = taken.setdefault((model.modality, alias), model.id)
            if owner != model.id:
                document.problem(path, f"duplicate alias {alias!r}", f"it stands for {owner!r} already")
            elif alias in settings.stacks or alias in known[model.modality]:
                document.problem(path, f"the alias {alias!r} is the name of a stack or model already")


def _chains(document: Document, path: Path, chains: Chains, known: Mapping[Modality, Collection[str]]) -> None:
    for modality, chain in chains.items():
        for index, model_id in enumerate(chain):
            _named(document, (*path, modality, index), model_id, known[modality], f"{modality} model")


def _stacks(document: Document, settings: Settings, known: Mapping[Modality, Collection[str]]) -> None:
    for stack in settings.stacks.values():
        for modality in MODALITIES:
            model_id: str | None = getattr(stack, modality)
            if model_id is not None:
                _named(document, ("stacks", stack.name, modality), model_id, known[modality], f"{modality} model")


def _projects(document: Document, settings: Settings, known: Mapping[Modality, Collection[str]]) -> None:
    for project in settings.projects.values():
        path: Path = ("projects", project.id)
        if project.default_stack:
            _named(document, (*path, "default_stack"), project.default_stack, settings.stacks, "stack")
        _chains(document, (*path, "fallbacks"), project.fallbacks, known)
        for provider_id in project.provider_keys:
            _named(document, (*path, "providers", provider_id), provider_id, settings.providers, "provider")


def _auth(document: Document, settings: Settings) -> None:
    seen: dict[str, int] = {}
    projects = {DEFAULT_PROJECT, *settings.projects}
    for index, entry in enumerate(settings.auth.keys):
        path: Path = ("auth", "keys", index)
        _named(document, (*path, "project"), entry.project, sorted(projects), "project")
        first = seen.setdefault(entry.key.reveal(), index)
        if first != index:
            document.problem((*path, "key"), f"this key is the same as that of auth.keys.{first}")


def _serve(document: Document, settings: Settings) -> None:
    serve = settings.serve
    for one, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if getattr(serve, one) is not None and getattr(serve, other) is None:
            document.problem(("serve", one), f"serve.{one} needs serve.{other} too")
    if bind_refused(serve.host, settings.auth):
        document.problem(
            ("serve", "host"),
            f"serve.host {serve.host!r} can be reached from other machines, and no credential is asked for",
            "set auth.admin_token or auth.keys, or auth.allow_open: true",
        )


def warnings(document: Document, settings: Settings) -> Iterator[str]:
    """Things that work but deserve a look, with their position."""
    for provider in settings.providers.values():
        cloud = PROVIDER_TYPES[provider.type].location == "cloud"
        own = any(provider.id in project.provider_keys for project in settings.projects.values())
        if provider.enabled and cloud and not provider.api_key and not own:
            yield _at(document, ("providers", provider.id), f"providers.{provider.id} has no api_key: it is not used")
    chains: list[tuple[Path, Chains]] = [(("fallbacks",), settings.fallbacks)]
    chains += [(("projects", project.id, "fallbacks"), project.fallbacks) for project in settings.projects.values()]
    for path, chain in chains:
        for modality, models in chain.items():
            if len(models) == 1:
                name = ".".join(str(part) for part in (*path, modality))
                yield _at(document, (*path, modality), f"{name} has one model: nothing to fall back to")
    if ("auth", "admin_token") in document.key_marks and not settings.auth.on:
        yield _at(document, ("auth", "admin_token"), "auth.admin_token is empty: nobody is asked for a credential")
    if not is_loopback(settings.serve.host) and not settings.auth.on:
        yield _at(document, ("serve", "host"), "open to every machine that can reach it (auth.allow_open)")


def _at(document: Document, path: Path, what: str) -> str:
    line, column = document.position(path, key=True)
    return f"{document.file}:{line}:{column}: {what}"
