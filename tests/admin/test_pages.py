"""Pages of the dashboard, each as one object."""

from __future__ import annotations

import pytest

from gw.admin import keys, models, pages, projects, providers
from gw.errors import RequestError
from gw.pricing.rate_tables import load_book
from gw.registry.merge import build
from tests.fakes.answers import as_json
from tests.fakes.registrar import BY, settings_of
from tests.fakes.temporary_gateway import NOON


def _by(rows, field):
    return {row[field]: row for row in rows}


async def test_providers(registrar):
    await providers.create(registrar, {"provider_id": "mine", "provider_type": "groq", "api_key": "gsk-0123456789abcdef"}, BY)
    page = as_json(pages.providers(registrar))
    rows = _by(page["providers"], "provider_id")
    assert {name: (row["models"], row["origin"]) for name, row in rows.items()} == {
        "sim": (3, "gw.yaml:2"), "openai": (1, "gw.yaml:2"), "mine": (0, "API"),
    }  # fmt: skip
    assert "gsk-0123456789abcdef" not in str(page)
    assert {"type": "sim", "location": "local", "modalities": ["stt", "llm", "tts"]} in page["types"]


async def test_models_with_their_prices(registrar):
    await models.create(registrar, {"modality": "llm", "provider_id": "openai", "model_name": "gpt-5-mini"}, BY)
    page = as_json(await pages.models(registrar, load_book(), NOON))
    rows = {(row["modality"], row["model_id"]): row for row in page["models"]}
    echo, unknown, mini = rows["llm", "sim/echo"], rows["llm", "openai/gpt-x"], rows["llm", "openai/gpt-5-mini"]
    assert (echo["source"], echo["origin"], echo["configured"]) == ("yaml", "gw.yaml:3", True)
    assert echo["rates"] == {"input_tokens": 0.1, "output_tokens": 0.4}
    assert (unknown["rates"], unknown["free"], unknown["price_source"]) == ({}, False, "")
    assert mini["origin"] == "API"
    assert page["providers"]["openai"] == ["stt", "llm", "tts"]
    assert page["fallbacks"]["llm"] == {"models": ["openai/gpt-x", "sim/echo"], "source": "yaml"}


async def test_a_budget_is_shown_as_the_ledger_counts_it(registrar):
    await projects.create(registrar, {"project_id": "new", "fallbacks": {"llm": ["sim/echo"]}}, BY)

    def spent_in(name, _period):
        return 1_700_000_000 if name == "shop" else 0

    page = as_json(await pages.projects(registrar, registrar.catalog, NOON, spent_in=spent_in))
    rows = _by(page["projects"], "project_id")
    shop, new = rows["shop"], rows["new"]
    assert (shop["today_spend"], shop["share"], shop["budget_status"]) == (1.7, 0.85, "warning")
    assert (shop["origin"], new["origin"], rows["default"]["origin"]) == ("gw.yaml:6", "API", "gw.yaml")
    assert (new["share"], new["fallbacks"]) == (None, {"llm": ["sim/echo"]})
    assert page["stacks"] == ["demo"]


async def test_keys(registrar):
    created = await keys.create(registrar, {"project": "shop", "name": "till"}, BY)
    page = as_json(await pages.access_keys(registrar, registrar.catalog, spent_in=lambda _key, _period: 0))
    (row,) = page["keys"]
    assert (row["name"], row["origin"]) == ("till", "API")
    assert created.key not in str(page)
    assert (page["projects"], page["auth_on"]) == (["default", "shop"], False)


async def test_playground(registrar):
    page = as_json(pages.playground(registrar.settings, registrar.catalog))
    assert page["models"] == {"stt": ["sim/tone"], "llm": ["sim/echo", "openai/gpt-x"], "tts": ["sim/tone"]}
    assert (page["stacks"], page["auth_on"]) == (["demo"], False)


async def test_costs_and_latency_of_nothing(registrar, tmp_path):
    store, catalog = registrar.store, build(settings_of(tmp_path))
    costs = as_json(await pages.costs(store, catalog, NOON, by="provider", period="week"))
    assert (costs["costs"]["total"], costs["series"]["by"], costs["forecast"]["day"]) == (0.0, "provider", 4)
    latency = as_json(await pages.latency(store, catalog, NOON, ttfb_warning_ms=1_000))
    assert (latency["models"], latency["lines"], latency["histograms"]) == ({}, [], [])
    models = ["sim/echo", "sim/echo", "openai/gpt-x", "sim/tone"]
    two = as_json(await pages.latency(store, catalog, NOON, ttfb_warning_ms=1_000, models=models))
    assert [line["model"] for line in two["lines"]] == ["sim/echo", "openai/gpt-x"]
    with pytest.raises(RequestError, match="metric"):
        await pages.latency(store, catalog, NOON, ttfb_warning_ms=1_000, metric="cost")
