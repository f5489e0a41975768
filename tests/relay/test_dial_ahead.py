"""Connections made before a takeover: when, how many, and that nothing is sent on those that are not needed."""

from __future__ import annotations

import random

import msgspec
import pytest
import trio

from gw.policy.response_times import ResponseTimes
from gw.registry.catalog import Model
from gw.relay.audio_supply import LOW_S
from gw.relay.dial_ahead import FIRST_AUDIO, QUIET_S, UNKNOWN_LOW_S, dial_after_s, low_s
from tests.contract.readers import DEEPGRAM as READER
from tests.contract.readers import Spoken, receive_speech, send
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.word_voice import SENTENCE, WordVoice, gaps_of

CONFIG = """
providers:
  first: {type: deepgram, api_key: k, base_url: "http://first.test"}
  second: {type: SECOND, api_key: k, base_url: "http://second.test"}
models:
  tts:
    first/aura-2-thalia-en: {price: {unit: 1M_characters, usd: 10}}
    second/MODEL: {default_voice: alloy, price: {unit: 1M_characters, usd: 20}}
fallbacks: {tts: [first/aura-2-thalia-en, second/MODEL]}
"""
TWO = CONFIG.replace("SECOND", "deepgram").replace("MODEL", "aura-2-thalia-en")
MODEL = "first/aura-2-thalia-en"
VOICE = WordVoice()
RATE = 24_000


def serve(plane, first, second):
    plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)


async def speak(plane, text):
    spoken = Spoken()
    async with READER.open(plane, MODEL) as ws, trio.open_nursery() as nursery:
        nursery.start_soon(receive_speech, READER, ws, spoken)
        await send(ws, [*READER.say(text), *READER.end])
    return spoken


@pytest.mark.parametrize(("left_s", "after_s"), [(0.0, QUIET_S), (0.1, QUIET_S), (1.0, 0.5), (6.0, 3.0)])
def test_when_the_next_is_dialled(left_s, after_s):
    assert dial_after_s(left_s) == after_s


@pytest.mark.parametrize(("seconds", "event", "expected"), [
    (0.1, FIRST_AUDIO, LOW_S), (0.6, FIRST_AUDIO, 0.6), (0.5, "content", 0.5), (5.0, FIRST_AUDIO, 1.0),
    (0.9, "session", UNKNOWN_LOW_S),
])  # fmt: skip
def test_the_margin_is_what_the_next_takes_to_begin(seconds, event, expected):
    times, model = ResponseTimes(), Model(id="a/b", modality="tts", provider="a", name="b")
    for _ in range(32):
        times.add(("a/b", "tts", True, event), seconds)
    assert low_s(times, model) == expected
    assert low_s(times, None) == LOW_S


async def test_nobody_is_dialled_in_an_hour_of_healthy_speech(tmp_path, autojump_clock):
    """The audio comes in pieces of a second after pauses of up to 0.19 s."""
    chance = random.Random(7)
    async with open_plane(TWO, tmp_path) as plane:
        first = FakeDeepgram(
            api_key="k", word_voice=VOICE, first_token_after_s=0.25, piece_s=1.0, speech_gap=lambda: chance.uniform(0.01, 0.19)
        )
        second = FakeDeepgram(api_key="k", word_voice=VOICE)
        serve(plane, first, second)
        heard_s = 0.0
        while heard_s < 3_600:
            spoken = await speak(plane, " ".join([SENTENCE] * 4))
            heard_s += len(spoken.pcm) / 2 / RATE
        await trio.sleep(1)
        assert [len(record.attempts) for record in plane.kept.records] == [1] * len(plane.kept.records)
        assert second.ledger == []
        assert len(plane.net.transports) == len(plane.kept.records), "one connection for each session"


async def test_a_long_pause_costs_a_dial_and_nothing_else(tmp_path, autojump_clock):
    """For the second pause the spare is still there."""
    pauses = iter([*[0.05] * 6, 0.3, *[0.05] * 7, 0.32])
    async with open_plane(TWO, tmp_path) as plane:
        first = FakeDeepgram(api_key="k", word_voice=VOICE, speech_gap=lambda: next(pauses, 0.05))
        second = FakeDeepgram(api_key="k", word_voice=VOICE)
        serve(plane, first, second)
        await speak(plane, SENTENCE)
        await trio.sleep(1)
        assert (plane.kept.record.status, len(plane.kept.record.attempts)) == ("success", 1)
        (entry,) = second.ledger
        assert "text" not in entry.fields
        assert entry.closed is not None


async def test_a_slow_second_is_called_early_enough(tmp_path, autojump_clock):
    """It takes 0.2 s to connect and 0.7 s to begin, as it did before; the first had sent half a second ahead."""
    async with open_plane(TWO, tmp_path) as plane:
        first = FakeDeepgram(api_key="k", word_voice=VOICE, speech_gap_s=0.07)
        second = FakeDeepgram(api_key="k", word_voice=VOICE, answer_after_s=0.2, first_token_after_s=0.7, speech_gap_s=0.05)
        serve(plane, first, second)
        times = plane.gateway.relay.planner.response_times
        for _ in range(32):
            times.add(("second/aura-2-thalia-en", "tts", True, FIRST_AUDIO), 0.7)
        await speak(plane, SENTENCE)
        first.speech_fault, first.speech_share = "stalls", 0.6
        spoken = await speak(plane, SENTENCE)
        sizes = zip(spoken.at, spoken.sizes, strict=True)
        assert max(gaps_of([(at, size / 2 / RATE) for at, size in sizes]), default=0.0) <= 0.2
        assert [a.outcome for a in plane.kept.records[-1].attempts] == ["too_slow", "ok"]


@pytest.mark.parametrize(("first_audio_s", "longest_gap_s"), [(0.5, 0.3), (0.7, 0.5), (1.0, 0.7)])
async def test_a_second_that_was_never_measured_is_called_early_enough(first_audio_s, longest_gap_s, tmp_path, autojump_clock):
    """The listener has had half of the sentence: by then the first is 0.6 s ahead or more."""
    for share in (0.5, 0.7, 0.9):
        async with open_plane(TWO, tmp_path / str(share)) as plane:
            first = FakeDeepgram(api_key="k", word_voice=VOICE, speech_gap_s=0.08, first_token_after_s=0.15)
            second = FakeDeepgram(api_key="k", word_voice=VOICE, answer_after_s=0.2, first_token_after_s=first_audio_s, speech_gap_s=0.05)
            serve(plane, first, second)
            first.speech_fault, first.speech_share = "stalls", share
            spoken = await speak(plane, SENTENCE)
            sizes = zip(spoken.at, spoken.sizes, strict=True)
            assert max(gaps_of([(at, size / 2 / RATE) for at, size in sizes]), default=0.0) <= longest_gap_s, share
            assert [a.outcome for a in plane.kept.record.attempts] == ["too_slow", "ok"]


def test_one_measurement_is_better_than_none():
    times, model = ResponseTimes(), Model(id="a/b", modality="tts", provider="a", name="b")
    times.add(("a/b", "tts", True, FIRST_AUDIO), 0.35)
    times.add(("a/b", "tts", True, FIRST_AUDIO), 0.8)
    assert low_s(times, model) == 0.8


async def test_over_http_the_connection_is_there_before_the_call(tmp_path, autojump_clock):
    config = CONFIG.replace("SECOND", "cartesia").replace("MODEL", "sonic-3")
    async with open_plane(config, tmp_path) as plane:
        first = FakeDeepgram(api_key="k", word_voice=VOICE, speech_gap_s=0.08, speech_fault="stalls", speech_share=0.5)
        second = FakeCartesia(api_key="k", word_voice=VOICE)
        serve(plane, first, second)
        plane.net.connect_s["second.test"] = 0.15
        body = {"model": MODEL, "input": SENTENCE, "voice": "alloy", "response_format": "pcm"}
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(body))
        assert reply.status == 200
        slow, answered = plane.kept.record.attempts
        assert (slow.outcome, answered.outcome) == ("too_slow", "ok")
        assert answered.ttfb_ms < 20, "it did not wait for a handshake"
        assert len(plane.net.transports) == 2
