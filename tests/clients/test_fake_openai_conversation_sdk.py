"""OpenAI's own SDK, unchanged, in a conversation with a model that hears and speaks itself: the fake vendor, alone and behind gw."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from collections import Counter
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.conftest import Gateway
from tests.clients.gateway_pair import TEXT
from tests.e2e.test_workers_live import wait_for
from tests.fakes.vendors.openai_conversation import USAGE

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("who", ["fake", "speaking"])
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
        assert until("conversation.item.input_audio_transcription.completed").usage.type == "tokens"
        response = until("response.done").response
        assert (response.status, response.usage.to_dict()) == ("completed", dict(USAGE))
        content = [{"type": "input_text", "text": "Say yes."}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        connection.response.create()
        assert until("response.done").response.output[0].content[0].transcript == "Say yes."
    assert all(event.event_id for event in seen)
    if who == "speaking":
        _check_costs(Gateway(drop_in.gateways["own"]))


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
