from __future__ import annotations

import json

import pytest

from gw.types.audio import PCM_24K
from gw.wire import wav
from tests.fakes.gateway_http import Reply, json_reply

SECOND = bytes(48_000)
STREAMED_WAV = Reply(
    [wav.header(PCM_24K, None), SECOND, SECOND],
    headers={"X-GW-Model": "sim/tone", "X-GW-Attempts": "1", "X-GW-Cost-USD": "0.00042", "X-Request-Id": "r-tts"},
)
RECORD = {"model_id": "sim/echo", "cost_usd": 0.00001, "attempts": [{"model_id": "sim/echo", "outcome": "ok"}]}


def _chunk(text: str) -> bytes:
    piece = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(piece).encode() + b"\n\n"


CHAT = Reply(
    [_chunk("It is "), _chunk("sunny."), b"data: [DONE]\n\n"],
    headers={"Content-Type": "text/event-stream", "X-GW-Model": "sim/echo", "X-GW-Attempts": "1", "X-Request-Id": "r-llm"},
)
TRANSCRIPT = json_reply(
    {"text": "what is the weather"}, X_GW_Model="sim/tone", X_GW_Cost_USD="0.00012", X_Request_Id="r-stt"
)


@pytest.fixture
def gw(gateway, run):
    """`gw ARGS` against the fake gateway, which answers all three jobs."""
    gateway.replies |= {
        "POST /v1/audio/speech": STREAMED_WAV,
        "POST /v1/chat/completions": CHAT,
        "POST /v1/audio/transcriptions": TRANSCRIPT,
        "GET /v1/requests/r-llm": json_reply(RECORD),
    }
    return lambda *args, **options: run(*args, GW_URL=gateway.url, **options)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "q.wav"
    path.write_bytes(wav.header(PCM_24K, len(SECOND)) + SECOND)
    return path


def test_say_writes_the_audio_with_its_true_length(gw, gateway, tmp_path):
    result = gw("say", "hello there", "-o", "hi.wav")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "hi.wav").read_bytes() == wav.header(PCM_24K, 96_000) + SECOND + SECOND
    assert gateway.requests[0].json() == {"model": "default", "input": "hello there", "response_format": "wav"}


def test_say_reports_on_stderr(gw):
    result = gw("say", "hello there", "-o", "hi.wav")
    assert result.stdout == ""
    name, model, length, ttfb, characters, cost = result.stderr.strip().split("   ")
    assert (name, model, length, characters, cost) == ("hi.wav", "sim/tone", "2.00 s audio", "11 characters", "$0.00042")
    assert ttfb.startswith("ttfb ")


def test_say_takes_model_voice_and_format(gw, gateway, tmp_path):
    gateway.replies["POST /v1/audio/speech"] = Reply([b"ID3 something"])
    assert gw("say", "hi", "-o", "hi.mp3", "--model", "openai/tts-1", "--voice", "alloy").exit_code == 0
    assert gateway.requests[0].json() == {"model": "openai/tts-1", "input": "hi", "response_format": "mp3", "voice": "alloy"}
    assert (tmp_path / "hi.mp3").read_bytes() == b"ID3 something"


def test_say_reads_text_from_stdin_and_writes_audio_to_stdout(gw, gateway):
    result = gw("say", "-", "-o", "-", stdin="from a pipe")
    assert result.stdout_bytes == b"".join(STREAMED_WAV.chunks)
    assert gateway.requests[0].json()["input"] == "from a pipe"


def test_say_does_not_guess_a_format(gw, gateway):
    result = gw("say", "hi", "-o", "hi.doc")
    assert result.exit_code == 1
    assert "known extensions: .wav .mp3" in result.stderr
    assert gateway.requests == []


def test_say_without_text_is_usage(gw):
    assert gw("say", " ", "-o", "hi.wav").exit_code == 2


def test_a_speech_that_breaks_off_leaves_the_old_file(gw, gateway, tmp_path):
    (tmp_path / "hi.wav").write_bytes(b"old")
    gateway.replies["POST /v1/audio/speech"] = Reply(STREAMED_WAV.chunks[:2], cut=True)
    assert gw("say", "hi", "-o", "hi.wav").exit_code == 1
    assert (tmp_path / "hi.wav").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["hi.wav"]


def test_transcribe_prints_the_text_alone(gw, gateway, recording):
    result = gw("transcribe", recording, "--model", "groq/whisper-large-v3")
    assert result.stdout == "what is the weather\n"
    model, length, _, cost = result.stderr.strip().split("   ")
    assert (model, length, cost) == ("sim/tone", "1.00 s audio", "$0.00012")
    form = gateway.requests[0].body
    assert b'name="model"\r\n\r\ngroq/whisper-large-v3\r\n' in form
    assert b'filename="q.wav"' in form
    assert recording.read_bytes() in form


def test_transcribe_of_a_file_that_is_not_there(gw):
    assert gw("transcribe", "no.wav").exit_code == 2


def test_chat_prints_the_answer_alone(gw, gateway):
    result = gw("chat", "how is the weather", "--system", "be short")
    assert result.stdout == "It is sunny.\n"
    sent = gateway.requests[0].json()
    assert sent["stream"] is True
    assert sent["messages"] == [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "how is the weather"},
    ]


def test_chat_learns_the_cost_from_the_record(gw):
    result = gw("chat", "hi")
    assert result.stderr.startswith("sim/echo   ttfb ")
    assert result.stderr.endswith("   $0.00001\n")


def test_chat_shows_the_fallback(gw, gateway):
    attempts = [
        {"model_id": "sim/flaky", "outcome": "failed", "upstream_status": 503, "duration_ms": 3.2},
        {"model_id": "sim/echo", "outcome": "ok", "duration_ms": 12.0},
    ]
    gateway.replies["GET /v1/requests/r-llm"] = json_reply(RECORD | {"attempts": attempts})
    result = gw("chat", "hi", "--model", "sim/flaky")
    assert result.stderr.startswith("sim/flaky failed (503) after 3.2 ms -> sim/echo   ttfb ")
    assert result.stderr.endswith("   fallback 1\n")


def test_chat_says_when_the_price_is_not_known(gw, gateway):
    gateway.replies["GET /v1/requests/r-llm"] = json_reply(RECORD | {"cost_usd": None})
    assert gw("chat", "hi").stderr.endswith("   unpriced\n")


def test_chat_without_access_to_records_leaves_the_cost_out(gw, gateway):
    gateway.replies["GET /v1/requests/r-llm"] = json_reply({}, 403)
    result = gw("chat", "hi")
    assert result.exit_code == 0
    assert "$" not in result.stderr


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ([_chunk("It is ")], "the answer was cut off"),
        (
            [_chunk("It is "), b'data: {"error": {"code": "upstream_failed", "message": "gone"}}\n\n'],
            "the answer broke off: gone",
        ),
    ],
)
def test_a_chat_that_does_not_end_well_fails(gw, gateway, chunks, words):
    gateway.replies["POST /v1/chat/completions"] = Reply(chunks)
    result = gw("chat", "hi")
    assert result.exit_code == 1
    assert result.stdout == "It is "
    assert words in result.stderr


def test_a_blocked_project_is_told_so(gw, gateway):
    body = {"error": {"code": "budget_exceeded", "message": "project 'demo' has reached its daily budget"}}
    gateway.replies["POST /v1/chat/completions"] = json_reply(body, 402)
    result = gw("chat", "hi")
    assert result.exit_code == 1
    assert "project 'demo' has reached its daily budget (budget_exceeded)" in result.stderr


def test_a_wrong_key_is_exit_code_four(gw, gateway):
    gateway.replies["POST /v1/chat/completions"] = json_reply({"error": {"code": "unauthorized", "message": "no"}}, 401)
    assert gw("chat", "hi", GW_API_KEY="wrong").exit_code == 4


@pytest.mark.parametrize("args", [("say", "hi", "-o", "hi.wav"), ("chat", "hi")])
def test_without_a_gateway_the_message_says_how_to_start_one(run, args):
    result = run(*args, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "no gateway answers at http://127.0.0.1:1; start one with: gw serve --demo" in result.stderr


def test_turn_goes_through_all_three(gw, gateway, recording, tmp_path):
    result = gw("turn", recording, "-o", "a.wav", "--stt", "a/b", "--llm", "c/d", "--tts", "e/f")
    assert result.exit_code == 0, result.output
    assert result.stdout == "part\ttext\nheard\twhat is the weather\nsaid\tIt is sunny.\n"
    assert (tmp_path / "a.wav").stat().st_size == 44 + 96_000
    transcribed, chatted, spoken = (requests for requests in gateway.requests if requests.method == "POST")
    assert chatted.json()["messages"] == [{"role": "user", "content": "what is the weather"}]
    assert spoken.json()["input"] == "It is sunny."
    assert len({requests.headers["X-GW-Turn"] for requests in (transcribed, chatted, spoken)}) == 1
    assert len({requests.headers["X-GW-Session"] for requests in (transcribed, chatted, spoken)}) == 1


def test_turn_draws_a_bar_per_stage_and_sums_up(gw, recording):
    *stages, last = gw("turn", recording, "-o", "a.wav").stderr.splitlines()
    assert [line.split()[:2] for line in stages] == [["stt", "sim/tone"], ["llm", "sim/echo"], ["tts", "sim/tone"]]
    name, first_audio, cost = last.split("   ")
    assert (name, cost) == ("a.wav", "$0.00055")
    assert first_audio.startswith("first audio ")


def test_turn_stops_when_nothing_was_heard(gw, gateway, recording):
    gateway.replies["POST /v1/audio/transcriptions"] = json_reply({"text": " "})
    result = gw("turn", recording, "-o", "a.wav")
    assert result.exit_code == 1
    assert "no speech was recognised" in result.stderr


def test_turn_needs_a_file_for_its_audio(gw, recording):
    assert gw("turn", recording, "-o", "-").exit_code == 2
