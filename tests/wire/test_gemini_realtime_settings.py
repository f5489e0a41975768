"""Settings as the setup of a session: each that Google has, and the refusal of each that it has not."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ClientProtocolError
from gw.wire.gemini_realtime_settings import GeminiRealtimeSession

MODEL = "gemini-3.8-live"


def setup_of(settings, voice=""):
    session = GeminiRealtimeSession("s", MODEL)
    assert session.update({"type": "realtime", **settings}) == []
    return msgspec.json.decode(session.setup(MODEL, lambda named: voice)[0])["setup"]


def test_the_setup_of_a_client_that_says_nothing():
    assert setup_of({}) == {
        "model": MODEL, "generationConfig": {"responseModalities": ["AUDIO"]},
        "realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": 500}},
        "outputAudioTranscription": {}, "sessionResumption": {}, "contextWindowCompression": {"slidingWindow": {}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("turns", "config"),
    [
        (None, {"automaticActivityDetection": {"disabled": True}}),
        (
            {"type": "server_vad", "threshold": 0.7, "silence_duration_ms": 900},
            {"automaticActivityDetection": {"silenceDurationMs": 900, "startOfSpeechSensitivity": "START_SENSITIVITY_LOW"}},
        ),
        (
            {"type": "server_vad", "threshold": 0.2, "interrupt_response": False},
            {
                "automaticActivityDetection": {"silenceDurationMs": 500, "startOfSpeechSensitivity": "START_SENSITIVITY_HIGH"},
                "activityHandling": "NO_INTERRUPTION",
            },
        ),
        ({"type": "semantic_vad"}, {"automaticActivityDetection": {}}),
        (
            {"type": "semantic_vad", "eagerness": "low"},
            {"automaticActivityDetection": {"endOfSpeechSensitivity": "END_SENSITIVITY_LOW"}},
        ),
    ],
)
def test_turn_detection(turns, config):
    assert setup_of({"audio": {"input": {"turn_detection": turns}}})["realtimeInputConfig"] == config


def test_all_other_settings():
    transcription = {"model": "whisper-1", "languages": ["en", "de"], "keywords": ["Zürich"]}
    settings = {
        "instructions": "Be brief.", "output_modalities": ["text"], "max_output_tokens": 300, "temperature": 0.4,
        "audio": {"input": {"transcription": transcription}, "output": {"voice": "Puck"}}, "truncation": "disabled",
        "tools": [{"type": "function", "name": "f"}], "tool_choice": "none",
    }  # fmt: skip
    setup = setup_of(settings, voice="Puck")
    assert setup["generationConfig"] == {
        "responseModalities": ["TEXT"], "maxOutputTokens": 300, "temperature": 0.4,
        "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Puck"}}},
    }  # fmt: skip
    assert setup["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert setup["inputAudioTranscription"] == {"languageCodes": ["en", "de"], "customVocabulary": ["Zürich"]}
    assert not {"tools", "contextWindowCompression"} & setup.keys()


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"audio": {"input": {"turn_detection": {"type": "server_vad", "create_response": False}}}}, "create_response"),
        ({"audio": {"input": {"turn_detection": {"type": "server_vad", "prefix_padding_ms": 100}}}}, "prefix_padding_ms"),
        ({"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5_000}}}}, "idle_timeout_ms"),
        ({"audio": {"input": {"transcription": {"prompt": "names"}}}}, "prompt"),
        ({"audio": {"input": {"noise_reduction": {"type": "near_field"}}}}, "noise_reduction"),
        ({"audio": {"output": {"speed": 1.2}}}, "speed"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"reasoning": {"effort": "low"}}, "reasoning"),
        ({"truncation": {"type": "retention_ratio", "retention_ratio": 0.5}}, "truncation"),
    ],
)
def test_a_setting_that_google_has_not_is_refused_by_name_and_the_others_are_done(settings, param):
    session = GeminiRealtimeSession("s", MODEL)
    (refused,) = session.update({"type": "realtime", "instructions": "Be brief.", **settings})
    assert (refused.event_code, refused.param.rpartition(".")[2]) == ("unsupported_parameter", param)
    assert session.settings["instructions"] == "Be brief."


@pytest.mark.parametrize(
    "options",
    [
        {"output_modalities": ["text"]}, {"tools": [{"type": "function", "name": "f"}]}, {"audio": {"output": {"voice": "Puck"}}},
        {"max_output_tokens": 5}, {"tool_choice": "none"}, {"input": [{"type": "message"}]}, {"conversation": "none"},
    ],
)  # fmt: skip
def test_a_response_has_no_settings_of_its_own_but_instructions_and_metadata(options):
    session = GeminiRealtimeSession("s", MODEL)
    with pytest.raises(ClientProtocolError) as refused:
        session.response_settings(options)
    assert refused.value.param.startswith("response.")
    assert session.response_settings({"instructions": "Say hello.", "metadata": {"a": "b"}}).settings["metadata"] == {"a": "b"}
