"""Rules about routes: names for a choice among models."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gw.config.load import Document, Path
from gw.config.node import suggestion
from gw.config.settings import Settings
from gw.types.ids import Modality
from gw.types.model_routes import ModelRoute


def check(document: Document, settings: Settings, known: Mapping[Modality, Collection[str]]) -> None:
    """Report routes without a choice, and members, weights and names that cannot be. `known`: ids of models by modality."""
    aliases = {(model.modality, alias): model.id for model in settings.models.values() for alias in model.aliases}
    for modality, routes in settings.routes.items():
        for route in routes.values():
            path: Path = ("routes", modality, route.name)
            _check_members(document, path, route, modality, known[modality])
            owner = aliases.get((modality, route.name))
            if route.name in settings.stacks:
                document.problem(path, f"the route {route.name!r} is the name of a stack already", key=True)
            elif owner is not None:
                document.problem(path, f"the route {route.name!r} is an alias of {owner!r} already", key=True)


def _check_members(document: Document, path: Path, route: ModelRoute, modality: Modality, known: Collection[str]) -> None:
    if not route.models:
        document.problem(path, f"the route {route.name!r} has no models", "models: [<provider>/<model>, …]", key=True)
    elif not any(member.weight for member in route.models):
        document.problem((*path, "models"), f"the route {route.name!r} has no model with a weight above 0", key=True)
    if route.prefer != "weight":
        for index, member in enumerate(route.models):
            if member.weight > 1:
                what = f"a weight has no effect with prefer: {route.prefer}"
                hint = "remove it; 0 is for a model that is used only when the others fail"
                document.problem((*path, "models", index, "weight"), what, hint, key=True)
    seen: set[tuple[str, str]] = set()
    for index, member in enumerate(route.models):
        place: Path = (*path, "models", index)
        named = (*place, "model") if (*place, "model") in document.value_positions else place
        if member.model not in known:
            hint = suggestion(member.model, known, listed=f"{modality} models")
            document.problem(named, f"unknown {modality} model {member.model!r}", hint)
        if member.voice and modality != "tts":
            document.problem((*place, "voice"), f"a route of {modality} models takes no voice", key=True)
        if (member.model, member.voice) in seen:
            document.problem(named, f"{member.model!r} is in the route {route.name!r} already", "give it one weight")
        seen.add((member.model, member.voice))
