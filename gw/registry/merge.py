"""The configuration as a Catalog."""

from __future__ import annotations

import colorsys
import zlib

from gw.config.known import PROVIDER_TYPES
from gw.config.references import DEFAULT_PROJECT
from gw.config.settings import ModelSettings, ProjectSettings, ProviderSettings, RateLimit, Settings
from gw.registry.catalog import Catalog, Model, Provider, Stack
from gw.types.project import Project
from gw.types.usage import NANO


def build(settings: Settings) -> Catalog:
    """`settings` as the relay needs them. The project `default` is there whether it is configured or not."""
    limits = settings.rate_limiting
    projects = {DEFAULT_PROJECT: ProjectSettings(id=DEFAULT_PROJECT, name=DEFAULT_PROJECT), **settings.projects}
    return Catalog(
        providers={p.id: _provider(p, limits.get(p.id, RateLimit())) for p in settings.providers.values()},
        models={key: _model(entry) for key, entry in settings.models.items()},
        projects={name: _project(entry) for name, entry in projects.items()},
        stacks={s.name: Stack(name=s.name, stt=s.stt, llm=s.llm, tts=s.tts) for s in settings.stacks.values()},
        chains=dict(settings.fallbacks),
        voices=dict(settings.voices),
    )


def accent_of(entity_id: str) -> str:
    """A colour for an id, always the same: its hue from the id, saturation and lightness fit for both themes."""
    hue = zlib.crc32(entity_id.encode()) % 360 / 360
    return "#" + "".join(f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, 0.5, 0.45))


def _provider(entry: ProviderSettings, limit: RateLimit) -> Provider:
    return Provider(
        id=entry.id,
        type=entry.type,
        location=PROVIDER_TYPES[entry.type][0],
        base_url=entry.base_url,
        api_key=entry.api_key,
        enabled=entry.enabled,
        options=entry.options,
        requests_per_minute=limit.requests_per_minute,
        max_concurrent=limit.max_concurrent,
    )


def _model(entry: ModelSettings) -> Model:
    return Model(
        id=entry.id,
        modality=entry.modality,
        provider=entry.provider,
        name=entry.model,
        display_name=entry.display_name,
        default_language=entry.default_language,
        default_voice=entry.default_voice,
        price=entry.price,
        aliases=entry.aliases,
    )


def _project(entry: ProjectSettings) -> Project:
    return Project(
        id=entry.id,
        name=entry.name or entry.id,
        description=entry.description,
        daily_budget_nusd=max(round(entry.daily_budget * NANO), 1) if entry.daily_budget else 0,
        budget_action=entry.budget_action,
        default_stack=entry.default_stack,
        tags=entry.tags,
        accent=entry.accent or accent_of(entry.id),
        fallbacks=entry.fallbacks,
        provider_keys=entry.providers,
    )
