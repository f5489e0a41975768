"""Providers, models and projects as the API shows them. The common cases are in tests/web/test_public.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import openai.types
import pytest
from openai.pagination import SyncPage

from gw.admin import gateway_status, listings
from gw.errors import UnknownModelError, UnknownProjectError
from gw.registry.catalog import Catalog, Model, Provider, Stack
from gw.store.journal_use import JournalUse
from gw.types.entities import Project
from gw.types.secret import Secret
from tests.fakes.answers import as_json
from tests.fakes.temporary_gateway import NOON, open_test_gateway, record, store_records

EMPTY = Catalog(providers={}, models={}, projects={})
IDLE = JournalUse(SimpleNamespace(queue_depth=0, journal_bytes=0, accepting=True), tuple, 256_000_000)


def catalog(*models: Model, **more: object) -> Catalog:
    return Catalog(providers={}, models={f"{m.modality}:{m.id}": m for m in models}, projects={}, **more)


def test_an_empty_catalog():
    body = as_json(listings.models(EMPTY, NOON))
    assert (body["models"], body["data"], body["first_id"], body["last_id"]) == ({}, [], None, None)
    assert as_json(listings.models_bare(EMPTY)) == []
    journal = {"records_waiting": 0, "bytes": 0, "limit_bytes": 256_000_000, "keeps_records": True}
    expected = {"providers": {}, "model_count": 0, "project_count": 0, "journal": journal, "workers": [], "slots": []}
    assert as_json(gateway_status.status(EMPTY, IDLE, (), {})) == expected
    assert as_json(listings.dashboard_status(EMPTY))["fallbacks"] == {"stt": [], "llm": [], "tts": []}


def test_an_id_in_two_modalities_is_one_entry_whatever_the_order():
    speak = Model(id="sim/tone", modality="tts", provider="sim", name="tone")
    hear = Model(id="sim/tone", modality="stt", provider="sim", name="tone")
    body = as_json(listings.models(catalog(speak, hear), NOON))
    assert body["models"]["sim/tone"]["modality"] == "stt"
    assert body["models"]["sim/tone"]["modalities"] == ["stt", "tts"]
    assert len(body["data"]) == len(body["stt"]) == len(body["tts"]) == 1
    assert as_json(gateway_status.status(catalog(speak, hear), IDLE, (), {}))["model_count"] == 1


def test_a_wildcard_is_in_the_map_only():
    """SDKs choose among the names in `data`, and nobody can request `<provider>/*`."""
    entries = [Model(id=f"a/{name}", provider="a", name=name, modality=modality) for name in "x*" for modality in ("stt", "tts")]
    body = as_json(listings.models(catalog(*entries), NOON))
    assert list(body["models"]) == ["a/x", "a/*"]
    assert body["models"]["a/*"] == {"modality": "stt", "provider": "a", "model": "*", "modalities": ["stt", "tts"]}
    assert ([entry["id"] for entry in body["data"]], body["last_id"], body["has_more"]) == (["a/x"], "a/x", False)
    assert [[entry["name"] for entry in body[modality]] for modality in ("stt", "tts")] == [["a/x"], ["a/x"]]
    assert [entry["model_id"] for entry in as_json(listings.models_bare(catalog(*entries)))] == ["a/x"]
    assert as_json(listings.model(catalog(*entries), "a/*", NOON))["modalities"] == ["stt", "tts"]


def test_a_stack_restricts_by_modality_too():
    speak = Model(id="sim/tone", modality="tts", provider="sim", name="tone")
    hear = Model(id="sim/tone", modality="stt", provider="sim", name="tone")
    shown = Catalog(
        providers={},
        models={"stt:sim/tone": hear, "tts:sim/tone": speak},
        projects={"p": Project(id="p", default_stack="ears")},
        stacks={"ears": Stack(name="ears", stt="sim/tone")},
    )
    assert as_json(listings.models(shown, NOON, project="p"))["models"]["sim/tone"]["modalities"] == ["stt"]
    with pytest.raises(UnknownProjectError):
        listings.models(shown, NOON, project="q")


def test_the_openai_sdk_reads_the_list():
    body = as_json(listings.models(catalog(Model(id="a/b", modality="llm", provider="a", name="b")), NOON))
    page = SyncPage[openai.types.Model].model_validate(body)
    assert [(m.id, m.object, m.owned_by, m.created) for m in page.data] == [("a/b", "model", "a", NOON)]


def test_an_unknown_model_lists_the_known_ones():
    with pytest.raises(UnknownModelError) as caught:
        listings.model(catalog(Model(id="a/b", modality="llm", provider="a", name="b")), "c", NOON)
    assert caught.value.available == ("a/b",)


def test_a_bare_name_finds_the_model():
    shown = catalog(Model(id="a/b", modality="llm", provider="a", name="b"))
    assert listings.model(shown, "b", NOON).id == "a/b"


def test_a_provider_whose_key_cannot_be_read():
    entry = Provider(id="x", type="openai", location="cloud", source="db", key_error="the secret has changed")
    body = as_json(listings.provider(entry))
    assert (body["configured"], body["key_error"], body["api_key_masked"]) == (False, "the secret has changed", "")


def test_a_short_key_shows_nothing_of_itself():
    entry = Provider(id="x", type="openai", location="cloud", api_key=Secret("short"))
    assert as_json(listings.provider(entry))["api_key_masked"] == "…"


@pytest.mark.parametrize(("requests", "status"), [(0, "ok"), (6, "ok"), (7, "warning"), (8, "exceeded")])
async def test_budget_status_of_a_project(tmp_path: Path, requests, status):
    async with open_test_gateway(tmp_path) as gateway:
        await store_records(gateway, *(record(n + 1) for n in range(requests)))
        store, catalog = gateway.store, gateway.current.catalog
        shown = as_json(await listings.project(store, catalog, NOON, project_id="shop", spent_in=gateway.ledger.spent_in))
    assert (shown["budget_status"], shown["daily_budget"], shown["today_spend"]) == (status, 2.0, requests * 0.25)


async def test_spend_of_a_project_that_is_gone_is_left_out(tmp_path: Path):
    async with open_test_gateway(tmp_path) as gateway:
        await store_records(gateway, record(1, project="gone"))
        shown = as_json(await listings.projects(gateway.store, gateway.current.catalog, NOON))
    assert set(shown["stats"]) == {"default", "shop"}


@pytest.mark.parametrize(
    ("page", "ids", "has_more"),
    [
        ({}, "abcd", False), ({"limit": 2}, "ab", True), ({"limit": 4}, "abcd", False), ({"limit": 2, "after_id": "p/b"}, "cd", False),
        ({"limit": 1, "after_id": "p/b"}, "c", True), ({"after_id": "p/d"}, "", False), ({"limit": 2, "before_id": "p/d"}, "bc", True),
        ({"before_id": "p/a"}, "", False), ({"after_id": "p/nothing"}, "abcd", False),
        ({"after_id": "p/a", "before_id": "p/d"}, "bc", False),
        ({"modality": "tts"}, "d", False), ({"modality": "stt"}, "", False),
    ],
)  # fmt: skip
def test_a_page_of_models(page, ids, has_more):
    shown = catalog(
        *(Model(id=f"p/{name}", modality="llm", provider="p", name=name) for name in "abc"),
        Model(id="p/d", modality="tts", provider="p", name="d"),
    )
    body = as_json(listings.models(shown, NOON, **page))
    assert ("".join(entry["id"][-1] for entry in body["data"]), body["has_more"]) == (ids, has_more)
    assert (body["first_id"], body["last_id"]) == ((f"p/{ids[0]}", f"p/{ids[-1]}") if ids else (None, None))
