"""Live transcription that moves to another provider, or dials the same one again: what it costs, loses and repeats."""

from __future__ import annotations

import math
import random
from array import array

import pytest
import trio

from gw.errors import AllCandidatesFailed, GwError, ProviderError
from gw.providers.sim import fsk
from gw.relay import session_audio
from gw.telemetry.exposition import text_of
from gw.telemetry.metric_facts import MetricFacts
from gw.types.audio import AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenRequest
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.live import FakeListener

RATE = 8_000
FORMAT = AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE)
FRAME_S = 0.05
CONFIG = """
providers:
  first: {type: assemblyai, base_url: "http://first.test", api_key: k}
  second: {type: deepgram, base_url: "http://second.test", api_key: k}
models:
  stt:
    first/universal-streaming-english: {price: {unit: hour, usd: 36}}
    second/nova-3: {price: {unit: hour, usd: 72}}
fallbacks: {stt: [first/universal-streaming-english, second/nova-3]}
"""
ONLY_FIRST = CONFIG.replace(", second/nova-3]", "]")


def said(text):
    return b"".join(fsk.encode(text, RATE))


def silence(seconds):
    return bytes(int(seconds * RATE) * 2)


def noise(seconds, level=6_000, seed=1):
    """Loud, with pauses like those of speech."""
    chance = random.Random(seed)
    samples = array("h", [int(chance.uniform(-level, level)) for _ in range(int(seconds * RATE))])
    for at in range(0, len(samples), RATE // 2):
        samples[at : at + RATE // 20] = array("h", bytes(2 * len(samples[at : at + RATE // 20])))
    return samples.tobytes()


class Session:
    def __init__(self):
        self.events = []
        self.error = None
        self.ended_at = 0.0
        self.began = 0.0

    @property
    def finals(self):
        return [event for event in self.events if isinstance(event, Final)]

    @property
    def texts(self):
        return [event.text for event in self.finals]


async def hold(plane, pcm, *, frame_s=FRAME_S, hang_up=False, caller=None, **fields):
    """Speak `pcm` in real time, announce the end (or hang up), and read all that comes."""
    session, size = Session(), int(frame_s * RATE) * 2
    request = ListenRequest(**{"model": "default", "format": FORMAT, **fields})

    async def talk(live, scope):
        for at in range(0, len(pcm), size):
            await live.send_audio(pcm[at : at + size])
            await trio.sleep(len(pcm[at : at + size]) / 2 / RATE)
        if hang_up:
            scope.cancel()
        else:
            await live.finish()

    async with plane.gateway.relay.listen(request, caller or Caller()) as live, trio.open_nursery() as nursery:
        session.began = trio.current_time()
        nursery.start_soon(talk, live, nursery.cancel_scope)
        try:
            while not live.done:
                session.events += await live.receive()
        except GwError as error:
            session.error = error
        session.ended_at = trio.current_time() - session.began
        nursery.cancel_scope.cancel()
    return session


def serve(plane, first=None, second=None):
    first, second = first or FakeAssemblyAI(api_key="k"), second or FakeDeepgram(api_key="k")
    plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
    return first, second


def outcomes(plane):
    return [(attempt.model_id.partition("/")[0], attempt.outcome) for attempt in plane.kept.record.attempts]


# ---- silence


async def test_an_open_microphone_after_a_stall(tmp_path, autojump_clock):
    """1.2 s of speech, a stall at 0.9 s, then nobody speaks."""
    async with open_plane(CONFIG, tmp_path) as plane:
        _, second = serve(plane, FakeAssemblyAI(api_key="k", stalls_after=18))
        pcm = said("one two three four five")
        session = await hold(plane, pcm + silence(20))
        assert session.texts == ["one two three four five"]
        assert second.ledger[0].opened - session.began <= len(pcm) / 2 / RATE + 1.2


async def test_a_muted_microphone_is_no_failure(tmp_path, autojump_clock):
    """A recogniser that gets no silence hears no pause, so its final transcript is not late."""
    async with open_plane(CONFIG, tmp_path) as plane:
        serve(plane, FakeAssemblyAI(api_key="k", mute_from_final=2))
        request = ListenRequest(model="default", format=FORMAT)
        async with plane.gateway.relay.listen(request, Caller()) as live:
            await live.send_audio(said("one two"))
            await trio.sleep(30)
            await live.finish()
            while not live.done:
                await live.receive()
        assert outcomes(plane) == [("first", "ok")]


@pytest.mark.parametrize("config", [CONFIG, ONLY_FIRST], ids=["other", "same"])
async def test_the_end_of_a_session_that_is_not_answered(config, tmp_path, autojump_clock):
    async with open_plane(config, tmp_path) as plane:
        serve(plane, FakeAssemblyAI(api_key="k", stalls_after=10, faulty_sockets=1))
        pcm = said("one two three")
        session = await hold(plane, pcm)
        assert session.texts == ["one two three"]
        assert session.ended_at <= len(pcm) / 2 / RATE + 1.2
        assert [outcome for _, outcome in outcomes(plane)] == ["too_slow", "ok"]


async def test_the_end_of_a_session_with_nothing_left_to_answer(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        pcm = said("one two three") + silence(2)
        serve(plane, FakeAssemblyAI(api_key="k", stalls_after=int(len(pcm) / 2 / RATE / FRAME_S) - 2))
        session = await hold(plane, pcm)
        assert session.texts == ["one two three"]
        assert 2.0 <= session.ended_at - len(pcm) / 2 / RATE <= 3.5


async def test_the_setting(tmp_path, autojump_clock):
    async with open_plane(CONFIG + "routing: {silence_ms: 3000}\n", tmp_path) as plane:
        _, second = serve(plane, FakeAssemblyAI(api_key="k", stalls_after=10))
        pcm = said("one two three")
        session = await hold(plane, pcm + silence(8))
        assert session.texts == ["one two three"]
        assert 2.9 <= second.ledger[0].opened - session.began - len(pcm) / 2 / RATE <= 3.4


async def test_a_stall_in_running_speech_is_measured_by_the_vendors_own_times(tmp_path, autojump_clock):
    """A session of the same model before, with an event every few tenths of a second, has shown its pace."""
    async with open_plane(CONFIG, tmp_path) as plane:
        serve(plane)
        await hold(plane, (said("a bc de fg h") + silence(0.4)) * 12)
        plane.kept.records.clear()
        _, second = serve(plane, FakeAssemblyAI(api_key="k", stalls_after=40))
        text = "a bc de " * 12
        session = await hold(plane, said(text) + silence(3))
        assert " ".join(session.texts).split() == text.split()
        assert second.ledger[0].opened - session.began <= 40 * FRAME_S + 1.8


# ---- the same vendor again


@pytest.mark.parametrize("code", [1011, 1000, 3005])
async def test_one_vendor_that_closes_is_dialled_again(code, tmp_path, autojump_clock):
    async with open_plane(ONLY_FIRST, tmp_path) as plane:
        first, _ = serve(plane, FakeAssemblyAI(api_key="k", close_after=(30, code), faulty_sockets=1))
        session = await hold(plane, said("one two three") + silence(0.3) + said("four five") + silence(1))
        assert session.texts == ["one two three", "four five"]
        assert len(first.ledger) == 2
        record = plane.kept.record
        assert [a.model_id for a in record.attempts] == ["first/universal-streaming-english"] * 2
        assert record.attempts[1].outcome == "ok"
        assert (record.status, record.fallback_from) == ("success", None)


async def test_one_vendor_that_closes_each_time_is_given_up(tmp_path, autojump_clock):
    async with open_plane(ONLY_FIRST, tmp_path) as plane:
        first, _ = serve(plane, FakeAssemblyAI(api_key="k", close_after=(10, 1011)))
        session = await hold(plane, said("one two three") + silence(1))
        assert isinstance(session.error, ProviderError)
        assert len(first.ledger) == 2
        assert outcomes(plane) == [("first", "failed")] * 2


async def test_the_other_vendor_first_and_the_same_again_as_a_last_resort(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        serve(
            plane,
            FakeAssemblyAI(api_key="k", close_after=(10, 1011), faulty_sockets=1),
            FakeDeepgram(api_key="k", close_after=(2, 1011)),
        )
        session = await hold(plane, said("one two three") + silence(0.3) + said("four five") + silence(1))
        assert session.texts == ["one two three", "four five"]
        assert outcomes(plane) == [("first", "failed"), ("second", "failed"), ("first", "ok")]


async def test_a_refused_handshake_is_not_tried_again(tmp_path, autojump_clock):
    async with open_plane(ONLY_FIRST, tmp_path) as plane:
        first, _ = serve(plane, FakeAssemblyAI(api_key="k", status=503))
        session = await hold(plane, said("one"))
        assert isinstance(session.error, ProviderError)
        assert len(first.ledger) == 1


# ---- what the next provider gets


async def test_silence_is_not_sent_again(tmp_path, autojump_clock):
    """Ten seconds of silence, then a word, a pause and another word that the first provider leaves unanswered."""
    async with open_plane(CONFIG, tmp_path) as plane:
        _, second = serve(plane, FakeAssemblyAI(api_key="k", stalls_after=201, mute_from_final=1))
        words = [said("one two three"), said("four five")]
        pcm = silence(10) + words[0] + silence(0.6) + words[1] + silence(3)
        session = await hold(plane, pcm)
        assert session.texts == ["one two three", "four five"]
        spoken_s = sum(map(len, words)) / 2 / RATE
        (entry,) = second.ledger
        until_end_s = len(entry.audio) / 2 / RATE
        assert until_end_s <= spoken_s + 0.6 + 3 + 1  # the live silence after it included
        ends = [10 + len(words[0]) / 2 / RATE, 10.6 + spoken_s]
        assert [final.end_s for final in session.finals] == pytest.approx(ends, abs=0.05)
        _, last = plane.kept.record.attempts
        assert last.audio_seconds == pytest.approx(until_end_s, abs=0.1)
        assert last.cost_nusd == pytest.approx(last.audio_seconds * 2e7, rel=1e-6)


async def test_silence_between_unanswered_words_is_not_sent_again(tmp_path, autojump_clock):
    """Times beyond what was left out are those of the session."""
    plane_config = CONFIG + "routing: {silence_ms: 9000}\n"
    async with open_plane(plane_config, tmp_path) as plane:
        _, second = serve(plane, FakeAssemblyAI(api_key="k", stalls_after=2))
        words = [said("one two three"), said("four five")]
        pcm = silence(1) + words[0] + silence(7) + words[1] + silence(12)
        session = await hold(plane, pcm)
        assert session.texts == ["one two three", "four five"]
        ends = [1 + len(words[0]) / 2 / RATE, 8 + (len(words[0]) + len(words[1])) / 2 / RATE]
        assert [final.end_s for final in session.finals] == pytest.approx(ends, abs=0.05)
        got_s = len(second.ledger[0].audio) / 2 / RATE
        assert got_s <= len(pcm) / 2 / RATE - 6  # of the seven seconds between the words, less than one


@pytest.fixture
def _short_buffer(monkeypatch):
    monkeypatch.setattr(session_audio, "MAX_S", 2.0)


@pytest.mark.usefixtures("_short_buffer")
async def test_speech_that_has_left_the_buffer_is_counted(tmp_path, autojump_clock):
    class NeverFinal(FakeListener):
        def feed(self, data):
            return [event for event in super().feed(data) if isinstance(event, Interim)]

    async with open_plane(CONFIG, tmp_path) as plane:
        text = "a bc de " * 12
        plane.gateway.metrics.know(models=["second/nova-3"], providers=["second"])
        serve(plane, FakeAssemblyAI(api_key="k", make_listener=NeverFinal, close_after=(80, 1011)))
        await hold(plane, said(text) + silence(1))
        first, second = plane.kept.record.attempts
        assert first.lost_s is None
        assert second.lost_s == pytest.approx(80 * FRAME_S - 2.0, abs=0.3)
        facts = MetricFacts(uptime_s=1, version="v", providers_configured=2, cost_today_nusd=0)
        text = await text_of(plane.gateway.metrics.families(facts))
        (line,) = [line for line in text.decode().splitlines() if line.startswith("gw_replay_lost_seconds_total")]
        assert line.startswith('gw_replay_lost_seconds_total{model="second/nova-3"}')
        assert float(line.split()[-1]) == pytest.approx(second.lost_s)


@pytest.mark.usefixtures("_short_buffer")
async def test_silence_that_has_left_the_buffer_is_no_loss(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        serve(plane, FakeAssemblyAI(api_key="k", close_after=(210, 1011)))
        session = await hold(plane, silence(10) + said("one two three") + silence(1))
        assert session.texts == ["one two three"]
        assert [attempt.lost_s for attempt in plane.kept.record.attempts] == [None, None]


# ---- sounds that are no speech


def music(seconds):
    """A melody with a beat: loud, with pauses."""
    samples = array("h")
    for n in range(int(seconds * RATE)):
        beat = (n % (RATE // 2)) / (RATE // 2)
        samples.append(int(8_000 * (1 - beat) ** 2 * math.sin(n * (0.2 + 0.02 * (n // RATE % 7)))))
    return samples.tobytes()


@pytest.mark.parametrize("sound", [noise(0.5), noise(5), music(60)], ids=["a cough", "noise", "music"])
@pytest.mark.parametrize("config", [CONFIG, ONLY_FIRST], ids=["other", "same"])
async def test_a_sound_that_no_provider_answers_does_not_end_the_session(sound, config, tmp_path, autojump_clock):
    async with open_plane(config, tmp_path) as plane:
        serve(plane)
        session = await hold(plane, sound + silence(3) + said("one two three") + silence(2))
        assert session.texts == ["one two three"]
        assert len(plane.kept.record.attempts) <= 2
        views = plane.gateway.limits.view(trio.current_time()).values()
        assert {view.breaker for view in views} == {"closed"}


async def test_coughs_do_not_end_a_session_with_one_vendor(tmp_path, autojump_clock):
    async with open_plane(ONLY_FIRST, tmp_path) as plane:
        serve(plane)
        pcm = b"".join(noise(0.3, seed=n) + silence(4) for n in range(12))
        session = await hold(plane, pcm + said("one two three") + silence(2))
        assert session.texts == ["one two three"]
        assert len(plane.kept.record.attempts) <= 3


async def test_vendors_that_all_say_nothing_are_given_up(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        serve(plane, FakeAssemblyAI(api_key="k", stalls_after=1), FakeDeepgram(api_key="k", stalls_after=1))
        pcm = b"".join(said(f"number {n} is one two") + silence(2) for n in range(12))
        session = await hold(plane, pcm + silence(30))
        assert isinstance(session.error, AllCandidatesFailed)
        assert session.ended_at < 30
