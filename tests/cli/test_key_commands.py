from __future__ import annotations

import json
import re

import pytest

WITH_KEY = """
providers: {sim: {}}
models: {llm: [sim/echo]}
auth: {admin_token: admin-8351026789, keys: [{key: gwk_static_8351026789, project: default, name: old}]}
cost_tracking: {db_path: gw.db}
"""


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_a_key_is_printed_once_and_alone(run, request, where):
    request.getfixturevalue(where)
    added = run("keys", "add", "--project", "shop", "--name", "till", "--expires-days", "1")
    assert added.exit_code == 0, added.output
    assert re.fullmatch(r"gwk_\S{43}\n", added.stdout)
    key_id = re.search(r"key_[0-9a-f]{12}\b", added.stderr)[0]
    assert "it is not shown again" in added.stderr
    head, row = (line.split("\t") for line in run("keys", "list").stdout.splitlines())
    assert head == ["id", "name", "project", "key", "made", "expires", "spent_today", "spent_total", "limits", "source"]
    assert row[:3] == [key_id, "till", "shop"]
    assert added.stdout.strip() not in "\t".join(row)
    shown = dict(line.split("\t") for line in run("keys", "show", key_id).stdout.splitlines())
    assert shown["expires"] > shown["made"]
    assert json.loads(run("keys", "show", key_id, "--json").stdout)["project"] == "shop"
    assert run("keys", "rm", key_id, "--yes").exit_code == 0
    assert len(run("keys", "list").stdout.splitlines()) == 1


def test_keys_of_the_file_are_listed(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(WITH_KEY)
    (row,) = json.loads(run("keys", "list", "--json").stdout)["keys"]
    assert (row["key_id"], row["source"], row["key_masked"]) == ("old", "yaml", "gwk…6789")


def test_as_json(run, real_gateway):
    answer = json.loads(run("keys", "add", "--json").stdout)
    assert answer["key"].startswith("gwk_")
    assert answer["project"] == "default"


@pytest.mark.parametrize("command", [["show"], ["rm", "--yes"]])
def test_one_that_there_is_not(run, real_gateway, command):
    result = run("keys", *command, "key_none")
    assert result.exit_code == 1
    assert "unknown key 'key_none'; available: none" in result.stderr


def test_of_a_project_that_there_is_not(run, real_gateway):
    result = run("keys", "add", "--project", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "unknown project 'nobody'" in result.stderr


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_limits_are_set_shown_and_taken_away(run, request, where):
    request.getfixturevalue(where)
    options = ["--daily-budget", "1", "--monthly-budget", "20", "--model", "sim/*", "--modality", "llm", "--requests-per-minute", "60"]
    made = json.loads(run("keys", "add", "--name", "till", *options, "--max-concurrent", "2", "--json").stdout)
    assert (made["monthly_budget"], made["models"], made["modalities"], made["max_concurrent"]) == (20.0, ["sim/*"], ["llm"], 2)
    key_id = made["key_id"]
    _, row = run("keys", "list").stdout.splitlines()
    limits = row.split("\t")[8]
    assert limits.startswith("day ")
    assert limits.endswith("models sim/*; modalities llm; requests_per_minute 60; max_concurrent 2")
    shown = dict(line.split("\t") for line in run("keys", "show", key_id).stdout.splitlines())
    assert shown["spent of month"].endswith("(ok)")
    assert shown["requests_per_minute"] == "60"
    away = ["--daily-budget", "0", "--model", "", "--modality", "all", "--requests-per-minute", "0", "--max-concurrent", "0"]
    changed = run("keys", "set", key_id, *away, "--expires-days", "1")
    assert changed.exit_code == 0, changed.output
    entry = json.loads(run("keys", "show", key_id, "--json").stdout)
    assert [use["period"] for use in entry["budgets"]] == ["month"]
    assert (entry["models"], entry["modalities"], entry["requests_per_minute"], entry["max_concurrent"]) == ([], [], None, None)
    assert entry["expires_at"] > made["created_at"]
    assert run("keys", "set", key_id, "--expires-days", "0").exit_code == 0
    assert json.loads(run("keys", "show", key_id, "--json").stdout)["expires_at"] is None
    assert "name something to change" in run("keys", "set", key_id).stderr


def test_longer_budgets_of_a_project(run, real_gateway):
    assert run("projects", "add", "app", "--weekly-budget", "5", "--total-budget", "100").exit_code == 0
    shown = dict(line.split("\t") for line in run("projects", "show", "app").stdout.splitlines())
    assert shown["spent of week"].endswith("(ok)")
    assert "spent of total" in shown
    assert run("projects", "set", "app", "--weekly-budget", "0").exit_code == 0
    assert [use["period"] for use in json.loads(run("projects", "show", "app", "--json").stdout)["budgets"]] == ["total"]
