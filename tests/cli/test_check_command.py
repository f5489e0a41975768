from __future__ import annotations

import fcntl
import json
import os
import socket
import sys

import pytest

from tests.fakes.gateway_http import json_reply

SIM = "providers: {sim: }\nmodels: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}\nserve: {port: 0}\n"


@pytest.fixture
def check(run, tmp_path):
    """The rows of `gw check` on a configuration, by subject, and its exit code."""

    def do(text: str, *args: str, **env: str):
        (tmp_path / "gw.yaml").write_text(text + "cost_tracking: {db_path: gw.db}\n")
        result = run("check", *args, **env)
        rows = [line.split("\t") for line in result.stdout.splitlines()[1:]]
        return {row[0]: tuple(row[1:]) for row in rows}, result

    return do


def test_a_configuration_that_works(check, tmp_path):
    rows, result = check(SIM)
    assert result.exit_code == 0, result.output
    assert {row[0] for row in rows.values()} == {"ok"}
    assert rows["configuration"][1].endswith("gw.yaml: 1 provider, 3 models")
    assert rows["prices"][1] == "known for 3 of 3 models"
    assert rows["database"][1].endswith("gw.db (will be created)")
    assert rows["address"][1] == "127.0.0.1:0 is free"


def test_every_problem_is_shown_with_its_place(check):
    _, result = check("providers: {sim: }\nmodels: {lllm: []}\nserve: {port: ten}\n")
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: configuration validation failed (2 problems)")
    assert "gw.yaml:2:" in result.stderr
    assert "gw.yaml:3:" in result.stderr


def test_no_configuration_at_all(run):
    result = run("check")
    assert result.exit_code == 3
    assert "no config file was found" in result.stderr


def test_a_named_file(run, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(SIM)
    assert "other.yaml: 1 provider" in run("check", other, GW_DB_PATH=str(tmp_path / "gw.db")).stdout


def test_models_that_end_are_named(check):
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4-turbo, openai/gpt-4.1]}\nserve: {port: 0}\n"
    rows, result = check(text)
    assert result.exit_code == 0
    expected = ("warning", "was shut down on 2026-10-23; its successor is gpt-5.6-terra")
    assert {subject: row for subject, row in rows.items() if subject.startswith("model")} == {"model openai/gpt-4-turbo": expected}


def test_models_of_embeddings_are_named(check):
    providers = "providers: {sim: , openai: {api_key: k}, anthropic: {api_key: k}}\n"
    models = "models: {llm: [sim/echo, openai/text-embedding-3-small, anthropic/my-embedder]}\nserve: {port: 0}\n"
    for chain, warned in (("openai/text-embedding-3-small, sim/echo", True), ("sim/echo, openai/text-embedding-3-small", False)):
        rows, result = check(f"{providers}{models}fallbacks: {{llm: [{chain}]}}\n")
        assert result.exit_code == 0
        assert rows["model openai/text-embedding-3-small"] == ("ok", "makes embeddings")
        assert rows["model anthropic/my-embedder"] == ("warning", "gw has no embeddings of the type anthropic")
        found = rows.get("chain fallbacks.llm")
        sentence = "openai/text-embedding-3-small makes embeddings and holds no conversation: put it last"
        assert found == (("warning", sentence) if warned else None)


def test_models_without_a_price_are_named(check):
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/never-heard-of]}\nserve: {port: 0}\n"
    rows, result = check(text)
    assert result.exit_code == 0
    assert rows["prices"] == ("warning", "known for 0 of 1 model; not for openai/never-heard-of")


def test_a_mistyped_model_is_named_with_the_one_that_was_perhaps_meant(check):
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4o-mni]}\nserve: {port: 0}\n"
    expected = "known for 0 of 1 model; not for openai/gpt-4o-mni (did you mean openai/gpt-4o-mini?)"
    assert check(text)[0]["prices"] == ("warning", expected)


def test_old_price_tables_are_named(check, monkeypatch):
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4o-mini]}\nserve: {port: 0}\n"
    assert "price tables" not in check(text)[0]
    monkeypatch.setattr("gw.telemetry.clock.SystemClock.now", lambda self: 20_779 * 86_400.0 + 91 * 86_400)
    result, detail = check(text)[0]["price tables"]
    assert (result, detail.split(" were")[0]) == ("warning", "the prices of openai")


def test_a_table_of_ones_own_that_cannot_be_read_is_named(check, tmp_path):
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "openai.toml").write_text("[[rate]]\nmodel = 5\n")
    text = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4o]}\nserve: {port: 0}\n"
    result, detail = check(text)[0]["prices"]
    assert (result, "openai.toml: rate 1 (5)" in detail) == ("failed", True)


def test_a_model_with_a_price_for_live_sessions_alone_is_not_unpriced(check):
    text = "providers: {deepgram: {api_key: k}}\nmodels: {stt: [deepgram/flux-general-en]}\nserve: {port: 0}\n"
    assert check(text)[0]["prices"] == ("ok", "known for 1 of 1 model")


def test_a_provider_without_a_key_is_a_warning(check):
    text = "providers: {openai: , sim: }\nmodels: {llm: [openai/gpt-4o-mini, sim/echo]}\nserve: {port: 0}\n"
    rows, result = check(text)
    assert result.exit_code == 0
    assert rows["provider openai"] == ("warning", "no API key: its models are passed over")


@pytest.mark.parametrize(
    ("entry", "module"),
    [
        ("whisper: {model_path: m}", "faster_whisper"),
        ("kokoro: {model_path: m, voices_path: v}", "kokoro_onnx"),
        ("piper: {model_path: m}", "piper"),
    ],
)
def test_an_engine_that_is_not_installed_is_named_with_its_extra(check, monkeypatch, entry, module):
    monkeypatch.setitem(sys.modules, module, None)
    kind = entry.partition(":")[0]
    modality = "stt" if kind == "whisper" else "tts"
    rows, result = check(f"providers: {{{entry}}}\nmodels: {{{modality}: [{kind}/m]}}\nserve: {{port: 0}}\n")
    assert result.exit_code == 5
    expected = f"No module named '{module}'; install gw with its extra '{kind}': pip install '.[{kind}]' in a checkout"
    assert rows[f"provider {kind}"] == ("failed", expected)
    server = f"{kind}: {{base_url: 'http://127.0.0.1:9'}}"
    rows, result = check(f"providers: {{{server}}}\nmodels: {{{modality}: [{kind}/m]}}\nserve: {{port: 0}}\n")
    assert result.exit_code == 0, result.output


def test_a_taken_port_fails(check):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rows, result = check(SIM.replace("port: 0", f"port: {port}"))
    assert result.exit_code == 5
    assert rows["address"] == ("failed", f"127.0.0.1:{port} cannot be bound: Address already in use")


def test_a_running_gateway_may_hold_port_and_database(check, tmp_path):
    lock = tmp_path / "gw.db.lock"
    lock.write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:9"}))
    lock_file = os.open(lock, os.O_RDWR)
    fcntl.flock(lock_file, fcntl.LOCK_EX)
    rows, result = check(SIM)
    os.close(lock_file)
    assert result.exit_code == 0
    assert rows["database"][1].endswith("is in use by the gateway at http://127.0.0.1:9")
    assert "in use" in rows["address"][1]


def test_a_database_of_another_program_fails(check, tmp_path):
    (tmp_path / "gw.db").write_bytes(b"not a database" * 100)
    rows, result = check(SIM)
    assert result.exit_code == 5
    assert rows["database"][0] == "failed"
    assert (tmp_path / "gw.db").read_bytes() == b"not a database" * 100


def _vendor(url: str) -> str:
    provider = f"{{api_key: sk-vendor-key-123, base_url: '{url}/v1'}}"
    return f"providers: {{openai: {provider}}}\nmodels: {{llm: [openai/gpt-4o-mini]}}\nserve: {{port: 0}}\n"


def test_online_asks_each_provider_with_its_key(check, gateway):
    gateway.replies["GET /v1/models"] = json_reply({"data": []})
    rows, result = check(_vendor(gateway.url), "--online")
    assert result.exit_code == 0, result.output
    assert rows["online openai"][0] == "ok"
    assert gateway.requests[0].headers["Authorization"] == "Bearer sk-vendor-key-123"
    assert "sk-vendor" not in result.output


def test_online_with_a_refused_key_fails(check, gateway):
    gateway.replies["GET /v1/models"] = json_reply({}, 401)
    rows, result = check(_vendor(gateway.url), "--online")
    assert result.exit_code == 5
    assert rows["online openai"][1].startswith("the key was refused (HTTP 401)")


def test_as_json(check):
    _, result = check(SIM, "--json")
    available = json.loads(result.stdout)
    assert {finding["result"] for finding in available} == {"ok"}
    assert available[0]["subject"] == "configuration"


def test_a_configuration_that_is_wrong_is_told_as_json(check):
    _, result = check("providers: {sim: }\nmodels: {lllm: []}\n", "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "config_invalid"
    assert "gw.yaml:2:" in error["message"]


def test_a_project_that_cannot_be_captured(run, tmp_path):
    text = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\nprojects: {shop: {capture: {text: true}}}\nserve: {port: 0}\n"
    (tmp_path / "gw.yaml").write_text(text)
    result = run("check", "gw.yaml")
    assert result.exit_code == 5
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("capture shop")]
    assert "failed" in line
    assert "GW_SECRET" in line
    assert "capture shop\tok" in run("check", "gw.yaml", GW_SECRET="a secret of some length").stdout
