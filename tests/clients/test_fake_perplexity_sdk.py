"""Perplexity's own SDK (perplexityai), unchanged, with the fake vendor, and with gw before it; and OpenAI's with gw before it, whose
chats Perplexity no longer takes itself."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import attrs
import openai
import perplexity
import pytest

from gw.types.usage import Usage
from tests.clients.conftest import Gateway
from tests.clients.gateway_pair import KEY, hosted
from tests.e2e.conftest import starter
from tests.e2e.test_workers_live import wait_for
from tests.fakes.vendors.perplexity import FakePerplexity

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["fake", "gateway"])
CHATS = "perplexity/openai/gpt-6-luna"
TEXT = "Hello there, how are you?"
TOOLS: Any = [{"type": "web_search"}]
FUNCTION: Any = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
COST = 1_000 * 1e-6 + 20 * 4e-6 + 0.0025


@attrs.frozen
class Addresses:
    vendor: FakePerplexity
    fake: str
    gateway: Gateway

    def model(self, who: str) -> str:
        return "perplexity/sonar" if who == "fake" else "perplexity/perplexity/sonar"

    def client(self, who: str) -> perplexity.Perplexity:
        return perplexity.Perplexity(api_key=KEY, base_url=self.fake if who == "fake" else self.gateway.daemon.url, max_retries=0)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.gateway.base}{path}") as response:
            return json.load(response)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    vendor = FakePerplexity(api_key=KEY, usage=Usage(input_tokens=1_000, output_tokens=20, source="vendor"))
    with hosted(vendor) as fake, starter(tmp_path_factory.mktemp("gateway")) as start:
        providers = {"perplexity": {"api_key": KEY, "base_url": fake + "/v1"}}
        models = {"llm": {"perplexity/perplexity/sonar": {}, CHATS: {}}}
        yield Addresses(vendor, fake, Gateway(start(json.dumps({"providers": providers, "models": models}))))


def strict(model: Any) -> Any:
    """Return an object of the SDK's after its own model has checked it: the SDK makes one of whatever is sent.

    Perplexity itself begins a message with `content: null`, which the SDK's model does not have (recorded, see the fake).
    """
    if getattr(model, "type", "") == "response.output_item.added":
        return model
    type(model).model_validate_json(model.model_dump_json(exclude_unset=True), strict=True)
    return model


@WHO
def test_an_answer_with_a_search(addresses, who):
    with addresses.client(who) as client:
        answer = strict(client.responses.create(model=addresses.model(who), input="Who?", tools=TOOLS))
    assert (answer.status, answer.output_text) == ("completed", TEXT)
    assert [item.type for item in answer.output] == ["search_results", "message"]
    assert answer.usage.cost.total_cost == pytest.approx(COST)
    assert answer.usage.tool_calls_details["search_web"].invocation == 1


@WHO
def test_a_streamed_answer_with_a_search(addresses, who):
    with addresses.client(who) as client:
        events = [strict(event) for event in client.responses.create(model=addresses.model(who), input="Who?", tools=TOOLS, stream=True)]
    assert events[0].type == "response.created"
    assert "response.reasoning.search_results" in [event.type for event in events]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert events[-1].response.usage.cost.total_cost == pytest.approx(COST)


@WHO
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_function(addresses, who, stream, monkeypatch):
    monkeypatch.setattr(addresses.vendor, "tool_call", ("weather", '{"city":"Rome"}'))
    with addresses.client(who) as client:
        answer = client.responses.create(model=addresses.model(who), input="Weather?", tools=[FUNCTION], stream=stream)
        if stream:
            answer = [strict(event) for event in answer][-1].response
    (call,) = answer.output
    assert (call.type, call.name, call.arguments) == ("function_call", "weather", '{"city":"Rome"}')


@WHO
def test_a_refusal(addresses, who):
    with addresses.client(who) as client, pytest.raises(perplexity.BadRequestError, match="bogus_search"):
        client.responses.create(model=addresses.model(who), input="Who?", extra_body={"tools": [{"type": "bogus_search"}]})


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_of_openais_sdk(addresses, stream):
    """Check that the reports have the cost which the vendor states, to the nano-dollar."""
    hi: Any = [{"role": "user", "content": "Who?"}]
    with openai.OpenAI(api_key="gw", base_url=addresses.gateway.base, max_retries=0) as client:
        call = client.chat.completions.with_raw_response.create
        reply: Any = call(model=CHATS, messages=hi, stream=stream, web_search_options={})
        answer = reply.parse()
        if stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
        else:
            text = answer.choices[0].message.content
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1_000, 20)
    assert text == TEXT
    id_ = reply.headers["x-request-id"]
    record = wait_for(lambda: next((each for each in addresses.get("/logs?limit=100") if each["id"] == id_), None))
    assert (record["cost_usd"], record["pricing_source"]) == (0.00358, "vendor")
    costs = addresses.get("/costs")["by_model"][CHATS]
    assert round(costs["cost"] * 1e9) == costs["requests"] * 3_580_000 > 0
