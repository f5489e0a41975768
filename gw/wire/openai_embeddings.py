"""POST /embeddings and POST /moderations, both roles: text in, one JSON document out.

Source: openai-python 3.52.0, `types/embedding_create_params.py`, `create_embedding_response.py`, `moderation_create_params.py` and
`moderation_create_response.py` (November 2026).

Members of a request, and the whole answer, go through as they came. The SDK requests `encoding_format: base64` by default: the
vector as 32-bit floats, little-endian.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.llm import ChatRequest, Completion
from gw.wire.json_codec import MEMBERS, decode_answer, decode_client, decode_request
from gw.wire.openai_chat import usage_of

EMBEDDINGS, MODERATIONS = "openai.embeddings", "openai.moderations"
"""Dialects of such requests."""
DEFAULT_MODERATION = "omni-moderation-latest"
"""The vendor's default, by its API reference, "Create moderation"."""
MODERATION_CATEGORIES = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
    "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip
"""Source: openai-python 3.52.0, `types/moderation.py`, whose model needs all of them."""
_CHARACTERS_PER_TOKEN = 4
_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()
_ANSWERS = {EMBEDDINGS: "embeddings", MODERATIONS: "moderations"}


def parse_embeddings(body: bytes, model: str | None = None) -> ChatRequest:
    """Decode a request; `model` is the one that the path names. Raises ClientProtocolError with the member at fault."""
    return _parse(body, EMBEDDINGS, model, default="")


def parse_moderation(body: bytes, model: str | None = None) -> ChatRequest:
    """Decode a request like `parse_embeddings`; one without a model means the vendor's default."""
    return _parse(body, MODERATIONS, model, default=DEFAULT_MODERATION)


def _parse(body: bytes, dialect: str, model: str | None, *, default: str) -> ChatRequest:
    fields = decode_request(MEMBERS, body)
    name = model or _model(fields) or default
    if not name:
        raise ClientProtocolError(what="'model' is required: name the model that makes the embeddings", param="model")
    return ChatRequest(
        model=name, fields=fields, dialect=dialect, document=True, input_characters=_size(inputs_of(fields)), max_output_tokens=0,
        only_native=ClientProtocolError(what=f"no provider of the model '{name[:100]}' offers {_ANSWERS[dialect]}", param="model"),
    )


def _model(fields: Mapping[str, msgspec.Raw]) -> str:
    raw = fields.get("model")
    return "" if raw is None or bytes(raw) == b"null" else decode_client(_TEXT, raw, "'model' must be a string", "model")


def inputs_of(fields: Mapping[str, msgspec.Raw]) -> list[Any]:
    """Return the inputs one by one: texts, lists of tokens, or parts of a moderation. Raises ClientProtocolError."""
    raw = fields.get("input")
    value = None if raw is None else decode_client(_ANY, raw, "'input' must be JSON", "input")
    if value is None:
        raise ClientProtocolError(what="'input' is required", param="input")
    if isinstance(value, str) or (isinstance(value, list) and value and all(type(item) is int for item in value)):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, (str, list, dict)) for item in value):
        raise ClientProtocolError(what="'input' must be a string, a list of tokens, or a list of either", param="input")
    if not value or "" in value or [] in value:
        raise ClientProtocolError(what="'input' must not be empty", param="input")
    return value


def _size(inputs: Sequence[Any]) -> int:
    """Return the characters of all inputs. A token counts as four; images count nothing."""
    size = 0
    for item in inputs:
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, list):
            size += len(item) * _CHARACTERS_PER_TOKEN
        else:
            size += len(text) if isinstance(text := item.get("text"), str) else 0
    return size


def upstream_body(request: ChatRequest, model: str) -> bytes:
    return msgspec.json.encode({**request.fields, "model": model})


class _Document(msgspec.Struct, gc=False):
    data: list[msgspec.Raw] = []
    results: list[msgspec.Raw] = []
    usage: object = None


_DOCUMENT = msgspec.json.Decoder(_Document)


def decode_document(body: bytes, provider: str, *, keep_raw: bool) -> Completion:
    """Decode an answer; moderations have no usage. Raises UpstreamProtocolError for one without content."""
    document, raw = decode_answer(_DOCUMENT, body, provider)
    if not (document.data or document.results):
        raise UpstreamProtocolError(provider=provider, detail="an answer without embeddings or results")
    return Completion(text="", usage=usage_of(document.usage), raw=raw if keep_raw else None)


def encode_embeddings(vectors: Sequence[Sequence[float]], model: str, input_tokens: int, *, as_base64: bool) -> bytes:
    """Return the answer of a server."""
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if as_base64 else vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": input_tokens, "total_tokens": input_tokens}
    return msgspec.json.encode({"object": "list", "data": data, "model": model, "usage": usage})


def encode_moderation(scores: Sequence[Mapping[str, float]], model: str, id_: str) -> bytes:
    """Return the answer of a server that has a score for each category of each text."""
    results = [
        {
            "flagged": any(score >= 0.5 for score in of_text.values()), "categories": {n: score >= 0.5 for n, score in of_text.items()},
            "category_scores": of_text, "category_applied_input_types": {name: ["text"] for name in of_text},
        }
        for of_text in scores
    ]
    return msgspec.json.encode({"id": id_, "model": model, "results": results})


def _base64(vector: Sequence[float]) -> str:
    floats = array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return b64encode(floats.tobytes()).decode()
