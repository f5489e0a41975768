"""Embeddings and moderations of OpenAI's and Groq's SDKs, unchanged: at the fake vendor, and through a gateway before it."""

from __future__ import annotations

import openai
import pytest

from tests.clients.gateway_pair import KEY, VENDORS

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours")]
SMALL = "text-embedding-3-small"


@pytest.mark.parametrize("who", ["fake", "own"])
def test_openai_sdk(drop_in, who):
    """The SDK requests base64 and decodes it, unless a format is named."""
    with openai.OpenAI(base_url=drop_in.at("openai", who) + VENDORS["openai"].root, api_key=KEY, max_retries=0) as client:
        for form in ({}, {"encoding_format": "float"}, {"dimensions": 2}):
            answer = client.embeddings.create(model=SMALL, input=["one two", "three"], **form)
            assert [item.embedding for item in answer.data] == [[0.0, 0.5], [1.0, 0.5]]
            assert (answer.usage.prompt_tokens, answer.model) == (3, SMALL)
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(model=SMALL, input="")
        assert caught.value.param == "input"
        moderation = client.moderations.create(input=["one", "two"])
        assert [result.flagged for result in moderation.results] == [False, False]
        assert moderation.model == "omni-moderation-latest"


def test_the_demo_engine(demo):
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as client:
        raw = client.embeddings.with_raw_response.create(model="sim/echo", input="the cat sat")
        assert len(raw.parse().data[0].embedding) == 256
        record = demo.record(raw.headers["x-request-id"])
    assert (record["modality"], record["endpoint"], record["usage"]["input_tokens"] > 0) == ("llm", "/v1/embeddings", True)
