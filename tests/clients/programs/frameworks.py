"""Frameworks for agents, used as their documentation shows: only address, key and model are ours.

Each is a generator that yields the name of an ability once it has worked. `sim/echo` answers with the question, `sim/scripted` calls
the first tool and repeats its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pydantic

TEXT = "tell me something short"
WEATHER = "18 degrees"
CITY = '{"city": "Rome"}'
SAID = "good morning"
ECHO, SCRIPTED, TONE = "sim/echo", "sim/scripted", "sim/tone"
_KEY = "any"


class Place(pydantic.BaseModel):
    city: str


def weather(city: str) -> str:
    """Return the weather.

    Args:
        city: the city to look at
    """
    return WEATHER


@attrs.frozen
class Address:
    """`root` is http://host:port; `folder` is empty and may be written to."""

    root: str
    folder: Path

    @property
    def v1(self) -> str:
        return self.root + "/v1"


Abilities = Iterator[str]


def _pydantic_ai(make: Callable[[str], Any]) -> Abilities:
    from pydantic_ai import Agent, NativeOutput

    agent = Agent(make(ECHO), instructions="Be brief.")
    assert agent.run_sync(TEXT).output == TEXT
    yield "chat"

    async def stream() -> list[str]:
        async with agent.run_stream(TEXT) as run:
            return [text async for text in run.stream_text(delta=True)]

    assert "".join(asyncio.run(stream())) == TEXT
    yield "streaming"
    assert WEATHER in Agent(make(SCRIPTED), tools=[weather]).run_sync(TEXT).output
    yield "tools"
    assert Agent(make(ECHO), output_type=NativeOutput(Place)).run_sync(CITY).output == Place(city="Rome")
    yield "structured output"


def pydantic_ai_responses(at: Address) -> Abilities:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return _pydantic_ai(lambda model: OpenAIResponsesModel(model, provider=OpenAIProvider(base_url=at.v1, api_key=_KEY)))


def pydantic_ai_chat(at: Address) -> Abilities:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return _pydantic_ai(lambda model: OpenAIChatModel(model, provider=OpenAIProvider(base_url=at.v1, api_key=_KEY)))


def _langchain(make: Callable[[str], Any], structured: bool = True) -> Abilities:
    from langchain_core.messages import HumanMessage, ToolMessage

    model = make(ECHO)
    answer = model.invoke(TEXT)
    assert answer.text == TEXT
    assert answer.usage_metadata["output_tokens"] > 0
    yield "chat"
    assert "".join(piece.text for piece in model.stream(TEXT)) == TEXT
    yield "streaming"
    with_tools = make(SCRIPTED).bind_tools([weather])
    called = with_tools.invoke(TEXT)
    [call] = called.tool_calls
    result = ToolMessage(WEATHER, tool_call_id=call["id"])
    assert WEATHER in with_tools.invoke([HumanMessage(TEXT), called, result]).text
    yield "tools"
    if structured:
        assert make(ECHO).with_structured_output(Place, method="json_schema").invoke(CITY) == Place(city="Rome")
        yield "structured output"


def langchain_responses(at: Address) -> Abilities:
    from langchain_openai import ChatOpenAI

    return _langchain(lambda model: ChatOpenAI(model=model, base_url=at.v1, api_key=_KEY, use_responses_api=True))


def langchain_chat(at: Address) -> Abilities:
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    yield from _langchain(lambda model: ChatOpenAI(model=model, base_url=at.v1, api_key=_KEY, stream_usage=True))
    # By default it cuts the text into tokens itself, for which it fetches OpenAI's vocabulary.
    made = OpenAIEmbeddings(model=ECHO, base_url=at.v1, api_key=_KEY, check_embedding_ctx_length=False)
    assert [len(vector) for vector in made.embed_documents([TEXT, SAID])] == [256, 256]
    yield "embeddings"


def langchain_anthropic(at: Address) -> Abilities:
    from langchain_anthropic import ChatAnthropic

    return _langchain(lambda model: ChatAnthropic(model=model, base_url=at.root, api_key=_KEY), structured=False)


def langchain_groq(at: Address) -> Abilities:
    from langchain_groq import ChatGroq

    pieces = list(ChatGroq(model=ECHO, base_url=at.root, api_key=_KEY).stream(TEXT))
    assert sum(piece.usage_metadata["total_tokens"] for piece in pieces if piece.usage_metadata) > 0
    return _langchain(lambda model: ChatGroq(model=model, base_url=at.root, api_key=_KEY))


def langchain_ollama(at: Address) -> Abilities:
    from langchain_ollama import ChatOllama

    return _langchain(lambda model: ChatOllama(model=model, base_url=at.root + "/ollama"))


def litellm(at: Address) -> Abilities:
    import litellm

    ask: Any = {"messages": [{"role": "user", "content": TEXT}], "api_base": at.v1, "api_key": _KEY}
    whole = litellm.completion(f"openai/{ECHO}", **ask)
    assert whole.choices[0].message.content == TEXT
    yield "chat"
    pieces = litellm.completion(f"openai/{ECHO}", stream=True, stream_options={"include_usage": True}, **ask)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == TEXT
    yield "streaming"
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    [call] = litellm.completion(f"openai/{SCRIPTED}", tools=[tool], **ask).choices[0].message.tool_calls
    assert call.function.name == "weather"
    yield "tools"
    place = at.folder / "speech.wav"
    litellm.speech(
        f"openai/{TONE}", input=SAID, voice="alloy", response_format="wav", api_base=at.v1, api_key=_KEY
    ).write_to_file(place)
    yield "speech"
    for kind in ("json", "verbose_json"):
        with place.open("rb") as file:
            heard = litellm.transcription(
                f"openai/{TONE}", file=file, response_format=kind, api_base=at.v1, api_key=_KEY
            )
        assert heard.text == SAID
    yield "transcription"
    answer = litellm.embedding(f"openai/{ECHO}", input=[TEXT, SAID], api_base=at.v1, api_key=_KEY)
    assert [len(item["embedding"]) for item in answer.data] == [256, 256]
    yield "embeddings"


def litellm_responses(at: Address) -> Abilities:
    import litellm

    whole = litellm.responses(input=TEXT, model=f"openai/{ECHO}", api_base=at.v1, api_key=_KEY)
    assert whole.output[0].content[0].text == TEXT
    yield "chat"
    events = litellm.responses(input=TEXT, model=f"openai/{ECHO}", stream=True, api_base=at.v1, api_key=_KEY)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    yield "streaming"


def litellm_anthropic(at: Address) -> Abilities:
    import litellm

    ask: Any = {"messages": [{"role": "user", "content": TEXT}], "api_base": at.root, "api_key": _KEY}
    assert litellm.completion(f"anthropic/{ECHO}", **ask).choices[0].message.content == TEXT
    yield "chat"
    pieces = litellm.completion(f"anthropic/{ECHO}", stream=True, **ask)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == TEXT
    yield "streaming"


def _agno(make: Callable[[str], Any]) -> Abilities:
    from agno.agent import Agent

    assert Agent(model=make(ECHO), telemetry=False).run(TEXT).content == TEXT
    yield "chat"
    events = Agent(model=make(ECHO), telemetry=False).run(TEXT, stream=True)
    assert "".join(event.content for event in events if getattr(event, "content", None)) == TEXT
    yield "streaming"
    assert WEATHER in Agent(model=make(SCRIPTED), tools=[weather], telemetry=False).run(TEXT).content
    yield "tools"


def agno_responses(at: Address) -> Abilities:
    from agno.models.openai import OpenAIResponses

    return _agno(lambda model: OpenAIResponses(id=model, base_url=at.v1, api_key=_KEY))


def agno_chat(at: Address) -> Abilities:
    from agno.models.openai import OpenAIChat

    return _agno(lambda model: OpenAIChat(id=model, base_url=at.v1, api_key=_KEY))


def llama_index(at: Address) -> Abilities:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model=ECHO, api_base=at.v1, api_key=_KEY, is_chat_model=True)
    question = [ChatMessage(role="user", content=TEXT)]
    assert model.chat(question).message.content == TEXT
    yield "chat"
    assert "".join(piece.delta or "" for piece in model.stream_chat(question)) == TEXT
    yield "streaming"


def smolagents(at: Address) -> Abilities:
    from smolagents import OpenAIModel

    model = OpenAIModel(ECHO, api_base=at.v1, api_key=_KEY)
    question: Any = [{"role": "user", "content": [{"type": "text", "text": TEXT}]}]
    assert model(question).content == TEXT
    yield "chat"
    assert "".join(piece.content or "" for piece in model.generate_stream(question)) == TEXT
    yield "streaming"


def instructor(at: Address) -> Abilities:
    import instructor
    import openai

    client = instructor.from_openai(openai.OpenAI(base_url=at.v1, api_key=_KEY), mode=instructor.Mode.JSON_SCHEMA)
    question: Any = [{"role": "user", "content": CITY}]
    answer = client.chat.completions.create(model=ECHO, response_model=Place, messages=question, max_retries=0)
    assert answer.city == "Rome"
    yield "structured output"


def dspy(at: Address) -> Abilities:
    import dspy

    for kind in ("chat", "responses"):
        model = dspy.LM(f"openai/{ECHO}", api_base=at.v1, api_key=_KEY, cache=False, model_type=kind)
        assert TEXT in str(model(TEXT)[0])
    yield "chat"


def haystack(at: Address) -> Abilities:
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    question = [ChatMessage.from_user(TEXT)]
    key = Secret.from_token(_KEY)
    for kind in (OpenAIChatGenerator, OpenAIResponsesChatGenerator):
        assert kind(model=ECHO, api_base_url=at.v1, api_key=key).run(question)["replies"][0].text == TEXT
    yield "chat"
    for kind in (OpenAIChatGenerator, OpenAIResponsesChatGenerator):
        pieces: list[str] = []
        streamed = kind(
            model=ECHO, api_base_url=at.v1, api_key=key,
            streaming_callback=lambda piece, pieces=pieces: pieces.append(piece.content),
        )  # fmt: skip
        assert streamed.run(question)["replies"][0].text == "".join(pieces) == TEXT
    yield "streaming"


def autogen(at: Address) -> Abilities:
    from autogen_core.models import ModelInfo, UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    info = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
    question = [UserMessage(content=TEXT, source="user")]

    async def ask() -> tuple[Any, list[Any]]:
        client = OpenAIChatCompletionClient(model=ECHO, base_url=at.v1, api_key=_KEY, model_info=info)
        whole = await client.create(question)
        pieces = [piece async for piece in client.create_stream(question)]
        await client.close()
        return whole.content, pieces

    whole, pieces = asyncio.run(ask())
    assert whole == TEXT
    yield "chat"
    assert "".join(pieces[:-1]) == pieces[-1].content == TEXT
    yield "streaming"


def _strands(make: Callable[[str], Any]) -> Abilities:
    from strands import Agent, tool

    assert str(Agent(model=make(ECHO), callback_handler=None)(TEXT)).strip() == TEXT
    yield "streaming"
    assert WEATHER in str(Agent(model=make(SCRIPTED), callback_handler=None, tools=[tool(weather)])(TEXT))
    yield "tools"


def strands_chat(at: Address) -> Abilities:
    from strands.models.openai import OpenAIModel

    return _strands(lambda model: OpenAIModel(client_args={"base_url": at.v1, "api_key": _KEY}, model_id=model))


def strands_responses(at: Address) -> Abilities:
    from strands.models.openai_responses import OpenAIResponsesModel

    return _strands(lambda model: OpenAIResponsesModel(client_args={"base_url": at.v1, "api_key": _KEY}, model_id=model))


def mirascope(at: Address) -> Abilities:
    from mirascope import llm

    llm.register_provider("openai", scope="sim/", base_url=at.v1, api_key=_KEY)
    assert llm.model(ECHO).call(TEXT).text() == TEXT
    yield "chat"
    assert "".join(llm.model(ECHO).stream(TEXT).text_stream()).strip() == TEXT
    yield "streaming"


@attrs.frozen
class Program:
    """`package` is the distribution whose version the table names."""

    name: str
    protocol: str
    package: str
    run: Callable[[Address], Abilities]


_CHAT, _RESPONSES, _ANTHROPIC = "OpenAI chat", "OpenAI responses", "Anthropic"
PROGRAMS: Mapping[str, Program] = {
    program.run.__name__: program
    for program in (
        Program("Pydantic AI", _RESPONSES, "pydantic-ai-slim", pydantic_ai_responses),
        Program("Pydantic AI", _CHAT, "pydantic-ai-slim", pydantic_ai_chat),
        Program("LangChain", _RESPONSES, "langchain-openai", langchain_responses),
        Program("LangChain", _CHAT, "langchain-openai", langchain_chat),
        Program("LangChain", _ANTHROPIC, "langchain-anthropic", langchain_anthropic),
        Program("LangChain", "Groq", "langchain-groq", langchain_groq),
        Program("LangChain", "Ollama", "langchain-ollama", langchain_ollama),
        Program("LiteLLM", _CHAT + " and audio", "litellm", litellm),
        Program("LiteLLM", _RESPONSES, "litellm", litellm_responses),
        Program("LiteLLM", _ANTHROPIC, "litellm", litellm_anthropic),
        Program("Agno", _RESPONSES, "agno", agno_responses),
        Program("Agno", _CHAT, "agno", agno_chat),
        Program("LlamaIndex", _CHAT, "llama-index-llms-openai-like", llama_index),
        Program("smolagents", _CHAT, "smolagents", smolagents),
        Program("Instructor", _CHAT, "instructor", instructor),
        Program("DSPy", _CHAT + " and responses", "dspy", dspy),
        Program("Haystack", _CHAT + " and responses", "haystack-ai", haystack),
        Program("AutoGen", _CHAT, "autogen-ext", autogen),
        Program("Strands Agents", _CHAT, "strands-agents", strands_chat),
        Program("Strands Agents", _RESPONSES, "strands-agents", strands_responses),
        Program("Mirascope", _CHAT, "mirascope", mirascope),
    )
}
