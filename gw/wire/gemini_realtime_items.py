"""Items of OpenAI's realtime conversation as what a Gemini Live model is sent, in text or as turns.

Sources, November 2026: google-genai 3.6.1, `types.py` (`Content`, `LiveClientContent`, `LiveClientRealtimeInput`, `FunctionResponse`);
livekit-plugins-google 1.8.9 and pipecat-ai 1.14.0 (a Live model knows the roles `user` and `model`; Gemini 2 answers `clientContent` that
ends with a turn of the user; from Gemini 3 on it may only be the history with which a session begins, and the rest is `realtimeInput`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

from gw.wire.json_frames import json_frame
from gw.wire.openai_realtime_settings import Members

CHUNK_BYTES = 32_000  # of a frame of buffered audio: a second
_AUDIO = "audio/pcm;rate=16000"
_NUDGE = "."
"""The words of a user who only lets the model speak."""


def audio_frame(pcm: bytes) -> str:
    return '{"realtimeInput":{"audio":{"mimeType":"' + _AUDIO + '","data":"' + b64encode(pcm).decode() + '"}}}'


def realtime_frame(**members: Any) -> str:
    return json_frame({"realtimeInput": members})


def content_frame(turns: Sequence[Members], *, complete: bool) -> str:
    return json_frame({"clientContent": {"turns": turns, "turnComplete": complete}})


STREAM_END = realtime_frame(audioStreamEnd=True)


def result_frame(results: Iterable[tuple[str | None, str, str]]) -> str:
    """Return the results of functions: the vendor's id of the call, the name of the function, and its output."""
    responses = [({"id": id_} if id_ else {}) | {"name": name, "response": {"output": output}} for id_, name, output in results]
    return json_frame({"toolResponse": {"functionResponses": responses}})


def _image(url: str) -> Members:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return {"mimeType": kind, "data": data}


def _images(item: Members) -> list[Members]:
    return [_image(part["image_url"]) for part in item["content"] if part["type"] == "input_image"]


def _words(item: Members) -> str:
    return "".join(part.get("text") or part.get("transcript") or "" for part in item["content"])


def turns_of(items: Iterable[Members], *, answered: bool = True) -> list[Members]:
    """Return messages as turns; the last one is the user's if it is `answered`. A message of the system is one of the user that says so."""
    turns = []
    for item in items:
        words = f"System: {_words(item)}" if item["role"] == "system" else _words(item)
        parts: list[Members] = [{"text": words}] if words else []
        parts += [{"inlineData": image} for image in _images(item)]
        if parts:
            turns.append({"role": "model" if item["role"] == "assistant" else "user", "parts": parts})
    if answered and (not turns or turns[-1]["role"] != "user"):
        turns.append({"role": "user", "parts": [{"text": _NUDGE}]})
    return turns


def text_of(items: Sequence[Members]) -> str:
    """Return messages as one text; each has its role before it, unless there is only one, of the user."""
    spoken = [(item["role"], _words(item)) for item in items]
    spoken = [(role, words) for role, words in spoken if words]
    if not spoken:
        return _NUDGE
    if len(spoken) == 1 and spoken[0][0] == "user":
        return spoken[0][1]
    return "\n".join(f"{role}: {words}" for role, words in spoken)


def live_input(items: Sequence[Members]) -> list[str]:
    """Return messages as realtime input: images as frames of video, then the text."""
    frames = [realtime_frame(video=image) for item in items for image in _images(item)]
    return [*frames, realtime_frame(text=text_of(items))]


def spoken_input(parts: Iterable[Members | bytes]) -> list[str]:
    """Return a turn of committed audio, and messages among it, for a session that does not detect turns by itself."""
    frames = [realtime_frame(activityStart={})]
    for part in parts:
        if isinstance(part, bytes):
            frames += [audio_frame(part[at : at + CHUNK_BYTES]) for at in range(0, len(part), CHUNK_BYTES)]
        else:
            frames += live_input([part])
    return [*frames, realtime_frame(activityEnd={})]
