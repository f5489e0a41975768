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
    assert set(rows[0]) == {
        *("provider_type", "model", "also", "live", "unit", "amounts", "dimensions", "valid_from", "seen", "source"),
    }
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


NEWER = """
[[rate]]
model = "gpt-4o"
unit = "1M_tokens"
input = "2"
output = "8"
valid_from = 2026-01-01
source = "a newer list"
seen = 2026-11-22

[[rate]]
model = "brand-new"
unit = "1M_tokens"
input = "1"
output = "2"
valid_from = 2026-01-01
source = "a newer list"
seen = 2026-11-22

[[rate]]
model = "gpt-5"
unit = "1M_tokens"
input = "1.25"
cached_input = "0.125"
output = "10"
tiers.flex = {input = "0.625", cached_input = "0.0625", output = "5"}
tiers.priority = {input = "2.5", cached_input = "0.25", output = "20"}
tiers.batch = {input = "0.625", cached_input = "0.0625", output = "5"}
valid_from = 2026-01-01
source = "as before"
seen = 2026-11-22
"""


def test_a_newer_table_is_shown_and_stored(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    (tmp_path / "openai.toml").write_text(NEWER)
    asked = run("prices", "update", "openai.toml")
    assert asked.exit_code == 1
    assert "nothing was stored: there is no terminal to ask on; give --yes" in asked.stderr
    assert not (tmp_path / "prices").exists()
    result = run("prices", "update", "openai.toml", "--yes", "--json")
    assert result.exit_code == 0, result.output
    changes = {row["model"]: row for row in json.loads(result.stdout)}
    assert set(changes) == {"gpt-4o", "brand-new"}, "a row that changes nothing is not a change"
    assert changes["gpt-4o"]["change"] == "changed"
    assert changes["gpt-4o"]["after"] == "input 2, output 8 per 1M tokens"
    assert (changes["brand-new"]["change"], changes["brand-new"]["before"]) == ("new", "")
    assert (tmp_path / "prices" / "openai.toml").read_text() == NEWER
    listed = json.loads(run("prices", "list", "--provider", "openai", "--model", "brand-new", "--json").stdout)
    assert [row["source"] for row in listed] == ["a newer list"]
    checked = {row["model"]: row for row in json.loads(run("prices", "check", "--json").stdout)}
    assert checked["openai/gpt-4o"]["source"] == "table:openai@2026-01-01, since 2026-01-01"


@pytest.mark.parametrize(
    ("name", "text", "exit_code", "what"),
    [
        ("nobody.toml", NEWER, 2, "must be named after a provider type: openai, "),
        ("openai.json", NEWER, 2, "must be named after a provider type"),
        ("openai.toml", NEWER.replace('"2"', "2"), 1, "openai.toml: rate 1 (gpt-4o): input must be a decimal in quotes"),
    ],
)
def test_a_table_that_is_none_is_refused(run, tmp_path, name, text, exit_code, what):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    (tmp_path / name).write_text(text)
    result = run("prices", "update", name, "--yes")
    assert (result.exit_code, what in result.stderr) == (exit_code, True), result.stderr
    assert not (tmp_path / "prices").exists()


def test_a_mistyped_model_and_an_old_table_are_named(run, tmp_path, monkeypatch):
    (tmp_path / "gw.yaml").write_text(CONFIG.replace("openai/unheard-of", "openai/gpt-4o-mni"))
    result = run("prices", "check")
    assert "without a price: openai/gpt-4o-mni (did you mean openai/gpt-4o-mini?)" in result.stderr
    assert "last verified" not in result.stderr
    monkeypatch.setattr("gw.telemetry.clock.SystemClock.now", lambda self: 21_000 * 86_400.0)  # 2027-07-01
    assert "the prices of openai were last verified " in run("prices", "check").stderr
