"""Hedging on the virtual clock, without providers: a call is any context manager."""

from __future__ import annotations

import math
from collections import deque
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from gw.errors import AllCandidatesFailed, ProviderFailed, ProviderRejected
from gw.registry.catalog import Model, Provider
from gw.relay.attempt import Attempt
from gw.relay.hedging import HedgedAttempts
from gw.relay.in_flight import InFlight
from gw.relay.prepared_call import PreparedCall


@attrs.define
class Script:
    """The least that attempts need of their request, gate and meter, and what each model does."""

    ready_after_s: dict[str, float] = attrs.field(factory=dict)
    failing: dict[str, Exception] = attrs.field(factory=dict)
    log: list[tuple[str, str, float]] = attrs.field(factory=list)
    left: list[tuple[str, Exception | None, bool]] = attrs.field(factory=list)
    attempts: list[Attempt] = attrs.field(factory=list)
    in_flight: InFlight = attrs.field(factory=InFlight)
    waited: list[tuple[str, float]] = attrs.field(factory=list)
    may_hedge: bool = True
    leaving_s: float = 0.0
    first_event_s = 100.0
    first_event = "content"
    started = 0.0
    pays_for_hedges = True
    racing: bool = False
    candidates: Any = None

    @property
    def meter(self):
        return self

    @property
    def accounting(self):
        return SimpleNamespace(monotonic=trio.current_time)

    def begin_attempt(self, model, now):
        self.attempts.append(Attempt(model, now))
        return self.attempts[-1]

    def calling(self, attempt, model):
        pass

    def prepare(self, model, now):
        provider = Provider(id=model.provider, type="sim", location="local")
        return PreparedCall(model, provider, None, Gate(self, model.id), lambda: self.call(model))

    def first_event_due(self, now):
        return now + self.first_event_s

    def lease_call(self, model, now):
        return None

    def fault_of_vendor(self, error):
        return error

    def note_speed(self, model, seconds):
        pass

    def note_wait(self, model, seconds):
        self.waited.append((model.id, seconds))

    async def first_content(self, stream, provider):
        name = f"{provider}/x"
        await trio.sleep(self.ready_after_s.get(name, 1))
        if name in self.failing:
            raise self.failing[name]
        return ["content"]

    @asynccontextmanager
    async def call(self, model):
        self.log.append((model.id, "open", trio.current_time()))
        try:
            yield model.id
        finally:
            self.log.append((model.id, "closed", trio.current_time()))

    def opened(self) -> list[str]:
        return [name for name, what, _ in self.log if what == "open"]

    def still_open(self) -> set[str]:
        return set(self.opened()) - {name for name, what, _ in self.log if what == "closed"}

    def hedged(self, *names: str, after_s: float = 2) -> HedgedAttempts:
        models = [Model(id=name, modality="llm", provider=name[0], name="x") for name in names]
        self.candidates = SimpleNamespace(models=tuple(models))
        waiting = deque([*models, None])
        return HedgedAttempts(self, iter(waiting.popleft, None), lambda model: after_s, lambda: self.may_hedge and len(waiting) > 1)


@attrs.frozen
class Gate:
    script: Script
    name: str

    def leave(self, now, error, *, answered, beside=0):
        self.script.left.append((self.name, error, answered))


@pytest.fixture
async def script(nursery):
    script = Script()
    nursery.start_soon(script.in_flight.keeper.run)
    script.in_flight.keeper.set_shortest(0.25)
    await trio.testing.wait_all_tasks_blocked()
    yield script
    assert not script.still_open()
    assert not script.in_flight.scopes
    assert not script.in_flight.keeper.deadlines
    await trio.testing.wait_all_tasks_blocked()
    assert not script.in_flight.keeper.nursery.child_tasks


def failed(provider: str) -> ProviderFailed:
    return ProviderFailed(provider=provider, upstream_status=503)


async def test_the_next_one_begins_late_and_the_first_ready_one_answers(script, autojump_clock):
    script.ready_after_s = {"a/x": 10, "b/x": 1}
    async with script.hedged("a/x", "b/x") as ready:
        assert ready.stream == "b/x"
        assert trio.current_time() == pytest.approx(3)
        assert script.still_open() == {"b/x"}
    assert script.left == [("a/x", None, False), ("b/x", None, True)]
    assert [attempt.error for attempt in script.attempts] == [None, None]
    assert script.waited == [("a/x", pytest.approx(3))]  # the one that was overtaken was waited for in vain


async def test_the_attempt_beside_a_slow_one_is_marked(script, autojump_clock):
    script.ready_after_s, script.failing = {"a/x": 10, "b/x": 1, "c/x": 1}, {"b/x": ProviderFailed(provider="b", upstream_status=500)}
    async with script.hedged("a/x", "b/x", "c/x"):
        pass
    assert [(attempt.model.id, attempt.hedges) for attempt in script.attempts] == [("a/x", False), ("b/x", True), ("c/x", True)]


async def test_no_task_is_started_for_an_answer_in_time(script, autojump_clock):
    async with script.hedged("a/x", "b/x") as ready:
        assert ready.stream == "a/x"
        assert not script.in_flight.keeper.nursery.child_tasks
    assert script.opened() == ["a/x"]


async def test_the_first_may_still_answer_before_the_one_beside_it(script, autojump_clock):
    script.ready_after_s = {"a/x": 3, "b/x": 60}
    async with script.hedged("a/x", "b/x") as ready:
        assert ready.stream == "a/x"
        await trio.sleep(1)
        assert script.still_open() == {"a/x"}
    assert script.opened() == ["a/x", "b/x"]
    assert script.left == [("b/x", None, False), ("a/x", None, True)]


async def test_a_failure_lets_the_next_begin_at_once(script, autojump_clock):
    script.ready_after_s, script.failing = {"a/x": 0.1, "b/x": 0.1}, {"a/x": failed("a")}
    async with script.hedged("a/x", "b/x", after_s=30) as ready:
        assert ready.stream == "b/x"
        assert trio.current_time() == pytest.approx(0.2)


async def test_a_failure_of_the_first_waits_for_the_one_beside_it(script, autojump_clock):
    script.ready_after_s, script.failing = {"a/x": 3, "b/x": 5}, {"a/x": failed("a")}
    async with script.hedged("a/x", "b/x") as ready:
        assert ready.stream == "b/x"
        assert trio.current_time() == pytest.approx(7)


async def test_a_failure_beside_lets_a_third_begin_there(script, autojump_clock):
    script.ready_after_s, script.failing = {"a/x": 60, "b/x": 1, "c/x": 1}, {"b/x": failed("b")}
    async with script.hedged("a/x", "b/x", "c/x") as ready:
        assert ready.stream == "c/x"
        assert trio.current_time() == pytest.approx(4)


@pytest.mark.parametrize("after_s", [0.5, 30])
async def test_all_failed_names_every_failure_in_order(script, autojump_clock, after_s):
    script.ready_after_s, script.failing = {"a/x": 3, "b/x": 1}, {"a/x": failed("a"), "b/x": failed("b")}
    with pytest.raises(AllCandidatesFailed) as caught:
        async with script.hedged("a/x", "b/x", after_s=after_s):
            raise AssertionError("nothing was ready")
    assert [failure.model_id for failure in caught.value.failures] == ["a/x", "b/x"]
    assert (caught.value.model, caught.value.status) == ("a/x", 503)


async def test_the_callers_fault_is_raised_at_once(script, autojump_clock):
    script.ready_after_s = {"a/x": 3, "b/x": 60}
    script.failing = {"a/x": ProviderRejected(provider="a", upstream_status=400)}
    with pytest.raises(ProviderRejected):
        async with script.hedged("a/x", "b/x", "c/x"):
            raise AssertionError("nothing was ready")
    assert trio.current_time() == pytest.approx(3)
    assert script.opened() == ["a/x", "b/x"]


async def test_a_hedge_that_may_not_be_paid_is_not_started(script, autojump_clock):
    script.ready_after_s, script.may_hedge = {"a/x": 10}, False
    async with script.hedged("a/x", "b/x") as ready:
        assert ready.stream == "a/x"
    assert script.opened() == ["a/x"]


@pytest.mark.parametrize("ready_s", [1, 10])  # before the hedge, and with the one beside it as the answer
async def test_an_error_of_the_body_is_the_attempts(script, autojump_clock, ready_s):
    script.ready_after_s = {"a/x": ready_s}
    fault = failed("late")
    with pytest.raises(ProviderFailed, match="late"):
        async with script.hedged("a/x", "b/x"):
            raise fault
    assert script.left[-1] == ("b/x" if ready_s == 10 else "a/x", fault, True)


@pytest.mark.parametrize("at_s", [1, 2.5, 5])  # alone, beside each other, and while it answers
async def test_cancellation_closes_what_is_open(script, autojump_clock, at_s):
    script.ready_after_s = {"a/x": 60, "b/x": 1}
    with trio.move_on_after(at_s) as scope:
        async with script.hedged("a/x", "b/x"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(at_s)


async def test_both_ready_in_the_same_instant(script, autojump_clock):
    script.ready_after_s = {"a/x": 3, "b/x": 1, "c/x": 60}
    async with script.hedged("a/x", "b/x", "c/x") as ready:
        await trio.sleep(1)
        assert script.still_open() == {ready.stream}
    assert script.opened() == ["a/x", "b/x"]


async def test_a_defect_beside_is_raised_in_the_request(script, autojump_clock):
    script.ready_after_s, script.failing = {"a/x": 10, "b/x": 1}, {"b/x": ZeroDivisionError()}
    with pytest.raises(ZeroDivisionError):
        async with script.hedged("a/x", "b/x"):
            raise AssertionError("nothing was ready")


async def test_nothing_is_started_when_the_gateway_stops(script, autojump_clock):
    script.ready_after_s = {"a/x": 10}
    script.in_flight.stopping = True
    async with script.hedged("a/x", "b/x", after_s=1):
        pass
    assert script.opened() == ["a/x"]


async def test_a_delay_without_end_never_hedges(script, autojump_clock):
    script.ready_after_s = {"a/x": 99}
    async with script.hedged("a/x", "b/x", after_s=math.inf):
        pass
    assert script.opened() == ["a/x"]
