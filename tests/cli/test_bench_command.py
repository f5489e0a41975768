"""`gw bench` against a real gateway over HTTP and WebSockets, with the simulated provider."""

from __future__ import annotations

import json
import urllib.request

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.cli.conftest import gateway_in

SLOW = """
providers: {sim: {latency_ms: 30, token_ms: 30}, down: {type: sim, fail_rate: 1, fail_with: 503}}
models: {stt: [sim/tone], llm: [sim/scripted, down/echo], tts: [sim/tone]}
fallbacks: {llm: [sim/scripted]}
cost_tracking: {db_path: gw.db}
serve: {port: 0}
"""
WORDS = "hello"
CALL = ("bench", "--json", "--ramp", 0, "--calls", 1, "--turns", 1, "--say", WORDS)


@pytest.fixture
def slow(tmp_path):
    with gateway_in(tmp_path, SLOW) as running:
        yield running


@pytest.fixture
def bench(run, slow):
    """Returns the exit code and the JSON of `gw bench ARGS`."""

    def measured(*args: object):
        result = run(*CALL, *args, GW_URL=slow.url)
        assert result.stdout.startswith("{"), result.output
        return result.exit_code, json.loads(result.stdout)

    return measured


def get(url: str):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_calls_are_measured_and_their_cost_is_that_of_the_records(bench, slow):
    code, answer = bench("--calls", 3, "--turns", 2)
    result = answer["summary"]
    assert (code, result["outcomes"], result["errors"]) == (0, {"answered": 6}, [])
    assert result["words"] == {"said": 6, "lost": 0, "added": 0}
    sessions = get(f"{slow.url}/v1/sessions")
    assert sorted(session["turns"] for session in sessions) == [2, 2, 2]
    assert result["gateway"]["cost_usd"] == pytest.approx(sum(session["cost_usd"] for session in sessions))
    assert result["gateway"]["cost_usd"] > 0
    assert result["gateway"]["requests"] == sum(session["requests"] for session in sessions)
    assert result["gateway"]["hops_ms"]["llm"]["vendor"]["p50"] >= 30
    assert {turn["call"] for turn in answer["turns"]} == {1, 2, 3}
    for turn in answer["turns"]:
        parts = turn["transcript_ms"] + turn["first_token_ms"] + turn["first_speech_ms"]
        assert parts <= turn["first_audio_ms"] + 0.001  # the caller needs a moment between them
        assert turn["speech_s"] > 0.5


@pytest.mark.parametrize("stt", ["assemblyai", "cartesia", "elevenlabs", "openai"])
def test_every_protocol_of_live_transcription(bench, stt):
    code, answer = bench("--stt-protocol", stt)
    assert (code, answer["turns"][0]["heard"], answer["turns"][0]["lost_words"]) == (0, WORDS, 0)


@pytest.mark.parametrize(("llm", "tts"), [("anthropic", "cartesia"), ("ollama", "elevenlabs"), ("openai", "openai")])
def test_every_protocol_of_chat_and_speech(bench, llm, tts):
    code, answer = bench("--llm-protocol", llm, "--tts-protocol", tts, "--voice", "tone")
    assert (code, answer["turns"][0]["outcome"]) == (0, "answered"), answer["turns"]


def test_an_interruption_stops_the_speech_and_the_next_turn_follows(bench):
    code, answer = bench("--turns", 2, "--barge-in", 1)
    assert (code, answer["summary"]["outcomes"]) == (0, {"interrupted": 2})
    assert all(turn["stop_ms"] is not None for turn in answer["turns"])


def test_faults_of_callers(bench, tmp_path):
    (tmp_path / "faults.yaml").write_text(
        "- {fault: dropout, turns: [1], seconds: 0.2}\n- {fault: slow_reader, turns: [2], seconds: 0.2}\n- {fault: hang_up, seconds: 0.1}\n"
    )
    code, answer = bench("--turns", 5, "--faults", tmp_path / "faults.yaml")
    assert [(turn["fault"], turn["outcome"]) for turn in answer["turns"]] == [
        ("dropout", "answered"), ("slow_reader", "answered"), ("hang_up", "hung_up"),
    ]  # fmt: skip
    assert (code, answer["summary"]["words"]["lost"]) == (0, 0)


def test_words_that_are_not_heard_are_lost(bench, tmp_path):
    pcm = b"".join(fsk.encode("one two", 16_000))
    (tmp_path / "q.wav").write_bytes(wav.header(PCM_16K, len(pcm)) + pcm)
    (tmp_path / "q.txt").write_text("one two three")
    code, answer = bench("--speech", tmp_path / "q.wav")
    assert code == 0
    assert answer["summary"]["words"] == {"said": 3, "lost": 1, "added": 0}


def test_a_model_that_falls_back_is_counted(bench):
    code, answer = bench("--llm", "down/echo")
    assert (code, answer["summary"]["gateway"]["fallbacks"]) == (0, 1)


def test_a_turn_that_fails_names_the_stage_and_is_exit_code_1(bench):
    code, answer = bench("--llm", "nothing")
    assert code == 1
    assert answer["turns"][0]["stage"] == "llm"
    assert "unknown model" in answer["turns"][0]["error"] or "404" in answer["turns"][0]["error"]
    code, answer = bench("--turns", 2, "--stt", "nobody/nothing")
    assert [turn["stage"] for turn in answer["turns"]] == ["stt", "stt"]


def test_vendors_are_called_directly(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(SLOW)
    result = run(*CALL, "--direct", "--tts", "sim/tone", GW_CONFIG=str(tmp_path / "gw.yaml"))
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["summary"]["gateway"], answer["turns"][0]["outcome"]) == (0, None, "answered")


def test_the_table_and_the_page(run, slow, tmp_path):
    result = run(*(argument for argument in CALL if argument != "--json"), "--report", "page.html", GW_URL=slow.url)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split("\t") == ["measure", "turns", "p50_ms", "p95_ms", "p99_ms", "max_ms"]
    assert {"end of speech to first audio", "llm: gateway", "tts: vendor"} <= {line.split("\t")[0] for line in lines}
    assert "1 calls, 1 turns" in result.stderr
    assert "cost: $0.0" in result.stderr
    first_audio = next(line.split("\t")[2] for line in lines if line.startswith("end of speech to first audio"))
    assert f"<td>End of speech to first audio</td><td>1</td><td>{float(first_audio):g}</td>" in (tmp_path / "page.html").read_text()


def test_a_vendor_without_live_transcription_is_named_before_anything_is_called(run, tmp_path):
    text = "providers: {sim: {}, groq: {api_key: k}}\nmodels: {stt: [groq/whisper-large-v3], llm: [sim/echo], tts: [sim/tone]}\n"
    (tmp_path / "gw.yaml").write_text(text)
    result = run(*CALL, "--direct", GW_CONFIG=str(tmp_path / "gw.yaml"))
    assert result.exit_code == 1
    assert "groq has no live transcription; name another model with --stt" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--stt-protocol", "morse"), "stt protocol 'morse' is not one of deepgram"),
        (("--direct", "--stt-protocol", "deepgram"), "--stt-protocol is for a gateway"),
        (("--calls", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_called(run, slow, args, message):
    result = run(*CALL, *args, GW_URL=slow.url)
    assert result.exit_code != 0
    assert message in result.stderr


def test_without_a_gateway(run):
    result = run(*CALL, GW_URL="http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "gw serve --demo" in result.stderr
