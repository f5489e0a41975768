"""Embeddings and moderations over HTTP: what goes to whom, what comes back, and what it costs."""

from __future__ import annotations

import msgspec
import pytest
from openai.types import ModerationCreateResponse

from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

SMALL = "text-embedding-3-small"
CONFIG = f"""
providers:
  openai: {{api_key: sk-own, base_url: "http://own.test/v1"}}
  second: {{type: openai, api_key: sk-second, base_url: "http://second.test/v1"}}
  anthropic: {{api_key: sk-ant}}
  sim: {{}}
models:
  llm: [openai/gpt-4o-mini, openai/{SMALL}, second/{SMALL}, anthropic/claude-haiku-4-5, sim/echo]
fallbacks: {{llm: [openai/gpt-4o-mini, sim/echo, second/{SMALL}]}}
projects: {{shop: {{daily_budget: 0.000001, budget_action: block}}}}
"""


@pytest.fixture
def vendors():
    return {"own": FakeOpenAI(api_key="sk-own"), "second": FakeOpenAI(api_key="sk-second")}


@pytest.fixture
async def plane(tmp_path, vendors, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as opened:
        for name, vendor in vendors.items():
            opened.net.hosts[f"{name}.test", 80] = hosted(vendor)
        yield opened


async def _post(plane, path, body, **headers):
    return await plane.post(path, msgspec.json.encode(body), **headers)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/openai/v1/embeddings", "/openai/embeddings"])
async def test_a_request_goes_to_its_vendor_as_it_is_and_is_billed(plane, vendors, path):
    body = {"model": f"openai/{SMALL}", "input": ["one two", "three"], "encoding_format": "base64", "dimensions": 2, "user": "u1"}
    answer = await _post(plane, path, body)
    assert answer.status == 200
    assert [item["embedding"] for item in answer.json["data"]] == ["AAAAAAAAAD8=", "AACAPwAAAD8="]
    assert vendors["own"].ledger[0].fields == {**body, "model": SMALL}
    record = plane.kept.record
    assert (record.modality, record.usage.input_tokens, record.usage.output_tokens) == ("llm", 3, 0)
    assert record.cost_nusd == 3 * 20  # $0.02 for a million tokens
    assert answer.headers["x-gw-cost-usd"] == "0.000000060"


@pytest.mark.parametrize(("given", "tokens"), [("one two", 2), ([1, 2, 3], 3), ([[1, 2], [3]], 3), (["one", "two"], 2)])
async def test_every_form_of_input(plane, vendors, given, tokens):
    answer = await _post(plane, "/v1/embeddings", {"model": "text-embedding-3-large", "input": given})
    assert answer.json["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert vendors["own"].ledger[0].fields["input"] == given
    assert plane.kept.record.cost_nusd == tokens * 130  # an unlisted model, at its own price


async def test_only_the_same_model_answers_in_place_of_another(plane, vendors):
    vendors["own"].status = [500]
    answer = await _post(plane, "/v1/embeddings", {"model": f"openai/{SMALL}", "input": "one"})
    assert (answer.status, answer.headers["x-gw-model"]) == (200, f"second/{SMALL}")
    vendors["own"].status, vendors["second"].status = [500], [500]
    answer = await _post(plane, "/v1/embeddings", {"model": f"openai/{SMALL}", "input": "one"})
    assert answer.status == 502
    assert [a.model_id for a in plane.kept.records[-1].attempts] == [f"openai/{SMALL}", f"second/{SMALL}"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "x"}, "model"), ({"model": SMALL}, "input"), ({"model": SMALL, "input": ""}, "input"),
        ({"model": SMALL, "input": []}, "input"), ({"model": SMALL, "input": ["a", ""]}, "input"), ({"model": SMALL, "input": 7}, "input"),
        ({"model": SMALL, "input": [True]}, "input"), ({"model": 7, "input": "x"}, "model"),
        ({"model": "claude-haiku-4-5", "input": "x"}, "model"),
    ],
)  # fmt: skip
async def test_what_is_refused_names_the_member(plane, body, param):
    answer = await _post(plane, "/v1/embeddings", body)
    assert (answer.status, answer.error["type"], answer.error["param"]) == (400, "invalid_request_error", param)


async def test_the_vendors_refusal_is_the_answer(plane):
    body = {"model": "text-embedding-ada-002", "input": "x", "dimensions": 2}
    answer = await _post(plane, "/v1/embeddings", body)
    assert (answer.status, answer.error["param"]) == (400, "dimensions")
    assert plane.kept.record.cost_nusd == 0


async def test_a_spent_budget_refuses_it(plane):
    body = {"model": f"openai/{SMALL}", "input": "word " * 1_000}
    statuses = [(await _post(plane, "/v1/embeddings", body, x_gw_project="shop")).status for _ in range(2)]
    assert statuses == [200, 402]


async def test_a_broken_answer_is_an_error(plane, vendors):
    vendors["own"].malformed = True
    answer = await _post(plane, "/v1/embeddings", {"model": f"openai/{SMALL}", "input": "x"}, x_gw_fallback="off")
    assert answer.status == 502


async def test_a_deployment_of_azure_is_the_model(plane, vendors):
    answer = await _post(plane, f"/openai/deployments/{SMALL}/embeddings?api-version=2024-10-21", {"input": "one"})
    assert answer.status == 200
    assert vendors["own"].ledger[0].fields["model"] == SMALL


async def test_the_demo_engine_places_texts_with_common_words_near_each_other(plane):
    texts = ["the cat sat", "the cat ran", "stock prices fell"]
    answer = await _post(plane, "/v1/embeddings", {"model": "sim/echo", "input": texts, "dimensions": 512})
    cat, other_cat, stocks = [item["embedding"] for item in answer.json["data"]]

    def near(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert len(cat) == 512
    assert near(cat, cat) == pytest.approx(1)
    assert near(cat, other_cat) > near(cat, stocks) + 0.4
    assert answer.json["usage"]["prompt_tokens"] > 0
    for wrong in ({"dimensions": 0}, {"encoding_format": "hex"}):
        refused = await _post(plane, "/v1/embeddings", {"model": "sim/echo", "input": "x", **wrong})
        assert refused.status == 400


async def test_a_moderation_costs_nothing_and_has_a_default_model(plane, vendors):
    answer = await _post(plane, "/v1/moderations", {"input": ["one", "two"]})
    assert [result["flagged"] for result in answer.json["results"]] == [False, False]
    assert vendors["own"].ledger[0].fields == {"input": ["one", "two"], "model": "omni-moderation-latest"}
    record = plane.kept.record
    assert (record.model_id, record.cost_nusd) == ("openai/omni-moderation-latest", 0)
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    assert (await _post(plane, "/v1/moderations", {"model": "omni-moderation-latest", "input": parts})).status == 200
    assert vendors["own"].ledger[1].fields["input"] == parts


async def test_nobody_offers_moderations(plane):
    answer = await _post(plane, "/v1/moderations", {"model": "anthropic/claude-haiku-4-5", "input": "one"})
    assert (answer.status, answer.error["message"]) == (400, "no provider of the model 'anthropic/claude-haiku-4-5' offers moderations")


async def test_the_demo_engine_flags_texts_that_name_a_category(plane):
    answer = await _post(plane, "/v1/moderations", {"model": "sim/echo", "input": ["a nice day", "graphic violence", "Self-harm."]})
    results = ModerationCreateResponse.model_validate_json(answer.body).results
    assert [result.flagged for result in results] == [False, True, True]
    assert {name for name, is_so in results[1].categories if is_so} == {"violence", "violence_graphic"}
    assert (results[2].categories.self_harm, results[2].category_scores.self_harm, results[2].categories.hate) == (True, 1.0, False)
    assert (plane.kept.record.usage.input_tokens, plane.kept.record.usage.source) == (10, "vendor")
    parts = [{"type": "text", "text": "hate"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    answer = await _post(plane, "/v1/moderations", {"model": "sim/echo", "input": parts})
    assert [result["flagged"] for result in answer.json["results"]] == [True]
