"""Costs of an answer and the wait for its commit; the ways it ends are in `test_relay.py`."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest
import trio

from gw.errors import UpstreamCut
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.meter import Meter
from gw.relay.prepared_call import PreparedCall
from gw.relay.response import Response
from gw.relay.usage_counters import SpeakCounter
from gw.types.audio import PCM_24K
from gw.types.ids import Caller
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.types.usage import Usage

CONFIG = """
providers: {sim: {}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 10}}}}
"""


class Kept:
    def __init__(self, settle_s=0.0, commits_first=False):
        self.records, self.accepting, self.commits_first = [], True, commits_first
        self.settle_s = settle_s

    def intent(self, intent):
        pass

    def finish(self, record):
        self.records.append(record)

    async def wait_committed(self, record_id):
        await trio.sleep(self.settle_s)


@pytest.fixture
def answer(make_relay):
    def make(*lists, kept=None):
        h = make_relay(CONFIG)
        accounting, catalog = attrs.evolve(h.relay.accounting, records=kept or Kept()), h.relay.planner.current.catalog
        model, provider = catalog.by_modality["tts"]["sim/tone"], catalog.provider("sim")
        meter = Meter(accounting, Caller(request_id="r1"), "tts", model.id, stream=True)
        attempt = meter.begin_attempt(model, trio.current_time())
        meter.answered_by(attempt)
        call = PreparedCall(model, provider, None, None, None)
        request = SpeakRequest(model="m", text="12345", format=PCM_24K)
        remaining = list(lists)

        opened = OpenAttempt(call, attempt, Stream(remaining), remaining.pop(0), Scope())
        return Response(meter, opened, SpeakCounter(request, PCM_24K), catalog, idle_s=5.0)

    return make


@attrs.define
class Stream:
    remaining: list

    async def receive(self):
        return self.remaining.pop(0)


class Scope(AttemptScope):
    def __init__(self):
        self.is_waiting = False

    async def receive(self, receive, idle_s):
        self.is_waiting = True
        events = await receive()
        self.is_waiting = False
        return events


AUDIO = [AudioChunk(data=bytes(4_800))]


@pytest.mark.parametrize(
    ("told", "cost_nusd"),
    [
        (None, 50_000),
        (Usage(characters=7, source="vendor"), 70_000),
        (Usage(source="vendor"), 50_000),
        (Usage(input_tokens=3, output_tokens=4, source="vendor"), 50_000),
    ],
    ids=["nothing", "characters", "zeros", "tokens, and the price is for characters"],
)
async def test_what_the_vendor_cannot_be_billed_by_is_billed_by_our_count(answer, told, cost_nusd):
    one = answer(AUDIO, [SpeakEnd(usage=told)])
    assert await one.receive() == AUDIO
    assert (one.record, one.done) == (None, False)
    await one.receive()
    assert one.done
    assert one.record.cost_nusd == cost_nusd
    assert one.record.usage == (told or Usage(characters=5, audio_seconds=0.1))


@pytest.mark.parametrize(
    ("commits_first", "settle_s", "waited_s"), [(False, 9.0, 0.0), (True, 0.3, 0.3), (True, 9.0, 1.0)]
)
async def test_the_last_event_waits_for_the_commit_a_moment(answer, commits_first, settle_s, waited_s, autojump_clock):
    one = answer([*AUDIO, SpeakEnd()], kept=Kept(settle_s, commits_first))
    began = trio.current_time()
    await one.receive()
    assert trio.current_time() - began == pytest.approx(waited_s)
    assert one.done


async def test_closing_twice_makes_one_record(answer):
    one = answer(AUDIO)
    await one.receive()
    one.close(error=UpstreamCut(provider="sim"), cancelled=False)
    first = one.record
    one.close(error=None, cancelled=True)
    assert one.record is first
    assert (first.status, first.error_code, first.cost_nusd) == ("error", "upstream_failed", 50_000)


async def test_attempts_before_it_that_may_be_charged_are_in_its_cost(answer):
    one = answer(AUDIO, [SpeakEnd()])
    slow = one.meter.begin_attempt(one.call.model, trio.current_time())
    slow.called, slow.estimate = True, Usage(characters=3)
    while not one.done:
        await one.receive()
    assert (one.record.status, one.record.cost_nusd) == ("success", 50_000 + 30_000)
    assert (one.record.wasted_units, one.record.wasted_nusd) == (3, 30_000)


async def test_the_record_of_a_spoken_answer_waits_until_the_speech_is_over(answer, autojump_clock):
    one = answer(AUDIO, [SpeakEnd()])
    spoken = 0.2
    one.spoken_share = lambda: spoken
    while not one.done:
        await one.receive()
    assert (one.awaits_close, one.record) == (True, None)
    await trio.sleep(7)
    one.close(error=None, cancelled=False)
    assert (one.awaits_close, one.record.status, one.record.total_latency_ms) == (False, "success", 0.0)


@pytest.mark.parametrize(("waits", "heard_s"), [(True, 0.1), (False, 0.0)])
async def test_what_was_being_sent_has_not_been_heard(answer, waits, heard_s, autojump_clock):
    """Cut while the caller's side is at work, the last piece is not counted; cut while the upstream is waited for, it is."""
    one = answer(AUDIO)
    await one.receive()
    if waits:
        with trio.move_on_after(3):
            one._reads_from = SimpleNamespace(receive=trio.sleep_forever)
            await one.receive()
    one.close(error=None, cancelled=True)
    heard = int(heard_s * 15)
    assert (one.record.wasted_units, one.record.wasted_nusd) == (5 - heard, (5 - heard) * 10_000)
