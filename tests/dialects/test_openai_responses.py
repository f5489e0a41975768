"""The Responses API over HTTP: who may be called for a request, stored responses, and what is absent."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from gw.errors import ProviderRejected
from gw.net.http1 import Origin
from gw.net.ws import open_ws
from gw.types.usage import BASE_RATE
from tests.fakes.golden import golden
from tests.fakes.hosting import GATEWAY, Plane, Reply, hosted, open_plane
from tests.fakes.net import Handler, ServerSide
from tests.fakes.running import open_running
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  sim: {}
  own: {type: openai, api_key: k, base_url: "http://own.test/v1"}
  other: {type: anthropic, api_key: k, base_url: "http://other.test"}
models:
  llm: {sim/echo: {}, sim/scripted: {}, own/m: {price: {unit: 1M_tokens, input: 1, output: 2}}, other/m: {}}
projects: {shop: {}, bakery: {}}
"""
CHAIN = "fallbacks: {llm: [other/m, own/m]}\n"
STORING = "serve: {stored_responses_mb: 1}\n"
SEARCH = [{"type": "web_search"}]


def answering(body: bytes) -> Handler:
    """Return a host that gives this answer to every request."""

    async def run(stream: trio.abc.Stream) -> None:
        server = ServerSide(stream)
        while await server.request() is not None:
            await server.respond(200, body, (b"content-type", b"application/json"))

    return run


async def create(plane: Plane, model: str, text: str | None = "Hi", headers: dict[str, str] | None = None, **members: Any) -> Reply:
    body = {"model": model, "input": text, **members}
    return await plane.post("/v1/responses", msgspec.json.encode(body), "application/json", **(headers or {}))


async def _call(plane: Plane, path: str, *, method: bytes, **headers: str) -> Reply:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    async with plane.client.open("client", method, GATEWAY, path.encode(), pairs) as response:
        body = await response.read()
        return Reply(status=response.status, headers={}, pieces=[(0.0, body)], cut=False, took_s=0.0)


get, delete = partial(_call, method=b"GET"), partial(_call, method=b"DELETE")


def text_of(reply: Reply) -> str:
    assert reply.status == 200, reply.body
    return "".join(part["text"] for item in reply.json["output"] for part in item.get("content", ()))


def events_of(reply: Reply) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line[6:]) for line in reply.body.split(b"\n") if line.startswith(b"data: ")]


# ---- who may be called


async def test_its_own_vendor_gets_the_request_and_the_caller_the_answer_as_they_are(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        fake = FakeOpenAI(api_key="k", models=("m",))
        plane.net.hosts["own.test", 80] = hosted(fake)
        reply = await create(plane, "own/m", tools=SEARCH, brand_new=[1], include=["reasoning.encrypted_content"])
        assert text_of(reply) == "Hello there, how are you?"
        (entry,) = fake.ledger
        assert (entry.path, entry.fields["tools"], entry.fields["brand_new"]) == ("/v1/responses", SEARCH, [1])
        assert (reply.json["id"], reply.json["store"]) == ("resp_1", True)
        usage, record = reply.json["usage"], plane.kept.record
        assert (record.usage.input_tokens, record.usage.output_tokens) == (usage["input_tokens"], usage["output_tokens"])
        assert record.usage.source == "vendor"
        assert record.cost_nusd == 1_000 * usage["input_tokens"] + 2_000 * usage["output_tokens"]
        again = await create(plane, "own/m", "And you?", previous_response_id="resp_1")
        assert text_of(again) == "Hello there, how are you?"
        assert fake.ledger[1].fields["previous_response_id"] == "resp_1"


async def test_the_price_of_what_the_vendor_ran_is_in_the_record(tmp_path, autojump_clock):
    config = CONFIG.replace("input: 1, output: 2}", "input: 1, output: 2, per_search: 0.01}")
    async with open_plane(config, tmp_path) as plane:
        plane.net.hosts["own.test", 80] = answering(golden("openai/response"))
        assert (await create(plane, "own/m", tools=SEARCH)).status == 200
        record = plane.kept.record
        assert record.usage.dimensions.searches == 1
        assert record.cost_nusd == 30 * 1_000 + 12 * 2_000 + 10_000_000
        assert BASE_RATE not in record.pricing_source


@pytest.mark.parametrize("stream", [False, True])
async def test_a_part_that_none_can_do_is_named(stream, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        reply = await create(plane, "sim/echo", tools=SEARCH, stream=stream)
        assert (reply.status, reply.error["param"]) == (400, "tools[0]")
        assert "web_search" in reply.error["message"]
        assert plane.kept.records == []


async def test_candidates_that_cannot_do_a_part_are_passed_over(tmp_path, autojump_clock):
    async with open_plane(CONFIG + CHAIN, tmp_path) as plane:
        fakes = FakeOpenAI(api_key="k"), FakeAnthropic(api_key="k")
        plane.net.hosts["own.test", 80], plane.net.hosts["other.test", 80] = map(hosted, fakes)
        reply = await create(plane, "other/m", tools=SEARCH)
        assert text_of(reply)
        assert reply.headers["x-gw-model"] == "own/m"
        assert [attempt.outcome for attempt in plane.kept.records[0].attempts] == ["missing_ability", "ok"]
        fakes[0].status = 503
        failed = await create(plane, "other/m", tools=SEARCH)
        assert (failed.status, [a["outcome"] for a in failed.error["gw"]["attempts"]]) == (502, ["skipped", "failed"])
        assert fakes[1].ledger == []


async def test_a_compatible_server_without_this_api_is_called_for_chat(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        fake = FakeOpenAI(api_key="k", has_responses=False)
        plane.net.hosts["own.test", 80] = hosted(fake)
        for _ in range(2):
            assert text_of(await create(plane, "own/m")) == "Hello there, how are you?"
        streamed = await create(plane, "own/m", stream=True)
        assert events_of(streamed)[-1]["type"] == "response.completed"
        paths = [entry.path for entry in fake.ledger]
        assert paths == ["/v1/responses", *["/v1/chat/completions"] * 3]
        assert {tuple(attempt.outcome for attempt in record.attempts) for record in plane.kept.records} == {("ok",)}
        reply = await create(plane, "own/m", tools=SEARCH)
        assert reply.status == 502
        assert fake.ledger[-1].path == "/v1/responses"


async def test_a_model_that_is_not_there_is_not_taken_for_a_missing_path(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        fake = FakeOpenAI(api_key="k", status=404, error_code="model_not_found")
        plane.net.hosts["own.test", 80] = hosted(fake)
        assert (await create(plane, "own/m")).status == 404
        assert [entry.path for entry in fake.ledger] == ["/v1/responses"]


async def test_a_sequence_of_tools_and_an_image_at_another_vendor(tmp_path, autojump_clock):
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    async with open_plane(CONFIG, tmp_path) as plane:
        fake = FakeAnthropic(api_key="k", tool_call=("look", '{"at":1}'))
        plane.net.hosts["other.test", 80] = hosted(fake)
        reply = await create(plane, "other/m", tools=[tool])
        (call,) = reply.json["output"]
        assert (call["type"], call["name"], call["arguments"]) == ("function_call", "look", '{"at":1}')
        fake.tool_call = None
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "18 degrees"}
        asked = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, image]}
        assert text_of(await create(plane, "other/m", [asked, call, output], tools=[tool], max_output_tokens=50))
        sent = fake.ledger[-1].fields
        assert sent["max_tokens"] == 50
        assert [[block["type"] for block in message["content"]] for message in sent["messages"]] == [
            ["text", "image"], ["tool_use"], ["tool_result"],
        ]  # fmt: skip


# ---- stored responses


async def test_nothing_is_stored_by_default(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        first = await create(plane, "sim/echo", store=True)
        assert first.json["store"] is False
        id_ = first.json["id"]
        assert id_ == "resp_" + first.headers["x-request-id"]
        next_ = await create(plane, "sim/echo", previous_response_id=id_)
        assert (next_.status, next_.error["code"], next_.error["param"]) == (
            400, "previous_response_not_found", "previous_response_id",
        )  # fmt: skip
        assert "serve.stored_responses_mb" in next_.error["message"]
        read = await get(plane, f"/v1/responses/{id_}")
        assert (read.status, read.error["code"]) == (404, "response_not_found")
        assert "serve.stored_responses_mb" in read.error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stored_response_is_continued_by_anyone(stream, tmp_path, autojump_clock):
    async with open_plane(CONFIG + STORING, tmp_path) as plane:
        own, other = FakeOpenAI(api_key="k"), FakeAnthropic(api_key="k")
        plane.net.hosts["own.test", 80], plane.net.hosts["other.test", 80] = hosted(own), hosted(other)
        first = await create(plane, "sim/echo", "one", stream=stream, instructions="Be brief.")
        response = events_of(first)[-1]["response"] if stream else first.json
        assert response["store"] is True
        id_ = response["id"]
        assert text_of(await create(plane, "other/m", "two", previous_response_id=id_)) == "Hello there, how are you?"
        sent = [block["text"] for message in other.ledger[0].fields["messages"] for block in message["content"]]
        assert sent == ["one", "one", "two"]
        assert "system" not in other.ledger[0].fields
        assert text_of(await create(plane, "own/m", "two", previous_response_id=id_))
        assert "previous_response_id" not in own.ledger[0].fields
        assert [item["role"] for item in own.ledger[0].fields["input"]] == ["user", "assistant", "user"]
        assert (await get(plane, f"/v1/responses/{id_}")).json == response
        page = (await get(plane, f"/openai/v1/responses/{id_}/input_items")).json
        assert [item["content"] for item in page["data"]] == ["one"]
        deleted = await delete(plane, f"/v1/responses/{id_}")
        assert deleted.json == {"id": id_, "object": "response", "deleted": True}
        assert (await get(plane, f"/v1/responses/{id_}")).status == 404


async def test_an_item_is_referred_to(tmp_path, autojump_clock):
    async with open_plane(CONFIG + STORING, tmp_path) as plane:
        (item,) = (await create(plane, "sim/echo", "one")).json["output"]
        other = FakeAnthropic(api_key="k")
        plane.net.hosts["other.test", 80] = hosted(other)
        items = [{"role": "user", "content": "one"}, {"type": "item_reference", "id": item["id"]}, {"role": "user", "content": "two"}]
        assert text_of(await create(plane, "other/m", items))
        sent = [block["text"] for message in other.ledger[0].fields["messages"] for block in message["content"]]
        assert sent == ["one", "one", "two"]


async def test_what_is_not_to_be_stored_is_not_stored(tmp_path, autojump_clock):
    async with open_plane(CONFIG + STORING, tmp_path) as plane:
        reply = await create(plane, "sim/echo", store=False)
        assert reply.json["store"] is False
        assert (await get(plane, f"/v1/responses/{reply.json['id']}")).status == 404


async def test_a_response_belongs_to_its_project(tmp_path, autojump_clock):
    async with open_plane(CONFIG + STORING, tmp_path) as plane:
        id_ = (await create(plane, "sim/echo", headers={"x_gw_project": "shop"})).json["id"]
        stranger = await create(plane, "sim/echo", headers={"x_gw_project": "bakery"}, previous_response_id=id_)
        assert stranger.error["code"] == "previous_response_not_found"
        assert (await get(plane, f"/v1/responses/{id_}", x_gw_project="bakery")).status == 404
        assert (await get(plane, f"/v1/responses/{id_}", x_gw_project="shop")).status == 200


async def test_the_oldest_is_forgotten_when_the_memory_is_full(tmp_path, autojump_clock):
    config = CONFIG + STORING.replace("1}", "0.005}")
    async with open_plane(config, tmp_path) as plane:
        ids = [(await create(plane, "sim/echo", "x" * 500)).json["id"] for _ in range(4)]
        statuses = [(await get(plane, f"/v1/responses/{id_}")).status for id_ in ids]
        assert statuses[0] == 404
        assert statuses[-1] == 200
        assert statuses == sorted(statuses, reverse=True)
        for id_ in ids:
            await delete(plane, f"/v1/responses/{id_}")
        assert (await create(plane, "sim/echo", "x" * 9_000)).status == 200  # more than all of the memory


# ---- what is absent


async def test_the_websocket_mode_is_absent(tmp_path):
    async with open_running(tmp_path) as running:
        with pytest.raises(ProviderRejected) as caught:
            async with open_ws("client", Origin.parse(running.url), b"/v1/responses", headers=[]):
                pass
        assert caught.value.upstream_status == 404
        reply = await running.get("/v1/responses")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
