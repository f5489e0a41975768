"""Vendors' answers with everything that their bills depend on, written as the vendors write them and not with our codecs.

Shapes: openai-python 3.52.0 `ChatCompletion` and its chunks (`service_tier`, `usage`), groq-python 1.7.0 (`x_groq`,
`service_tier`), anthropic-python 1.17.0 `Usage` (`cache_creation`, `server_tool_use`, `service_tier`, `inference_geo`, `speed`;
of a stream `message_start` has all, `message_delta` the counters), deepgram-sdk 7.17.0 `listen/v1` (`metadata`) and its
response header `dg-char-count`, elevenlabs 2.78.0 (`audio_duration_secs`, `transcripts`; response header `character-cost`).
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from tests.fakes.vendors.scripted import Receive, Send

Json = dict[str, Any]


@attrs.define
class Reply:
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@attrs.define
class BillingVendor:
    """Gives every request the reply that was put here last."""

    reply: Reply = attrs.field(factory=lambda: Reply(b"{}"))

    async def __call__(self, scope: Json, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", self.reply.content_type.encode()), *self.reply.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.reply.body, "more_body": False})


def _encode(value: object) -> bytes:
    return msgspec.json.encode(value)


def openai_chat(usage: Json, tier: str | None, *, stream: bool, message: Json | None = None) -> Reply:
    common = {"id": "chatcmpl-1", "created": 1_790_000_000, "model": "m"}
    if tier is not None:
        common["service_tier"] = tier
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hi."} | (message or {}), "finish_reason": "stop"}
        return Reply(_encode({**common, "object": "chat.completion", "choices": [choice], "usage": usage}))
    common["object"] = "chat.completion.chunk"
    chunks = [
        {**common, "choices": [{"index": 0, "delta": {"content": "Hi."} | (message or {}), "finish_reason": None}], "usage": None},
        {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
        {**common, "choices": [], "usage": usage},
    ]
    lines = b"".join(b"data: " + _encode(chunk) + b"\n\n" for chunk in chunks)
    return Reply(lines + b"data: [DONE]\n\n", "text/event-stream")


def openai_usage(prompt: int, completion: int, *, cached: int = 0, written: int = 0) -> Json:
    return {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }  # fmt: skip


def anthropic_messages(usage: Json, *, stream: bool) -> Reply:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    if not stream:
        content = [{"type": "text", "text": "Hi."}]
        return Reply(_encode({**message, "content": content, "stop_reason": "end_turn", "usage": usage}))
    counters = {
        name: usage[name]
        for name in ("output_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "server_tool_use")
        if name in usage
    }
    events = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": counters},
        {"type": "message_stop"},
    ]
    lines = [b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), _encode(event)) for event in events]
    return Reply(b"".join(lines), "text/event-stream")


def anthropic_usage(
    uncached: int, output: int, *, read: int = 0, five_minutes: int = 0, hour: int = 0, searches: int = 0,
    tier: str = "standard", geo: str = "not_available", speed: str = "standard",
) -> Json:  # fmt: skip
    return {
        "input_tokens": uncached, "output_tokens": output, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": five_minutes + hour,
        "cache_creation": {"ephemeral_5m_input_tokens": five_minutes, "ephemeral_1h_input_tokens": hour},
        "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0} if searches else None,
        "service_tier": tier, "inference_geo": geo, "speed": speed,
    }  # fmt: skip


def deepgram_transcript(duration_s: float, channels: int = 1) -> Reply:
    alternative = {"transcript": "hello", "confidence": 0.9, "words": []}
    metadata = {
        "transaction_key": "deprecated", "request_id": "r", "sha256": "0" * 64, "created": "2026-11-22T00:00:00Z",
        "duration": duration_s, "channels": channels, "models": ["u"], "model_info": {},
    }  # fmt: skip
    results = {"channels": [{"alternatives": [alternative]}] * channels}
    return Reply(_encode({"metadata": metadata, "results": results}))


def elevenlabs_transcript(duration_s: float, channels: int = 1) -> Reply:
    one = {"language_code": "en", "language_probability": 1.0, "text": "hello", "words": []}
    if channels == 1:
        return Reply(_encode(one | {"audio_duration_secs": duration_s}))
    transcripts = [one | {"channel_index": index} for index in range(channels)]
    return Reply(_encode({"transcripts": transcripts, "audio_duration_secs": duration_s}))


def speech(header: str, figure: int, content_type: str = "audio/mpeg") -> Reply:
    return Reply(bytes(4_800), content_type, ((header.encode(), str(figure).encode()),))


def openai_transcript(usage: Json) -> Reply:
    return Reply(_encode({"text": "hello", "usage": usage}))
