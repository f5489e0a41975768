"""The user's side of a realtime conversation: when a turn begins and ends, by speech, by words, or by the client."""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qsl

import pytest
import trio

from gw.dialects.openai_turns import said_since
from gw.types.stt import Final, Word
from tests.contract.talkers import speech
from tests.fakes.conversing import CONFIG, open_conversation
from tests.fakes.hosting import hosted
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.openai import FakeOpenAI

COMPLETED = "conversation.item.input_audio_transcription.completed"
EARS = CONFIG.replace("stt: [first/tone]", "stt: [first/tone, ears/nova-3]").replace(
    "read: {stt: first/tone", "read: {stt: ears/nova-3"
).replace("  mind: {", '  ears: {type: deepgram, api_key: key, base_url: "http://ears.test"}\n  mind: {')  # fmt: skip
"""The stack `read` listens with Deepgram."""
MANUAL = {"audio": {"input": {"turn_detection": None}}}


@pytest.fixture
def talk(tmp_path):
    return partial(open_conversation, tmp_path, "model=read")


async def _configure(client, session):
    await client.send("session.update", session=session)
    await client.until("session.updated")


def questions(mind):
    """The last message of each request to the language model."""
    return [entry.fields["messages"][-1]["content"] for entry in mind.ledger]


# ---- turns by the client


async def test_a_committed_turn_is_an_item_at_once_and_its_response_waits_for_the_words(talk, autojump_clock):
    """The response is asked for right behind the commit, as voice frameworks do."""
    mind = FakeOpenAI()
    async with talk(mind=mind, config=EARS) as (client, plane):
        plane.net.hosts["ears.test", 80] = hosted(FakeDeepgram(api_key="key", answer_after_s=1.0))
        await _configure(client, MANUAL)
        pcm = speech(["hello there"], 24_000, pause_s=0)
        await client.append(pcm)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create", response={"output_modalities": ["text"]})
        committed = await client.until("input_audio_buffer.committed")
        added = await client.until("conversation.item.added")
        assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
        assert COMPLETED not in client.kinds()
        completed = await client.until(COMPLETED)
        assert (completed["item_id"], completed["transcript"]) == (committed["item_id"], "hello there")
        assert completed["usage"] == {"type": "duration", "seconds": pytest.approx(len(pcm) / 48_000, abs=0.001)}
        await client.until("response.done")
        assert "input_audio_buffer.speech_started" not in client.kinds()
    assert questions(mind) == ["hello there"]


async def test_turns_that_are_committed_one_after_the_other_have_their_own_words(talk, autojump_clock):
    async with talk() as (client, _):
        await _configure(client, MANUAL)
        for text in ("one two", "three"):
            await client.speak(text)
            await client.send("input_audio_buffer.commit")
            completed = await client.until(COMPLETED)
            assert completed["transcript"] == text
        assert [event["previous_item_id"] for event in client.of("input_audio_buffer.committed")][1] is not None


async def test_silence_is_committed_without_words_and_too_little_of_it_not_at_all(talk, autojump_clock):
    async with talk() as (client, _):
        await _configure(client, MANUAL)
        for audio in (b"", bytes(4_000)):
            if audio:
                await client.append(audio)
            error = await client.refused("input_audio_buffer.commit")
            assert error["code"] == "input_audio_buffer_commit_empty"
            assert f"only has {len(audio) / 48:.2f}ms" in error["message"]
        await client.append(bytes(48_000))
        await client.send("input_audio_buffer.commit")
        completed = await client.until(COMPLETED)
        assert (completed["transcript"], completed["usage"]["seconds"]) == ("", pytest.approx(1.083, abs=0.001))


async def test_noise_without_words_fails_its_transcription_and_the_response_goes_on(talk, autojump_clock):
    mind = FakeOpenAI()
    noise = b"\x00\x60\x00\xa0" * 12_000
    async with talk(mind=mind) as (client, _):
        await _configure(client, MANUAL)
        await client.say("Are you there?")
        await client.append(noise)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create", response={"output_modalities": ["text"]})
        failed = await client.until("conversation.item.input_audio_transcription.failed")
        assert failed["error"]["code"] == "no_transcript"
        await client.until("response.done")
    assert questions(mind) == ["Are you there?"]


async def test_cleared_audio_is_in_no_turn(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk(mind=mind) as (client, _):
        await _configure(client, MANUAL)
        await client.speak("never mind")
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        assert (await client.refused("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
        await client.speak("hello")
        await client.send("input_audio_buffer.commit")
        assert (await client.until(COMPLETED))["transcript"] == "hello"


@pytest.mark.parametrize("pause_s", [0, 1.0])
async def test_words_of_cleared_audio_that_come_after_the_next_commit_are_in_no_turn(talk, autojump_clock, pause_s):
    async with talk(config=EARS) as (client, plane):
        plane.net.hosts["ears.test", 80] = hosted(FakeDeepgram(api_key="key", answer_after_s=1.0))
        await _configure(client, MANUAL)
        await client.append(speech(["never mind"], 24_000, pause_s=pause_s))
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        await client.append(speech(["hello there"], 24_000, pause_s=0))
        await client.send("input_audio_buffer.commit")
        assert (await client.until(COMPLETED))["transcript"] == "hello there"


async def test_a_turn_after_silence_that_was_cleared_has_all_its_words(talk, autojump_clock):
    """Without times of words; the vendor's transcript begins where the last one has ended, in the cleared silence."""
    mind = FakeOpenAI()
    async with talk(mind=mind, config=EARS) as (client, plane):
        plane.net.hosts["ears.test", 80] = hosted(FakeDeepgram(api_key="key"))
        await _configure(client, MANUAL)
        await client.append(speech(["never mind"], 24_000, pause_s=1.0))
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        await _configure(client, {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "what is the weather in Paris today")
            assert (await client.until(COMPLETED))["transcript"] == "what is the weather in Paris today"


async def test_words_of_a_turn_that_was_committed_before_audio_is_cleared_are_kept(talk, autojump_clock):
    async with talk(config=EARS) as (client, plane):
        plane.net.hosts["ears.test", 80] = hosted(FakeDeepgram(api_key="key", answer_after_s=1.0))
        await _configure(client, MANUAL)
        await client.append(speech(["hello there"], 24_000, pause_s=0))
        await client.send("input_audio_buffer.commit")
        await client.append(speech(["never mind"], 24_000, pause_s=0))
        await client.send("input_audio_buffer.clear")
        assert (await client.until(COMPLETED))["transcript"] == "hello there"


@pytest.mark.parametrize("times", [True, False])
def test_a_transcript_is_cut_at_a_time_by_its_words_or_spread_evenly(times):
    words = ("never", "mind", "hello", "there")
    final = Final(
        text="never mind hello there", start_s=1.0, end_s=3.0,
        words=tuple(Word(text=word, start_s=1 + n / 2, end_s=1.4 + n / 2) for n, word in enumerate(words)) if times else (),
    )  # fmt: skip
    assert said_since(final, 0.5, 0.5) is final
    later = said_since(final, 2.0, 2.0)
    assert (later.text, later.start_s) == ("hello there", 2.0)
    assert said_since(final, 3.0, 3.0) is None
    begun_in_silence = said_since(final, 2.0, 1.2)
    assert (begun_in_silence.text, begun_in_silence.start_s) == ("hello there" if times else final.text, 2.0)


async def test_of_speech_that_is_cleared_in_the_middle_the_words_after_it_count(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk(mind=mind) as (client, _):
        pcm = speech(["forget about this"], 24_000, pause_s=0)
        await client.append(pcm[: len(pcm) * 3 // 5])
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        await client.append(pcm[len(pcm) * 3 // 5 :])
        await client.until("response.done")
    assert questions(mind) == ["this"]


# ---- turns by speech


async def test_the_seconds_of_a_turn_are_its_usage(talk, autojump_clock):
    async with talk() as (client, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "what is the weather")
            completed = await client.until(COMPLETED)
        started, stopped = (
            client.of("input_audio_buffer.speech_started")[0],
            client.of("input_audio_buffer.speech_stopped")[0],
        )
        spoken_s = (stopped["audio_end_ms"] - started["audio_start_ms"]) / 1000
        assert spoken_s > 0.5
        assert completed["usage"] == {"type": "duration", "seconds": pytest.approx(spoken_s, abs=0.01)}


async def test_the_beginning_of_a_turn_includes_the_padding(talk, autojump_clock):
    async with talk() as (client, _):
        await client.append(bytes(48_000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "hello")
            started = await client.until("input_audio_buffer.speech_started")
            await client.until("response.done")
        assert started["audio_start_ms"] == pytest.approx(1_000 - 300, abs=50)


async def test_without_events_about_transcription_the_turns_are_answered_all_the_same(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk(mind=mind) as (client, _):
        await _configure(client, {"audio": {"input": {"transcription": None}}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "hello there")
            await client.until("response.done")
        assert not [kind for kind in client.kinds() if "transcription" in kind]
    assert questions(mind) == ["hello there"]


async def test_settings_changed_in_mid_session_hold_for_the_next_turn(talk, autojump_clock):
    async with talk() as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "hello")
            await client.until("response.done")
        first_ms = client.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
        await _configure(client, {"audio": {"input": {"transcription": {"language": "fr"}}}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "bonjour")
            completed = await client.until(COMPLETED)
            await client.until("response.done")
        assert completed["transcript"] == "bonjour"
        assert client.of("input_audio_buffer.speech_started")[1]["audio_start_ms"] > first_ms
    heard = [record for record in plane.kept.records if record.modality == "stt"]
    assert len(heard) == 2  # a session with each of the settings


async def test_settings_of_transcription_reach_the_vendor_or_are_refused_by_name(talk, autojump_clock):
    async with talk(config=EARS) as (client, plane):
        vendor = FakeDeepgram(api_key="key")
        plane.net.hosts["ears.test", 80] = hosted(vendor)
        transcription = {"prompt": "A call about trains.", "keywords": ["Paris"], "language": "fr"}
        await client.send("session.update", session={"audio": {"input": {"transcription": transcription}}})
        error = (await client.until("error"))["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", "session.audio.input.transcription.prompt")
        updated = (await client.until("session.updated"))["session"]["audio"]["input"]["transcription"]
        assert updated == {"model": "read", "prompt": None, "keywords": ["Paris"], "language": "fr"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "bonjour")
            await client.until("response.done")
        asked = dict(parse_qsl(vendor.ledger[0].fields["query"]))
        assert (asked["language"], asked["keyterm"]) == ("fr", "Paris")


# ---- turns by words


def semantic(**members):
    return {"audio": {"input": {"turn_detection": {"type": "semantic_vad", **members}}}}


@pytest.mark.parametrize(("eagerness", "longest_s"), [("low", 8.0), ("medium", 4.0), ("high", 2.0), ("auto", 4.0)])
async def test_words_that_trail_off_are_waited_for_as_long_as_openai_documents(
    eagerness, longest_s, talk, autojump_clock
):
    async with talk() as (client, _):
        await _configure(client, semantic(eagerness=eagerness))
        await client.speak("I would like a table for", pause_s=0)
        spoke_at = trio.current_time()
        await client.until("input_audio_buffer.speech_stopped")
        assert 0.85 * longest_s < trio.current_time() - spoke_at <= longest_s


async def test_a_finished_sentence_is_answered_at_once(talk, autojump_clock):
    async with talk() as (client, _):
        await _configure(client, semantic())
        await client.speak("What is the weather in Paris?", pause_s=0)
        spoke_at = trio.current_time()
        await client.until("input_audio_buffer.speech_stopped")
        assert trio.current_time() - spoke_at < 0.1


async def test_a_pause_for_thought_does_not_end_the_turn(talk, autojump_clock):
    mind = FakeOpenAI()
    async with talk(mind=mind) as (client, _):
        await _configure(client, semantic(eagerness="low"))
        async with trio.open_nursery() as nursery:

            async def speak():
                await client.speak("I would like a table for", "uhm", pause_s=1.5)
                await client.speak("four people.")

            nursery.start_soon(speak)
            await client.until("response.done")
        assert len(client.of("input_audio_buffer.speech_started")) == 1
        assert len(client.of(COMPLETED)) == 1
    assert questions(mind) == ["I would like a table for uhm four people."]


async def test_another_judge_of_turns_takes_the_place_of_ours(talk, autojump_clock):
    class Patient:
        def probability(self, text, language):
            return 0.0 if text == "over" else 0.5

    async with talk() as (client, plane):
        plane.gateway.end_of_turn = Patient()
        await _configure(client, semantic())
        await client.speak("Are you there?", pause_s=0)
        spoke_at = trio.current_time()
        await client.until("input_audio_buffer.speech_stopped")
        assert trio.current_time() - spoke_at == pytest.approx(1.0, abs=0.15)


# ---- a user who says nothing


async def test_the_model_goes_on_when_the_user_says_nothing_after_an_answer_was_played(talk, autojump_clock):
    mind = FakeOpenAI(reply="Hello there, are you still with me?")
    async with talk(mind=mind) as (client, _):
        await _configure(
            client, {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6_000}}}}
        )
        await client.append(bytes(48_000))
        await client.say("Hello.")
        await client.send("response.create")
        await client.until("response.done")
        answered_at = trio.current_time()
        played_s = sum(len(event["delta"]) * 3 // 4 for event in client.of("response.output_audio.delta")) / 48_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.append, bytes(48_000 * 12))
            timeout = await client.until("input_audio_buffer.timeout_triggered")
            assert trio.current_time() - answered_at == pytest.approx(played_s + 6.0, abs=0.1)
            assert timeout["audio_end_ms"] - timeout["audio_start_ms"] == pytest.approx(6_000, abs=100)
            assert (await client.until("input_audio_buffer.committed"))["item_id"] == timeout["item_id"]
            assert (await client.until("response.done"))["response"]["status"] == "completed"
            nursery.cancel_scope.cancel()
    assert [m["role"] for m in mind.ledger[-1].fields["messages"]] == ["user", "assistant"]


async def test_a_user_who_speaks_in_time_is_not_prompted(talk, autojump_clock):
    async with talk() as (client, _):
        await _configure(
            client, {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6_000}}}}
        )
        await client.say("Hello.")
        await client.send("response.create", response={"output_modalities": ["text"]})
        await client.until("response.done")
        await trio.sleep(5)
        await client.speak("yes")
        await client.until("response.done")
        await trio.sleep(3)
        assert client.of("input_audio_buffer.timeout_triggered") == []
