from __future__ import annotations

import json

CONFIG = """
providers: {openai: {api_key: k}, cartesia: {api_key: k}, kokoro: }
models: {tts: {openai/tts-1: {default_voice: nova}, cartesia/sonic-3: {}, kokoro/kokoro: {}}}
voices: {brand: {cartesia: c-1, openai: sage}}
fallbacks: {tts: [openai/tts-1, cartesia/sonic-3, kokoro/kokoro]}
serve: {port: 0}
cost_tracking: {db_path: gw.db}
"""
ROWS = [
    ("brand", "openai/tts-1", "sage", "voices"),
    ("brand", "cartesia/sonic-3", "c-1", "voices"),
    ("", "openai/tts-1", "nova", "default_voice"),
    ("", "cartesia/sonic-3", "", "none"),
    ("", "kokoro/kokoro", "af_heart", "vendor"),
]


def test_a_table_of_the_aliases_and_defaults(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    result = run("voices")
    head, *rows = (tuple(line.split("\t")) for line in result.stdout.splitlines())
    assert head == ("voice", "model", "vendor_voice", "source")
    assert rows == ROWS
    assert "fallbacks.tts: cartesia/sonic-3 has no voice for another vendor's, and is skipped" in result.stderr


def test_as_json(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    rows = json.loads(run("voices", "--json").stdout)
    assert [tuple(row.values()) for row in rows] == ROWS


def test_gw_check_warns_for_each_chain(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG + "projects: {p: {fallbacks: {tts: [kokoro/kokoro, cartesia/sonic-3]}}}\n")
    result = run("check")
    assert result.exit_code == 0
    warned = [line.split("\t") for line in result.stdout.splitlines() if line.startswith("chain ")]
    assert [(row[0], row[1], row[2].partition(" has")[0]) for row in warned] == [
        ("chain fallbacks.tts", "warning", "cartesia/sonic-3"),
        ("chain fallbacks.tts", "warning", "kokoro/kokoro"),
        ("chain projects.p.fallbacks.tts", "warning", "kokoro/kokoro"),
        ("chain projects.p.fallbacks.tts", "warning", "cartesia/sonic-3"),
    ]
    assert warned[0][2].endswith("and is skipped: set its default_voice, or map the voice in voices")
    assert warned[1][2].endswith("has no voice for the alias 'brand': it speaks with af_heart")
