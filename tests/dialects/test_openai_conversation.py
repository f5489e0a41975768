"""A realtime conversation held by three engines, in memory: speech in, speech out."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
import trio

from gw.dialects import openai_conversation
from tests.contract.talkers import as_json
from tests.fakes.conversing import open_conversation
from tests.fakes.vendors.openai import FakeOpenAI

TEXT = "what is the weather in Paris"
PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture
def talk(tmp_path):
    return partial(open_conversation, tmp_path)


async def test_what_is_said_is_answered_aloud_and_is_one_waterfall(talk, autojump_clock):
    async with talk() as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, TEXT)
            done = await client.until("response.done")
        assert (done["response"]["status"], client.spoken) == ("completed", TEXT)
        assert done["response"]["usage"]["total_tokens"] > 0
        (item,) = done["response"]["output"]
        assert item["content"] == [{"type": "output_audio", "transcript": TEXT}]
        order = [
            "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
            "conversation.item.input_audio_transcription.completed", "response.created", "response.output_item.added",
            "response.content_part.added", "response.output_audio.done", "response.output_audio_transcript.done",
            "response.content_part.done", "response.output_item.done", "response.done",
        ]  # fmt: skip
        kinds = client.kinds()
        assert [kind for kind in kinds if kind in order] == order
        assert all(event["event_id"] for event in client.seen)
    await plane_records(plane, {"stt", "llm", "tts"})


async def plane_records(plane, modalities):
    records = plane.kept.records
    assert {record.modality for record in records} == modalities
    answered = [record for record in records if record.modality != "stt"]
    assert len({record.turn_id for record in answered}) == 1
    assert len({record.id for record in records}) == len(records)


async def test_speech_interrupts_an_answer(talk, autojump_clock):
    async with talk(token_ms=2_000) as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, TEXT)
            await client.until("response.output_audio_transcript.delta")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "stop")
            done = await client.until("response.done")
            nursery.cancel_scope.cancel()
        assert done["response"]["status"] == "cancelled"
        assert done["response"]["status_details"]["reason"] == "turn_detected"
        kinds = [event["type"] for event in client.seen]
        started = len(kinds) - 1 - kinds[::-1].index("input_audio_buffer.speech_started")
        assert "response.output_audio.delta" not in kinds[started:]
        statuses = {record.modality: record.status for record in plane.kept.records}
        assert statuses == {"llm": "cancelled", "tts": "cancelled"}


async def test_text_in_and_text_out(talk, autojump_clock):
    async with talk("model=gpt-realtime") as (client, plane):
        await client.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
        updated = await client.until("session.updated")
        assert updated["session"]["output_modalities"] == ["text"]
        assert updated["session"]["audio"]["output"]["voice"] == "alloy"
        content = [{"type": "input_text", "text": TEXT}]
        await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await client.until("conversation.item.done")
        await client.send("response.create")
        await client.until("response.done")
        deltas = [e["delta"] for e in client.seen if e["type"] == "response.output_text.delta"]
        assert "".join(deltas) == TEXT
        assert len(deltas) > 1
        assert plane.kept.record.modality == "llm"


async def test_a_tool_is_called_and_its_result_spoken(talk, autojump_clock):
    tool = {
        "type": "function",
        "name": "look",
        "description": "Look",
        "parameters": {"type": "object", "properties": {}},
    }
    async with talk("model=tools") as (client, _):
        await client.send(
            "session.update", session={"type": "realtime", "tools": [tool], "output_modalities": ["text"]}
        )
        content = [{"type": "input_text", "text": TEXT}]
        await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await client.send("response.create")
        called = await client.until("response.function_call_arguments.done")
        assert called["name"] == "look"
        await client.until("response.done")
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "18 degrees"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        done = await client.until("response.done")
        assert "18 degrees" in done["response"]["output"][0]["content"][0]["text"]


async def test_bad_frames_are_answered_and_the_session_goes_on(talk, autojump_clock):
    async with talk() as (client, _):
        for frame in (
            "{",
            "[]",
            '{"type":1}',
            '{"type":"nonsense"}',
            as_json(type="input_audio_buffer.append", audio="!"),
        ):
            await client.ws.send(frame)
            event = msgspec.json.decode(await client.ws.receive())
            assert (event["type"], event["error"]["type"]) == ("error", "invalid_request_error")
        await client.send("session.update", session={"instructions": "Be brief."})
        assert (await client.until("session.updated"))["session"]["instructions"] == "Be brief."


# ---- one response at a time


def asked(mind):
    """The messages of the requests to the language model, as role and text."""
    return [[(m["role"], m["content"]) for m in entry.fields["messages"]] for entry in mind.ledger]


async def test_speech_does_not_interrupt_where_the_client_says_so_and_the_session_goes_on(talk, autojump_clock):
    async with talk(token_ms=500) as (client, _):
        await client.send(
            "session.update", session={"audio": {"input": {"turn_detection": {"interrupt_response": False}}}}
        )
        await client.until("session.updated")
        await client.say(TEXT)
        await client.send("response.create")
        created = await client.until("response.created")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "wait")
            error = (await client.until("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert created["response"]["id"] in error["message"]
        done = await client.until("response.done")
        assert (done["response"]["id"], done["response"]["status"]) == (created["response"]["id"], "completed")
        assert client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"] == "wait"
        await client.send("response.create")
        done = await client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == "wait"
        assert client.of("conversation.item.truncated") == []


async def test_a_second_response_is_refused_while_one_is_in_progress(talk, autojump_clock):
    async with talk(token_ms=500) as (client, _):
        await client.say(TEXT)
        await client.send("response.create")
        await client.until("response.created")
        assert (await client.refused("response.create"))["code"] == "conversation_already_has_active_response"
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_response_after_a_cancelled_one_waits_for_its_end(talk, autojump_clock):
    async with talk(token_ms=500) as (client, _):
        await client.say(TEXT)
        await client.send("response.create")
        await client.until("response.output_audio_transcript.delta")
        await client.send("response.cancel")
        await client.send("response.create", response={"output_modalities": ["text"]})
        first, second = await client.until("response.done"), await client.until("response.done")
        assert [done["response"]["status"] for done in (first, second)] == ["cancelled", "completed"]
        assert client.errors == []


async def test_a_response_is_cancelled_by_its_id_and_there_must_be_one(talk, autojump_clock):
    async with talk(token_ms=500) as (client, _):
        assert (await client.refused("response.cancel"))["code"] == "response_cancel_not_active"
        await client.say(TEXT)
        await client.send("response.create")
        id_ = (await client.until("response.created"))["response"]["id"]
        assert (await client.refused("response.cancel", response_id="resp_of_nobody"))[
            "code"
        ] == "response_cancel_not_active"
        await client.send("response.cancel", response_id=id_)
        assert (await client.until("response.done"))["response"]["status_details"]["reason"] == "client_cancelled"


# ---- responses outside the conversation


async def test_a_response_outside_the_conversation_leaves_nothing_in_it(talk, autojump_clock):
    mind = FakeOpenAI(reply="billing")
    async with talk("model=read", mind=mind) as (client, _):
        await client.say(TEXT)
        question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which topic?"}]}
        options = {
            "conversation": "none", "metadata": {"kind": "topic"}, "output_modalities": ["text"],
            "instructions": "Answer with one word.", "input": [question],
        }  # fmt: skip
        await client.send("response.create", response=options)
        created = await client.until("response.created")
        done = (await client.until("response.done"))["response"]
        assert (created["response"]["metadata"], done["metadata"]) == ({"kind": "topic"}, {"kind": "topic"})
        assert (done["conversation_id"], done["output"][0]["content"][0]["text"]) == (None, "billing")
        assert len(client.of("conversation.item.added")) == 1
        assert "not found" not in str(client.errors)
        missing = await client.refused("conversation.item.retrieve", item_id=done["output"][0]["id"])
        assert missing["code"] == "item_retrieve_invalid_item_id"
        await client.send("response.create", response={"output_modalities": ["text"]})
        await client.until("response.done")
    assert asked(mind) == [[("system", "Answer with one word."), ("user", "Which topic?")], [("user", TEXT)]]


async def test_responses_outside_the_conversation_run_beside_one_in_it(talk, autojump_clock):
    async with talk(token_ms=500) as (client, _):
        item = await client.say(TEXT)
        await client.send("response.create", response={"metadata": {"n": "in"}})
        reference = {"type": "item_reference", "id": item["id"]}
        beside = {"conversation": "none", "output_modalities": ["text"], "metadata": {"n": "out"}, "input": [reference]}
        await client.send("response.create", response=beside)
        first, second = await client.until("response.done"), await client.until("response.done")
        assert [done["response"]["metadata"]["n"] for done in (first, second)] == ["out", "in"]
        assert first["response"]["output"][0]["content"][0]["text"] == TEXT
        for _ in range(8):
            await client.send("response.create", response=beside)
        assert (
            "in progress outside the conversation"
            in (await client.refused("response.create", response=beside))["message"]
        )


async def test_an_empty_input_clears_the_context_and_a_wrong_one_is_refused(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk("model=read", mind=mind) as (client, _):
        await client.say(TEXT)
        await client.send(
            "response.create", response={"input": [], "output_modalities": ["text"], "instructions": "Hello."}
        )
        await client.until("response.done")
        for wrong, param in (
            ([{"type": "item_reference", "id": "item_x"}], "response.input[0].id"), ([{"type": "nonsense"}], "response.input[0].type")
        ):  # fmt: skip
            assert (await client.refused("response.create", response={"input": wrong}))["param"] == param
    assert asked(mind) == [[("system", "Hello.")]]


# ---- items


async def test_items_are_retrieved_deleted_and_put_between_others(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk("model=read", mind=mind) as (client, _):
        second = await client.say("two")
        third = await client.say("three")
        await client.say("one", previous_item_id="root")
        await client.say("two and a half", previous_item_id=second["id"])
        assert client.of("conversation.item.done")[-1]["previous_item_id"] == second["id"]
        assert (await client.refused("conversation.item.create", item=IMAGE, previous_item_id="x"))[
            "param"
        ] == "previous_item_id"
        assert (await client.refused("conversation.item.create", item=second))["param"] == "item.id"
        await client.send("conversation.item.retrieve", item_id=third["id"])
        assert (await client.until("conversation.item.retrieved"))["item"] == third
        await client.send("conversation.item.delete", item_id=third["id"])
        await client.until("conversation.item.deleted")
        assert (await client.refused("conversation.item.delete", item_id=third["id"]))[
            "code"
        ] == "item_delete_invalid_item_id"
        error = await client.refused("conversation.item.retrieve", item_id=third["id"])
        assert error["code"] == "item_retrieve_invalid_item_id"
        assert error["message"] == f"Error retrieving item: the item with id '{third['id']}' does not exist."
        await client.send("response.create", response={"output_modalities": ["text"]})
        await client.until("response.done")
    assert asked(mind) == [[("user", "one"), ("user", "two"), ("user", "two and a half")]]


IMAGE = {"type": "message", "role": "user", "content": [
    {"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PNG, "detail": "low"},
]}  # fmt: skip


async def test_an_image_reaches_a_language_model_that_takes_images(talk, autojump_clock):
    mind = FakeOpenAI(reply="A cat.")
    async with talk("model=read", mind=mind) as (client, _):
        await client.send("conversation.item.create", item=IMAGE)
        await client.until("conversation.item.done")
        await client.send("response.create", response={"output_modalities": ["text"]})
        done = await client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["text"] == "A cat."
    (entry,) = mind.ledger
    assert entry.fields["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
    ]  # fmt: skip


async def test_a_conversation_has_a_limit_of_characters(talk, autojump_clock, monkeypatch):
    monkeypatch.setattr(openai_conversation, "MAX_CHARACTERS", 100)
    async with talk() as (client, _):
        first = await client.say("x" * 60)
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "y" * 60}]}
        assert "at most 100 characters" in (await client.refused("conversation.item.create", item=item))["message"]
        await client.send("conversation.item.delete", item_id=first["id"])
        await client.until("conversation.item.deleted")
        await client.say("y" * 60)


async def test_an_image_for_a_language_model_without_sight_is_refused_at_once(talk, autojump_clock):
    async with talk() as (client, _):
        error = await client.refused("conversation.item.create", item=IMAGE)
        assert (error["code"], error["param"]) == ("unsupported_parameter", "item.content[1]")
        assert "first/echo does not take images" in error["message"]
        error = await client.refused("response.create", response={"input": [IMAGE]})
        assert error["param"] == "response.input[0].content[1]"


# ---- settings


async def test_a_setting_that_is_not_done_is_named_and_the_others_are_changed(talk, autojump_clock):
    async with talk() as (client, _):
        update = {
            "type": "realtime", "instructions": "Be brief.", "include": ["item.input_audio_transcription.logprobs"],
            "audio": {"input": {"noise_reduction": {"type": "near_field"}, "turn_detection": {"silence_duration_ms": 700}}},
        }  # fmt: skip
        await client.send("session.update", session=update, event_id="mine")
        first, second = await client.until("error"), await client.until("error")
        updated = (await client.until("session.updated"))["session"]
        assert {error["error"]["param"] for error in (first, second)} == {
            "session.include",
            "session.audio.input.noise_reduction",
        }
        assert {(e["error"]["code"], e["error"]["event_id"]) for e in (first, second)} == {
            ("unsupported_parameter", "mine")
        }
        assert (updated["instructions"], updated["include"]) == ("Be brief.", None)
        assert updated["audio"]["input"]["noise_reduction"] is None
        assert updated["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 700


async def test_a_malformed_update_changes_nothing(talk, autojump_clock):
    async with talk() as (client, _):
        for wrong, param, code in (
            ({"instructions": "x", "voices": 1}, "session.voices", "unknown_parameter"),
            ({"instructions": "x", "audio": {"input": {"format": {"type": "audio/mp3"}}}}, "session.audio.input.format", "invalid_value"),
            ({"instructions": "x", "output_modalities": ["text", "audio"]}, "session.output_modalities", "invalid_value"),
            ({"instructions": "x", "audio": {"input": {"transcription": {"model": "x/y"}}}},
             "session.audio.input.transcription.model", "invalid_value"),
        ):  # fmt: skip
            error = await client.refused("session.update", session=wrong)
            assert (error["param"], error["code"]) == (param, code)
        await client.send("session.update", session={"type": "realtime"})
        assert (await client.until("session.updated"))["session"]["instructions"] == ""


async def test_settings_of_the_answer_reach_the_language_model(talk, autojump_clock):
    mind = FakeOpenAI()
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with talk("model=read", mind=mind) as (client, _):
        session = {
            "tools": [tool], "tool_choice": {"type": "function", "name": "look"}, "parallel_tool_calls": False,
            "reasoning": {"effort": "low"}, "max_output_tokens": 50, "output_modalities": ["text"],
        }  # fmt: skip
        await client.send("session.update", session=session)
        await client.until("session.updated")
        await client.say(TEXT)
        await client.send("response.create", response={"max_output_tokens": 20})
        done = await client.until("response.done")
        assert done["response"]["max_output_tokens"] == 20
    (entry,) = mind.ledger
    assert entry.fields["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    members = ("parallel_tool_calls", "reasoning_effort", "max_completion_tokens")
    assert [entry.fields[name] for name in members] == [False, "low", 20]


async def test_an_answer_that_reaches_its_limit_is_incomplete(talk, autojump_clock):
    async with talk() as (client, _):
        await client.say(TEXT)
        await client.send("response.create", response={"max_output_tokens": 3, "output_modalities": ["text"]})
        done = await client.until("response.done")
        assert done["response"]["status"] == "incomplete"
        assert done["response"]["status_details"]["reason"] == "max_output_tokens"


async def test_a_refusal_of_the_language_model_is_said(talk, autojump_clock):
    async with talk("model=read", mind=FakeOpenAI(refuse="refusal")) as (client, _):
        await client.say("Something forbidden.")
        await client.send("response.create")
        done = (await client.until("response.done"))["response"]
        assert done["status"] == "completed"
        assert client.spoken
        assert done["output"][0]["content"][0]["transcript"].startswith(client.spoken)


async def test_a_trace_group_names_the_session_of_the_records(talk, autojump_clock):
    async with talk() as (client, plane):
        await client.send("session.update", session={"tracing": {"group_id": "call-7", "workflow_name": "support"}})
        assert (await client.until("error"))["error"]["param"] == "session.tracing.workflow_name"
        await client.until("session.updated")
        await client.say(TEXT)
        await client.send("response.create", response={"output_modalities": ["text"]})
        await client.until("response.done")
    assert plane.kept.record.session_id == "call-7"


# ---- a conversation that has become too long


class Small(FakeOpenAI):
    """A language model with room for three messages. Code and status: openai-python 3.52.0 handles them as BadRequestError."""

    async def _chat(self, entry, body, answer):
        entry.fields = msgspec.json.decode(body)
        if len(entry.fields["messages"]) > 3:
            await answer.error(400, "context_length_exceeded", "the context is too long", None)
        else:
            await super()._chat(entry, body, answer)


async def _five_messages(client, truncation):
    await client.send("session.update", session={"truncation": truncation, "output_modalities": ["text"]})
    await client.until("session.updated")
    for n in range(5):
        await client.say(f"message {n}")
    await client.send("response.create")
    return (await client.until("response.done"))["response"]


@pytest.mark.parametrize("truncation", ["auto", {"type": "retention_ratio", "retention_ratio": 0.6}])
async def test_the_oldest_messages_are_left_out_where_the_model_has_no_room(truncation, talk, autojump_clock):
    mind = Small()
    async with talk("model=read", mind=mind) as (client, _):
        assert (await _five_messages(client, truncation))["status"] == "completed"
        assert [text for _, text in asked(mind)[-1]] == ["message 2", "message 3", "message 4"]
        calls = len(mind.ledger)
        await client.send("conversation.item.delete", item_id=client.of("conversation.item.done")[2]["item"]["id"])
        await client.send("response.create")
        await client.until("response.done")
        assert len(mind.ledger) == calls + 1  # the next response begins where this one did


async def test_without_truncation_a_conversation_that_is_too_long_fails(talk, autojump_clock):
    mind = Small()
    async with talk("model=read", mind=mind) as (client, _):
        response = await _five_messages(client, "disabled")
        assert response["status"] == "failed"
    assert len(mind.ledger) == 1


async def test_a_limit_of_tokens_keeps_the_latest_messages(talk, autojump_clock):
    mind = FakeOpenAI()
    limits = {"type": "retention_ratio", "retention_ratio": 0.5, "token_limits": {"post_instructions": 10}}
    async with talk("model=read", mind=mind) as (client, _):
        assert (await _five_messages(client, limits))["status"] == "completed"
    assert [text for _, text in asked(mind)[-1]] == ["message 3", "message 4"]
