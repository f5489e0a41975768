"""Mistyped commands: each ends with one message and the exit code of its kind, never with a traceback."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import gateway_in

USAGE, FAILED, CONFIG, CHECK = 2, 1, 3, 5

BAD: list[tuple[int, str]] = [
    (USAGE, "nosuch"),
    (USAGE, "--nosuch"),
    (USAGE, "costs --period yesterday"),
    (USAGE, "costs --period"),
    (USAGE, "costs --by colour"),
    (USAGE, "costs extra"),
    (FAILED, "costs --project nobody"),
    (USAGE, "latency --period all"),
    (FAILED, "latency --project nobody"),
    (USAGE, "logs --limit 0"),
    (USAGE, "logs --limit 1001"),
    (USAGE, "logs --limit many"),
    (USAGE, "logs --modality smell"),
    (USAGE, "logs --status fine"),
    (FAILED, "logs --project nobody"),
    (USAGE, "logs --url ftp://127.0.0.1"),
    (USAGE, "logs --url http://"),
    (USAGE, "logs --url http://127.0.0.1:99999"),
    (USAGE, "logs --url http://user:pass@127.0.0.1"),
    (FAILED, "logs -f --url http://127.0.0.1:1"),
    (USAGE, "status --watch 0"),
    (FAILED, "status --url http://127.0.0.1:1"),
    (USAGE, "top --every 0"),
    (USAGE, "top --every soon"),
    (USAGE, "top --every nan"),
    (USAGE, "models"),
    (USAGE, "models nosuch"),
    (USAGE, "models list --modality smell"),
    (FAILED, "models list --project nobody"),
    (USAGE, "models show"),
    (FAILED, "models show no/such"),
    (USAGE, "models add stt"),
    (USAGE, "models add smell sim/x"),
    (USAGE, "models add stt noslash"),
    (USAGE, "models add stt sim/"),
    (USAGE, "models add stt /x"),
    (FAILED, "models add stt nobody/x"),
    (FAILED, "models add llm sim/echo"),
    (USAGE, "models set sim/echo"),
    (FAILED, "models set sim/echo --voice x"),
    (FAILED, "models set no/such --voice x"),
    (FAILED, "models rm no/such"),
    (FAILED, "models rm sim/echo --yes"),
    (USAGE, "providers"),
    (FAILED, "providers show nobody"),
    (FAILED, "providers test nobody"),
    (USAGE, "providers add"),
    (FAILED, "providers add sim"),
    (FAILED, "providers add what"),
    (FAILED, "providers add x --type what"),
    (FAILED, "providers add -- -x"),
    (FAILED, "providers add dg --type deepgram --base-url nowhere"),
    (FAILED, "providers add dg --type deepgram --base-url http://169.254.169.254"),
    (FAILED, "providers add dg --type deepgram --api-key with\u00e9"),
    (FAILED, "providers add dg --type deepgram --api-key-file no.txt"),
    (USAGE, "providers add dg --type deepgram --api-key-env NOT_SET_ANYWHERE"),
    (USAGE, "providers set sim"),
    (FAILED, "providers set sim --type deepgram"),
    (FAILED, "providers rm sim --yes"),
    (FAILED, "providers rm nobody"),
    (FAILED, "projects show nobody"),
    (FAILED, "projects add shop"),
    (USAGE, "projects add x --daily-budget much"),
    (USAGE, "projects add x --daily-budget -1"),
    (USAGE, "projects add x --daily-budget inf"),
    (USAGE, "projects add x --daily-budget nan"),
    (USAGE, "projects add x --budget-action maybe"),
    (FAILED, "projects add x --accent red"),
    (FAILED, "projects add x --default-stack gold"),
    (FAILED, "projects add a/b"),
    (USAGE, "projects set shop"),
    (FAILED, "projects set shop --name x"),
    (FAILED, "projects rm default --yes"),
    (FAILED, "keys add --project nobody"),
    (USAGE, "keys add --expires-days 0"),
    (USAGE, "keys add --expires-days -3"),
    (USAGE, "keys add --expires-days nan"),
    (FAILED, "keys show none"),
    (FAILED, "keys rm none --yes"),
    (USAGE, "fallbacks set llm"),
    (USAGE, "fallbacks set smell sim/echo"),
    (FAILED, "fallbacks set llm no/such"),
    (FAILED, "fallbacks set llm sim/echo sim/echo"),
    (USAGE, "fallbacks reset"),
    (USAGE, "prices"),
    (USAGE, "prices list --provider nobody"),
    (USAGE, "completion"),
    (USAGE, "completion powershell"),
    (USAGE, "say"),
    (USAGE, "say hello"),
    (FAILED, "say hello -o hello.doc"),
    (FAILED, "say hello -o a.wav --model no/such"),
    (FAILED, "say hello -o nofolder/a.wav"),
    (USAGE, "transcribe no.wav"),
    (USAGE, "transcribe ."),
    (FAILED, "transcribe gw.yaml --model no/such"),
    (USAGE, "chat"),
    (FAILED, "chat hello --model no/such"),
    (FAILED, "chat hello --model flaky/nothing"),
    (USAGE, "turn gw.yaml -o -"),
    (USAGE, "serve --port 99999"),
    (USAGE, "serve --config no.yaml"),
    (USAGE, "serve --demo --config gw.yaml"),
    (CONFIG, "serve --host 0.0.0.0 --check"),
    (USAGE, "check no.yaml"),
    (CONFIG, "check broken.yaml"),
    (USAGE, "reconcile"),
    (USAGE, "reconcile --provider openai"),
    (USAGE, "reconcile --provider nobody --provider-usage-file gw.yaml"),
    (USAGE, "reconcile --provider openai --provider-usage-file no.csv"),
    (USAGE, "reconcile --provider openai --provider-usage-file gw.yaml --start today"),
    (USAGE, "reconcile --provider openai --provider-usage-file gw.yaml --threshold nan"),
    (USAGE, "db"),
    (FAILED, "db --db no.db stats"),
    (CONFIG, "db --db gw.yaml stats"),
    (FAILED, "init"),
    (USAGE, "mcp --transport smoke"),
    (USAGE, "mcp --port x"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One gateway for all of them: none changes anything."""
    path = tmp_path_factory.mktemp("gw")
    (path / "broken.yaml").write_text("providers: {sim: {}}\nmodels: {lllm: []}\n")
    with gateway_in(path):
        yield path


@pytest.fixture
def gw(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    return run


@pytest.mark.parametrize(("code", "line"), BAD, ids=[line for _, line in BAD])
def test_bad_input(gw, code, line):
    result = gw(*line.split(" "))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert "fault in gw" not in result.output
    assert result.stderr.strip()


@pytest.mark.parametrize(("code", "line"), BAD[::9], ids=[line for _, line in BAD[::9]])
def test_bad_input_of_a_program_is_told_as_json(gw, code, line):
    result = gw(*line.split(" "), "--json")
    assert result.exit_code in (code, USAGE)
    assert json.loads(result.stderr)["error"]["message"]
