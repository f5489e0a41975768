from __future__ import annotations

import json

import pytest

from tests.fakes.gateway_http import json_reply


def stage(modality, start_ms, total_ms, **fields):
    facts = {"modality": modality, "model_id": f"a/{modality}", "status": "success", "start_ms": start_ms, "ttfb_ms": 10.0}
    return facts | {"total_ms": total_ms, "cost_usd": 0.001, "request_id": f"id-{modality}"} | fields


TURN = {
    "turn_id": "0c4a",
    "session_id": "call-1",
    "project": "shop",
    "timestamp": 1_750_000_000.25,
    "duration_ms": 900.0,
    "first_audio_ms": 450.5,
    "cost_usd": 0.003,
    "models": {"llm": "a/llm", "tts": "a/tts"},
    "stages": [stage("llm", 0.0, 400.0), stage("tts", 400.0, 500.0, ttfb_ms=None, cost_usd=None)],
}


@pytest.fixture
def gw(gateway, run):
    gateway.replies |= {"GET /api/turns": json_reply([TURN]), "GET /api/turns/0c4a": json_reply(TURN)}
    return lambda *args: run("turn", *args, "--url", gateway.url)


def test_the_newest_turns(gw):
    header, row = gw().stdout.splitlines()
    assert header.split("\t") == [
        "time", "project", "stt", "llm", "tts", "first_audio_ms", "duration_ms", "cost_usd", "turn",
    ]  # fmt: skip
    assert row.split("\t") == [
        "2025-06-15T15:06:40.250+00:00", "shop", "", "a/llm", "a/tts", "450.5", "900", "0.003000000", "0c4a",
    ]  # fmt: skip


def test_one_turn_is_rows_on_stdout_and_bars_beside(gw):
    result = gw("0c4a")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert rows[0] == ["stage", "model", "status", "start_ms", "ttfb_ms", "total_ms", "cost_usd", "request"]
    assert rows[1] == ["llm", "a/llm", "success", "0", "10", "400", "0.001000000", "id-llm"]
    assert rows[2] == ["tts", "a/tts", "success", "400", "", "500", "", "id-tts"]
    *bars, facts = result.stderr.splitlines()
    assert [bar.split()[:2] for bar in bars] == [["llm", "a/llm"], ["tts", "a/tts"]]
    assert facts == "session call-1   first audio 450 ms   $0.003"


@pytest.mark.parametrize("which", [(), ("0c4a",)])
def test_as_json(gw, which):
    answer = json.loads(gw(*which, "--json").stdout)
    assert answer == (TURN if which else [TURN])


def test_an_unknown_turn(gw, gateway):
    gateway.replies["GET /api/turns/none"] = json_reply({"error": {"code": "turn_not_found", "message": "no such turn"}}, 404)
    result = gw("none")
    assert result.exit_code != 0
    assert "no such turn" in result.stderr


def test_a_file_needs_somewhere_for_its_answer(gw, tmp_path):
    (tmp_path / "question.wav").write_bytes(b"RIFF")
    result = gw("question.wav")
    assert result.exit_code == 2
    assert "-o" in result.stderr


def test_what_is_to_be_answered_must_be_a_file(gw):
    assert gw("no-file.wav", "-o", "answer.wav").exit_code == 2
