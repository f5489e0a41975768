"""Anthropic's and Ollama's unchanged SDKs at the gateway, with an engine behind that speaks neither protocol; Anthropic's over
its own vendor and over another as well."""

from __future__ import annotations

import pytest

from tests.clients.gateway_pair import TEXT

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

ASKED = [{"role": "user", "content": TEXT}]


@pytest.mark.parametrize("who", ["fake", "own", "other"])
def test_anthropic_sdk(drop_in, who):
    import anthropic

    options = {"model": drop_in.model("anthropic", "llm"), "max_tokens": 200, "messages": ASKED}
    with anthropic.Anthropic(base_url=drop_in.at("anthropic", who), api_key="vendor-key") as client:
        assert client.messages.create(**options).content[0].text == TEXT
        with client.messages.stream(**options) as stream:
            pieces = list(stream.text_stream)
            last = stream.get_final_message()
    assert len(pieces) > 3
    assert "".join(pieces) == last.content[0].text == TEXT
    assert last.usage.output_tokens > 0


@pytest.mark.parametrize("root", ["", "/anthropic"])
def test_anthropic_whole_and_streamed(demo, root):
    import anthropic

    with anthropic.Anthropic(base_url=demo.daemon.url + root, api_key="any") as client:
        whole = client.messages.create(model="sim/echo", max_tokens=200, messages=ASKED)
        assert (whole.content[0].text, whole.stop_reason) == (TEXT, "end_turn")
        assert whole.usage.output_tokens > 0
        assert demo.record(whole._request_id)["model_id"] == "sim/echo"
        with client.messages.stream(model="sim/echo", max_tokens=200, messages=ASKED) as stream:
            pieces = list(stream.text_stream)
            last = stream.get_final_message()
        assert len(pieces) > 3
        assert "".join(pieces) == last.content[0].text == TEXT
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.create(model="sim/nothing", max_tokens=200, messages=ASKED)
        assert caught.value.body["error"]["type"] == "not_found_error"
        assert "sim/echo" in str(caught.value)


def test_anthropic_calls_a_tool(demo):
    import anthropic

    tool = {"name": "look", "description": "Look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
    with anthropic.Anthropic(base_url=demo.daemon.url, api_key="any") as client:
        answer = client.messages.create(model="sim/scripted", max_tokens=200, messages=ASKED, tools=[tool])
        assert answer.stop_reason == "tool_use"
        call = next(block for block in answer.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"}
        messages = [*ASKED, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        final = client.messages.create(model="sim/scripted", max_tokens=200, messages=messages, tools=[tool])
        assert "18 degrees" in final.content[0].text


def test_ollama_whole_and_streamed(demo):
    import ollama

    client = ollama.Client(host=demo.daemon.url + "/ollama")
    assert client.chat(model="sim/echo", messages=ASKED).message.content == TEXT
    pieces = [piece.message.content for piece in client.chat(model="sim/echo", messages=ASKED, stream=True)]
    assert len(pieces) > 3
    assert "".join(pieces) == TEXT
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat(model="sim/nothing", messages=ASKED)
    assert caught.value.status_code == 404


def test_ollama_lists_and_refusals(demo):
    import ollama

    client = ollama.Client(host=demo.daemon.url + "/ollama")
    assert "sim/echo" in [model.model for model in client.list().models]
    assert "completion" in client.show("sim/echo").capabilities
    refused = [
        lambda: client.pull("m"), lambda: client.push("m"), lambda: client.create("m", from_="n"),
        lambda: client.copy("m", "n"), lambda: client.delete("m"),
    ]  # fmt: skip
    for call in refused:
        with pytest.raises(ollama.ResponseError, match="no models of its own") as caught:
            call()
        assert caught.value.status_code == 501


def test_ollamas_sdk_generates_and_embeds(demo):
    import ollama

    client = ollama.Client(host=f"{demo.daemon.url}/ollama")
    assert client.generate(model="sim/echo", prompt="one two three").response == "one two three"
    pieces = list(client.generate(model="sim/echo", prompt="one two three", stream=True))
    assert "".join(piece.response or "" for piece in pieces) == "one two three"
    assert pieces[-1].done
    assert client.generate(model="sim/echo").done_reason == "load"
    embedded = client.embed(model="sim/echo", input=["one", "two"])
    assert [len(vector) for vector in embedded.embeddings] == [256, 256]
    assert client.embeddings(model="sim/echo", prompt="one").embedding == embedded.embeddings[0]
    assert list(client.ps().models) == []


@pytest.mark.parametrize("mount", ["", "/anthropic"])
def test_anthropics_sdk_turns_the_pages_of_models(demo, mount):
    import anthropic

    with anthropic.Anthropic(base_url=demo.daemon.url + mount, api_key="any") as client:
        all_ids = [model.id for model in client.models.list(limit=1_000)]
        assert len(all_ids) > 2
        assert [model.id for model in client.models.list(limit=1)] == all_ids
