"""docs/providers: each configuration on its pages is one that gw takes, and the table says what the specs say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.pricing.rate_tables import load_book
from gw.providers.spec import spec_of
from gw.registry.merge import build
from gw.types.presets import PRESETS
from gw.types.provider_types import PROVIDER_TYPES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "providers").glob("*.md"))
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(page.stem if page.stem != "presets" else re.match(r"providers:\n  (\w+):", text)[1], text, id=f"{page.stem} {number}")
    for page in PAGES
    for number, text in enumerate(YAML.findall(page.read_text("utf-8")))
]
DAY = 20_800
"""2026-12-13."""
UNPRICED = {"azure", "openrouter", "perplexity", "together stt", "sambanova stt", "rime", "speechmatics", "hume"}
"""Prices of the first two depend on an account's deployments, and on a vendor chosen anew for each request; those of the
others have no source."""


def test_every_type_has_a_page_with_a_configuration():
    modules = {name for name in PROVIDER_TYPES if name != "sim" and name not in PRESETS}
    assert {page.stem for page in PAGES} == modules | {"README", "presets"}
    assert {block.values[0] for block in BLOCKS} == set(PROVIDER_TYPES) - {"sim"}


@pytest.mark.parametrize(("page", "text"), BLOCKS)
def test_a_configuration_of_a_page_works(page, text, tmp_path):
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "a-key")
    settings = parse(text, file="gw.yaml", env=env, data_dir=tmp_path)
    assert bool(settings.warnings) is bool(PROVIDER_TYPES[page].ended)
    catalog = build(settings)
    assert {provider.type for provider in catalog.providers.values()} == {page}
    assert all(provider.configured for provider in catalog.providers.values())
    spec, book = spec_of(page), load_book()
    assert catalog.models
    for model in catalog.models.values():
        assert model.modality in spec.modalities
        has_price = book.any_price(page, model.name, at_day=DAY) is not None
        unpriced = spec.location == "local" or bool(UNPRICED & {page, f"{page} {model.modality}"})
        assert has_price is not unpriced, model.id


def test_the_table_is_made_from_the_specs(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    spec = importlib.util.spec_from_file_location("provider_table", DOCS / "provider_table.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "provider_table", module)
    spec.loader.exec_module(module)
    assert (DOCS / "providers" / "README.md").read_text("utf-8") == module.provider_page()
