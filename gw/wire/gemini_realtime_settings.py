"""Settings of OpenAI's realtime API as the setup of a Gemini Live session.

Sources, November 2026: google-genai 3.6.1, `types.py` (`LiveClientSetup`, `RealtimeInputConfig`, `AudioTranscriptionConfig`);
ai.google.dev/api/live (a session keeps its settings; all but the model may be others when it is resumed); openai-python 3.52.0,
`types/realtime`. docs/dialects/openai-realtime.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gw.types.audio import AudioFormat
from gw.wire.gemini_live_functions import declarations
from gw.wire.json_frames import json_frame
from gw.wire.openai_realtime_conversation import RealtimeSession, ResponseSettings
from gw.wire.openai_realtime_server import EventRefused, audio_format
from gw.wire.openai_realtime_settings import (
    BOOL,
    EAGERNESSES,
    INPUT,
    OUTPUT,
    RESPONSE,
    SESSION,
    TEXT,
    TRANSCRIPTION,
    WORDS,
    Check,
    Members,
    invalid,
    members_of,
    not_done,
    number,
    one_of,
    only,
    or_null,
    turn_detection,
    unsupported,
    value_of,
    whole,
)

_WHOLE_SESSION = "a Live model has one for the whole session: send it in session.update"
_SET_ONCE = ("output_modalities", "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls", "audio")


def _choice(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value in (None, "auto", "none"):
        return old if value is None else value
    if value != "required" and not (isinstance(value, dict) and value.get("type") in ("function", "mcp")):
        raise invalid(path, "none, auto, required or {type: function, name} is expected")
    raise unsupported(path, "a Live model itself chooses whether it calls a function; auto and none are possible")


def _truncation(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value in (None, "auto", "disabled"):
        return value or old
    if not isinstance(value, dict):
        raise invalid(path, "auto or disabled is expected")
    raise unsupported(path, "Google decides how much is left out; auto and disabled are possible")


_ALWAYS_ANSWERS = "a Live model answers each turn that it detects; with turn_detection null the client requests the responses"
_ANSWERS: Mapping[str, Check] = {"create_response": only(True, _ALWAYS_ANSWERS), "interrupt_response": BOOL}
_TURNS: Mapping[str, Mapping[str, Check]] = {
    "server_vad": {
        "type": TEXT,
        "threshold": number(0, 1),
        "prefix_padding_ms": only(300, "Google decides how much of the audio before the speech belongs to it"),
        "silence_duration_ms": whole(0, 60_000),
        "idle_timeout_ms": not_done("a Live model waits for the user"),
        **_ANSWERS,
    },
    "semantic_vad": {"type": TEXT, "eagerness": one_of(*EAGERNESSES), **_ANSWERS},
}
_HEARD: Mapping[str, Check] = {
    **TRANSCRIPTION,
    "languages": WORDS,
    "prompt": not_done("the transcription of a Live model has languages and keywords only"),
}
_LIVE: Mapping[str, Check] = {
    "tool_choice": _choice,
    "parallel_tool_calls": only(True, "a Live model may always call several functions at once"),
    "reasoning": not_done("a Live model reasons as much as it does by itself"),
}
_SESSION: Mapping[str, Check] = {
    **SESSION,
    **_LIVE,
    "audio": members_of({
        "input": members_of({
            **INPUT, "transcription": or_null(members_of(_HEARD)), "turn_detection": or_null(turn_detection(_TURNS)),
        }),
        "output": members_of({**OUTPUT, "speed": only(1, "a Live model speaks at its own speed")}),
    }),
    "truncation": _truncation,
    "temperature": number(0, 2),
}  # fmt: skip
_RESPONSE: Mapping[str, Check] = {
    **RESPONSE,
    **_LIVE,
    "conversation": or_null(value_of("auto is expected: a Live model has one conversation", lambda v: v == "auto")),
    "input": not_done("a Live model answers the whole conversation"),
}
_EAGERNESS = {"low": "END_SENSITIVITY_LOW", "high": "END_SENSITIVITY_HIGH"}


class GeminiRealtimeSession(RealtimeSession):
    """The settings that the client has, and the setup that is made of them."""

    session_checks = _SESSION
    response_checks = _RESPONSE

    def __init__(self, session_id: str, model: str) -> None:
        super().__init__(session_id, model, model)
        self.settings["audio"]["input"]["transcription"] = None
        self.settings["temperature"] = None

    def response_settings(self, options: object) -> ResponseSettings:
        """Return what a response is made of. Raises EventRefused, also for what a Live model has for the whole session."""
        made_of = super().response_settings(options)
        for name in _SET_ONCE:
            if made_of.settings[name] != self.settings[name]:
                raise unsupported(f"response.{name}", _WHOLE_SESSION)
        return made_of

    @property
    def input_format(self) -> AudioFormat:
        return _format(self.settings["audio"]["input"]["format"])

    @property
    def output_format(self) -> AudioFormat:
        return _format(self.settings["audio"]["output"]["format"])

    @property
    def voice(self) -> str:
        """Return the voice that the client wants."""
        voice = self.settings["audio"]["output"]["voice"]
        named: str = voice["id"] if isinstance(voice, dict) else voice
        return named

    def setup(self, model: str, voice_of: Callable[[str], str], *, handle: str = "", history: bool = False) -> tuple[str, tuple[str, ...]]:
        """Return the first frame of a session, and the names of the settings that the vendor cannot take.

        `voice_of` returns the vendor's voice for that of the client, "" for the vendor's default; `handle` resumes a session;
        `history` announces messages before the conversation itself.
        """
        settings = self.settings
        transcription = self.transcription
        tools, left_out = declarations(settings["tools"], model) if settings["tool_choice"] != "none" else ([], [])
        ignored = [f"tools.parameters.{name}" for name in left_out]
        generation: Members = {"responseModalities": [each.upper() for each in settings["output_modalities"]]}
        if isinstance(settings["max_output_tokens"], int):
            generation["maxOutputTokens"] = settings["max_output_tokens"]
        if settings["temperature"] is not None:
            generation["temperature"] = settings["temperature"]
        if named := voice_of(self.voice):
            generation["speechConfig"] = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": named}}}
        setup: Members = {
            "model": model, "generationConfig": generation, "realtimeInputConfig": _input_config(self.turns),
            "outputAudioTranscription": {}, "sessionResumption": {"handle": handle} if handle else {},
        }  # fmt: skip
        if settings["instructions"]:
            setup["systemInstruction"] = {"parts": [{"text": settings["instructions"]}]}
        if tools:
            setup["tools"] = [{"functionDeclarations": tools}]
        if transcription is not None:
            setup["inputAudioTranscription"] = _transcription(transcription)
        if history:
            setup["historyConfig"] = {"initialHistoryInClientContent": True}
        if settings["truncation"] == "auto":
            setup["contextWindowCompression"] = {"slidingWindow": {}}
        return json_frame({"setup": setup}), tuple(ignored)


def _transcription(settings: Members) -> Members:
    languages = [settings["language"]] if settings.get("language") else settings.get("languages")
    return ({"languageCodes": languages} if languages else {}) | (
        {"customVocabulary": settings["keywords"]} if settings.get("keywords") else {}
    )


def _input_config(turns: Members) -> Members:
    """Return the detection of turns. Without it, the client says when a turn begins and ends."""
    if not turns:
        return {"automaticActivityDetection": {"disabled": True}}
    detection: Members = {}
    if turns["type"] == "server_vad":
        detection["silenceDurationMs"] = turns["silence_duration_ms"]
        if turns["threshold"] != 0.5:
            detection["startOfSpeechSensitivity"] = "START_SENSITIVITY_" + ("LOW" if turns["threshold"] > 0.5 else "HIGH")
    elif turns["eagerness"] in _EAGERNESS:
        detection["endOfSpeechSensitivity"] = _EAGERNESS[turns["eagerness"]]
    config: Members = {"automaticActivityDetection": detection}
    if not turns["interrupt_response"]:
        config["activityHandling"] = "NO_INTERRUPTION"
    return config


def _format(settings: Members) -> AudioFormat:
    return audio_format(settings["type"], settings.get("rate"))
