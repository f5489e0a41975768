from __future__ import annotations

import json

import pytest

CONFIG = """
providers: {openai: {api_key: k}, sim: {}, mine: {type: whisper, base_url: "http://127.0.0.1:1/v1"}}
models:
  stt: {mine/base: {}, openai/whisper-1: {}}
  llm: {openai/gpt-4o: {}, openai/gpt-4o-2024-11-20: {}, openai/unheard-of: {}, sim/echo: {price: {unit: 1M_tokens, input: 1, output: 2}}}
  tts: {openai/tts-1: {}}
cost_tracking: {db_path: gw.db}
"""


def test_every_row_of_the_tables(run):
    result = run("prices", "list")
    head, *rows = (line.split("\t") for line in result.stdout.splitlines())
    assert head == ["provider", "model", "for", "unit", "usd", "valid_from", "seen"]
    assert len(rows) > 50
    assert f"{len(rows)} of {len(rows)} rates; tables last verified on " in result.stderr


def test_of_one_provider_and_model(run):
    rows = [line.split("\t") for line in run("prices", "list", "--provider", "openai", "--model", "gpt-4o-mini").stdout.splitlines()[1:]]
    assert {row[0] for row in rows} == {"openai"}
    assert all("gpt-4o-mini" in row[1] for row in rows)
    assert any(row[4].startswith("input 0.15, cached_input 0.075, output 0.6") for row in rows)


def test_as_json_amounts_are_exact_text(run):
    rows = json.loads(run("prices", "list", "--provider", "sim", "--json").stdout)
    assert {"provider_type", "model", "unit", "amounts", "valid_from", "seen", "source", "live"} == set(rows[0])
    assert all(isinstance(amount, str) for row in rows for amount in row["amounts"].values())


def test_a_provider_without_a_table(run):
    result = run("prices", "list", "--provider", "nobody")
    assert result.exit_code == 2
    assert "no table for 'nobody'; the tables are: " in result.stderr


def test_check(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    result = run("prices", "check")
    assert result.exit_code == 5
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in result.stdout.splitlines()[1:]}
    assert rows["openai/gpt-4o"][:2] == ["llm", "ok"]
    assert rows["openai/gpt-4o-2024-11-20"][1:] == rows["openai/gpt-4o"][1:]
    assert rows["openai/gpt-4o"][3].startswith("table:openai@")
    assert rows["openai/unheard-of"][1] == "unpriced"
    assert rows["mine/base"][1:] == ["free", "", "local"]
    assert rows["sim/echo"][2] == "input 1, output 2 per 1M tokens"
    assert rows["openai/whisper-1"][2] == "0.006 per minute"
    assert rows["openai/tts-1"][2] == "15 per 1M characters"
    assert "without a price: openai/unheard-of" in result.stderr


def test_check_where_all_is_well(run, configured):
    result = run("prices", "check", "--json")
    assert result.exit_code == 0, result.output
    assert {row["result"] for row in json.loads(result.stdout)} == {"ok"}


@pytest.mark.parametrize("command", ["list", "check"])
def test_without_a_configuration(run, command):
    assert run("prices", command).exit_code == (0 if command == "list" else 3)
