"""What was heard of an answer: after an interruption and after the client's own truncation, the conversation keeps no more."""

from __future__ import annotations

from base64 import b64decode
from functools import partial

import pytest
import trio

from tests.fakes.conversing import CONFIG, open_conversation
from tests.fakes.hosting import hosted
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.openai import FakeOpenAI

ANSWER = "The train to Paris leaves at nine from platform four and it arrives at noon."
TRUNCATED = "conversation.item.truncated"


@pytest.fixture
def talk(tmp_path):
    return partial(open_conversation, tmp_path, "model=read")


async def _answered(client):
    """Have the question answered at once, far faster than it is played; return the answer's item."""
    await client.say("When does the train leave?")
    await client.send("response.create")
    done = await client.until("response.done")
    assert done["response"]["status"] == "completed"
    return done["response"]["output"][0]


async def _next_context(client, mind):
    """Ask again, and return what the language model is told of its last answer."""
    await client.say("Pardon?")
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")
    return [m["content"] for m in mind.ledger[-1].fields["messages"] if m["role"] == "assistant"]


async def _audio_ms(client):
    audio = sum(len(event["delta"]) * 3 // 4 for event in client.of("response.output_audio.delta"))
    return audio / 48


async def test_the_client_truncates_an_answer_at_the_word_it_played_last(talk, autojump_clock):
    mind = FakeOpenAI(reply=ANSWER)
    async with talk(mind=mind) as (client, _):
        item = await _answered(client)
        length_ms = await _audio_ms(client)
        end_ms = round(length_ms / 2)
        await client.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=end_ms)
        truncated = await client.until(TRUNCATED)
        assert (truncated["item_id"], truncated["content_index"], truncated["audio_end_ms"]) == (item["id"], 0, end_ms)
        await client.send("conversation.item.retrieve", item_id=item["id"])
        heard = (await client.until("conversation.item.retrieved"))["item"]["content"][0]["transcript"]
        assert ANSWER.startswith(heard)
        assert abs(len(heard) / len(ANSWER) - 0.5) < 0.15
        assert ANSWER[len(heard)] == " "  # a whole word
        assert await _next_context(client, mind) == [heard]


async def test_a_second_truncation_may_only_shorten(talk, autojump_clock):
    async with talk(mind=FakeOpenAI(reply=ANSWER)) as (client, _):
        item = await _answered(client)
        place = {"item_id": item["id"], "content_index": 0}
        await client.send("conversation.item.truncate", **place, audio_end_ms=2_000)
        await client.until(TRUNCATED)
        error = await client.refused("conversation.item.truncate", **place, audio_end_ms=2_500)
        assert error["message"] == "Audio content of 2000ms is already shorter than 2500ms"
        await client.send("conversation.item.truncate", **place, audio_end_ms=0)
        await client.until(TRUNCATED)
        await client.send("conversation.item.retrieve", item_id=item["id"])
        assert (await client.until("conversation.item.retrieved"))["item"]["content"][0]["transcript"] == ""


async def test_what_cannot_be_truncated_is_refused_as_openai_does(talk, autojump_clock):
    async with talk(mind=FakeOpenAI(reply=ANSWER)) as (client, _):
        item = await _answered(client)
        length_ms = round(await _audio_ms(client))
        user_id = client.of("conversation.item.done")[0]["item"]["id"]
        for members, code, param in (
            ({"item_id": "item_x", "audio_end_ms": 10}, "item_truncate_invalid_item_id", "item_id"),
            ({"item_id": user_id, "audio_end_ms": 10}, "unsupported_content_type", "item_id"),
            ({"item_id": item["id"], "audio_end_ms": length_ms + 1}, "invalid_value", "audio_end_ms"),
            ({"item_id": item["id"], "audio_end_ms": -1}, "invalid_value", "audio_end_ms"),
            ({"item_id": item["id"]}, "invalid_value", "audio_end_ms"),
            ({"item_id": item["id"], "audio_end_ms": 10, "content_index": 1}, "invalid_value", "content_index"),
        ):
            error = await client.refused("conversation.item.truncate", **members)
            assert (error["code"], error["param"]) == (code, param)
        await client.send("response.create", response={"output_modalities": ["text"]})
        written = (await client.until("response.done"))["response"]["output"][0]["id"]
        error = await client.refused("conversation.item.truncate", item_id=written, audio_end_ms=0)
        assert error["code"] == "unsupported_content_type"


async def test_speech_over_an_answer_that_is_still_played_keeps_what_was_heard(talk, autojump_clock):
    mind = FakeOpenAI(reply=ANSWER)
    async with talk(mind=mind) as (client, _):
        item = await _answered(client)
        length_s = await _audio_ms(client) / 1000
        await trio.sleep(length_s / 3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "stop")
            truncated = await client.until(TRUNCATED)
            assert truncated["item_id"] == item["id"]
            assert truncated["audio_end_ms"] / 1000 == pytest.approx(length_s / 3, abs=0.3)
            await client.until("response.done")
        told = [m["content"] for m in mind.ledger[-1].fields["messages"]]
        assert told[2] == "stop"
        assert 10 < len(told[1]) < len(ANSWER) / 2
        assert ANSWER.startswith(told[1])
        # the client knows better how far its player was, also where that is further
        end_ms = round(length_s * 1000 / 2)
        await client.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=end_ms)
        await client.until(TRUNCATED)
        await client.send("conversation.item.retrieve", item_id=item["id"])
        heard = (await client.until("conversation.item.retrieved"))["item"]["content"][0]["transcript"]
        assert len(told[1]) < len(heard) < len(ANSWER)


async def test_speech_after_an_answer_was_played_changes_nothing_of_it(talk, autojump_clock):
    mind = FakeOpenAI(reply=ANSWER)
    async with talk(mind=mind) as (client, _):
        await _answered(client)
        await trio.sleep(await _audio_ms(client) / 1000 + 0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "stop")
            await client.until("response.done")
        assert client.of(TRUNCATED) == []
        assert mind.ledger[-1].fields["messages"][1]["content"] == ANSWER


VOICED = CONFIG.replace("tts: [first/tone]", "tts: {first/tone: {}, voice/sonic-3: {default_voice: a-voice}}").replace(
    "llm: mind/gpt-x, tts: first/tone", "llm: mind/gpt-x, tts: voice/sonic-3"
).replace("  mind: {", '  voice: {type: cartesia, api_key: key, base_url: "http://voice.test"}\n  mind: {')  # fmt: skip


@pytest.mark.parametrize("how", ["cancel", "speech"])
async def test_an_answer_that_is_interrupted_while_it_is_made_ends_at_the_word_heard_last(how, talk, autojump_clock):
    """The voice reports when it says which word, and speaks as fast as it is played."""
    mind = FakeOpenAI(reply=ANSWER)
    async with talk(mind=mind, config=VOICED) as (client, plane):
        plane.net.hosts["voice.test", 80] = hosted(FakeCartesia(api_key="key", speech_gap_s=0.1))
        await client.say("When does the train leave?")
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        with trio.move_on_after(2.0):
            await client.until("response.done")
        async with trio.open_nursery() as nursery:
            if how == "cancel":
                await client.send("response.cancel")
            else:
                nursery.start_soon(client.speak, "stop")
            done = await client.until("response.done")
            truncated = await client.until(TRUNCATED) if not client.of(TRUNCATED) else client.of(TRUNCATED)[0]
            nursery.cancel_scope.cancel()
        assert done["response"]["status"] == "cancelled"
        (item,) = done["response"]["output"]
        heard = item["content"][0]["transcript"]
        assert item["status"] == "incomplete"
        assert ANSWER.startswith(heard)
        assert 15 < len(heard) < len(ANSWER) - 15
        assert ANSWER[len(heard)] == " "
        assert truncated["item_id"] == item["id"]
        assert 1_500 < truncated["audio_end_ms"] < 2_600
        generated = client.of("response.output_audio_transcript.done")[0]["transcript"]
        assert len(heard) < len(generated)
        if how == "cancel":
            assert await _next_context(client, mind) == [heard]


async def test_of_many_answers_the_older_ones_are_truncated_in_proportion(talk, autojump_clock):
    async with talk(mind=FakeOpenAI(reply=ANSWER)) as (client, _):
        item = await _answered(client)
        length_ms = await _audio_ms(client)
        for _ in range(17):
            await client.send("response.create")
            await client.until("response.done")
        await client.send(
            "conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=round(length_ms / 2)
        )
        await client.until(TRUNCATED)
        await client.send("conversation.item.retrieve", item_id=item["id"])
        heard = (await client.until("conversation.item.retrieved"))["item"]["content"][0]["transcript"]
        assert ANSWER.startswith(heard)
        assert abs(len(heard) / len(ANSWER) - 0.5) < 0.15


async def test_a_piece_of_audio_never_splits_a_sample(talk, autojump_clock):
    """Clients take each piece as samples of its own (LiveKit: `rtc.AudioFrame` refuses an odd number of bytes)."""
    config = CONFIG.replace("tts: [first/tone]", "tts: [first/tone, mind/tts-x]").replace(
        "llm: mind/gpt-x, tts: first/tone", "llm: mind/gpt-x, tts: mind/tts-x"
    )
    pcm = bytes(range(1, 251)) * 60
    async with talk(mind=FakeOpenAI(reply="Hello.", speech_pcm=pcm, speech_chunk_bytes=997), config=config) as (client, _):
        await _answered(client)
        pieces = [b64decode(event["delta"]) for event in client.of("response.output_audio.delta")]
        assert len(pieces) > 3
        assert {len(piece) % 2 for piece in pieces} == {0}
        assert b"".join(pieces) == pcm


async def test_a_client_that_truncates_before_it_cancels_has_its_own_position_kept(talk, autojump_clock):
    """The order in which OpenAI's agents SDK interrupts."""
    mind = FakeOpenAI(reply=ANSWER)
    async with talk(mind=mind, config=VOICED) as (client, plane):
        plane.net.hosts["voice.test", 80] = hosted(FakeCartesia(api_key="key", speech_gap_s=0.1))
        await client.say("When does the train leave?")
        await client.send("response.create")
        item_id = (await client.until("response.output_audio.delta"))["item_id"]
        with trio.move_on_after(2.0):
            await client.until("response.done")
        await client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1_000)
        assert (await client.until(TRUNCATED))["audio_end_ms"] == 1_000
        await client.send("response.cancel")
        heard = (await client.until("response.done"))["response"]["output"][0]["content"][0]["transcript"]
        assert ANSWER.startswith(heard)
        assert 5 < len(heard) < 30
        assert client.of(TRUNCATED)[-1]["audio_end_ms"] == 1_000
        assert await _next_context(client, mind) == [heard]
