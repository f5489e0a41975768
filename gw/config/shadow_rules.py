"""Rules about second models that get a share of calls as well."""

from __future__ import annotations

from collections.abc import Collection

from gw.config.load import Document, Path
from gw.config.node import suggestion
from gw.config.settings import Settings
from gw.types.entities import DEFAULT_PROJECT
from gw.types.shadow import SHADOW_PROJECT


def check(document: Document, settings: Settings, known: Collection[str]) -> None:
    """Report what is missing or cannot be. `known`: ids of models of transcription."""
    shadow = settings.shadow
    if shadow is None:
        return
    if not shadow.daily_budget_nusd:
        document.problem(("shadow",), "shadow needs a daily_budget, which its calls never exceed", "daily_budget: 2", key=True)
    if not shadow.projects:
        what = "shadow needs projects: the audio of no other ones goes to a second vendor"
        document.problem(("shadow",), what, "projects: [<project id>, …]", key=True)
    if not shadow.models:
        document.problem(("shadow",), "shadow has no models", "models: {<model id>: {model: <second model id>}}", key=True)
    if SHADOW_PROJECT in settings.projects:
        what = f"the project {SHADOW_PROJECT!r} is that of the section shadow"
        document.problem(("projects", SHADOW_PROJECT), what, "give it another name", key=True)
    projects = [DEFAULT_PROJECT, *settings.projects]
    for index, project in enumerate(shadow.projects):
        if project not in projects:
            document.problem(
                ("shadow", "projects", index), f"unknown project {project!r}", suggestion(project, projects, listed="projects")
            )
    for model_id, second in shadow.models.items():
        path: Path = ("shadow", "models", model_id)
        if model_id not in known:
            hint = suggestion(model_id, known, listed="stt models")
            document.problem(path, f"unknown stt model {model_id!r}", hint, key=True)
        if not second.model:
            document.problem(path, f"the shadow of {model_id!r} needs a model", "model: <second model id>", key=True)
        elif second.model not in known:
            hint = suggestion(second.model, known, listed="stt models")
            document.problem((*path, "model"), f"unknown stt model {second.model!r}", hint)
        elif second.model == model_id:
            document.problem((*path, "model"), f"{model_id!r} cannot be its own second model")
