"""Requests of the Responses API in the common form, and what of them other vendors cannot be sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gw.errors import ClientProtocolError, UnknownPreviousResponse
from gw.wire.openai_responses_request import ResponsesRequest, parse_request, upstream_body


def parsed(**members: Any) -> ResponsesRequest:
    return parse_request(msgspec.json.encode({"model": "m", "input": "Hi", **members}))


def chat(request: ResponsesRequest) -> dict[str, Any]:
    """Return the members for an upstream of OpenAI's chat."""
    return {name: msgspec.json.decode(raw) for name, raw in request.fields.items()}


def test_text_and_instructions():
    request = parsed(instructions="Be brief.", stream=True)
    assert chat(request) == {
        "model": "m", "stream": True,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }  # fmt: skip
    assert (request.stream, request.dialect, request.input_characters) == (True, "openai_responses", 11)
    assert request.only_native is None


def test_settings():
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    request = parsed(
        max_output_tokens=9, temperature=0.5, top_p=0.9, user="u", reasoning={"effort": "low", "summary": "auto"},
        text={"format": form, "verbosity": "low"}, metadata={"a": "b"}, prompt_cache_key="k", store=False,
        service_tier="auto", truncation="disabled", include=["reasoning.encrypted_content"],
    )
    assert {name: value for name, value in chat(request).items() if name not in ("model", "messages")} == {
        "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.9, "user": "u", "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
    }  # fmt: skip
    assert (request.max_output_tokens, request.store, request.summarized, request.only_native) == (9, False, True, None)
    assert request.echo["metadata"] == {"a": "b"}
    assert request.echo["text"] == {"format": form}


FIND = {"type": "function", "name": "find", "description": "d", "parameters": {"type": "object"}, "strict": True}
LOOK = {"type": "function", "name": "look", "parameters": None, "strict": None}


def test_tools():
    request = parsed(tools=[FIND, LOOK], tool_choice={"type": "function", "name": "find"}, parallel_tool_calls=False)
    find = {"name": "find", "description": "d", "parameters": {"type": "object"}, "strict": True}
    fields = chat(request)
    assert fields["tools"] == [{"type": "function", "function": find}, {"type": "function", "function": {"name": "look"}}]
    assert fields["tool_choice"] == {"type": "function", "function": {"name": "find"}}
    assert fields["parallel_tool_calls"] is False
    assert request.needs == {"tools"}


def test_allowed_tools():
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]}
    fields = chat(parsed(tools=[FIND, LOOK], tool_choice=allowed))
    assert [tool["function"]["name"] for tool in fields["tools"]] == ["look"]
    assert fields["tool_choice"] == "required"


def test_a_conversation_with_parallel_calls():
    def call(id_: str) -> dict[str, Any]:
        return {"type": "function_call", "id": "fc", "call_id": id_, "name": "find", "arguments": "{}", "status": "completed"}

    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment", "annotations": []}]},
        call("1"), call("2"),
        {"type": "function_call_output", "call_id": "1", "output": "x"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "y"}]},
        call("3"),
        {"type": "function_call_output", "call_id": "3", "output": "z"},
        {"role": "developer", "content": "Be kind."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]  # fmt: skip
    request = parsed(input=items)

    def called(id_: str) -> dict[str, Any]:
        return {"id": id_, "type": "function", "function": {"name": "find", "arguments": "{}"}}

    assert chat(request)["messages"] == [
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "One moment", "tool_calls": [called("1"), called("2")]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "tool", "tool_call_id": "2", "content": "y"},
        {"role": "assistant", "content": None, "tool_calls": [called("3")]},
        {"role": "tool", "tool_call_id": "3", "content": "z"},
        {"role": "system", "content": "Be kind."},
        {"role": "assistant", "content": "No."},
    ]
    assert request.only_native is None


def test_images_audio_and_files():
    content = [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "https://e.test/a.png", "detail": "low"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ]
    request = parsed(input=[{"role": "user", "content": content}])
    assert chat(request)["messages"] == [{"role": "user", "content": [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "https://e.test/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
    ]}]  # fmt: skip
    assert request.needs == {"vision", "audio_in"}


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [FIND, {"type": "web_search"}]}, "tools[1]"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0]"),
        ({"tools": [{**FIND, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tools": [FIND], "tool_choice": {"type": "web_search_preview"}}, "tool_choice"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}, "input": None}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"brand_new": {"a": 1}}, "brand_new"),
        ({"input": [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}]}, "input[0].encrypted_content"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "computer_call", "id": "c"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}]}, "input[0].output[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_only_the_vendor_itself_can_do(members, param):
    request = parsed(**members)
    assert request.only_native is not None
    assert request.only_native.param == param
    body = msgspec.json.decode(upstream_body(request, "vendor-model"))
    assert body == {"input": "Hi", **members, "model": "vendor-model"}


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": 7}]}]}, "input[0].content[0].text"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"background": True}, "background"),
    ],
)
def test_what_is_refused_for_everybody(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        parsed(**members)
    assert caught.value.param == param


def test_a_response_that_is_stored_here_is_continued():
    earlier = ({"type": "message", "role": "user", "content": "One"}, {"type": "message", "role": "assistant", "content": "Two"})
    body = msgspec.json.encode({"input": "Three", "previous_response_id": "resp_1", "new": 1})
    request = parse_request(body, {"resp_1": earlier}.get)
    assert [message["content"] for message in chat(request)["messages"]] == ["One", "Two", "Three"]
    assert len(request.items) == 3
    sent = msgspec.json.decode(upstream_body(request, "m"))
    assert sent == {"model": "m", "new": 1, "input": list(request.items)}
    assert request.echo["previous_response_id"] == "resp_1"


def test_a_reference_to_an_item_that_is_stored_here():
    call = {"type": "function_call", "id": "fc_abc_1", "call_id": "c", "name": "find", "arguments": "{}"}
    asked = [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "fc_abc_1"}]
    body = msgspec.json.encode({"input": [*asked, {"type": "function_call_output", "call_id": "c", "output": "x"}]})
    request = parse_request(body, {"resp_abc": (call,)}.get)
    assert request.only_native is None
    assert [message["role"] for message in chat(request)["messages"]] == ["user", "assistant", "tool"]
    assert msgspec.json.decode(upstream_body(request, "m"))["input"][1] == call
    elsewhere = parse_request(body, {"resp_abc": ()}.get)
    assert elsewhere.only_native is not None
    assert elsewhere.only_native.param == "input[1]"
    assert msgspec.json.decode(upstream_body(elsewhere, "m"))["input"][:2] == asked


def test_a_response_that_is_stored_elsewhere():
    request = parse_request(b'{"input":"Hi","previous_response_id":"resp_2"}', missing=": nothing is stored")
    assert isinstance(request.only_native, UnknownPreviousResponse)
    assert request.only_native.message == "Previous response with id 'resp_2' not found: nothing is stored."
    assert msgspec.json.decode(upstream_body(request, "m"))["previous_response_id"] == "resp_2"
