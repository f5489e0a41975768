"""Live transcription through the relay: what is said once is heard once, whatever becomes of a provider."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import structlog
import trio
import trio.testing

from gw.errors import AllCandidatesFailed, BudgetExceededError, ProviderError
from gw.providers.sim import fsk
from gw.relay.listening import MAX_FRAMES
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted
from gw.wire import g711
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  bad: {type: sim, %s}
  good: {type: sim}
models: {stt: {bad/tone: {price: {unit: hour, usd: 36}}, good/tone: {price: {unit: hour, usd: 72}}}}
fallbacks: {stt: [bad/tone, good/tone]}
projects: {poor: {daily_budget: 0.000001, budget_action: block}}
"""
SAID = ["one two three", "four", "five six"]
FRAME = 1_280
"""40 ms at 16 kHz."""


def speech(texts=SAID, rate=16_000):
    pause = b"\0\0" * (rate // 8)
    return b"".join(b"".join(fsk.encode(text, rate)) + pause for text in texts)


def frames(pcm, size=FRAME):
    return [pcm[at : at + size] for at in range(0, len(pcm), size)]


async def talk(session, pieces, gap_s=0.04):
    for piece in pieces:
        await session.send_audio(piece)
        await trio.sleep(gap_s)
    await session.finish()


async def heard(plane, pieces, *, gap_s=0.04, caller=None, **fields):
    """All events of a session that hears `pieces` at their pace."""
    events = []
    request = ListenRequest(**{"model": "bad/tone", "format": PCM_16K, **fields})
    async with plane.gateway.relay.listen(request, caller or Caller()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(talk, session, pieces, gap_s)
        while not session.done:
            events += await session.receive()
    return events


def finals(events):
    return [event for event in events if isinstance(event, Final)]


def texts(events):
    return [event.text for event in finals(events)]


@pytest.fixture
def plane(tmp_path):
    def opened(knobs=""):
        return open_plane(CONFIG % (knobs or "latency_ms: 0"), tmp_path)

    return opened


async def test_a_session_from_end_to_end(plane, autojump_clock):
    async with plane() as made:
        pcm = speech()
        events = await heard(made, frames(pcm))
        assert texts(events) == SAID
        assert isinstance(events[-1], ListenEnd)
        assert any(isinstance(event, Interim) for event in events)
        record = made.kept.record
        assert (record.status, record.modality, record.stream, record.model_id) == ("success", "stt", True, "bad/tone")
        assert record.usage.audio_seconds == pytest.approx(len(pcm) / 32_000)
        assert record.cost_nusd == pytest.approx(len(pcm) / 32_000 * 0.01 * 1e9, rel=1e-6)
        assert record.ttfb_ms is not None


@pytest.mark.parametrize("seed", range(20))
async def test_a_provider_that_breaks_off_is_not_noticed(plane, autojump_clock, seed):
    """Cut at a random event: the transcript is that of an uninterrupted session, in the session's own times."""
    cut = random.Random(seed).randrange(1, 30)
    async with plane(f"cut_after: {cut}") as made:
        pcm = speech()
        events = await heard(made, frames(pcm))
        assert texts(events) == SAID
        begins = [event.start_s for event in finals(events)]
        assert begins == sorted(begins)
        expected = [len(speech(SAID[:n])) / 32_000 for n in range(3)]
        assert begins == pytest.approx(expected, abs=0.05)
        record = made.kept.record
        if len(record.attempts) == 1:
            assert record.status == "success"  # the cut would have come after its end
            return
        assert [a.outcome for a in record.attempts] == ["cut", "ok"]
        assert (record.status, record.fallback_from, record.model_id) == ("fallback", "bad/tone", "good/tone")
        first, second = record.attempts
        total = len(pcm) / 32_000
        assert first.audio_seconds + second.audio_seconds >= total - 0.1
        assert second.audio_seconds <= total + 0.01
        assert record.usage.audio_seconds == pytest.approx(first.audio_seconds + second.audio_seconds)
        assert record.cost_nusd == first.cost_nusd + second.cost_nusd
        assert first.cost_nusd == pytest.approx(first.audio_seconds * 1e7, rel=1e-6)
        assert second.cost_nusd == pytest.approx(second.audio_seconds * 2e7, rel=1e-6)


async def test_what_was_said_before_anybody_listened_is_heard(plane, autojump_clock):
    async with plane("latency_ms: 2000") as made:
        assert texts(await heard(made, frames(speech()))) == SAID


@pytest.mark.parametrize("fault", ["503", "429", "refused", "401"])
async def test_one_that_does_not_begin_is_passed_over(plane, autojump_clock, fault):
    async with plane(f"fail_rate: 1, fail_with: {fault}") as made:
        assert texts(await heard(made, frames(speech()))) == SAID
        assert [a.outcome == "ok" for a in made.kept.record.attempts] == [False, True]


async def test_one_that_never_answers_the_handshake(plane, autojump_clock):
    async with plane("fail_rate: 1, fail_with: slow") as made:
        assert texts(await heard(made, frames(speech()))) == SAID
        assert [a.outcome for a in made.kept.record.attempts] == ["cancelled", "ok"]


async def test_one_that_hears_and_says_nothing(plane, autojump_clock):
    async with plane("token_ms: 600000") as made:
        long = ["word " * 14, "end"]
        assert texts(await heard(made, frames(speech(long)))) == long
        first, second = made.kept.record.attempts
        assert (first.outcome, second.outcome) == ("too_slow", "ok")
        assert first.duration_ms < 6_000


async def test_the_shortest_silence_that_can_be_set_is_noticed_in_time(tmp_path, autojump_clock):
    """The first look at a provider comes a while after the speech, but never after the answer to it is overdue."""
    config = CONFIG % "token_ms: 600000" + "routing: {silence_ms: 100, hedge: off}\n"
    async with open_plane(config, tmp_path) as made:
        await heard(made, frames(speech(["one two three"]) + bytes(64_000)))
        first, second = made.kept.record.attempts
        assert (first.outcome, second.outcome) == ("too_slow", "ok")
        assert first.duration_ms == pytest.approx(890, abs=30)


async def test_nobody_left(plane, autojump_clock):
    async with plane("fail_rate: 1, fail_with: 503") as made:
        with pytest.raises(ProviderError):
            await heard(made, frames(speech()), caller=Caller(fallback=False))
        record = made.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("error", ["failed"])


async def test_all_of_them_failed(tmp_path, autojump_clock):
    config = CONFIG.replace("good: {type: sim}", "good: {type: sim, fail_rate: 1, fail_with: 500}")
    async with open_plane(config % "fail_rate: 1, fail_with: 503", tmp_path) as made:
        with pytest.raises(AllCandidatesFailed):
            await heard(made, frames(speech()))


async def test_the_caller_leaves(plane, autojump_clock):
    async with plane() as made:
        request = ListenRequest(model="bad/tone", format=PCM_16K)
        with trio.move_on_after(0.4):
            async with made.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
                nursery.start_soon(talk, session, frames(speech()))
                while not session.done:
                    await session.receive()
        record = made.kept.record
        assert record.status == "cancelled"
        assert record.usage.audio_seconds == pytest.approx(0.4, abs=0.05)
        assert record.cost_nusd > 0


async def test_a_spent_budget_refuses_before_any_call(plane, autojump_clock):
    async with plane() as made:
        pcm = speech(["a"])
        await heard(made, frames(pcm), caller=Caller(project="poor"))
        with pytest.raises(BudgetExceededError):
            await heard(made, frames(pcm), caller=Caller(project="poor"))
        assert len(made.kept.records[1].attempts) == 0


async def test_audio_is_converted_for_who_does_not_take_it(plane, autojump_clock):
    async with plane() as made:
        pcm = speech(rate=8_000)
        pieces = frames(g711.pcm16_to_mulaw(pcm), 320)
        assert texts(await heard(made, pieces, format=MULAW_8K)) == SAID
        assert made.kept.record.usage.audio_seconds == pytest.approx(len(pcm) / 16_000, abs=0.05)


async def test_containers_are_for_who_can_read_them(plane, autojump_clock):
    async with plane() as made:
        with pytest.raises(AllCandidatesFailed, match="cannot be decoded as it comes"):
            await heard(made, [b"ftyp"], format=AudioFormat(encoding="mp4"))


async def test_a_price_for_live_sessions_alone_is_a_price(tmp_path, autojump_clock):
    """`on_unpriced: refuse` does not pass such a model over."""
    text = """
providers: {deep: {type: deepgram, base_url: "http://deep.test", api_key: k}}
models: {stt: {deep/flux-general-en: }}
cost_tracking: {on_unpriced: refuse}
"""
    async with open_plane(text, tmp_path) as made:
        made.net.hosts["deep.test", 80] = hosted(FakeDeepgram(api_key="k"))
        assert texts(await heard(made, frames(speech()), model="deep/flux-general-en")) == SAID
        assert made.kept.record.cost_nusd > 0


DEEPGRAM = """
providers:
  deep: {type: deepgram, base_url: "http://deep.test", api_key: k}
  other: {type: deepgram, base_url: "http://other.test", api_key: k}
models: {stt: [deep/nova-3, other/nova-3]}
fallbacks: {stt: [deep/nova-3, other/nova-3]}
"""


async def test_orders_before_anybody_listens_are_carried_out(tmp_path, autojump_clock):
    """Push to talk: all of it said, and "now", before the provider has answered the handshake."""
    async with open_plane(DEEPGRAM, tmp_path) as made:
        fake = FakeDeepgram(api_key="k")
        made.net.hosts["deep.test", 80] = hosted(fake)
        request = ListenRequest(model="deep/nova-3", format=PCM_16K, dialect="deepgram")
        async with made.gateway.relay.listen(request, Caller()) as session:
            await session.send_frame('{"type":"Configure"}')
            await session.send_audio(speech(["one two three"]))
            await session.flush()
            with trio.fail_after(60):
                while "one two three" not in texts(await session.receive()):
                    pass
            await trio.testing.wait_all_tasks_blocked()
            (entry,) = fake.ledger
            assert entry.fields["finalized"] is True
            assert entry.fields["other"] == '{"type":"Configure"}'
            await session.finish()
            while not session.done:
                await session.receive()


class Steps(trio.abc.Instrument):
    """Counts how often tasks run, by name."""

    def __init__(self):
        self.of = Counter()

    def before_task_step(self, task):
        self.of[task.name.rpartition(".")[2]] += 1


async def test_an_idle_session_is_kept_alive_and_wakes_no_task_otherwise(tmp_path, autojump_clock):
    async with open_plane(DEEPGRAM, tmp_path) as made:
        fake, steps = FakeDeepgram(api_key="k"), Steps()
        made.net.hosts["deep.test", 80] = hosted(fake)
        request = ListenRequest(model="deep/nova-3", format=PCM_16K, dialect="deepgram")
        async with made.gateway.relay.listen(request, Caller()) as session:
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(steps)
            await trio.sleep(60)
            trio.lowlevel.remove_instrument(steps)
            assert 11 <= fake.ledger[0].fields["kept"] <= 12
            assert steps.of["watch_sessions"] <= 15
            assert steps.of["awaited"] <= 3 * 15  # sending takes some
            await talk(session, frames(speech()))
            events = []
            while not session.done:
                events += await session.receive()
        assert texts(events) == SAID


async def test_a_change_of_settings_is_given_to_the_next_provider_too(tmp_path, autojump_clock):
    async with open_plane(DEEPGRAM, tmp_path) as made:
        first, second = FakeDeepgram(api_key="k", close_after=(4, 1011)), FakeDeepgram(api_key="k")
        made.net.hosts["deep.test", 80], made.net.hosts["other.test", 80] = hosted(first), hosted(second)
        request = ListenRequest(model="deep/nova-3", format=PCM_16K, dialect="deepgram")
        async with made.gateway.relay.listen(request, Caller()) as session:
            await session.send_audio(bytes(3_200))
            await trio.testing.wait_all_tasks_blocked()
            await session.send_frame('{"type":"Configure"}')
            await session.send_frame('{"type":"KeepAlive"}')
            await trio.testing.wait_all_tasks_blocked()
            assert first.ledger[0].fields["other"] == '{"type":"Configure"}'
            await session.send_audio(bytes(3_200))
            await trio.sleep(1)
            assert second.ledger[0].fields["other"] == '{"type":"Configure"}'
            await session.finish()
            while not session.done:
                await session.receive()


async def test_control_frames_are_kept_within_a_bound(tmp_path, autojump_clock):
    async with open_plane(DEEPGRAM, tmp_path) as made:
        first, second = FakeDeepgram(api_key="k"), FakeDeepgram(api_key="k")
        made.net.hosts["deep.test", 80], made.net.hosts["other.test", 80] = hosted(first), hosted(second)
        request = ListenRequest(model="deep/nova-3", format=PCM_16K, dialect="deepgram")
        async with made.gateway.relay.listen(request, Caller()) as session:
            with structlog.testing.capture_logs() as logs:
                for n in range(MAX_FRAMES + 2):
                    await session.send_frame(f'{{"type":"Configure","n":{n}}}')
            assert [log["frame"] for log in logs] == ['{"type":"Configure","n":0}', '{"type":"Configure","n":1}']
            await session.finish()
            while not session.done:
                await session.receive()


async def test_a_flush_that_was_not_answered_is_given_to_the_next_provider(tmp_path, autojump_clock):
    async with open_plane(DEEPGRAM, tmp_path) as made:
        first, second = FakeDeepgram(api_key="k"), FakeDeepgram(api_key="k")
        first.status = 503
        made.net.hosts["deep.test", 80], made.net.hosts["other.test", 80] = hosted(first), hosted(second)
        request = ListenRequest(model="deep/nova-3", format=PCM_16K, dialect="deepgram")
        async with made.gateway.relay.listen(request, Caller()) as session:
            await session.send_audio(speech(["one two three"]))
            await session.flush()
            await session.receive()
            await trio.testing.wait_all_tasks_blocked()
            assert second.ledger[0].fields["finalized"] is True
            await session.finish()
            while not session.done:
                await session.receive()


async def test_an_empty_session(plane, autojump_clock):
    async with plane() as made:
        events = await heard(made, [])
        assert [type(event) for event in events] == [ListenEnd]
        assert made.kept.record.usage.audio_seconds == 0


async def test_who_does_not_read_holds_back_the_provider_and_loses_nothing(plane, autojump_clock):
    async with plane() as made:
        request = ListenRequest(model="bad/tone", format=PCM_16K)
        events = []
        async with made.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(talk, session, frames(speech()))
            await trio.sleep(60)
            while not session.done:
                events += await session.receive()
        assert texts(events) == SAID


async def test_events_of_the_second_provider_are_in_the_sessions_time(plane, autojump_clock):
    async with plane("cut_after: 6") as made:
        events = await heard(made, frames(speech()))
        began = [event.at_s for event in events if isinstance(event, SpeechStarted)]
        assert began == sorted(began)
