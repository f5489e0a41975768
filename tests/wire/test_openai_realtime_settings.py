"""Settings of a realtime conversation: every member that OpenAI's SDK has is done or refused by name, and documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pydantic
import pytest
from openai.types import realtime
from openai.types.realtime import realtime_audio_input_turn_detection as detection

from gw.wire.openai_realtime_conversation import RealtimeSession
from gw.wire.openai_realtime_settings import RESPONSE, SESSION, EventRefused, check_members

PAGE = Path(__file__).parents[2] / "docs" / "dialects" / "openai-realtime.md"
MANY = {f"k{n}": "v" for n in range(17)}


def session() -> RealtimeSession:
    return RealtimeSession("0123456789abcdef", "talk", "talk")


def _models(annotation: Any) -> list[type[pydantic.BaseModel]]:
    """Return the objects that a type of the SDK consists of."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _paths(model: type[pydantic.BaseModel], prefix: str) -> list[str]:
    """Return the paths of all members, at all depths; tools, prompts and items are values of their own."""
    paths = []
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}"
        is_value = name in ("tools", "tool_choice", "prompt", "voice", "format") or path == "response.input"
        inner = [] if is_value else _models(field.annotation)
        paths += [path] if not inner else [p for m in inner for p in _paths(m, path)]
    return sorted(set(paths))


SESSION_PATHS = _paths(realtime.RealtimeSessionCreateRequest, "session")
RESPONSE_PATHS = _paths(realtime.RealtimeResponseCreateParams, "response")


def test_the_paths_are_those_of_the_sdk():
    assert "session.audio.input.turn_detection.idle_timeout_ms" in SESSION_PATHS
    assert "response.audio.output.voice" in RESPONSE_PATHS
    assert detection.SemanticVad.model_fields.keys() <= {path.rpartition(".")[2] for path in SESSION_PATHS}


def _known(path: str, table: Any) -> bool:
    """Return whether the check knows the member: an unknown one is refused as such."""
    _, *names = path.split(".")
    value: Any = object()
    for name in reversed(names):
        value = {name: value}
    if "turn_detection" in names:
        kind = "semantic_vad" if names[-1] == "eagerness" else "server_vad"
        value["audio"]["input"]["turn_detection"] = {"type": kind, **value["audio"]["input"]["turn_detection"]}
    refused: list[EventRefused] = []
    try:
        check_members(value, path.partition(".")[0], session().settings, table, refused)
    except EventRefused as error:
        return error.event_code != "unknown_parameter"
    except (AttributeError, TypeError):
        return True  # it got as far as the check of the value
    return bool(refused)


@pytest.mark.parametrize("path", SESSION_PATHS)
def test_every_setting_of_a_session_is_known_and_documented(path):
    assert _known(path, SESSION), path
    assert f"`{path}`" in PAGE.read_text()


@pytest.mark.parametrize("path", RESPONSE_PATHS)
def test_every_setting_of_a_response_is_known_and_documented(path):
    assert _known(path, RESPONSE), path
    assert f"`{path}`" in PAGE.read_text()


def _turns(**members: Any) -> dict[str, Any]:
    return {"audio": {"input": {"turn_detection": members}}}


REFUSED = [
    ("session.include", {"include": ["item.input_audio_transcription.logprobs"]}),
    ("session.prompt", {"prompt": {"id": "pmpt_1"}}),
    ("session.model", {"model": "gpt-realtime"}),
    ("session.tools[0].type", {"tools": [{"type": "mcp", "server_label": "x"}]}),
    ("session.tool_choice", {"tool_choice": {"type": "mcp", "server_label": "x"}}),
    ("session.tracing.workflow_name", {"tracing": {"workflow_name": "x"}}),
    ("session.tracing.metadata", {"tracing": {"metadata": {"a": "b"}}}),
    ("session.audio.input.noise_reduction", {"audio": {"input": {"noise_reduction": {"type": "far_field"}}}}),
    ("session.audio.input.transcription.delay", {"audio": {"input": {"transcription": {"delay": "low"}}}}),
    (
        "session.audio.input.transcription.languages",
        {"audio": {"input": {"transcription": {"languages": ["en", "de"]}}}},
    ),
    ("session.audio.input.turn_detection.threshold", {"audio": {"input": {"turn_detection": {"threshold": 0.9}}}}),
]


@pytest.mark.parametrize(("path", "update"), REFUSED, ids=[path for path, _ in REFUSED])
def test_what_is_not_done_is_refused_by_name_and_documented_as_refused(path, update):
    about = session()
    before = about.settings
    (error,) = about.update(update)
    assert (error.param, error.event_code) == (path, "unsupported_parameter")
    assert path in error.message
    named = re.sub(r"\[0\]\.type", "", path)
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and f"`{named}`" in line]
    assert "refused" in row
    assert about.settings.keys() == before.keys()


@pytest.mark.parametrize(
    "update",
    [
        {"include": None, "prompt": None, "tracing": None, "truncation": "auto", "model": "talk", "type": "realtime"},
        {"audio": {"input": {"noise_reduction": None, "turn_detection": {"threshold": 0.5, "prefix_padding_ms": 300}}}},
        {
            "audio": {
                "input": {"transcription": {"languages": ["en"], "keywords": ["Paris"]}},
                "output": {"voice": {"id": "v"}},
            }
        },
        {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}}, "tracing": "auto"},
    ],
)
def test_what_asks_for_nothing_special_is_accepted(update):
    assert session().update(update) == []


@pytest.mark.parametrize(
    ("path", "update"),
    [
        ("session.max_output_tokens", {"max_output_tokens": 0}),
        ("session.audio.output.speed", {"audio": {"output": {"speed": 2}}}),
        ("session.audio.output.voice", {"audio": {"output": {"voice": 7}}}),
        ("session.audio.input.turn_detection.eagerness", _turns(type="semantic_vad", eagerness="x")),
        ("session.audio.input.turn_detection.type", _turns(type="x")),
        ("session.truncation", {"truncation": {"type": "retention_ratio"}}),
        ("session.truncation.retention_ratio", {"truncation": {"type": "retention_ratio", "retention_ratio": 2}}),
        ("session.tools[0]", {"tools": [{"type": "function"}]}),
        ("session.type", {"type": "transcription"}),
        ("session.audio", {"audio": []}),
    ],
)
def test_a_malformed_value_is_refused_with_the_whole_update(path, update):
    about = session()
    with pytest.raises(EventRefused) as refused:
        about.update({"instructions": "x", **update})
    assert (refused.value.param, refused.value.event_code) == (path, "invalid_value")
    assert about.settings["instructions"] == ""


def test_a_change_of_the_type_of_turn_detection_begins_with_its_defaults():
    about = session()
    about.update({"audio": {"input": {"turn_detection": {"silence_duration_ms": 900}}}})
    assert about.turns["silence_duration_ms"] == 900
    about.update({"audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}}})
    assert about.turns == {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": False,
        "interrupt_response": True,
    }
    about.update({"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    assert about.turns["silence_duration_ms"] == 500


@pytest.mark.parametrize("metadata", [MANY, {"k" * 65: "v"}, {"k": "v" * 513}, {"k": 1}, "x"])
def test_metadata_of_a_response_is_bounded(metadata):
    with pytest.raises(EventRefused) as refused:
        session().response_settings({"metadata": metadata})
    assert refused.value.param == "response.metadata"


def test_a_response_with_a_setting_that_is_not_done_is_not_made():
    with pytest.raises(EventRefused) as refused:
        session().response_settings({"prompt": {"id": "pmpt_1"}})
    assert refused.value.param == "response.prompt"


def test_the_settings_of_a_response_do_not_change_the_session():
    about = session()
    about.update({"instructions": "Be brief."})
    made_of = about.response_settings({"instructions": "Be long.", "audio": {"output": {"voice": {"id": "voice_1"}}}})
    assert made_of.settings["instructions"] == "Be long."
    assert made_of.speak_request("m").voice == "voice_1"
    assert about.settings["instructions"] == "Be brief."
    assert about.settings["audio"]["output"]["voice"] == "alloy"


def test_speed_reaches_the_voice():
    about = session()
    about.update({"audio": {"output": {"speed": 1.25}}})
    assert about.response_settings(None).speak_request("m").speed == 1.25
    assert session().response_settings(None).speak_request("m").speed is None
