"""The shapes of the dashboard's pages; see `gw.web.schemas`. `origin`: `gw.yaml:12`, `API`, or `built in`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gw.admin.fallbacks import Chains
from gw.admin.keys import KeyEntry
from gw.types.ids import Modality, Source
from gw.types.project import BudgetStatus
from gw.web.schemas import Costs, Location, ModelLatency, Ms, ProjectEntry, ProviderEntry, Schema, Usd, When
from gw.web.schemas_reports import CountSeries, Forecast, ModelHistogram, TimeSeries

Where = Annotated[str, Meta(description="`gw.yaml:12`, `API` or `built in`")]


class ProviderRow(ProviderEntry):
    """`models`: how many are configured."""

    models: int
    requests_per_minute: int | None
    max_concurrent: int | None
    origin: Where


class ProviderType(Schema):
    type: str
    location: Location
    modalities: list[Modality]


class ProvidersPage(Schema):
    providers: list[ProviderRow]
    types: list[ProviderType]


class ModelRow(Schema):
    """`rates`: USD per million of each unit that is billed; empty without a known price. `free`: runs on this machine."""

    model_id: str
    modality: Modality
    provider: str
    model: str
    display_name: str
    default_language: str | None
    default_voice: str | None
    aliases: list[str]
    source: Source
    origin: Where
    configured: bool
    free: bool
    rates: dict[str, Usd]
    price_source: str


class ModelsPage(Chains, frozen=True, kw_only=True):
    """`providers`: the modalities each offers."""

    models: list[ModelRow]
    providers: dict[str, list[Modality]]


class ProjectRow(ProjectEntry):
    """`share` of the daily budget that is spent; null without one. `own_keys`: providers it has a key of its own for."""

    today_spend: Usd
    requests_today: int
    budget_status: BudgetStatus
    share: float | None
    fallbacks: dict[Modality, list[str]]
    own_keys: list[str]
    origin: Where


class ProjectsPage(Schema):
    projects: list[ProjectRow]
    stacks: list[str]


class KeyRow(KeyEntry, frozen=True, kw_only=True):
    origin: Where


class KeysPage(Schema):
    keys: list[KeyRow]
    projects: list[str]
    auth_on: bool


class PlaygroundPage(Schema):
    """`auth_on`: apps need a key; this page has its session. `voices`: aliases that every provider knows."""

    auth_on: bool
    models: dict[Modality, list[str]]
    stacks: list[str]
    projects: list[str]
    voices: list[str]


class SettingValue(Schema):
    """`origin`: `gw.yaml:12`, the name of a variable, or `default`."""

    name: str
    value: str | float | bool | list[str] | None
    origin: str


class SettingSection(Schema):
    name: str
    values: list[SettingValue]


class SettingsPage(Schema):
    version: str
    started_at: When
    file: str | None
    warnings: list[str]
    sections: list[SettingSection]


class CostsPage(Schema):
    costs: Costs
    series: CountSeries
    forecast: Forecast


class LatencyPage(Schema):
    """`lines` and `histograms`: of each model that was asked for, in that order; `all`: of all models together."""

    models: dict[str, ModelLatency]
    all: TimeSeries
    lines: list[TimeSeries]
    histograms: list[ModelHistogram]
    ttfb_warning_ms: Ms
