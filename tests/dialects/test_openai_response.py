"""A response of a realtime conversation whose language model refuses to answer."""

from __future__ import annotations

import pytest

from tests.fakes.conversing import open_conversation
from tests.fakes.vendors.openai import FakeOpenAI


@pytest.mark.parametrize("modality", ["text", "audio"])
async def test_a_refusal_is_said(tmp_path, autojump_clock, modality):
    async with open_conversation(tmp_path, "model=read", mind=FakeOpenAI(refuse="refusal")) as (client, plane):
        await client.send("session.update", session={"type": "realtime", "output_modalities": [modality]})
        await client.until("session.updated")
        await client.say("hi")
        await client.send("response.create")
        done = await client.until("response.done")
        (part,) = done["response"]["output"][0]["content"]
        assert part["text" if modality == "text" else "transcript"] == "I cannot help with that."
        assert client.spoken == ("" if modality == "text" else "I cannot help with that.")
        record = next(record for record in plane.kept.records if record.modality == "llm")
        assert [attempt.outcome for attempt in record.attempts] == ["refused"]
