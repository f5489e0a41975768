"""POST /v1/messages/count_tokens, both roles: a request of the Messages API in, the number of its input tokens out.

Source: anthropic-python 2.12.0, `types/message_count_tokens_params.py`, `message_tokens_count.py` and the beta's twins. The count costs
nothing (Anthropic's documentation, "Token counting": free to use, with a limit of requests of its own).
"""

from __future__ import annotations

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.llm import ChatRequest, Completion
from gw.types.usage import Usage
from gw.wire.anthropic_messages_request import MessagesRequest, checked_beta
from gw.wire.json_codec import MEMBERS, decode_answer, decode_client, decode_request

DIALECT = "anthropic.count_tokens"
"""Dialect of such requests."""
_TEXT = msgspec.json.Decoder(str)


def parse_request(body: bytes, beta: bytes = b"") -> MessagesRequest:
    """Decode a request; what it holds beside the model goes to the vendor as it is. Raises ClientProtocolError."""
    fields = decode_request(MEMBERS, body)
    for name in ("model", "messages"):
        if name not in fields:
            raise ClientProtocolError(what=f"{name}: Field required", param=name)
    model = decode_client(_TEXT, fields["model"], "'model' must be a string", "model")
    return MessagesRequest(
        model=model, fields=fields, dialect=DIALECT, document=True, max_output_tokens=0, beta=checked_beta(beta),
        only_native=ClientProtocolError(what=f"no provider of the model '{model[:100]}' counts tokens", param="model"),
    )


def upstream_body(request: ChatRequest, model: str) -> bytes:
    return msgspec.json.encode({**request.fields, "model": model})


class _Count(msgspec.Struct, gc=False):
    input_tokens: int | None = None


_COUNT = msgspec.json.Decoder(_Count)


def decode_count(body: bytes, provider: str, *, keep_raw: bool) -> Completion:
    """Decode an answer. No token was processed, so there is nothing to bill. Raises UpstreamProtocolError for one without a count."""
    count, raw = decode_answer(_COUNT, body, provider)
    if count.input_tokens is None:
        raise UpstreamProtocolError(provider=provider, detail="an answer without input_tokens")
    return Completion(text="", usage=Usage(source="vendor"), raw=raw if keep_raw else None)
