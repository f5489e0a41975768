"""Dialling the candidates of a live session: the next one beside a vendor whose handshake is late."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing

from gw.errors import GwError, UpstreamSlow
from gw.providers.sim import fsk
from gw.relay.listening import ListeningSession
from gw.relay.session_run import SessionRun
from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.stt import Final, ListenEnd, ListenRequest
from gw.types.usage import Usage
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  bad: {type: sim, %s}
  good: {type: sim, %s}
models: {stt: {bad/tone: {price: {unit: hour, usd: 36}}, good/tone: {price: {unit: hour, usd: 72}}}}
fallbacks: {stt: [bad/tone, good/tone]}
routing: {hedge: %s}
"""
NEVER = "fail_rate: 1, fail_with: slow"  # the handshake is never answered
SAID = "one two three"


async def listen(plane, model: str = "bad/tone") -> tuple[str, float]:
    """Speak at the speed of speech; return the text, and when the first provider was there."""
    await trio.testing.wait_all_tasks_blocked()  # the keeper of deadlines has started
    request = ListenRequest(model=model, format=PCM_16K)
    pcm = b"".join(fsk.encode(SAID, 16_000))
    async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
        began = trio.current_time()

        async def speak() -> None:
            for at in range(0, len(pcm), 1_280):
                await session.send_audio(pcm[at : at + 1_280])
                await trio.sleep(0.04)
            await session.finish()

        nursery.start_soon(speak)
        events = []
        while not session.done:
            events += await session.receive()
    attempt = next(a for a in plane.kept.record.attempts if a.outcome == "ok")
    assert session.meter.started == began
    return " ".join(e.text for e in events if isinstance(e, Final)), (attempt.started_ms) / 1000


@pytest.mark.parametrize(("hedge", "starts_s"), [("auto", 1.5), ("300", 0.3), ("off", 4.0)])
async def test_the_next_vendor_is_dialled_beside_one_that_is_late(tmp_path, autojump_clock, hedge, starts_s):
    async with open_plane(CONFIG % (NEVER, "latency_ms: 0", hedge), tmp_path) as plane:
        text, started_s = await listen(plane)
        assert text == SAID
        assert started_s == pytest.approx(starts_s, abs=0.26)
        record = plane.kept.record
        assert (record.status, record.model_id) == ("fallback", "good/tone")
        outcome = "too_slow" if hedge == "off" else "cancelled"  # being overtaken is no failure
        assert [attempt.outcome for attempt in record.attempts] == [outcome, "ok"]
        assert record.cost_nusd == record.attempts[1].cost_nusd > 0
        assert not plane.gateway.relay.in_flight.scopes


TWO = """
providers:
  one: {type: deepgram, base_url: "http://one.test", api_key: k}
  two: {type: deepgram, base_url: "http://two.test", api_key: k}
models: {stt: [one/nova-3, two/nova-3]}
fallbacks: {stt: [one/nova-3, two/nova-3]}
routing: {hedge: 300}
"""


async def test_nothing_is_billed_for_a_vendor_that_was_dialled_and_not_needed(tmp_path, autojump_clock):
    """The first vendor answers its handshake just after the second was dialled."""
    async with open_plane(TWO, tmp_path) as plane:
        serve = hosted(FakeDeepgram(api_key="k"))

        async def late(stream) -> None:
            await trio.sleep(0.7)
            await serve(stream)

        async def never(stream) -> None:
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass

        plane.net.hosts["one.test", 80], plane.net.hosts["two.test", 80] = late, never
        text, _ = await listen(plane, "one/nova-3")
        assert text == SAID
        record = plane.kept.record
        assert (record.status, record.model_id, record.wasted_nusd) == ("success", "one/nova-3", 0)
        assert [attempt.outcome for attempt in record.attempts] == ["ok", "cancelled"]
        assert record.cost_nusd == record.attempts[0].cost_nusd > 0
        assert record.attempts[1].cost_nusd in (None, 0)
        assert not plane.gateway.relay.in_flight.scopes


class _EndsAsItFails(ListeningSession):
    """The provider's end is delivered just after its failure was noted, before the task that reads it is cancelled."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.may_end = trio.Event()
        self.records: list[GwError | None] = []

    async def _use(self, attempt, session):
        attempt.live = True
        await self.may_end.wait()
        attempt.fail(UpstreamSlow(provider="bad", after_s=1.0, detail="did not end the session"))
        attempt.ended = True
        attempt.reported = Usage(audio_seconds=3.0, source="vendor")
        self._note_answered(attempt)
        if (pending := self._emit([ListenEnd(usage=attempt.reported)])) is not None:
            await pending
        await trio.sleep_forever()

    def _write_record(self, error, *, cancelled):
        self.records.append(error)
        super()._write_record(error, cancelled=cancelled)


async def test_a_session_that_fails_in_the_moment_of_its_end_ends_once(tmp_path, autojump_clock):
    """Its end is delivered and its record made: no other provider serves it again, and its budget is settled once."""
    config = CONFIG % ("latency_ms: 0", "latency_ms: 0", "off") + "projects: {default: {daily_budget: 10}}\n"
    async with open_plane(config, tmp_path) as plane:
        relay = plane.gateway.relay
        request = ListenRequest(model="bad/tone", format=PCM_16K)
        session = _EndsAsItFails(relay.planner, relay.in_flight, relay.turns, relay.answer_times, request)
        delivered: list[list[type]] = []
        async with SessionRun(session, Caller(), driven=False), trio.open_nursery() as nursery:
            nursery.start_soon(session.serve, lambda events: delivered.append([*map(type, events)]))
            await trio.testing.wait_all_tasks_blocked()
            session.may_end.set()
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
        assert delivered == [[ListenEnd]]
        assert session.records == [None]
        assert len(session.attempts) == 1
        (record,) = plane.kept.records
        assert [attempt.outcome for attempt in record.attempts] == ["ok"]
        assert relay.accounting.ledger.spent("default") == record.cost_nusd == 3 * 10_000_000


class _EndsWithTask(_EndsAsItFails):
    """Ends in the moment in which it starts a task."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.steps: list[str] = []

    async def _run(self):
        self.steps.append("begun")  # as a frame may be half written, whose rest must be awaited
        try:
            await trio.sleep_forever()
        finally:
            self.steps.append("ended")

    async def _use(self, attempt, session):
        attempt.ended = True
        attempt.reported = Usage(audio_seconds=1.0, source="vendor")
        self._note_answered(attempt)
        if (pending := self._emit([ListenEnd(usage=attempt.reported)])) is not None:
            await pending
        self.start_for(attempt, self._run)


async def test_a_task_of_an_attempt_that_has_ended_begins_and_ends_with_it(tmp_path, autojump_clock):
    config = CONFIG % ("latency_ms: 0", "latency_ms: 0", "off")
    async with open_plane(config, tmp_path) as plane:
        relay = plane.gateway.relay
        request = ListenRequest(model="bad/tone", format=PCM_16K)
        session = _EndsWithTask(relay.planner, relay.in_flight, relay.turns, relay.answer_times, request)
        async with SessionRun(session, Caller(), driven=False):
            await session.serve(lambda events: None)
            assert session.steps == ["begun", "ended"]
