from __future__ import annotations

import json
import re

import pytest


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_a_token_is_printed_once_and_alone(run, request, where):
    request.getfixturevalue(where)
    added = run("tokens", "add", "--name", "ci", "--role", "viewer", "--project", "default", "--expires-days", "1")
    assert added.exit_code == 0, added.output
    assert re.fullmatch(r"gws_\S{43}\n", added.stdout)
    token_id = re.search(r"tok_[0-9a-f]{12}\b", added.stderr)[0]
    assert "is viewer of default" in added.stderr
    assert "it is not shown again" in added.stderr
    head, row = (line.split("\t") for line in run("tokens", "list").stdout.splitlines())
    assert head == ["id", "name", "role", "projects", "capture", "token", "made", "by", "expires"]
    assert row[:4] == [token_id, "ci", "viewer", "default"]
    assert added.stdout.strip() not in "\t".join(row)
    shown = dict(line.split("\t") for line in run("tokens", "show", token_id).stdout.splitlines())
    assert (shown["role"], shown["reads captured content"]) == ("viewer", "no")
    assert shown["expires"] > shown["made"]
    assert run("tokens", "rm", token_id, "--yes").exit_code == 0
    assert len(run("tokens", "list").stdout.splitlines()) == 1


def test_for_all_projects_and_captured_content(run, real_gateway):
    answer = json.loads(run("tokens", "add", "--name", "boss", "--role", "admin", "--capture", "--json").stdout)
    assert (answer["projects"], answer["capture"], answer["expires_at"]) == (None, True, None)
    assert "all" in run("tokens", "list").stdout


def test_of_a_project_that_there_is_not(run, real_gateway):
    result = run("tokens", "add", "--name", "ci", "--role", "viewer", "--project", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "unknown project 'nobody'" in result.stderr
