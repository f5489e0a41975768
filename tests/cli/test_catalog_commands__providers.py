from __future__ import annotations

import json

import pytest

KEY = "dg-canary-0123456789abcdef"


def rows(run) -> dict[str, list[str]]:
    lines = run("providers", "list").stdout.splitlines()
    assert lines[0] == "provider\ttype\twhere\tsource\tconfigured\tkey\tbase_url"
    return {line.split("\t")[0]: line.split("\t")[1:] for line in lines[1:]}


def test_list_and_show(run, real_gateway):
    assert rows(run) == {"sim": ["sim", "local", "yaml", "yes", "", ""], "flaky": ["sim", "local", "yaml", "yes", "", ""]}
    shown = dict(line.split("\t") for line in run("providers", "show", "sim").stdout.splitlines())
    assert (shown["provider_type"], shown["configured"], shown["base_url"]) == ("sim", "yes", "")
    assert json.loads(run("providers", "list", "--json").stdout)["providers"][0]["provider_id"] == "sim"
    assert json.loads(run("providers", "show", "sim", "--json").stdout)["enabled"] is True


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
@pytest.mark.parametrize("source", ["env", "file", "stdin", "plain"])
def test_the_key_comes_from_where_it_is_kept(run, request, tmp_path, where, source):
    request.getfixturevalue(where)
    (tmp_path / "key.txt").write_text(KEY + "\n")
    args, stdin, env = {
        "env": (["--api-key-env", "DG_KEY"], None, {"DG_KEY": KEY}),
        "file": (["--api-key-file", "key.txt"], None, {}),
        "stdin": (["--api-key-file", "-"], KEY + "\n", {}),
        "plain": (["--api-key", KEY], None, {}),
    }[source]
    result = run("providers", "add", "dg", "--type", "deepgram", *args, stdin=stdin, **env)
    assert result.exit_code == 0, result.output
    assert KEY not in result.output
    assert "added provider dg; next: gw providers test dg" in result.stderr
    row = rows(run)["dg"]
    assert row[:3] == ["deepgram", "cloud", "db"]
    if where == "real_gateway":  # who only reads the database has no secret, and does not open stored keys
        assert row[3:5] == ["yes", "dg-…cdef"]


def test_set_and_delete_with_its_models(run, real_gateway):
    run("providers", "add", "dg", "--type", "deepgram", "--api-key", KEY)
    moved = run("providers", "set", "dg", "--base-url", "https://api.eu.deepgram.com")
    assert moved.exit_code == 1
    assert "send the api_key along to move it" in moved.stderr
    assert run("providers", "set", "dg", "--base-url", "https://api.eu.deepgram.com", "--api-key", KEY).exit_code == 0
    assert rows(run)["dg"][-1] == "https://api.eu.deepgram.com"
    assert run("providers", "set", "dg", "--base-url", "", "--api-key", KEY).exit_code == 0
    assert rows(run)["dg"][-1] == ""
    run("models", "add", "stt", "dg/nova-3")
    refused = run("providers", "rm", "dg", "--yes")
    assert (refused.exit_code, "has models (dg/nova-3)" in refused.stderr) == (1, True)
    preview = run("providers", "rm", "dg")
    assert "  models: dg/nova-3\n  projects: none\n" in preview.stderr
    assert json.loads(run("providers", "rm", "dg", "--cascade", "--yes", "--json").stdout) == {"deleted": "dg"}
    assert "dg" not in rows(run)


def test_deleting_without_a_gateway(run, configured):
    run("providers", "add", "dg", "--type", "deepgram")
    assert run("providers", "set", "dg", "--type", "cartesia").exit_code == 0
    assert run("providers", "rm", "dg", "--yes").exit_code == 0
    assert "dg" not in rows(run)


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_test(run, request, where):
    request.getfixturevalue(where)
    result = run("providers", "test", "sim")
    assert result.exit_code == 0, result.output
    name, status, took_ms, message = result.stdout.splitlines()[1].split("\t")
    assert (name, status, message) == ("sim", "ok", "runs inside the gateway")
    assert took_ms.isdigit()
    run("providers", "add", "near", "--type", "ollama", "--base-url", "http://127.0.0.1:1")
    failed = run("providers", "test", "near", "--json")
    assert failed.exit_code == 5
    assert json.loads(failed.stdout)["status"] == "failed"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--api-key", "a", "--api-key-env", "HOME"], "give one of --api-key-env"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "the environment variable NOT_SET_ANYWHERE is not set"),
    ],
)
def test_keys_that_are_not_there(run, real_gateway, args, words):
    result = run("providers", "add", "dg", "--type", "deepgram", *args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_without_the_token_it_is_a_matter_of_access(run, gateway):
    from tests.fakes.gateway_http import json_reply

    gateway.replies["GET /v1/providers"] = json_reply({"error": {"code": "unauthorized", "message": "who are you"}}, 401)
    result = run("providers", "list", "--url", gateway.url, "--json")
    assert result.exit_code == 4
    error = json.loads(result.stderr)["error"]
    assert error == {"code": "unauthorized", "message": "who are you (unauthorized); give a key with --key or GW_API_KEY"}
