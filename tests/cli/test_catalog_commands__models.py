from __future__ import annotations

import json

import pytest


@pytest.fixture
def db_provider(run):
    """A provider of the database, as models of the database need one."""
    assert run("providers", "add", "dg", "--type", "deepgram", "--api-key", "dg-0123456789abcdef").exit_code == 0


def ids(run, *args: str) -> list[str]:
    return [line.split("\t")[0] for line in run("models", "list", *args).stdout.splitlines()[1:]]


def test_list(run, real_gateway):
    result = run("models", "list")
    assert result.stdout.splitlines() == [
        "model\tmodality\tprovider",
        "sim/tone\tstt tts\tsim",
        "sim/echo\tllm\tsim",
        "flaky/echo\tllm\tflaky",
    ]
    assert result.stderr == ""


def test_list_of_a_stack_or_a_modality(run, real_gateway):
    assert ids(run, "--project", "shop") == ["sim/tone", "sim/echo"]
    assert ids(run, "--modality", "tts") == ["sim/tone"]
    answer = json.loads(run("models", "list", "--modality", "llm", "--json").stdout)
    assert list(answer["models"]) == ["sim/echo", "flaky/echo"]


def test_show_by_id_or_alias(run, real_gateway):
    rows = dict(line.split("\t") for line in run("models", "show", "parrot").stdout.splitlines())
    assert (rows["id"], rows["display_name"], rows["source"], rows["modalities"]) == ("sim/echo", "Echo", "yaml", "llm")
    assert json.loads(run("models", "show", "sim/tone", "--json").stdout)["modalities"] == ["stt", "tts"]


def test_one_that_there_is_not(run, real_gateway):
    result = run("models", "show", "no/where")
    assert result.exit_code == 1
    assert "unknown model 'no/where'; available: sim/tone, sim/echo" in result.stderr


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_add_set_and_delete(run, request, where):
    request.getfixturevalue(where)
    request.getfixturevalue("db_provider")
    added = run("models", "add", "stt", "dg/nova-3", "--language", "en")
    assert (added.exit_code, added.stdout) == (0, ""), added.output
    assert "added stt model dg/nova-3" in added.stderr
    assert "dg/nova-3" in ids(run)
    changed = run("models", "set", "dg/nova-3", "--display-name", "Nova", "--language", "", "--json")
    assert json.loads(changed.stdout) == {"model_id": "dg/nova-3", "updated": True}
    assert "display_name\tNova" in run("models", "show", "dg/nova-3").stdout
    assert json.loads(run("models", "rm", "dg/nova-3", "--yes", "--json").stdout) == {"deleted": "dg/nova-3"}
    assert "dg/nova-3" not in ids(run)


def test_without_a_gateway_it_says_so(run, configured):
    result = run("models", "list")
    assert result.stderr == f"no gateway answers at http://127.0.0.1:8080; read from {configured.parent / 'gw.yaml'}\n"
    assert "sim/echo" in result.stdout


def test_without_a_gateway_a_change_goes_through_the_database(run, configured, db_provider):
    result = run("models", "add", "stt", "dg/nova-3")
    assert f"no gateway answers at http://127.0.0.1:8080; changed in the database {configured}" in result.stderr
    assert run("models", "list").stderr.endswith(f"read from {configured}\n")


def test_the_audit_log_says_that_it_was_the_command_line(run, real_gateway, db_provider):
    run("models", "add", "stt", "dg/nova-3")
    import httpx2

    entries = httpx2.get(f"{real_gateway.url}/v1/audit-log").json()
    assert [(entry["entity_id"], entry["source"]) for entry in entries] == [("dg/nova-3", "cli"), ("dg", "cli")]


def test_what_the_file_says_is_changed_there(run, real_gateway):
    for result in (run("models", "rm", "sim/echo", "--yes"), run("models", "set", "sim/echo", "--voice", "x")):
        assert result.exit_code == 1
        assert "model 'sim/echo' is defined in gw.yaml; change it there" in result.stderr


def test_nobody_to_ask(run, real_gateway, db_provider):
    run("models", "add", "stt", "dg/nova-3")
    result = run("models", "rm", "dg/nova-3")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "would delete model dg/nova-3",
        "  model_id: dg/nova-3",
        "Error: nothing was deleted: there is no terminal to ask on; give --yes",
    ]
    assert "dg/nova-3" in ids(run)


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 130, True), ("y\n", 0, False), ("", 130, True)])
def test_a_person_is_asked(run, real_gateway, db_provider, monkeypatch, answer, code, left):
    run("models", "add", "stt", "dg/nova-3")
    from gw.cli import resource

    class Person:
        class stdin:
            isatty = staticmethod(lambda: True)

    monkeypatch.setattr(resource, "sys", Person)
    result = run("models", "rm", "dg/nova-3", stdin=answer)
    assert result.exit_code == code, result.output
    assert "Delete? [y/N]" in result.stderr
    assert ("dg/nova-3" in ids(run)) is left


def test_a_name_may_hold_anything(run, real_gateway, db_provider):
    name = "dg/a b/c?d#e%2Ff"
    assert run("models", "add", "stt", name).exit_code == 0
    assert f"id\t{name}" in run("models", "show", name).stdout
    assert run("models", "rm", name, "--yes").exit_code == 0


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_the_price_of_a_model(run, request, where):
    request.getfixturevalue(where)
    request.getfixturevalue("db_provider")
    assert run("models", "add", "stt", "dg/mine", "--price", "minute usd=0.006").exit_code == 0
    dimensions = '{"unit": "minute", "usd": 0.003, "addons": {"keyterm": 0.0012}}'
    assert run("models", "set", "dg/mine", "--price", dimensions, "--price-from", "2027-01-01").exit_code == 0
    shown = json.loads(run("models", "show", "dg/mine", "--json").stdout)
    assert shown["prices"] == ["0.006 per minute", "0.003 per minute; keyterm + 0.0012 per minute, since 2027-01-01"]
    assert "price\t0.006 per minute" in run("models", "show", "dg/mine").stdout
    assert run("models", "set", "dg/mine", "--price", "").exit_code == 0
    assert json.loads(run("models", "show", "dg/mine", "--json").stdout)["prices"] == []


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--price", "minute usd=cheap"), "--price is a unit and its amounts, such as"),
        (("--price", '{"unit"'), "--price is not JSON"),
        (("--price-from", "2027-01-01"), "--price-from is the first day of --price: give both"),
    ],
)
def test_a_price_that_is_none(run, configured, db_provider, options, what):
    result = run("models", "add", "stt", "dg/mine", *options)
    assert (result.exit_code, what in result.stderr) == (2, True), result.stderr
