"""Vendors that are a file: what a file must say, and what is wrong in one."""

from __future__ import annotations

import pytest

from gw.types.presets import PRESETS, parse_preset
from gw.types.provider_types import PROVIDER_TYPES

LEAST = """
label = "Acme"
location = "cloud"
base_url = "https://api.acme.example/v1"
seen = 2026-11-25

[llm]
example = "acme-large"
source = "acme.example/docs"
"""


def test_the_least_file():
    preset = parse_preset("acme.toml", LEAST)
    assert list(preset.sections) == ["llm"]
    assert (preset.llm.refuses, preset.llm.stream_options, preset.key_header) == (frozenset(), True, "authorization")
    assert preset.default_models == {}


def test_a_default_model_is_that_of_its_modality():
    assert parse_preset("acme.toml", LEAST + 'default = "acme-large"\n').default_models == {"llm": "acme-large"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (LEAST + 'colour = "red"\n', "colour"),
        (LEAST.replace("cloud", "moon"), "moon"),
        (LEAST.replace('source = "acme.example/docs"', ""), "source"),
        (LEAST[: LEAST.index("[llm]")], "it offers nothing"),
        (LEAST.replace("base_url", "# base_url"), "either base_url or address"),
        (LEAST.replace("[llm]", 'key_header = "x-key"\n[tts]'), "key_header"),
        (LEAST + '[conversation]\nexample = "a"\nsource = "b.c"\n', "conversation needs prefix"),
        (LEAST + '[conversation]\nexample = "a"\nsource = "b.c"\nprefix = "a"\nprotocol = "gemini"\n', "conversation needs prefix"),
        (LEAST.replace("[llm]", "[tts]") + '[conversation]\nexample = "a"\nsource = "b.c"\nprefix = "a"\n', "section llm"),
        (LEAST + 'protocol = "responses"\n', "endpoint responses"),
        (LEAST.replace("[llm]", "[stt]") + 'protocol = "xai"\nlive = "utterances"\n', "stt.live is for OpenAI's protocol"),
        (LEAST.replace("[llm]", "[tts]") + 'protocol = "xai"\nrefuses = ["speed"]\n', "tts.refuses is for OpenAI's protocol"),
        ("label =", "acme.toml"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(text, what):
    with pytest.raises(ValueError, match=r"^acme\.toml: ") as caught:
        parse_preset("acme.toml", text)
    assert what in str(caught.value)


def test_each_is_a_provider_type():
    for name, preset in PRESETS.items():
        kind = PROVIDER_TYPES[name]
        assert (kind.location, kind.modalities) == (preset.location, tuple(preset.sections))
        assert bool(kind.address) is not bool(preset.base_url)
        assert preset.location == "local" or preset.key
        assert all("2026" in section.source or "." in section.source for section in preset.sections.values())
