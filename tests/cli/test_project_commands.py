from __future__ import annotations

import json

import pytest


def test_list(run, real_gateway):
    real_gateway.chat(project="shop")
    head, default, shop = (line.split("\t") for line in run("projects", "list").stdout.splitlines())
    assert head == ["project", "name", "requests_today", "cost_today", "daily_budget", "action", "stack", "source"]
    assert default[:3] == ["default", "default", "0"]
    assert shop[2] == "1"
    assert float(shop[3]) > 0
    assert shop[4:] == ["1.000000000", "block", "demo", "yaml"]
    assert set(json.loads(run("projects", "list", "--json").stdout)["stats"]) == {"default", "shop"}


def test_for_people(run, real_gateway, terminal):
    assert "$1.00" in run("projects", "list").stdout


@pytest.mark.parametrize("gateway_runs", [True, False])
def test_show(run, tmp_path, gateway_runs):
    from tests.cli.conftest import gateway_in

    with gateway_in(tmp_path) as real_gateway:
        real_gateway.chat(project="shop")
        online = run("projects", "show", "shop")
    result = online if gateway_runs else run("projects", "show", "shop")
    rows = dict(line.split("\t") for line in result.stdout.splitlines())
    assert (rows["tags"], rows["budget_status"], rows["requests_today"]) == ("a, b", "ok", "1")
    assert float(rows["today sim/echo"]) == float(rows["today_spend"]) > 0
    assert (result.stderr == "") is gateway_runs


def test_show_without_a_database(run, configured):
    answer = json.loads(run("projects", "show", "shop", "--json").stdout)
    assert (answer["daily_budget"], answer["today"]["requests_today"]) == (1.0, 0)


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_add_set_and_delete(run, request, where):
    request.getfixturevalue(where)
    args = ("--daily-budget", "5", "--budget-action", "block", "--tag", "x", "--tag", "y", "--accent", "#102030")
    added = run("projects", "add", "app", *args)
    assert added.exit_code == 0, added.output
    assert "added project app; next: gw keys add --project app" in added.stderr
    answer = json.loads(run("projects", "show", "app", "--json").stdout)
    assert (answer["daily_budget"], answer["tags"], answer["accent"]) == (5.0, ["x", "y"], "#102030")
    assert run("projects", "set", "app", "--daily-budget", "0", "--description", "", "--tag", "").exit_code == 0
    answer = json.loads(run("projects", "show", "app", "--json").stdout)
    assert (answer["daily_budget"], answer["tags"]) == (0.0, [])
    assert json.loads(run("projects", "rm", "app", "--yes", "--json").stdout) == {"deleted": "app"}
    assert run("projects", "show", "app").exit_code == 1


def test_the_phrase_cache(run, real_gateway):
    assert run("projects", "add", "app", "--phrase-cache", "on", "--phrase-takes", "2", "--no-phrase-sentences").exit_code == 0
    answer = json.loads(run("projects", "show", "app", "--json").stdout)
    assert answer["phrase_cache"] == {"takes": 2, "longest": 300, "sentences": False}
    rows = dict(line.split("\t") for line in run("projects", "show", "app").stdout.splitlines())
    assert rows["phrase_cache"] == "complete texts of up to 300 characters, takes: 2"
    alone = run("projects", "set", "app", "--phrase-longest", "9")
    assert (alone.exit_code, "need --phrase-cache on" in alone.output) == (2, True)
    assert run("projects", "set", "app", "--phrase-cache", "off").exit_code == 0
    assert json.loads(run("projects", "show", "app", "--json").stdout)["phrase_cache"] is None


def test_twice_is_a_conflict(run, real_gateway):
    run("projects", "add", "app")
    result = run("projects", "add", "app")
    assert (result.exit_code, "the project 'app' exists already" in result.stderr) == (1, True)
