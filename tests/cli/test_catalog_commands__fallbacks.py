from __future__ import annotations

import json

import pytest


def chains(run) -> dict[str, list[str]]:
    lines = run("fallbacks", "list").stdout.splitlines()
    assert lines[0] == "modality\tchain\tsource"
    return {line.split("\t")[0]: line.split("\t")[1:] for line in lines[1:]}


@pytest.mark.parametrize("where", ["real_gateway", "configured"])
def test_set_and_reset(run, request, where):
    request.getfixturevalue(where)
    assert chains(run) == {"stt": ["", "yaml"], "llm": ["sim/echo", "yaml"], "tts": ["", "yaml"]}
    done = run("fallbacks", "set", "llm", "flaky/echo", "sim/echo")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert "llm: flaky/echo -> sim/echo" in done.stderr
    assert chains(run)["llm"] == ["flaky/echo -> sim/echo", "db"]
    assert json.loads(run("fallbacks", "list", "--json").stdout)["fallbacks"]["llm"]["source"] == "db"
    back = json.loads(run("fallbacks", "reset", "llm", "--json").stdout)
    assert back == {"modality": "llm", "models": ["sim/echo"], "source": "yaml"}
    assert chains(run)["llm"] == ["sim/echo", "yaml"]


def test_it_holds_from_the_next_request_on(run, real_gateway):
    run("fallbacks", "set", "llm", "flaky/echo", "sim/echo")
    real_gateway.chat("flaky/echo")
    (record,) = json.loads(run("logs", "--json").stdout)
    assert (record["status"], record["fallback_from"]) == ("fallback", "flaky/echo")
