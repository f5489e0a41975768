"""Vendors of OpenAI's dialect that differ from it, by families of differences; each family as its vendor's SDK has it.

Sources, November 2026: mistralai 3.7.0, cerebras-cloud-sdk 1.91.0, together 3.1.1, fireworks-ai 1.2.30, openrouter 1.3.84,
sambanova 1.13.0 (`tests/clients/test_fake_openai_variants_sdk.py` reads these answers with them). Without an SDK of their own for
this dialect: Gemini (answers quoted in github.com/Vali-98/ChatterUI/issues/227 and Clarifai/clarifai-python#978), DeepSeek
(langchain-deepseek), xAI (pipecat-ai 1.14.0), Azure (openai-python 3.52.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import msgspec
import trio

from gw.types.llm import ChatEnd, ChatEvent, UsageReport
from gw.types.usage import Usage
from gw.wire import openai_chat, sse
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.openai_conversation import Conversation
from tests.fakes.vendors.scripted import Answer, Entry, json_of
from tests.fakes.vendors.xai_conversation import XaiConversation

Body = dict[str, Any]
_OPENAIS = frozenset({
    "messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
    "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})  # fmt: skip
"""openai-python 3.52.0, `CompletionCreateParams`."""


def _openai_error(status: int, code: str, message: str) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def _mistral_error(status: int, code: str, message: str) -> Body:
    """`HTTPValidationError` of the SDK for 422."""
    if status == 422:
        return {"detail": [{"type": "extra_forbidden", "loc": ["body", message], "msg": "Extra inputs are not permitted", "input": 1}]}
    return {"object": "error", "message": message, "type": code, "param": None, "code": "1000"}


def google_error(status: int, code: str, message: str) -> list[Body]:
    return [{"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}]


def _flat_error(status: int, code: str, message: str) -> Body:
    return {"message": message, "type": "invalid_request_error", "param": None, "code": code}


def _numbered_error(status: int, code: str, message: str) -> Body:
    return {"error": {"code": status, "message": message}}


def _xai_error(status: int, code: str, message: str) -> Body:
    return {"code": "Client specified an invalid argument", "error": message}


@attrs.frozen(kw_only=True)
class Conventions:
    """How a vendor differs from OpenAI."""

    takes: frozenset[str] = _OPENAIS
    """Members of a request; others are refused."""
    refused_status: int = 400
    roles: frozenset[str] = frozenset({"developer", "system", "user", "assistant", "tool", "function"})
    names: bool = True
    """Messages may have a `name`."""
    key_header: str = "authorization"
    usage: Literal["own chunk", "last chunk"] = "own chunk"
    """Of a stream: in a chunk of its own, where it was asked for, or in the last one, always."""
    cached: Literal["details", "prompt_cache_hit_tokens", "cached_tokens"] = "details"
    reasoning: Literal["reasoning_content", "reasoning", "parts"] = "reasoning_content"
    reasoning_counts: Literal["inside", "beside", "in the total"] = "inside"
    """Where its tokens are: in those of the completion, only in a number of their own, or only in the total."""
    states_cost: bool = False
    """Each usage has a cost in USD: here a ten-thousandth for each token."""
    error: Callable[[int, str, str], Any] = _openai_error
    conversation: type[Conversation] = Conversation


_PLAIN_ROLES = frozenset({"system", "user", "assistant", "tool"})
CONVENTIONS: Mapping[str, Conventions] = {
    "mistral": Conventions(
        takes=(_OPENAIS | {"random_seed", "min_tokens", "top_k", "prompt_mode", "guardrails", "safe_prompt"})
        - {
            "audio", "function_call", "functions", "logit_bias", "max_completion_tokens", "modalities", "moderation",
            "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "seed", "store", "stream_options", "user",
            "verbosity", "web_search_options",
        },
        refused_status=422, roles=_PLAIN_ROLES, usage="last chunk", reasoning="parts", error=_mistral_error,
    ),
    "deepseek": Conventions(
        takes=_OPENAIS - {"max_completion_tokens", "seed", "n", "parallel_tool_calls", "store", "service_tier"},
        roles=_PLAIN_ROLES, cached="prompt_cache_hit_tokens",
    ),
    "xai": Conventions(names=False, reasoning_counts="beside", error=_xai_error, conversation=XaiConversation),
    "cerebras": Conventions(
        takes=_OPENAIS - {"frequency_penalty", "logit_bias", "presence_penalty", "parallel_tool_calls", "service_tier"},
        roles=_PLAIN_ROLES, reasoning="reasoning", error=_flat_error,
    ),
    "together": Conventions(
        takes=(_OPENAIS | {"reasoning", "top_k", "min_p", "repetition_penalty"}) - {"max_completion_tokens", "metadata", "store"},
        roles=_PLAIN_ROLES, cached="cached_tokens", reasoning="reasoning",
    ),
    "fireworks": Conventions(takes=_OPENAIS - {"stream_options", "store"}, usage="last chunk"),
    "openrouter": Conventions(roles=_PLAIN_ROLES, reasoning="reasoning", states_cost=True, error=_numbered_error),
    "sambanova": Conventions(takes=_OPENAIS - {"service_tier", "store"}, roles=_PLAIN_ROLES),
    "gemini": Conventions(
        takes=_OPENAIS - {"frequency_penalty", "presence_penalty", "seed", "logit_bias", "store", "user"},
        reasoning_counts="in the total", error=google_error,
    ),
    "azure": Conventions(takes=_OPENAIS - {"max_tokens"}, key_header="api-key"),
    "lmstudio": Conventions(),
}  # fmt: skip
"""By provider type. Those that are missing answer as OpenAI does."""


@attrs.define(kw_only=True)
class FakeVariant(FakeOpenAI):
    conventions: Conventions = attrs.field(factory=Conventions)
    reasoning: str = ""
    """Before the text of each answer, one token a word."""
    cached_tokens: int = 0
    is_byok: bool = False
    """The account has a key of its own at the model's vendor, whose part OpenRouter does not bill."""
    openai_errors: bool = False
    """Scripted errors have OpenAI's shape, whose codes a suite may choose."""

    def __attrs_post_init__(self) -> None:
        self.conversation_type = self.conventions.conversation

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get(self.conventions.key_header, "").removeprefix("Bearer ")

    def routes(self) -> Any:
        return {**super().routes(), ("GET", "/key"): self._models}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        if self.openai_errors:
            return super().error_response(status, code, message)
        return msgspec.json.encode(self.conventions.error(status, code, message))

    async def _chat(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields = fields = json_of(body)
        if reason := self._refusal(fields):
            status = self.conventions.refused_status
            await answer.error(status, "", "", msgspec.json.encode(self.conventions.error(status, "invalid_request", reason)))
            return
        request = openai_chat.parse_request(body)
        pieces = self.pieces_for(request)
        events = self.chat_events(request, pieces)
        entry.usage = self.used(request, len(events) - 1)
        encoder = openai_chat.ChatEncoder(
            id=f"chatcmpl-{len(self.ledger)}", created=1_790_000_000, model=request.model, include_usage=True
        )
        if not request.stream:
            await trio.sleep(self.first_token_after_s + self.token_gap_s * len(pieces))
            complete = json_of(encoder.answer([*events, UsageReport(usage=entry.usage)]))
            self._dress(complete["choices"][0]["message"])
            complete |= {"usage": self._usage(entry.usage), "system_fingerprint": "fp_1"}
            await answer.send_complete(b'{"id":' if self.malformed else msgspec.json.encode(complete), "application/json")
            return
        await answer.start("text/event-stream")
        await trio.sleep(self.first_token_after_s)
        if self.malformed:
            await answer.end(b'data: {"id":\n\n')
            return
        in_last = self.conventions.usage == "last chunk"
        first = True

        def encode(event: ChatEvent) -> bytes:
            nonlocal first
            chunks = [json_of(piece.removeprefix(b"data: ")) for piece in encoder.encode([event]).split(b"\n\n") if piece]
            if first and self.reasoning:
                self._dress(chunks[0]["choices"][0]["delta"])
            first = False
            for chunk in chunks:
                chunk["system_fingerprint"] = "fp_1"
            if in_last and event is events[-1]:
                chunks[-1]["usage"] = self._usage(entry.usage)
            return b"".join(sse.encode(msgspec.json.encode(chunk)) for chunk in chunks)

        await answer.paced(events, self.token_gap_s, encode)
        end = b""
        if request.include_usage and not in_last:
            common = {"id": "u", "object": "chat.completion.chunk", "created": 1, "model": request.model, "system_fingerprint": "fp_1"}
            end = sse.encode(msgspec.json.encode({**common, "choices": [], "usage": self._usage(entry.usage)}))
        await answer.end(end + (b"" if self.omit_done else encoder.encode([ChatEnd()])))

    def _refusal(self, fields: Body) -> str:
        """Return what the vendor refuses of a request, "" for nothing."""
        conventions = self.conventions
        if unknown := sorted(fields.keys() - conventions.takes):
            return f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot find field.'
        for message in fields["messages"]:
            if message["role"] not in conventions.roles:
                return f"unknown role {message['role']}"
            if "name" in message and not conventions.names:
                return "a message has no name here"
        return ""

    def _dress(self, message: Body) -> None:
        """Add the reasoning to a message or a delta."""
        if not self.reasoning:
            return
        if self.conventions.reasoning != "parts":
            message[self.conventions.reasoning] = self.reasoning
            return
        text = message.get("content") or ""
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": self.reasoning}]}
        message["content"] = [thought, {"type": "text", "text": text}]

    def _usage(self, usage: Usage) -> Body:
        conventions, thought = self.conventions, len(self.reasoning.split())
        inside = conventions.reasoning_counts == "inside"
        completion = usage.output_tokens + (thought if inside else 0)
        reported: Body = {
            "prompt_tokens": usage.input_tokens, "completion_tokens": completion,
            "total_tokens": usage.input_tokens + usage.output_tokens + thought,
        }  # fmt: skip
        if conventions.states_cost:
            upstream = round(reported["total_tokens"] * 1e-4, 4)
            parts = {f"upstream_inference_{part}": upstream for part in ("cost", "prompt_cost")}
            parts["upstream_inference_completions_cost"] = 0.0
            reported |= {"is_byok": self.is_byok, "cost": round(upstream * 0.05, 6) if self.is_byok else upstream, "cost_details": parts}
        if thought and conventions.reasoning_counts != "in the total":
            reported["completion_tokens_details"] = {"reasoning_tokens": thought}
        if self.cached_tokens and conventions.cached == "details":
            reported["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        elif self.cached_tokens:
            reported[conventions.cached] = self.cached_tokens
        return reported
