"""Live speech of which the phrase cache has some: in order, complete, in one stream, and each vendor paid for its own part only."""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.providers.sim import fsk
from gw.relay.cached_session import HOLD_S, can_join
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.ids import Caller
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest
from tests.fakes.hosting import open_plane

CONFIG = """
providers:
  bad: {type: sim, %s}
  good: {type: sim, latency_ms: 0}
models: {tts: {bad/tone: {price: {unit: 1M_characters, usd: 10}}, good/tone: {price: {unit: 1M_characters, usd: 20}}}}
fallbacks: {tts: [bad/tone, good/tone]}
projects:
  default: {phrase_cache: %s}
"""
GREETING = "Welcome to the hotel. How can I help you?"
MOMENT = "One moment, please."


@pytest.fixture
def plane(tmp_path):
    def opened(knobs="latency_ms: 0", rules="{}"):
        return open_plane(CONFIG % (knobs, rules), tmp_path)

    return opened


async def spoken(plane, pieces, *, gap_s=0.02, **fields):
    """Return the events of an utterance. None flushes."""
    events = []
    request = SpeakLiveRequest(**{"model": "bad/tone", "format": PCM_16K, **fields})

    async def write(session):
        for piece in pieces:
            await (session.flush() if piece is None else session.send_text(piece))
            await trio.sleep(gap_s)
        await session.finish()

    caller = Caller(request_id=f"r{len(plane.kept.records)}")
    async with plane.gateway.relay.speak_live(request, caller) as session, trio.open_nursery() as nursery:
        nursery.start_soon(write, session)
        while not session.done:
            events += await session.receive()
    return events


def audio(events):
    return b"".join(event.data for event in events if isinstance(event, AudioChunk))


def words(events, rate=16_000):
    return " ".join(done.text for done in fsk.decode(audio(events), rate))


def uses(record):
    return [attempt.cache for attempt in record.attempts]


async def test_the_second_time_it_is_the_same_bytes_for_nothing(plane, autojump_clock):
    async with plane() as made:
        first, second = [await spoken(made, [GREETING]) for _ in range(2)]
        assert audio(second) == audio(first) != b""
        assert isinstance(second[-1], SpeakEnd)
        paid, free = made.kept.records
        assert (uses(paid), paid.cost_nusd) == (["miss"], len(GREETING) * 10_000)
        assert (uses(free), free.status, free.cost_nusd, free.pricing_source) == (["hit"], "success", 0, "cache")
        assert (free.usage.characters, free.wasted_nusd, free.attempts[0].saved_nusd) == (0, 0, paid.cost_nusd)
        assert [intent.id for intent in made.kept.intents] == [paid.id] * len(made.kept.intents)


@pytest.mark.parametrize("pieces", [list(GREETING), ["Welcome to the hotel. ", "How can I help you? ", " "], [GREETING, None]])
async def test_text_in_pieces_is_the_same_text(plane, pieces, autojump_clock):
    async with plane() as made:
        first = await spoken(made, [GREETING])
        assert audio(await spoken(made, pieces)) == audio(first)
        assert uses(made.kept.records[-1]) == ["hit"]


async def test_a_sentence_within_longer_speech_comes_from_the_cache(plane, autojump_clock):
    async with plane() as made:
        await spoken(made, [MOMENT])
        pieces = ["Good day. ", None, "One moment, ", "please. I look ", "that up.", None]
        events = await spoken(made, pieces)
        assert words(events) == "Good day. One moment, please. I look that up."
        assert sum(isinstance(event, Flushed) for event in events) == 2
        assert sum(isinstance(event, SpeakEnd) for event in events) == 1
        record = made.kept.records[-1]
        assert (uses(record), record.status) == (["miss", "hit", "miss"], "success")
        first, hit, last = record.attempts
        assert (hit.cost_nusd, hit.pricing_source, hit.saved_nusd) == (0, "cache", len(MOMENT) * 10_000)
        assert (first.characters, last.characters) == (len("Good day. "), len(" I look that up."))
        assert record.cost_nusd == first.cost_nusd + last.cost_nusd == record.usage.characters * 10_000
        figures = made.gateway.relay.phrases.figures
        assert (figures.hits, figures.misses, figures.phrases) == (1, 3, 3)


async def test_speech_that_begins_with_a_kept_sentence_goes_on_at_a_vendor(plane, autojump_clock):
    async with plane() as made:
        await spoken(made, [MOMENT])
        events = await spoken(made, [MOMENT, " Then we go on."])
        assert words(events) == MOMENT + " Then we go on."
        assert uses(made.kept.records[-1]) == ["hit", "miss"]
        again = await spoken(made, [MOMENT, " Then we go on."])
        assert uses(made.kept.records[-1]) == ["hit", "hit"]
        assert audio(again) == audio(events)


async def test_a_text_that_is_only_like_a_kept_one_is_held_no_longer_than_that(plane, autojump_clock):
    beginning = "Welcome to the best hotel in town. "
    async with plane() as made:
        await spoken(made, [beginning + "How can I help you?"])
        request, begun = SpeakLiveRequest(model="bad/tone", format=PCM_16K), trio.current_time()
        async with made.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text(beginning + "How")  # and no more for now
            while not audio(await session.receive()):
                pass
            assert HOLD_S <= trio.current_time() - begun < HOLD_S + 0.5
        assert uses(made.kept.records[-1]) == ["miss"]


async def test_an_interruption_within_a_hit(plane, autojump_clock):
    """Only what was sent counts: the rest of the take, and the text behind it, are dropped."""
    async with plane() as made:
        first = await spoken(made, [GREETING])
        request, events = SpeakLiveRequest(model="bad/tone", format=PCM_16K), []
        async with made.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text(GREETING + " And this is more.")
            while not audio(events):
                events += await session.receive()
            await session.clear()
            await session.send_text("Yes?")
            await session.finish()
            while not session.done:
                events += await session.receive()
            assert session.heard_characters < len(GREETING)
        sent = audio(events)
        assert len(sent) < len(audio(first)) + len(audio(await spoken(made, ["Yes?"])))
        assert words(events).endswith("Yes?")
        record = made.kept.records[-2]
        assert uses(record) == ["hit", "miss"]
        assert record.usage.characters == len("Yes?")


async def test_a_caller_who_leaves_a_hit_pays_nothing(plane, autojump_clock):
    async with plane() as made:
        await spoken(made, [GREETING])
        request = SpeakLiveRequest(model="bad/tone", format=PCM_16K)
        async with made.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text(GREETING)
            await session.finish()
            await session.receive()
            await trio.sleep(0.2)
        record = made.kept.records[-1]
        assert (record.status, record.cost_nusd, record.wasted_nusd, uses(record)) == ("cancelled", 0, 0, ["hit"])


async def test_speech_that_was_interrupted_or_continued_by_another_vendor_is_not_kept(plane, autojump_clock):
    async with plane("cut_after: 30") as made:
        await spoken(made, ["One two three four. Five six seven eight. Nine ten."])
        assert [attempt.outcome for attempt in made.kept.records[-1].attempts] == ["cut", "ok"]
        assert made.gateway.relay.phrases.figures.phrases == 0
    async with plane() as made:
        request = SpeakLiveRequest(model="bad/tone", format=PCM_16K)
        async with made.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text(GREETING)
            await session.receive()
            await session.clear()
            await session.finish()
            while not session.done:
                await session.receive()
        assert made.gateway.relay.phrases.figures.phrases == 0


async def test_a_voice_does_not_change_back_for_what_the_cache_has_in_the_first_one(plane, autojump_clock):
    async with plane("cut_after: 30") as made:
        await spoken(made, ["Yes."])
        assert uses(made.kept.records[-1]) == ["miss"]
        events = await spoken(made, ["One two three four. Five six seven eight. Nine ten. ", "Yes. ", "Bye."])
        assert words(events).split()[-3:] == ["ten.", "Yes.", "Bye."]
        record = made.kept.records[-1]
        assert [(attempt.model_id, attempt.cache) for attempt in record.attempts] == [
            ("bad/tone", "miss"), ("good/tone", "miss"), ("good/tone", "miss"), ("good/tone", "miss"),
        ]  # fmt: skip
        assert (record.status, record.model_id) == ("fallback", "good/tone")


async def test_takes_are_made_before_one_is_repeated(plane, autojump_clock):
    async with plane(rules="{takes: 2}") as made:
        for _ in range(4):
            await spoken(made, [MOMENT])
        assert [uses(record) for record in made.kept.records] == [["miss"], ["miss"], ["hit"], ["hit"]]


async def test_without_sentences_only_a_complete_text_is_a_hit(plane, autojump_clock):
    async with plane(rules="{sentences: false}") as made:
        await spoken(made, [MOMENT])
        await spoken(made, [MOMENT, " Then we go on."])
        await spoken(made, [MOMENT + " ", None])
        assert [uses(record) for record in made.kept.records] == [["miss"], ["miss"], ["hit"]]


async def test_speech_over_http_and_over_a_socket_are_one(plane, autojump_clock):
    async with plane() as made:
        async with made.gateway.relay.speak(SpeakRequest(model="bad/tone", text=MOMENT, format=PCM_16K), Caller()) as answer:
            events = []
            while not answer.done:
                events += await answer.receive()
        assert audio(await spoken(made, [MOMENT])) == audio(events)
        assert uses(made.kept.records[-1]) == ["hit"]


@pytest.mark.parametrize(
    ("fields", "hit"),
    [
        ({}, True), ({"speed": 1.2}, False), ({"no_store": True}, None), ({"format": PCM_24K}, False),
        ({"dialect": "cartesia", "options": (("max_buffer_delay_ms", "3"),)}, True),
        ({"dialect": "cartesia", "options": (("emotion", '"sad"'),), "ignorable": ("emotion",)}, False),
        ({"dialect": "cartesia", "options": (("add_phoneme_timestamps", "true"),)}, None),
    ],
)  # fmt: skip
async def test_what_changes_the_sound_is_another_phrase(plane, fields, hit, autojump_clock):
    async with plane() as made:
        await spoken(made, [MOMENT])
        await spoken(made, [MOMENT], **fields)
        assert uses(made.kept.records[-1]) == [{True: "hit", False: "miss", None: ""}[hit]]


async def test_mulaw_is_kept_as_it_was_sent(plane, autojump_clock):
    async with plane() as made:
        first, second = [await spoken(made, ["Yes. ", MOMENT], format=MULAW_8K) for _ in range(2)]
        assert audio(first) == audio(second)
        assert uses(made.kept.records[-1]) == ["hit"]


def test_formats_that_can_be_joined():
    opus = AudioFormat(encoding="ogg", sample_rate_hz=48_000)
    wav = msgspec.structs.replace(PCM_16K, encoding="wav")
    mp3 = AudioFormat(encoding="mp3", sample_rate_hz=44_100, kbit_per_s=128)
    assert [can_join(fmt) for fmt in (PCM_16K, MULAW_8K, mp3, opus, wav)] == [True, True, True, False, False]
