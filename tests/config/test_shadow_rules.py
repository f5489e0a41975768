"""What the section `shadow` needs, and what it may not name; each mistake has one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.config.settings import Settings
from gw.errors import ConfigError

CONFIG = """
providers: {sim: {}, other: {type: sim}}
models: {stt: [sim/tone, other/tone], tts: [sim/voice]}
projects: {shop: {}}
"""
GOOD = "{daily_budget: 2, projects: [shop], models: {sim/tone: {model: other/tone, share: 0.1}}}"


def parsed(shadow: str, more: str = "") -> Settings:
    return parse(CONFIG + more + f"shadow: {shadow}\n", file="gw.yaml", env={}, data_dir=Path())


def test_it_is_off_without_the_section():
    assert parse(CONFIG, file="gw.yaml", env={}, data_dir=Path()).shadow is None


def test_a_complete_section():
    shadow = parsed(GOOD).shadow
    assert shadow is not None
    assert (shadow.daily_budget_nusd, shadow.projects) == (2_000_000_000, ("shop",))
    assert (shadow.models["sim/tone"].model, shadow.models["sim/tone"].share) == ("other/tone", 0.1)
    assert parsed(GOOD.replace("[shop]", "[default]").replace(", share: 0.1", "")).shadow.models["sim/tone"].share == 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("daily_budget: 2, ", ""), "shadow needs a daily_budget"),
        (("projects: [shop], ", ""), "shadow needs projects"),
        (("[shop]", "[shup]"), "unknown project 'shup'"),
        (("sim/tone: {", "sim/tune: {"), "unknown stt model 'sim/tune'"),
        (("sim/tone: {", "sim/voice: {"), "unknown stt model 'sim/voice'"),
        (("model: other/tone", "model: other/tune"), "unknown stt model 'other/tune'"),
        (("model: other/tone, ", ""), "the shadow of 'sim/tone' needs a model"),
        (("model: other/tone", "model: sim/tone"), "'sim/tone' cannot be its own second model"),
        (("{sim/tone: {model: other/tone, share: 0.1}}", "{}"), "shadow has no models"),
        (("share: 0.1", "share: 2"), "share"),
    ],
)
def test_one_mistake_has_one_message(change, message):
    with pytest.raises(ConfigError) as refused:
        parsed(GOOD.replace(*change))
    (problem,) = refused.value.problems
    assert message in str(problem)


def test_a_project_of_the_same_name_does_not_go_with_it():
    text = CONFIG.replace("{shop: {}}", "{shop: {}, shadow: {}}")
    with pytest.raises(ConfigError) as refused:
        parse(f"{text}shadow: {GOOD}\n", file="gw.yaml", env={}, data_dir=Path())
    (problem,) = refused.value.problems
    assert "the project 'shadow' is that of the section shadow" in str(problem)
