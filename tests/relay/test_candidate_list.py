from __future__ import annotations

from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.registry.merge import build
from gw.relay.candidate_list import Candidates
from gw.types.entities import Project

TEXT = """
providers:
  free: {type: sim}
  bounded: {type: sim}
  elevenlabs: {api_key: k}
rate_limiting: {bounded: {max_concurrent: 2}}
models: {tts: [free/tone, bounded/tone, elevenlabs/eleven_flash_v2_5]}
"""
CATALOG = build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path()))
FREE, BOUNDED, VENDORS = CATALOG.models.values()


@pytest.mark.parametrize(
    ("models", "most", "may_be_full"),
    [
        ((FREE,), None, False),
        ((FREE,), 5, True),
        ((BOUNDED,), None, True),
        ((VENDORS,), None, True),
        ((BOUNDED, FREE), None, False),
        ((BOUNDED, FREE), 5, True),
    ],
    ids=["nothing", "the-project", "its-provider", "its-vendor-tells", "there-are-others", "the-project-with-others"],
)
def test_a_request_may_have_to_wait_for_a_place_where_something_limits_the_calls_at_once(models, most, may_be_full):
    made = Candidates(CATALOG, Project(id="p", max_concurrent=most), models)
    assert made.may_be_full is may_be_full
