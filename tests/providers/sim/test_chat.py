import msgspec
import pytest

from gw.errors import ProviderRejected, UpstreamCut
from gw.providers.sim import SPEC
from gw.types.llm import ChatEnd, Delta, UsageReport
from tests.providers.sim.engine import account, chat, chat_request, read

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
CLOCK = {"type": "function", "function": {"name": "get_time"}}


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, Delta))


async def test_echo_says_the_last_user_message_token_by_token():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How  are you,\n Paris?"}]},
    ]
    events = await chat(account("echo"), messages=messages)
    assert [e.text for e in events[:-3]] == ["How", "  are", " you,", "\n Paris?"]
    finish, report, end = events[-3:]
    assert finish == Delta(finish_reason="stop")
    assert isinstance(report, UsageReport)
    assert isinstance(end, ChatEnd)
    assert report.usage.input_tokens == (1 + 2) + (1 + 1 + 1 + 2)
    assert report.usage.output_tokens == 5
    assert report.usage.source == "vendor"


async def test_events_carry_no_raw_chunks():
    assert all(e.raw is None for e in await chat(account("echo")) if isinstance(e, (Delta, UsageReport)))


@pytest.mark.parametrize(
    ("spoken", "answer"),
    [
        ("What is the WEATHER in Paris?", "It is sunny in Paris."),
        ("Are you open on Sunday?", "We are open every day from nine in the morning until ten at night."),
        ("xyzzy", "I can tell you our opening hours, book a table, or read you the menu. What would you like?"),
    ],
)
async def test_scripted_answers_by_keyword(spoken, answer):
    assert text_of(await chat(account("scripted"), spoken)) == answer


async def test_the_script_of_the_configuration_goes_first():
    scripted = account("scripted", script={"Weather": "Rain.", "xyzzy": "Nothing happens."})
    assert text_of(await chat(scripted, "the weather?")) == "Rain."
    assert text_of(await chat(scripted, "say xyzzy")) == "Nothing happens."


async def test_max_tokens_cut_the_answer():
    events = await chat(account("scripted"), "weather", max_output_tokens=3)
    assert text_of(events) == "It is"
    assert events[-3].finish_reason == "length"


async def call_of(*args, account_=None, **kwargs):
    events = await chat(account_ or account("scripted"), *args, **kwargs)
    pieces = [piece for e in events[:-3] for piece in e.tool_calls]
    return events, pieces


async def test_a_tool_is_called_with_arguments_of_its_schema():
    events, pieces = await call_of("Is it raining in Rome?", tools=[WEATHER, CLOCK])
    assert pieces[0].name == "get_weather"
    assert pieces[0].id.startswith("call_")
    assert not any(piece.id or piece.name for piece in pieces[1:])
    assert len(pieces) > 2
    arguments = msgspec.json.decode("".join(piece.arguments for piece in pieces))
    assert arguments == {"city": "Is it raining in Rome?", "days": 1}
    assert events[-3].finish_reason == "tool_calls"
    assert text_of(events) == ""


async def test_the_tool_that_was_chosen_is_called():
    _, pieces = await call_of(
        tools=[WEATHER, CLOCK], tool_choice={"type": "function", "function": {"name": "get_time"}}
    )
    assert pieces[0].name == "get_time"
    assert pieces[1].arguments == "{}"


@pytest.mark.parametrize(
    "fields", [{"tools": [WEATHER], "tool_choice": "none"}, {"tools": []}, {"tools": None}, {"tool_choice": "auto"}]
)
async def test_no_tool_is_called_when_none_may(fields):
    events, pieces = await call_of("weather", **fields)
    assert pieces == []
    assert text_of(events) == "It is sunny in Paris."


async def test_the_reply_quotes_a_tools_answer():
    messages = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "18 degrees"},
    ]
    events = await chat(account("scripted"), messages=messages, tools=[WEATHER])
    assert text_of(events) == "Here is what I found: 18 degrees"


async def test_two_calls_have_two_ids():
    scripted = account("scripted")
    _, first = await call_of(tools=[CLOCK], account_=scripted)
    _, second = await call_of(tools=[CLOCK], account_=scripted)
    assert first[0].id != second[0].id


@pytest.mark.parametrize("fields", [{"messages": "no list"}, {"tools": 7}, {"tools": [{"function": {}}]}])
async def test_a_request_of_another_shape_is_the_callers_fault(fields):
    with pytest.raises(ProviderRejected) as caught:
        await chat(account("scripted"), **fields)
    assert (caught.value.upstream_status, caught.value.fault) == (400, "caller")


@pytest.mark.parametrize("model", ["tone", "gpt-4o", ""])
async def test_an_unknown_model_is_another_candidates_chance(model):
    with pytest.raises(ProviderRejected, match="echo, scripted, flaky") as caught:
        await chat(account(model))
    assert (caught.value.upstream_status, caught.value.fault) == (404, "candidate")


async def test_reading_past_the_end():
    async with SPEC.chat(chat_request(), account("echo")) as stream:
        await read(stream)
        with pytest.raises(UpstreamCut, match="past the end"):
            await stream.receive()
