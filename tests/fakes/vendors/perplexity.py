"""Perplexity's Agent API: POST /responses and GET /models. It has no /chat/completions since 2026-09-27.

Sources, November 2026: perplexityai 0.46.1 (`generated/api.py`: requests, items, events, usage, errors); a recorded answer with a
search in vercel/ai (`agent-web-search.chunks.txt`: the search begins as a `function_call` named `search_web` and ends as
`search_results`, a message begins with `content: null`); what the API refuses, and that each answer states its cost, as its users
measured (github.com, "Spec: Perplexity のツール", 2026-08-27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import msgspec
import trio

from gw.types.usage import Usage
from gw.wire import sse
from tests.fakes.vendors.scripted import Answer, Entry, ScriptedVendor, json_of, words

Body = dict[str, Any]
_TAKES = frozenset({
    "background", "effort", "include", "input", "instructions", "language_preference", "max_output_tokens", "max_steps", "model", "models",
    "preset", "previous_response_id", "profile", "prompt_cache_key", "reasoning", "response_format", "service_tier", "skills",
    "step_budget_reminder", "store", "stream", "temperature", "tool_choice", "tools", "top_p",
})  # fmt: skip
_TOOLS = frozenset({
    "web_search", "image_search", "fetch_url", "people_search", "finance_search", "sandbox", "mcp", "connector", "function",
})  # fmt: skip
_PARTS: Mapping[str, set[str]] = {
    "input_text": {"text"}, "input_image": {"image_url"}, "input_file": {"file_data", "file_url", "filename"},
}  # fmt: skip
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_ITEMS: Mapping[str, tuple[set[str], set[str]]] = {
    "message": ({"type", "role", "content"}, set()),
    "function_call": ({"type", "call_id", "name", "arguments"}, {"thought_signature"}),
    "function_call_output": ({"type", "call_id", "output"}, {"id", "name", "status", "thought_signature"}),
}  # fmt: skip
"""Members that an item must and may have."""
SEARCH_USD, INPUT_USD, CACHED_USD, OUTPUT_USD = 0.0025, 1e-6, 1e-7, 4e-6


@attrs.define(kw_only=True)
class FakePerplexity(ScriptedVendor):
    """A request with the tool `web_search` is searched for once. Prices are this account's, not the vendor's list."""

    prefix: str = "/v1"
    models: tuple[str, ...] = ("perplexity/sonar",)
    cached_tokens: int = 0
    states_cost: bool = True

    def routes(self) -> Any:
        return {("POST", "/responses"): self._responses, ("GET", "/models"): self._list}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return msgspec.json.encode({"error": {"message": message, "type": "invalid_request" if status == 400 else code, "code": code}})

    def stream_error_event(self, code: str) -> bytes:
        failed = {"type": "response.failed", "sequence_number": 9, "error": {"message": "scripted failure", "code": code}}
        return sse.encode(msgspec.json.encode(failed), "response.failed")

    async def _list(self, entry: Entry, body: bytes, answer: Answer) -> None:
        models = [{"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0]} for name in self.models]
        await answer.send_complete(msgspec.json.encode({"object": "list", "data": models}), "application/json")

    async def _responses(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields = fields = json_of(body)
        if reason := _refusal(fields):
            await answer.error(400, "invalid_request", reason)
            return
        counted = Usage(input_tokens=len(str(fields["input"]).split()), output_tokens=len(self._pieces()), source="vendor")
        entry.usage = self.usage or counted
        response = self._response(fields)
        if not fields.get("stream"):
            await trio.sleep(self.first_token_after_s + self.token_gap_s * len(self._pieces()))
            await answer.send_complete(b'{"id":' if self.malformed else msgspec.json.encode(response), "application/json")
            return
        await answer.start("text/event-stream")
        await trio.sleep(self.first_token_after_s)
        if self.malformed:
            await answer.end(b'event: response.created\ndata: {"type":\n\n')
            return
        before, pieces, after = self._events(fields, response)
        await answer.send(before)
        await answer.paced(pieces, self.token_gap_s, lambda piece: piece)
        await answer.end(after[: after.rindex(b"event: response.")] if self.omit_done else after)

    def _pieces(self) -> list[str]:
        reply = self.reply if isinstance(self.reply, str) else ""
        return [] if self.empty else self.tokens if self.tokens is not None else words(reply)

    def _calls_function(self, fields: Body) -> bool:
        return self.tool_call is not None and any(tool["type"] == "function" for tool in fields.get("tools", ()))

    def _response(self, fields: Body) -> Body:
        output: list[Body] = []
        if _searches(fields):
            result = {"id": 1, "title": "Example", "url": "https://example.com/", "snippet": "An example.", "source": "web"}
            output.append({"type": "search_results", "queries": ["example"], "results": [result]})
        if self._calls_function(fields) and self.tool_call is not None:
            name, arguments = self.tool_call
            call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}
            output.append({**call, "status": "completed"})
        elif self._pieces():
            part = {"type": "output_text", "text": "".join(self._pieces()), "annotations": []}
            output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
        return {**self._begun(fields), "status": "completed", "output": output, "usage": self._usage(fields)}

    def _begun(self, fields: Body) -> Body:
        return {
            "id": f"resp_{len(self.ledger)}", "object": "response", "created_at": 1_790_000_000, "status": "in_progress",
            "model": fields.get("model", fields.get("preset")), "output": [], "error": None, "usage": None,
        }  # fmt: skip

    def _usage(self, fields: Body) -> Body:
        used, searched = self.ledger[-1].usage or Usage(), _searches(fields)
        usage: Body = {
            "input_tokens": used.input_tokens, "output_tokens": used.output_tokens,
            "total_tokens": used.input_tokens + used.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "input_tokens_details": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": self.cached_tokens},
        }  # fmt: skip
        costs = {
            "input_cost": (used.input_tokens - self.cached_tokens) * INPUT_USD, "cache_read_cost": self.cached_tokens * CACHED_USD,
            "output_cost": used.output_tokens * OUTPUT_USD, "tool_calls_cost": SEARCH_USD if searched else 0,
        }  # fmt: skip
        if searched:
            usage["tool_calls_details"] = {"search_web": {"invocation": 1, "cost_usd": SEARCH_USD}}
        if self.states_cost:
            usage["cost"] = {"currency": "USD", **costs, "total_cost": sum(costs.values())}
        return usage

    def _events(self, fields: Body, response: Body) -> tuple[bytes, list[bytes], bytes]:
        """Return what comes before the pieces of the text, these, and what comes after them."""
        before: list[Body] = [
            {"type": f"response.{state}", "response": self._begun(fields)} for state in ("created", "in_progress")
        ]
        pieces, after = [], []
        for index, item in enumerate(response["output"]):
            added, done = ({"type": f"response.output_item.{state}", "output_index": index} for state in ("added", "done"))
            if item["type"] == "search_results":
                call = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "search_web", "status": "completed"}
                before += [
                    {**added, "item": {**call, "arguments": '{"queries":["example"]}'}},
                    {"type": "response.reasoning.search_queries", "queries": item["queries"], "thought": "Searching the web..."},
                    {"type": "response.reasoning.search_results", "results": item["results"], "thought": "Found 1 results"},
                    {**done, "item": item},
                ]
            elif item["type"] == "function_call":
                before += [{**added, "item": item}, {**done, "item": item}]
            else:
                before.append({**added, "item": {**item, "content": None}})
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                pieces = [{"type": "response.output_text.delta", "delta": piece, **place} for piece in self._pieces()]
                after.append({"type": "response.output_text.done", "text": item["content"][0]["text"], **place})
                after.append({**done, "item": item})
        after.append({"type": "response.completed", "response": response})
        framed = _framed(before), _framed(pieces, len(before)), _framed(after, len(before) + len(pieces))
        return b"".join(framed[0]), list(framed[1]), b"".join(framed[2])


def _framed(events: list[Body], first: int = 0) -> Iterator[bytes]:
    for number, event in enumerate(events, first):
        yield sse.encode(msgspec.json.encode({**event, "sequence_number": number}), event["type"])


def _searches(fields: Body) -> bool:
    return any(tool["type"] == "web_search" for tool in fields.get("tools", ()))


def _refusal(fields: Body) -> str:
    """Return what the vendor refuses of a request, "" for nothing."""
    if unknown := sorted(fields.keys() - _TAKES):
        return f'unknown field "{unknown[0]}"'
    if not fields.keys() & {"model", "models", "preset"}:
        return "model or preset is required"
    for tool in fields.get("tools", ()):
        if tool.get("type") not in _TOOLS:
            return f"unknown discriminator value: {tool.get('type')}"
        if tool["type"] == "function" and not isinstance(tool.get("name"), str):
            return "tools: name is required"
    if fields.get("response_format", {"type": "json_schema"})["type"] != "json_schema":
        return "response_format: only json_schema"
    if fields.get("reasoning", {}).get("effort", "low") not in _EFFORTS:
        return "reasoning.effort: unknown value"
    items = fields["input"] if isinstance(fields["input"], list) else ()
    return next((reason for item in items if (reason := _item_refusal(item))), "")


def _item_refusal(item: Body) -> str:
    must, may = _ITEMS.get(item.get("type", "message"), (set(), set()))
    if item.get("type", "message") not in _ITEMS or not must - {"type"} <= item.keys() <= must | may | {"type"}:
        return f"input: invalid item of type {item.get('type')}"
    if item.get("type", "message") != "message":
        return ""
    if item["role"] not in ("user", "assistant", "system", "developer"):
        return f"unknown role {item['role']}"
    parts = item["content"] if isinstance(item["content"], list) else ()
    wrong = [part["type"] for part in parts if not part.keys() <= {"type"} | _PARTS.get(part["type"], set())]
    return f'invalid type "{wrong[0]}"' if wrong else ""
