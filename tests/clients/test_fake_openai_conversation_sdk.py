"""OpenAI's own SDK, unchanged, in a conversation with a model that hears and speaks itself: the fake vendor, alone and behind
gw, and one of Google's behind gw."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from collections import Counter
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.conftest import Gateway
from tests.clients.gateway_pair import LIVE_MODEL, STORY, TEXT
from tests.e2e.test_workers_live import wait_for
from tests.fakes.vendors.openai_conversation import USAGE

GOOGLES = {
    "input_tokens": 2_060, "output_tokens": 190, "total_tokens": 2_250,
    "input_token_details": {
        "text_tokens": 960, "audio_tokens": 840, "image_tokens": 260, "cached_tokens": 500,
        "cached_tokens_details": {"text_tokens": 300, "audio_tokens": 200, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 70, "audio_tokens": 120},
}  # fmt: skip
pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("who", ["fake", "speaking", "gemini"])
def test_a_spoken_turn_and_a_written_one(drop_in, who):
    import openai

    seen: list[Any] = []
    client = openai.OpenAI(base_url=drop_in.at("openai", who) + "/v1", api_key="vendor-key")
    with client, client.realtime.connect(model=drop_in.conversation_model(who)) as connection:

        def until(kind: str) -> Any:
            while True:
                seen.append(connection.recv())
                assert seen[-1].type != "error", seen[-1]
                if seen[-1].type == kind:
                    return seen[-1]

        assert until("session.created").session.type == "realtime"
        transcription = {"model": "gpt-4o-transcribe"}
        connection.session.update(session={"type": "realtime", "audio": {"input": {"transcription": transcription}}})
        until("session.updated")
        pcm = b"".join(fsk.encode(TEXT, 24_000)) + bytes(48_000)
        for at in range(0, len(pcm), 2_400):
            connection.input_audio_buffer.append(audio=b64encode(pcm[at : at + 2_400]).decode())
        assert until("conversation.item.input_audio_transcription.completed").usage.type == ("duration" if who == "gemini" else "tokens")
        response = until("response.done").response
        assert (response.status, response.usage.to_dict()) == ("completed", GOOGLES if who == "gemini" else dict(USAGE))
        content = [{"type": "input_text", "text": "Say yes."}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        connection.response.create()
        assert until("response.done").response.output[0].content[0].transcript == "Say yes."
    assert all(event.event_id for event in seen)
    if who == "speaking":
        _check_costs(Gateway(drop_in.gateways["own"]))
    if who == "gemini":
        _check_costs_of_google(Gateway(drop_in.gateways["own"]))


def test_a_function_of_a_live_model_and_a_cancelled_answer(drop_in):
    import openai

    client = openai.OpenAI(base_url=drop_in.at("openai", "gemini") + "/v1", api_key="vendor-key")
    with client, client.realtime.connect(model=drop_in.conversation_model("gemini")) as connection:

        def until(kind: str) -> Any:
            while (event := connection.recv()).type != kind:
                assert event.type != "error", event
            return event

        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        tools = [{"type": "function", "name": "weather", "description": "Says the weather.", "parameters": parameters}]
        connection.session.update(session={"type": "realtime", "tools": tools})
        content = [{"type": "input_text", "text": TEXT}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        connection.response.create()
        call = until("response.function_call_arguments.done")
        assert (call.name, json.loads(call.arguments)) == ("weather", {"text": TEXT})
        assert until("response.done").response.output[0].type == "function_call"
        connection.conversation.item.create(item={"type": "function_call_output", "call_id": call.call_id, "output": STORY})
        connection.response.create()
        until("response.output_audio.delta")
        connection.response.cancel()
        response = until("response.done").response
        assert (response.status, response.status_details.reason) == ("cancelled", "client_cancelled")
        assert response.usage.output_token_details.audio_tokens == 20


def _check_costs_of_google(gateway: Gateway) -> None:
    """Each response is a record with Google's count at its rates; it is written a moment after the session has ended."""
    usd = pytest.approx((960 * 0.75 + 840 * 3 + 260 + 70 * 4.5 + 120 * 12) / 1e6, abs=1e-9)

    def recorded() -> bool:
        with urllib.request.urlopen(f"{gateway.base}/logs?limit=100") as response:
            logs = json.load(response)
        return any(one["model_id"] == f"gemini/{LIVE_MODEL}" and one["cost_usd"] == usd for one in logs)

    wait_for(recorded)


def _check_costs(gateway: Gateway) -> None:
    """Each response is a record with the vendor's count at its own rates, and so is the transcription.

    They are written a moment after the session has ended; other sessions of the same gateway have theirs.
    """
    usd = (800 * 4 + 100 * 32 + 100 * 5 + 100 * 0.4 + 800 * 0.4 + 100 * 0.5 + 50 * 16 + 100 * 64) / 1e6

    def recorded() -> bool:
        with urllib.request.urlopen(f"{gateway.base}/logs?limit=100") as response:
            logs = json.load(response)
        answers = [one for one in logs if one["model_id"] == "openai/gpt-realtime" and one["status"] == "success"]
        assert [one["cost_usd"] for one in answers] == [pytest.approx(usd)] * len(answers)
        heard = {one["session_id"]: one["cost_usd"] for one in logs if one["modality"] == "stt"}
        sessions = Counter(one["session_id"] for one in answers)
        return any(count == 2 and heard.get(id_) == pytest.approx(40 * 2.5e-6 + 8 * 10e-6) for id_, count in sessions.items())

    wait_for(recorded)
