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
