"""Refusals, and faults of the caller's request: the last word goes to the caller, in its dialect and once.

SDKs retry a 502, so an answer that no retry can change must not look like one.
"""

from __future__ import annotations

import msgspec
import pytest

from gw.types.usage import NANO
from tests.contract.endpoints import ENDPOINTS, Endpoint
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  first: {type: openai, api_key: a-key-of-no-value, base_url: "http://first.test/v1"}
  second: {type: anthropic, api_key: a-key-of-no-value, base_url: "http://second.test"}
  off: {type: groq}
models:
  llm:
    first/m: {price: {unit: 1M_tokens, input: 1, output: 2}}
    second/m: {price: {unit: 1M_tokens, input: 1, output: 2}}
    off/m: {}
fallbacks: {llm: [first/m, second/m, off/m]}
"""
CHAT = [endpoint for endpoint in ENDPOINTS if endpoint.modality == "llm"]
every = pytest.mark.parametrize("endpoint", CHAT, ids=lambda endpoint: endpoint.name)


class Vendors:
    def __init__(self, plane) -> None:
        said = {"reply": "one two three", "models": ("m",)}
        self.first, self.second = FakeOpenAI(**said), FakeAnthropic(**said)
        plane.net.hosts["first.test", 80] = hosted(self.first)
        plane.net.hosts["second.test", 80] = hosted(self.second)

    @property
    def calls(self) -> int:
        return len(self.first.ledger) + len(self.second.ledger)


REFUSAL = {
    "/v1/chat/completions": lambda reply, stream: _openai_refusal(reply, stream),
    "/v1/messages": lambda reply, stream: _anthropic_refusal(reply, stream),
    "/v1/responses": lambda reply, stream: _responses_refusal(reply, stream),
    "/ollama/api/chat": lambda reply, stream: _ollama_refusal(reply, stream),
}
"""Path of an endpoint → whether its reply is a refusal, as the SDKs of that dialect read it."""


def _events(reply) -> list[dict[str, object]]:
    lines = [line[6:] for line in reply.body.split(b"\n") if line.startswith(b"data: {")]
    return [msgspec.json.decode(line) for line in lines]


def _openai_refusal(reply, stream: bool) -> bool:
    member = "delta" if stream else "message"
    bodies = _events(reply) if stream else [reply.json]
    choices = [choice for body in bodies for choice in body["choices"]]
    said = "".join(choice[member].get("refusal") or "" for choice in choices)
    return bool(said) or choices[-1]["finish_reason"] == "content_filter"


def _anthropic_refusal(reply, stream: bool) -> bool:
    deltas = [e["delta"] for e in _events(reply) if e["type"] == "message_delta"] if stream else [reply.json]
    return deltas[-1]["stop_reason"] == "refusal"


def _responses_refusal(reply, stream: bool) -> bool:
    response = _events(reply)[-1]["response"] if stream else reply.json
    parts = [part for item in response["output"] for part in item.get("content", ())]
    refused = bool(parts) and all(part["type"] == "refusal" and part["refusal"] for part in parts)
    return refused or response["incomplete_details"] == {"reason": "content_filter"}


def _ollama_refusal(reply, stream: bool) -> bool:
    lines = [msgspec.json.decode(line) for line in reply.body.splitlines()] if stream else [reply.json]
    return bool("".join(line["message"]["content"] for line in lines)) and lines[-1]["done"]


def refused(endpoint: Endpoint, reply) -> bool:
    return reply.status == 200 and REFUSAL[endpoint.path](reply, endpoint.streams)


@every
@pytest.mark.parametrize("how", ["refusal", "content_filter"])
async def test_the_last_refusal_is_the_answer(endpoint, how, tmp_path, autojump_clock):
    if endpoint.path == "/ollama/api/chat" and how == "content_filter":
        how = "refusal"  # this dialect has only text: a filtered answer is an empty one
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.refuse = vendors.second.refuse = how
        reply = await endpoint.ask(plane, "first/m")
        assert refused(endpoint, reply)
        assert vendors.calls == 2
        record = plane.kept.record
        assert (record.status, record.model_id) == ("fallback", "second/m")
        assert [attempt.outcome for attempt in record.attempts] == ["refused", "refused", "not_configured"]
        assert record.error_code is None
        assert record.cost_nusd > 0


@every
async def test_a_refusal_without_a_fallback(endpoint, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.refuse = "refusal"
        vendors.first.usage = None
        reply = await endpoint.ask(plane, "first/m", {"x_gw_fallback": "off"})
        assert refused(endpoint, reply)
        assert b"I cannot help with that." in reply.body
        record = plane.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("success", ["refused"])
        assert record.usage.source == "vendor"
        assert record.cost_nusd == record.usage.input_tokens * NANO // 10**6 + record.usage.output_tokens * 2 * NANO // 10**6


@every
async def test_another_model_may_answer_what_one_refuses(endpoint, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.refuse = "refusal"
        reply = await endpoint.ask(plane, "first/m")
        assert (reply.status, endpoint.content(reply)) == (200, "one two three")
        record = plane.kept.record
        assert [attempt.outcome for attempt in record.attempts] == ["refused", "ok"]
        assert record.attempts[0].cost_nusd > 0  # the vendor bills a refusal


@every
async def test_a_vendor_that_fails_after_a_refusal_has_no_last_word(endpoint, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.refuse = "refusal"
        vendors.second.status = 500
        reply = await endpoint.ask(plane, "first/m")
        assert reply.status == 502


@every
@pytest.mark.parametrize("fallback", ["on", "off"])
async def test_a_context_that_is_too_long_everywhere(endpoint, fallback, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.status, vendors.first.error_code = 400, "context_length_exceeded"
        vendors.second.status, vendors.second.error_code = 400, "prompt is too long: 209 tokens > 200 maximum"
        reply = await endpoint.ask(plane, "first/m", {"x_gw_fallback": fallback})
        assert reply.status == 400
        assert vendors.calls == (2 if fallback == "on" else 1)
        if fallback == "off" and endpoint.path == "/v1/chat/completions":
            assert reply.error["code"] == "context_length_exceeded"


async def test_a_vendors_400_keeps_its_code_and_param(tmp_path, autojump_clock):
    endpoint = CHAT[0]
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.status = 400
        error = {"message": "bad", "type": "invalid_request_error", "param": "messages[0].role", "code": "invalid_value"}
        vendors.first.error_body = msgspec.json.encode({"error": error})
        reply = await endpoint.ask(plane, "first/m")
        assert reply.status == 400
        assert (reply.error["code"], reply.error["param"]) == ("invalid_value", "messages[0].role")
        assert vendors.calls == 1


async def test_a_refused_request_without_another_candidate(tmp_path, autojump_clock):
    """A content filter that refuses the request itself answers 400, and so does the gateway."""
    endpoint = CHAT[0]
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors = Vendors(plane)
        vendors.first.status, vendors.first.error_code = 400, "content_policy_violation"
        reply = await endpoint.ask(plane, "first/m", {"x_gw_fallback": "off"})
        assert (reply.status, reply.error["code"]) == (400, "content_policy_violation")
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["refused"]
