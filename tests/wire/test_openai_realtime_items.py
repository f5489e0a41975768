"""Items of a realtime conversation: checked, as messages of a chat request, and cut at the word that was heard last."""

from __future__ import annotations

import pytest

from gw.wire.openai_realtime_items import assistant_item, call_item, chat_messages, checked_item, user_item
from gw.wire.openai_realtime_server import EventRefused


def message(role, *parts):
    return {"type": "message", "role": role, "content": list(parts)}


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (None, "item.type"),
        ({"type": "mcp_call"}, "item.type"),
        ({"type": "item_reference", "id": "x"}, "item.type"),
        (message("robot"), "item.role"),
        ({"type": "message", "role": "user", "content": "text"}, "item.content"),
        (message("user", {"type": "output_text", "text": "x"}), "item.content[0].type"),
        (message("assistant", {"type": "output_audio", "transcript": "x"}), "item.content[0].type"),
        (message("user", {"type": "input_text"}), "item.content[0].text"),
        (message("user", {"type": "input_audio", "audio": "AAAA"}), "item.content[0].audio"),
        (message("user", {"type": "input_image", "image_url": "https://x.test/a.png"}), "item.content[0].image_url"),
        (
            message("user", {"type": "input_image", "image_url": "data:image/gif;base64,AAAA"}),
            "item.content[0].image_url",
        ),
        (
            message("user", {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "x"}),
            "item.content[0].detail",
        ),
        ({"type": "function_call", "name": "look", "call_id": "c"}, "item.arguments"),
        ({"type": "function_call_output", "output": "x"}, "item.call_id"),
    ],
)
def test_an_item_that_is_not_done_is_refused_by_the_place(item, param):
    with pytest.raises(EventRefused) as refused:
        checked_item(item, "item_1")
    assert refused.value.param == param


def test_an_item_keeps_its_id_or_gets_one():
    assert checked_item(message("user") | {"id": "mine"}, "item_1")["id"] == "mine"
    assert checked_item(message("user"), "item_1")["id"] == "item_1"


def test_speech_counts_by_its_transcript_and_an_answer_that_nobody_heard_is_left_out():
    items = [user_item("a", "hello"), assistant_item("b", "", audio=True), user_item("c", None)]
    assert chat_messages(items) == [{"role": "user", "content": "hello"}]


def test_results_follow_their_calls_and_calls_without_a_result_are_left_out():
    """The chat API accepts nothing else: https://platform.openai.com/docs/guides/function-calling."""

    def output(call_id):
        return {"type": "function_call_output", "call_id": call_id, "output": f"of {call_id}", "id": f"o{call_id}"}

    calls = [call_item("i1", "1", "look", "{}"), call_item("i2", "2", "hear", "{}"), call_item("i3", "3", "wait", "{}")]
    made = chat_messages([*calls, output("1"), user_item("u", "well?"), output("2"), output("4")])
    assert [m["role"] for m in made] == ["assistant", "tool", "tool", "user"]
    assert [call["id"] for call in made[0]["tool_calls"]] == ["1", "2"]
    assert [(m["tool_call_id"], m["content"]) for m in made[1:3]] == [("1", "of 1"), ("2", "of 2")]
