"""The Responses API through unchanged clients: OpenAI's SDK and its agents SDK.

Over the engine inside, over the vendor itself, and over Anthropic in its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pydantic
import pytest

from tests.clients.gateway_pair import TEXT
from tests.e2e.conftest import starter

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["own", "other", "sim"])
TOOL = {
    "type": "function", "name": "look", "description": "Look", "strict": False,
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}  # fmt: skip


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Callable[[str], tuple[str, str]]:
    """`place(who)` is an address and a model."""

    def find(who: str) -> tuple[str, str]:
        if who == "sim":
            return request.getfixturevalue("demo").base, "sim/echo"
        pair = request.getfixturevalue("drop_in")
        return pair.at("openai", who) + "/v1", pair.model("openai", "llm")

    return find


@WHO
def test_openai_sdk(place, who):
    base, model = place(who)
    with openai.OpenAI(base_url=base, api_key="any") as client:
        whole = client.responses.create(model=model, input=TEXT, metadata={"a": "b"})
        assert (whole.output_text, whole.status, whole.metadata) == (TEXT, "completed", {"a": "b"})
        assert whole.usage is not None
        assert whole.usage.output_tokens > 0
        with client.responses.stream(model=model, input=[{"role": "user", "content": TEXT}]) as stream:
            pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
            last = stream.get_final_response()
        assert len(pieces) > 3
        assert "".join(pieces) == last.output_text == TEXT


def test_openai_sdk_parses_a_schema(demo):
    class Weather(pydantic.BaseModel):
        city: str

    with openai.OpenAI(base_url=demo.base, api_key="any") as client:
        answer = client.responses.parse(model="sim/echo", input='{"city": "Rome"}', text_format=Weather)
        assert answer.output_parsed == Weather(city="Rome")
        with client.responses.stream(model="sim/echo", input='{"city": "Rome"}', text_format=Weather) as stream:
            assert stream.get_final_response().output_parsed == Weather(city="Rome")


def test_openai_sdk_calls_a_tool(demo):
    with openai.OpenAI(base_url=demo.base, api_key="any") as client:
        first: Any = client.responses.create(model="sim/scripted", input=TEXT, tools=[TOOL])
        [call] = first.output
        assert call.type == "function_call"
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
        items: Any = [{"role": "user", "content": TEXT}, call, output]
        assert "18 degrees" in client.responses.create(model="sim/scripted", input=items, tools=[TOOL]).output_text


def test_openai_sdk_reads_errors(demo):
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="sim/echo", input=TEXT, tools=[{"type": "web_search"}])
        assert caught.value.param == "tools[0]"
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="sim/echo", input=TEXT, previous_response_id="resp_1")
        assert caught.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_1")
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="sim/nothing", input=TEXT)


def test_openai_sdk_continues_a_stored_response(tmp_path):
    with starter(tmp_path) as start:
        settings = {"providers": {"sim": {}}, "models": {"llm": ["sim/echo"]}, "serve": {"stored_responses_mb": 1}}
        with openai.OpenAI(base_url=start(json.dumps(settings)).url + "/v1", api_key="any") as client:
            first = client.responses.create(model="sim/echo", input=TEXT)
            assert client.responses.retrieve(first.id).output_text == TEXT
            again = client.responses.create(model="sim/echo", input="And now?", previous_response_id=first.id)
            assert (again.output_text, again.previous_response_id) == ("And now?", first.id)
            listed = [item.content for item in client.responses.input_items.list(again.id)]
            assert (listed[0], listed[-1]) == ("And now?", TEXT)
            client.responses.delete(first.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(first.id)


# ---- the agents SDK


def _agent(base: str, model: str, **more: Any) -> Any:
    from agents import Agent, OpenAIResponsesModel, set_tracing_disabled

    set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=base, api_key="any", max_retries=0)
    return Agent(name="host", instructions="Be brief.", model=OpenAIResponsesModel(model, client), **more)


@WHO
def test_agents_sdk_takes_turns(place, package, who):
    package("agents")
    from agents import Runner

    async def run() -> None:
        agent = _agent(*place(who))
        first = await Runner.run(agent, TEXT)
        assert first.final_output == TEXT
        again = await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": TEXT}])
        assert again.final_output == TEXT
        streamed = Runner.run_streamed(agent, TEXT)
        kinds = [event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"]
        assert streamed.final_output == TEXT
        assert kinds.count("response.output_text.delta") > 3

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize("streamed", [False, True])
def test_agents_sdk_calls_a_tool(demo, package, streamed):
    package("agents")
    from agents import Runner, function_tool

    called: list[str] = []

    @function_tool
    def weather(text: str) -> str:
        """Tell the weather."""
        called.append(text)
        return "18 degrees"

    async def run() -> str:
        agent = _agent(demo.base, "sim/scripted", tools=[weather])
        if not streamed:
            return str((await Runner.run(agent, TEXT)).final_output)
        result = Runner.run_streamed(agent, TEXT)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    assert "18 degrees" in asyncio.run(asyncio.wait_for(run(), 120))
    assert len(called) == 1


def test_agents_sdk_wants_a_schema(demo, package):
    package("agents")
    from agents import Runner

    class Weather(pydantic.BaseModel):
        city: str

    async def run() -> Any:
        return (await Runner.run(_agent(demo.base, "sim/echo", output_type=Weather), '{"city": "Rome"}')).final_output

    assert asyncio.run(asyncio.wait_for(run(), 120)) == Weather(city="Rome")
