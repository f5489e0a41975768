from pathlib import Path

import pytest

from gw.admin.config_check import findings_of
from gw.config.gw_yaml import diff_against_example, example_text, key_names, starter_text
from gw.config.parse import parse
from gw.errors import ConfigError


def test_the_starter_is_for_real_vendors_and_models_that_stay():
    env = {"OPENAI_API_KEY": "k", "DEEPGRAM_API_KEY": "k"}
    settings = parse(starter_text(), file="gw.yaml", env=env, data_dir=Path("/d"))
    assert settings.warnings == ()
    assert set(settings.providers) == {"openai", "deepgram"}
    assert settings.stacks["voice"].tts == "deepgram/aura-2-thalia-en"
    assert {finding.result for finding in findings_of(settings)} == {"ok"}
    assert len(starter_text().splitlines()) < 50


def test_chosen_names_do_not_count():
    one = "providers: {a: {api_key: x}}\nmodels: {llm: {a/b: {aliases: [x]}}}\nvoices: {v: {a: t}}\nauth: {keys: [{key: k}]}"
    two = one.replace("a/b", "c/d").replace("{a:", "{c:").replace("v:", "w:")
    assert key_names(one, file="f") == key_names(two, file="f")
    assert "auth.keys" in key_names(one, file="f")


def test_the_example_does_not_differ_from_itself():
    assert diff_against_example(example_text()) == ""


def test_the_diff_shows_keys_and_no_values():
    diff = diff_against_example("providers: {openai: {api_key: c4n4ry}}\nmodels:\nrate_limits: {openai: {oops: 1}}\n")
    assert diff.startswith("--- gw.yaml\n+++ gw.yaml.example\n")
    assert "\n-rate_limiting.*.oops\n" in diff
    assert "\n+serve.port\n" in diff
    assert "providers.*.api_key" not in diff
    assert "c4n4ry" not in diff


def test_a_file_that_is_not_yaml_is_an_error():
    with pytest.raises(ConfigError, match="syntax error"):
        diff_against_example("a: b: c")
