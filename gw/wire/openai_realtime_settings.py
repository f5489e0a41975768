"""Settings of OpenAI's realtime conversation: which ones are done here, and the check of an update.

Source: openai-python 3.52.0, `types/realtime` (November 2026): RealtimeSessionCreateRequest, RealtimeResponseCreateParams and
what they contain. A member that OpenAI does not know, or a value of another form, refuses the whole event, as OpenAI does. A
setting that OpenAI has and this gateway cannot do is refused by itself, with an `error` event that names it, and keeps its
old value; the others are changed. docs/dialects/README.md lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gw.errors import ClientProtocolError
from gw.wire.openai_realtime_server import DEFAULT_TURNS, EventRefused, audio_format

Members = dict[str, Any]
EAGERNESSES = ("low", "medium", "high", "auto")
MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512  # pairs, and characters of each
SLOWEST, FASTEST = 0.25, 1.5


class Unsupported(EventRefused):
    """A setting that OpenAI documents and this gateway does not do."""

    event_code: str = "unsupported_parameter"


def unsupported(path: str, why: str) -> Unsupported:
    return Unsupported(what=f"Unsupported parameter: '{path}': {why}", param=path)


def invalid(path: str, expected: str) -> EventRefused:
    return EventRefused(what=f"Invalid value for '{path}': {expected}", param=path)


Check = Callable[[Any, str, Any, list[EventRefused]], Any]
"""From the new value, its path and the old value to the value to keep. Notes what is unsupported; raises EventRefused."""


def check_members(
    value: object, path: str, old: Any, table: Mapping[str, Check], refused: list[EventRefused]
) -> Members:
    """Return the old members with the new ones over them. Raises EventRefused, and then nothing is changed."""
    if not isinstance(value, dict):
        raise invalid(path, "an object is expected")
    changed: Members = dict(old) if isinstance(old, dict) else {}
    for name, member in value.items():
        where = f"{path}.{name}"
        if name not in table:
            raise EventRefused(what=f"Unknown parameter: '{where}'", param=where, event_code="unknown_parameter")
        try:
            changed[name] = table[name](member, where, changed.get(name), refused)
        except Unsupported as error:
            refused.append(error)
    return changed


# ---- checks


def value_of(expected: str, fits: Callable[[Any], bool]) -> Check:
    """Return a check of one value; null keeps the old one."""

    def check(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        if value is None:
            return old
        if not fits(value):
            raise invalid(path, expected)
        return value

    return check


def members_of(table: Mapping[str, Check]) -> Check:
    """Return a check of an object, member by member; null keeps the old one."""

    def check(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        return old if value is None else check_members(value, path, old, table, refused)

    return check


def or_null(check: Check) -> Check:
    def checked(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        return None if value is None else check(value, path, old, refused)

    return checked


def not_done(why: str) -> Check:
    """Return the check of a setting that is not done; null and an empty list ask for nothing."""

    def check(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        if value not in (None, []):
            raise unsupported(path, why)
        return value

    return check


def only(value_done: Any, why: str) -> Check:
    """Return the check of a setting of which one value is done."""

    def check(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        if value not in (None, value_done):
            raise unsupported(path, why)
        return value_done

    return check


def _unchanged(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value not in (None, old):
        raise unsupported(path, f"this session has {old!r}, and a session keeps it")
    return old


def number(least: float, most: float) -> Check:
    def fits(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most

    return value_of(f"a number from {least:g} to {most:g} is expected", fits)


def whole(least: int, most: int) -> Check:
    def fits(value: Any) -> bool:
        return type(value) is int and least <= value <= most

    return value_of(f"a whole number from {least} to {most} is expected", fits)


def one_of(*values: str) -> Check:
    return value_of("one of " + ", ".join(values) + " is expected", lambda v: isinstance(v, str) and v in values)


def _format(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is None:
        return old
    try:
        audio_format(value.get("type"), value.get("rate"))
    except (AttributeError, ClientProtocolError):
        raise invalid(path, "audio/pcm at 24000, audio/pcmu or audio/pcma is expected") from None
    return value


def _languages(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is not None and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        raise invalid(path, "a list of languages is expected")
    if value is not None and len(value) > 1:
        raise unsupported(path, "a session has one language, or none to have it detected")
    return value


def turn_detection(kinds: Mapping[str, Mapping[str, Check]]) -> Check:
    """Return the check of turn detection, by type. The settings of another type than before begin with its defaults."""

    def check(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
        kind = value.get("type", (old or {}).get("type")) if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise invalid(f"{path}.type", "server_vad or semantic_vad is expected")
        before = old if old is not None and old["type"] == kind else DEFAULTS[kind]
        return check_members(value, path, before, kinds[kind], refused)

    return check


def _tools(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is None:
        return old
    if not isinstance(value, list):
        raise invalid(path, "a list is expected")
    kept = []
    for n, tool in enumerate(value):
        kind = (tool.get("type") or "function") if isinstance(tool, dict) else None
        if kind == "mcp":
            refused.append(
                unsupported(f"{path}[{n}].type", "the gateway calls no MCP servers; offer their tools as functions")
            )
        elif kind != "function" or not isinstance(tool.get("name"), str) or not tool["name"]:
            raise invalid(f"{path}[{n}]", "a function with a name is expected")
        else:
            kept.append(tool)
    return kept


def _tool_choice(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is None:
        return old
    if isinstance(value, dict) and value.get("type") == "mcp":
        raise unsupported(path, "the gateway calls no MCP servers")
    if value in ("none", "auto", "required"):
        return value
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("name"), str):
        return value
    raise invalid(path, "none, auto, required or {type: function, name} is expected")


def _metadata(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is None:
        return None
    fits = isinstance(value, dict) and len(value) <= MAX_METADATA
    if not fits or not all(isinstance(v, str) and len(k) <= MAX_KEY and len(v) <= MAX_VALUE for k, v in value.items()):
        raise invalid(
            path, f"at most {MAX_METADATA} texts of {MAX_VALUE} characters are expected, with names of {MAX_KEY}"
        )
    return value


TEXT = value_of("a text is expected", lambda v: isinstance(v, str))
BOOL = value_of("true or false is expected", lambda v: isinstance(v, bool))
_COUNT = value_of("a whole number from 1, or inf, is expected", lambda v: v == "inf" or (type(v) is int and v >= 1))
_MODALITIES = value_of('["audio"] or ["text"] is expected', lambda v: v in (["audio"], ["text"]))
_VOICE = value_of("a voice or {id} is expected", lambda v: isinstance(v.get("id") if isinstance(v, dict) else v, str))
WORDS = value_of("a list of texts is expected", lambda v: isinstance(v, list) and all(isinstance(w, str) for w in v))
_REASONING = or_null(members_of({"effort": TEXT}))
_RETENTION: Mapping[str, Check] = {
    "type": value_of("retention_ratio is expected", lambda v: v == "retention_ratio"),
    "retention_ratio": number(0, 1),
    "token_limits": or_null(members_of({"post_instructions": whole(1, 10_000_000)})),
}


def _truncation(value: Any, path: str, old: Any, refused: list[EventRefused]) -> Any:
    if value is None:
        return old
    if value in ("auto", "disabled"):
        return value
    if not isinstance(value, dict) or "type" not in value or "retention_ratio" not in value:
        raise invalid(path, "auto, disabled or {type: retention_ratio, retention_ratio} is expected")
    return check_members(value, path, None, _RETENTION, refused)


_TRACING = or_null(
    lambda value, path, old, refused: (
        value if value == "auto" else check_members(value, path, None, _TRACING_MEMBERS, refused)
    )
)
_TRACING_MEMBERS: Mapping[str, Check] = {
    "group_id": TEXT,
    "workflow_name": not_done("a session is traced by its requests, which have no such field"),
    "metadata": not_done("a session is traced by its requests, which have no such field"),
}
_PROMPT = not_done("prompt templates are stored at OpenAI; send their text as instructions")
_ANSWERS: Mapping[str, Check] = {"create_response": BOOL, "interrupt_response": BOOL}
_TURNS: Mapping[str, Mapping[str, Check]] = {
    "server_vad": {
        "type": TEXT,
        "threshold": only(0.5, "the transcription model decides what is speech"),
        "prefix_padding_ms": whole(0, 60_000),
        "silence_duration_ms": whole(0, 60_000),
        "idle_timeout_ms": or_null(whole(1, 3_600_000)),
        **_ANSWERS,
    },
    "semantic_vad": {"type": TEXT, "eagerness": one_of(*EAGERNESSES), **_ANSWERS},
}
DEFAULTS: Mapping[str, Members] = {
    "server_vad": {**DEFAULT_TURNS, "idle_timeout_ms": None, "create_response": True, "interrupt_response": True},
    "semantic_vad": {"type": "semantic_vad", "eagerness": "auto", "create_response": True, "interrupt_response": True},
}
TRANSCRIPTION: Mapping[str, Check] = {
    "model": TEXT,
    "language": TEXT,
    "languages": _languages,
    "keywords": WORDS,
    "prompt": TEXT,
    "delay": not_done("a transcript is sent as soon as there is one"),
}
INPUT: Mapping[str, Check] = {
    "format": _format,
    "noise_reduction": not_done("the gateway does not change the audio"),
    "transcription": or_null(members_of(TRANSCRIPTION)),
    "turn_detection": or_null(turn_detection(_TURNS)),
}
OUTPUT: Mapping[str, Check] = {"format": _format, "voice": _VOICE, "speed": number(SLOWEST, FASTEST)}
_ANSWER: Mapping[str, Check] = {
    "instructions": TEXT,
    "output_modalities": _MODALITIES,
    "max_output_tokens": _COUNT,
    "parallel_tool_calls": BOOL,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "reasoning": _REASONING,
    "prompt": _PROMPT,
}
"""Settings of a session that a response may have of its own."""
SESSION: Mapping[str, Check] = {
    **_ANSWER,
    "type": value_of(
        "realtime is expected; a session that transcribes is opened with intent=transcription",
        lambda v: v == "realtime",
    ),
    "id": _unchanged,
    "object": _unchanged,
    "model": _unchanged,
    "audio": members_of({"input": members_of(INPUT), "output": members_of(OUTPUT)}),
    "include": not_done("the transcription models have no log probabilities in common"),
    "tracing": _TRACING,
    "truncation": _truncation,
}
RESPONSE: Mapping[str, Check] = {
    **_ANSWER,
    "audio": members_of({"output": members_of({"format": _format, "voice": _VOICE})}),
    "conversation": one_of("auto", "none"),
    "metadata": _metadata,
    "input": or_null(value_of("a list of items is expected", lambda v: isinstance(v, list))),
}
