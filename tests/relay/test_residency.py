from __future__ import annotations

from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.errors import RegionNotAllowed, RequestError
from gw.registry.merge import build
from gw.relay.residency import is_limited, within
from gw.types.entities import Project
from gw.types.ids import Caller, KeyLimits

TEXT = """
providers:
  eu: {type: openai, api_key: k, base_url: "https://eu.api.openai.com/v1"}
  us: {type: openai, api_key: k, region: US}
  openai: {api_key: k}
  whisper: {base_url: "http://127.0.0.1:8000/v1"}
  kokoro: {base_url: "http://127.0.0.1:8880/v1", region: rack-2}
models: {llm: [eu/m, us/m, openai/m], stt: [whisper/m], tts: [kokoro/m]}
"""
CATALOG = build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path()))
MODELS = tuple(CATALOG.models.values())


def kept(project=(), header=()):
    found = within(MODELS, CATALOG, Project(id="p", regions=tuple(project)), Caller(regions=tuple(header)))
    return [model.provider for model in found]


@pytest.mark.parametrize(
    ("project", "header", "providers"),
    [
        (["eu"], [], ["eu"]),
        ([], ["EU", "us"], ["eu", "us"]),
        (["Local"], [], ["whisper"]),
        (["eu", "local", "rack-2"], [], ["eu", "whisper", "kokoro"]),
        (["eu", "us"], ["us", "local"], ["us"]),
    ],
)
def test_models_at_providers_of_the_allowed_regions_are_kept(project, header, providers):
    assert kept(project, header) == providers


def test_the_refusal_names_every_filter_and_where_the_models_are():
    with pytest.raises(RegionNotAllowed) as caught:
        kept(["eu"], ["us"])
    assert caught.value.message == (
        "no model that could answer is in a region that is allowed: the project 'p' allows eu, and X-GW-Regions allows us; "
        "there is eu/m (eu), us/m (us), openai/m (no known region), whisper/m (local), kokoro/m (rack-2)"
    )


@pytest.mark.parametrize("header", [[""], ["eu", ""]])
def test_a_header_without_a_region_is_an_error_and_not_a_filter_that_lets_all_pass(header):
    with pytest.raises(RequestError, match="X-GW-Regions must be regions"):
        kept([], header)


@pytest.mark.parametrize(
    ("project", "caller", "expected"),
    [
        ({}, {}, False),
        ({}, {"limits": KeyLimits(models=("eu/m",))}, False),
        ({"regions": ("eu",)}, {}, True),
        ({}, {"regions": ("eu",)}, True),
        ({}, {"limits": KeyLimits(regions=("eu",))}, True),
    ],
    ids=["nothing", "a-key-with-models", "the-project", "a-header", "the-key"],
)
def test_regions_of_a_project_a_header_and_a_key_limit_a_request(project, caller, expected):
    assert is_limited(Project(id="p", **project), Caller(**caller)) is expected
