"""Ids of speech in ElevenLabs' protocol: a caller gets the vendor's, and continues its own speech only."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

CONFIG = """
providers: {{elevenlabs: {{api_key: k, base_url: "{url}"}}, sim: {{}}}}
models: {{tts: {{elevenlabs/eleven_v3: {{}}, sim/tone: {{}}}}}}
projects: {{a: {{}}, b: {{}}}}
"""


@pytest.fixture
def fake():
    return FakeElevenLabs(api_key="k")


@pytest.fixture
async def speak(tmp_path, nursery, fake):
    url = await nursery.start(serve_asgi, fake)

    async with open_running(tmp_path, CONFIG.format(url=url)) as running:

        async def ask(project="a", model="eleven_v3", **members):
            body = {"text": "good morning", "model_id": model, **members}
            answer = await running.ask("POST", "/v1/text-to-speech/a-voice?output_format=pcm_16000", body, x_gw_project=project)
            assert answer.status == 200, answer.body
            return answer.headers

        yield ask


async def test_the_id_is_the_vendors_where_it_answered(fake, speak):
    first = await speak()
    assert first["request-id"] == "speech1"
    assert first["x-request-id"] != "speech1"
    other = await speak(model="sim/tone")
    assert other["request-id"] == other["x-request-id"]


async def test_a_caller_continues_its_own_speech_only(fake, speak):
    own = (await speak("a"))["request-id"]
    ours = (await speak("a", model="sim/tone"))["request-id"]
    strangers = (await speak("b"))["request-id"]
    headers = await speak("a", previous_request_ids=[own], next_request_ids=[])
    assert fake.ledger[-1].fields["previous_request_ids"] == [own]
    assert "x-gw-ignored-settings" not in headers
    headers = await speak("a", previous_request_ids=[own, strangers, ours], next_request_ids=[strangers])
    assert fake.ledger[-1].fields["previous_request_ids"] == [own]
    assert "next_request_ids" not in fake.ledger[-1].fields
    assert headers["x-gw-ignored-settings"] == "previous_request_ids, next_request_ids"


async def test_a_list_of_something_else_is_refused(tmp_path):
    async with open_running(tmp_path, CONFIG.format(url="http://127.0.0.1:1")) as running:
        body = {"text": "good morning", "previous_request_ids": "one"}
        answer = await running.ask("POST", "/v1/text-to-speech/a-voice", body)
        assert (answer.status, answer.json["detail"]["param"]) == (400, "previous_request_ids")
