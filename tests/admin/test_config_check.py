from __future__ import annotations

from pathlib import Path

import pytest

from gw.admin.config_check import check_config, findings_of
from gw.config.parse import parse

CANARY = "c4n4ry-of-the-environment"


@pytest.mark.parametrize(
    "text",
    [
        "providers: {openai: {api_key: k, base_url: \"${GW_CANARY}\"}}\nmodels: {llm: [openai/m]}\n",
        "providers: {openai: {api_key: k}}\nmodels: {llm: [\"${GW_CANARY}\"]}\n",
        "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/m]}\nserve: {port: \"${GW_CANARY}\"}\n",
        "providers: {openai: {api_key: \"${GW_CANARY}\"}}\nmodels: {llm: [openai/m]}\n${GW_CANARY}: [",
    ],
)
@pytest.mark.parametrize("value", [CANARY, CANARY * 9])
def test_no_value_of_the_environment_is_shown(text, value, monkeypatch):
    monkeypatch.setenv("GW_CANARY", value)
    checked = check_config(text, None)
    assert not checked.valid
    assert CANARY not in repr(checked)


def test_no_value_of_the_environment_is_part_of_a_finding(monkeypatch):
    monkeypatch.setenv("GW_CANARY", CANARY)
    text = "providers: {openai: {api_key: k, base_url: \"https://${GW_CANARY}/v1\"}}\nmodels: {llm: [\"openai/${GW_CANARY}\"]}\n"
    checked = check_config(text, None)
    assert checked.valid
    assert "openai/${GW_CANARY}" in repr(checked)
    assert CANARY not in repr(checked)


def test_every_problem_has_its_place():
    checked = check_config("providers: {sim: }\nmodels: {lllm: []}\nserve: {port: ten}\n", None)
    assert [(problem.where, problem.line) for problem in checked.problems] == [("models.lllm", 2), ("serve.port", 3)]
    assert checked.findings == []


def test_the_file_is_read_anew(tmp_path):
    file = tmp_path / "gw.yaml"
    file.write_text("providers: {sim: }\nmodels: {llm: [sim/echo]}\n")
    assert check_config(None, file).valid
    file.write_text("providers: {sim: }\nmodels: {llm: [sim/echo, other/m]}\n")
    assert [problem.line for problem in check_config(None, file).problems] == [2]


@pytest.mark.parametrize(
    ("chain", "warned"),
    [("[openai/gpt-4.1, sim/echo]", True), ("[sim/echo, openai/gpt-4.1]", False), ("[openai/gpt-4.1, openai/gpt-4.1-mini]", False)],
)
@pytest.mark.parametrize("place", ["fallbacks: {llm: CHAIN}", "projects: {shop: {fallbacks: {llm: CHAIN}}}"])
def test_the_built_in_engine_behind_a_real_model(chain, warned, place):
    text = "providers: {sim: , openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4.1, openai/gpt-4.1-mini, sim/echo]}\n"
    settings = parse(text + place.replace("CHAIN", chain), file="gw.yaml", env={}, data_dir=Path("/d"))
    found = [finding for finding in findings_of(settings) if "invents" in finding.detail]
    assert bool(found) is warned
    assert all(finding.subject == f"chain {'projects.shop.' if 'shop' in place else ''}fallbacks.llm" for finding in found)
