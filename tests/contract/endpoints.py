"""The endpoints of the dialect suites: how each is called, and how its answer is read.

A new dialect is its endpoints listed in `ENDPOINTS`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import attrs
import msgspec

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.types.ids import Modality
from gw.wire import multipart, wav
from tests.fakes.hosting import Plane, Reply

TEXT = "one two three four five six"
BOUNDARY = b"contract-boundary"


@cache
def recording(text: str = "hello there") -> bytes:
    samples = b"".join(fsk.encode(text, 16_000))
    return wav.header(PCM_16K, len(samples)) + samples


def chat_body(model: str, *, stream: bool, **members: Any) -> tuple[bytes, str]:
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": TEXT}], **members}
    return msgspec.json.encode(body), "application/json"


def speech_body(model: str, **members: Any) -> tuple[bytes, str]:
    body = {"model": model, "input": TEXT, "voice": "alloy", "response_format": "pcm", **members}
    return msgspec.json.encode(body), "application/json"


def form_body(model: str, **fields: str) -> tuple[bytes, str]:
    head, tail = multipart.encode_form(
        [("model", model), *fields.items()], file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY
    )
    return head + recording() + tail, "multipart/form-data; boundary=" + BOUNDARY.decode()


def _members(reply: Reply, kind: str, name: str) -> list[Any]:
    """`name` of every event whose type begins with `kind`."""
    decoded = [msgspec.json.decode(event) for event in reply.events]
    return [event[name] for event in decoded if event.get("type", "").startswith(kind)]


def _chat_text(reply: Reply) -> str:
    chunks = [msgspec.json.decode(event) for event in reply.events if event != b"[DONE]"]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c.get("choices"))


def _in_band(reply: Reply) -> dict[str, Any]:
    error: dict[str, Any] = msgspec.json.decode(reply.events[-1])["error"]
    return error


@attrs.frozen(kw_only=True)
class Endpoint:
    """One endpoint in one form. `dialect` names the wire dialect of a provider type that speaks it too."""

    name: str
    dialect: str
    modality: Modality
    path: str
    body: Callable[..., tuple[bytes, str]]
    content: Callable[[Reply], str | bytes]
    """The answer's text or audio."""
    content_type: str
    streams: bool
    """Content goes out before the end."""
    in_band: Callable[[Reply], dict[str, Any]] | None = None
    """The error that came after content; None = this form has no place for one, the connection is cut."""
    error: Callable[[Reply], dict[str, Any]] = lambda reply: reply.error
    """The error of a failed answer."""
    ends_with: bytes = b""
    """The end marker of a complete stream."""

    def gw(self, reply: Reply) -> dict[str, Any]:
        """Our class, code and facts in a failed answer."""
        about: dict[str, Any] = self.error(reply)["gw"]
        return about

    async def ask(self, plane: Plane, model: str, headers: dict[str, str] | None = None, **members: Any) -> Reply:
        body, content_type = self.body(model, **members)
        return await plane.post(self.path, body, content_type, **(headers or {}))


CHAT_WHOLE = Endpoint(
    name="chat whole",
    dialect="openai",
    modality="llm",
    path="/v1/chat/completions",
    body=partial(chat_body, stream=False),
    content=lambda reply: reply.json["choices"][0]["message"]["content"],
    content_type="application/json",
    streams=False,
)
CHAT_STREAM = Endpoint(
    name="chat stream",
    dialect="openai",
    modality="llm",
    path="/v1/chat/completions",
    body=partial(chat_body, stream=True),
    content=_chat_text,
    content_type="text/event-stream",
    streams=True,
    in_band=_in_band,
    ends_with=b"data: [DONE]\n\n",
)
SPEECH = Endpoint(
    name="speech",
    dialect="openai",
    modality="tts",
    path="/v1/audio/speech",
    body=speech_body,
    content=lambda reply: reply.body,
    content_type="audio/pcm",
    streams=True,
)
SPEECH_EVENTS = Endpoint(
    name="speech events",
    dialect="openai",
    modality="tts",
    path="/v1/audio/speech",
    body=partial(speech_body, stream_format="sse"),
    content=lambda reply: b"".join(map(b64decode, _members(reply, "speech.audio.delta", "audio"))),
    content_type="text/event-stream",
    streams=True,
    in_band=_in_band,
)
TRANSCRIPTION = Endpoint(
    name="transcription",
    dialect="openai",
    modality="stt",
    path="/v1/audio/transcriptions",
    body=form_body,
    content=lambda reply: reply.json["text"],
    content_type="application/json",
    streams=False,
)
TRANSCRIPTION_STREAM = Endpoint(
    name="transcription stream",
    dialect="openai",
    modality="stt",
    path="/v1/audio/transcriptions",
    body=partial(form_body, stream="true"),
    content=lambda reply: "".join(_members(reply, "transcript.text.delta", "delta")),
    content_type="text/event-stream",
    streams=True,
    in_band=_in_band,
)
TRANSLATION = attrs.evolve(TRANSCRIPTION, name="translation", path="/v1/audio/translations")


def _named_events(reply: Reply) -> list[Any]:
    """Return the data of every event; its name is on another line."""
    lines = [line for line in reply.body.split(b"\n") if line.startswith(b"data: ")]
    return [msgspec.json.decode(line.removeprefix(b"data: ")) for line in lines]


def _messages_body(model: str, *, stream: bool, **members: Any) -> tuple[bytes, str]:
    return chat_body(model, stream=stream, max_tokens=100, **members)


MESSAGES_WHOLE = Endpoint(
    name="messages whole",
    dialect="anthropic",
    modality="llm",
    path="/v1/messages",
    body=partial(_messages_body, stream=False),
    content=lambda reply: "".join(block["text"] for block in reply.json["content"]),
    content_type="application/json",
    streams=False,
)
MESSAGES_STREAM = Endpoint(
    name="messages stream",
    dialect="anthropic",
    modality="llm",
    path="/v1/messages",
    body=partial(_messages_body, stream=True),
    content=lambda reply: "".join(e["delta"].get("text", "") for e in _named_events(reply) if e["type"] == "content_block_delta"),
    content_type="text/event-stream",
    streams=True,
    in_band=lambda reply: _named_events(reply)[-1]["error"],
    ends_with=b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
)


def _responses_body(model: str, *, stream: bool, **members: Any) -> tuple[bytes, str]:
    return msgspec.json.encode({"model": model, "stream": stream, "input": TEXT, **members}), "application/json"


def _failure(reply: Reply) -> dict[str, Any]:
    """Return the error of the response that failed, which the last event repeats."""
    last = _named_events(reply)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert [event["sequence_number"] for event in _named_events(reply)] == list(range(len(_named_events(reply))))
    error: dict[str, Any] = last["response"]["error"]
    assert error["code"] in ("server_error", "rate_limit_exceeded")
    return error


RESPONSES_WHOLE = Endpoint(
    name="responses whole",
    dialect="openai",
    modality="llm",
    path="/v1/responses",
    body=partial(_responses_body, stream=False),
    content=lambda reply: "".join(part["text"] for item in reply.json["output"] for part in item["content"]),
    content_type="application/json",
    streams=False,
)
RESPONSES_STREAM = Endpoint(
    name="responses stream",
    dialect="openai",
    modality="llm",
    path="/v1/responses",
    body=partial(_responses_body, stream=True),
    content=lambda reply: "".join(e["delta"] for e in _named_events(reply) if e["type"] == "response.output_text.delta"),
    content_type="text/event-stream",
    streams=True,
    in_band=_failure,
)


def _lines(reply: Reply) -> list[Any]:
    return [msgspec.json.decode(line) for line in reply.body.splitlines()]


OLLAMA_WHOLE = Endpoint(
    name="ollama whole",
    dialect="ollama",
    modality="llm",
    path="/ollama/api/chat",
    body=partial(chat_body, stream=False),
    content=lambda reply: reply.json["message"]["content"],
    content_type="application/json",
    streams=False,
    error=lambda reply: reply.json,
)
OLLAMA_STREAM = attrs.evolve(
    OLLAMA_WHOLE,
    name="ollama stream",
    body=partial(chat_body, stream=True),
    content=lambda reply: "".join(line["message"]["content"] for line in _lines(reply)),
    content_type="application/x-ndjson",
    streams=True,
    in_band=lambda reply: _lines(reply)[-1],
)
ENDPOINTS = (
    CHAT_WHOLE, CHAT_STREAM, SPEECH, SPEECH_EVENTS, TRANSCRIPTION, TRANSCRIPTION_STREAM, TRANSLATION,
    MESSAGES_WHOLE, MESSAGES_STREAM, RESPONSES_WHOLE, RESPONSES_STREAM, OLLAMA_WHOLE, OLLAMA_STREAM,
)  # fmt: skip
