"""Routes of the data plane that the gateway itself describes: OpenAI's protocol.

Bodies are open: members that are not listed here go to the provider untouched.
"""

from __future__ import annotations

from typing import Any

from gw.dialects.http_handler import ANSWER_HEADERS
from gw.web.route import Method, Raw, Route

_TEXT = {"type": "string"}
_MODEL = {
    "type": ["string", "null"],
    "description": "`<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default.",
}


def _object(required: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [required], "properties": properties}


_CHAT = _object("messages", {
    "model": _MODEL,
    "messages": {"type": "array", "minItems": 1, "items": _object("role", {"role": _TEXT})},
    "stream": {"type": ["boolean", "null"], "description": "Answer with server-sent events."},
    "stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": "boolean"}}},
    "max_tokens": {"type": ["integer", "null"]},
    "max_completion_tokens": {"type": ["integer", "null"]},
    "tools": {"type": ["array", "null"], "items": {}},
})  # fmt: skip
_INPUT = {"type": ["string", "array", "null"], "items": {"type": "object"}}
_RESPONSES = {"type": "object", "properties": {
    **{"model": _MODEL, "input": _INPUT, "instructions": {"type": ["string", "null"]}},
    "stream": {"type": ["boolean", "null"], "description": "Answer with server-sent events."},
    "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
    "tools": {"type": ["array", "null"], "items": {"type": "object"}},
    "previous_response_id": {
        "type": ["string", "null"],
        "description": "A response that the provider has stored, or this gateway (`serve.stored_responses_mb`).",
    },
}}  # fmt: skip
_RESPONSE = _object("output", {
    **{"id": _TEXT, "object": _TEXT, "status": _TEXT, "model": _TEXT},
    "output": {"type": "array", "items": {"type": "object"}},
    "usage": {"type": ["object", "null"]},
})  # fmt: skip
_COMPLETION = _object("choices", {
    **{"id": _TEXT, "object": _TEXT, "created": {"type": "integer"}, "model": _TEXT},
    "choices": {"type": "array", "items": {"type": "object"}},
    "usage": {"type": "object"},
})  # fmt: skip
_INPUTS = {"type": ["string", "array"], "items": {}, "minLength": 1, "minItems": 1}
_EMBEDDINGS = {"type": "object", "required": ["input", "model"], "properties": {
    **{"input": _INPUTS, "model": {**_TEXT, "minLength": 1}},
    "dimensions": {"type": ["integer", "null"], "minimum": 1},
    "encoding_format": {"enum": ["float", "base64", None]},
}}  # fmt: skip
_MODERATION_MODEL = {"type": ["string", "null"], "description": "Absent = `omni-moderation-latest`."}
_MODERATION = _object("input", {"input": _INPUTS, "model": _MODERATION_MODEL})
_SPEECH = _object("input", {
    "model": _MODEL,
    "input": {"type": "string", "minLength": 1},
    "voice": {"description": "A voice of the provider, an alias of gw.yaml, or `{\"id\": …}`."},
    "response_format": {"type": ["string", "null"]},
    "speed": {"type": ["number", "null"], "minimum": 0.25, "maximum": 4},
    "stream_format": {"enum": ["audio", "sse", None]},
})  # fmt: skip
_TRANSCRIPTION = _object("file", {
    "file": {"type": "string", "contentMediaType": "application/octet-stream"},
    **{"model": _MODEL, "language": _TEXT, "prompt": _TEXT},
    "response_format": {"type": "string", "default": "json"},
    "temperature": {"type": "number", "minimum": 0},
    "timestamp_granularities[]": {"type": "array", "items": {"enum": ["word", "segment"]}},
    "stream": _TEXT,
})  # fmt: skip
_EVENTS = Raw("text/event-stream", {})
_AUDIO = Raw("audio/*", {"type": "string", "contentMediaType": "application/octet-stream"})
_TRANSCRIPT = (
    Raw("application/json", _object("text", {"text": _TEXT})),
    Raw("text/plain", _TEXT),
    _EVENTS,
)
_FAILURES = (400, 402, 404, 413, 429, 500, 501, 502, 503, 504)
_NOTES = (
    "Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; "
    f"{', '.join(f'`{name}`' for name in ANSWER_HEADERS[:-1])} and `{ANSWER_HEADERS[-1]}` describe how the request was "
    "answered. An upstream error about the request itself keeps its status."
)


def _post(path: str, route_id: str, summary: str, body: Raw, *answers: Raw) -> Route:
    return Route(
        "POST", path, route_id, summary, None, tag="Voice", aliases=(f"/openai{path}",), body=body,
        answers=answers, errors=_FAILURES, notes=_NOTES,
    )  # fmt: skip


def _stored(method: Method, path: str, route_id: str, summary: str, answer: dict[str, Any]) -> Route:
    return Route(
        method, path, route_id, summary, None, tag="Voice", aliases=(f"/openai{path}",), errors=(404,),
        answers=(Raw("application/json", answer),),
    )  # fmt: skip


_DELETED = _object("id", {"id": _TEXT, "object": _TEXT, "deleted": {"type": "boolean"}})
_PAGE = _object("data", {"object": _TEXT, "data": {"type": "array", "items": {"type": "object"}}})
_UPLOAD = Raw("multipart/form-data", _TRANSCRIPTION)

DATA_PLANE = (
    _post(
        "/v1/chat/completions", "chat_completions", "A language model's answer, in OpenAI's protocol.",
        Raw("application/json", _CHAT, {"model": "sim/echo", "messages": [{"role": "user", "content": "Hello"}]}),
        Raw("application/json", _COMPLETION), _EVENTS,
    ),
    _post(
        "/v1/responses", "create_response", "A language model's answer, in OpenAI's Responses API.",
        Raw("application/json", _RESPONSES, {"model": "sim/echo", "input": "Hello"}), Raw("application/json", _RESPONSE),
        _EVENTS,
    ),
    _stored("GET", "/v1/responses/{response_id}", "response", "A stored response.", _RESPONSE),
    _stored("DELETE", "/v1/responses/{response_id}", "delete_response", "Delete a stored response.", _DELETED),
    _stored("GET", "/v1/responses/{response_id}/input_items", "response_input", "The input of a stored response.", _PAGE),
    _post(
        "/v1/embeddings", "embeddings", "Vectors of texts, in OpenAI's protocol. Only the same model of another provider is a fallback.",
        Raw("application/json", _EMBEDDINGS, {"model": "sim/echo", "input": "Hello"}),
        Raw("application/json", _object("data", {"object": _TEXT, "data": {"type": "array"}, "model": _TEXT, "usage": {"type": "object"}})),
    ),
    _post(
        "/v1/moderations", "moderations", "Whether texts or images may be harmful, in OpenAI's protocol.",
        Raw("application/json", _MODERATION, {"input": "Hello"}),
        Raw("application/json", _object("results", {"id": _TEXT, "model": _TEXT, "results": {"type": "array"}})),
    ),
    _post(
        "/v1/audio/speech", "speech", "Text to speech, in OpenAI's protocol.",
        Raw("application/json", _SPEECH, {"model": "sim/tone", "input": "Hello", "voice": "alloy"}), _AUDIO, _EVENTS,
    ),
    _post(
        "/v1/audio/transcriptions", "transcriptions", "Speech to text, in OpenAI's protocol.", _UPLOAD, *_TRANSCRIPT
    ),
    _post(
        "/v1/audio/translations", "translations", "Speech of any language to English text, in OpenAI's protocol.",
        _UPLOAD, *_TRANSCRIPT,
    ),
)  # fmt: skip
