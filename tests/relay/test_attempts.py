"""Fallback and hedging on the virtual clock, without providers: an attempt is any context manager."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from gw.errors import AllCandidatesFailed, ProviderFailed, ProviderRejected, StaleConnection, UpstreamSlow
from gw.registry.catalog import Model
from gw.relay.attempts import Ready, first_ready


@attrs.define
class Script:
    """What each model does, and what happened to it."""

    ready_after_s: dict[str, float] = attrs.field(factory=dict)
    failing: dict[str, Exception] = attrs.field(factory=dict)
    log: list[tuple[str, str, float]] = attrs.field(factory=list)

    @asynccontextmanager
    async def attempt(self, model: Model):
        self.log.append((model.id, "open", trio.current_time()))
        try:
            await trio.sleep(self.ready_after_s.get(model.id, 1))
            if model.id in self.failing:
                raise self.failing[model.id]
            yield Ready(call=model.id, mark=None, stream=None, events=[])
        finally:
            self.log.append((model.id, "closed", trio.current_time()))

    def opened(self) -> list[str]:
        return [name for name, what, _ in self.log if what == "open"]

    def still_open(self) -> set[str]:
        return set(self.opened()) - {name for name, what, _ in self.log if what == "closed"}


def models(*names: str) -> list[Model]:
    return [
        Model(id=name, modality="llm", provider=name.partition("/")[0], name=name.partition("/")[2]) for name in names
    ]


def failed(provider: str) -> ProviderFailed:
    return ProviderFailed(provider=provider, upstream_status=503)


async def test_first_candidate_answers_and_the_others_are_never_called(autojump_clock):
    script = Script()
    async with first_ready(models("a/x", "b/x"), script.attempt) as ready:
        assert ready.call == "a/x"
        assert script.still_open() == {"a/x"}
    assert script.opened() == ["a/x"]
    assert not script.still_open()


async def test_a_retryable_failure_moves_on(autojump_clock):
    script = Script(failing={"a/x": failed("a"), "b/x": UpstreamSlow(provider="b")})
    async with first_ready(models("a/x", "b/x", "c/x"), script.attempt) as ready:
        assert ready.call == "c/x"
    assert script.opened() == ["a/x", "b/x", "c/x"]


async def test_the_callers_fault_is_raised_at_once(autojump_clock):
    script = Script(failing={"a/x": ProviderRejected(provider="a", upstream_status=400)})
    with pytest.raises(ProviderRejected):
        async with first_ready(models("a/x", "b/x"), script.attempt):
            raise AssertionError("nothing was ready")
    assert script.opened() == ["a/x"]


@pytest.mark.parametrize("hedge_after_s", [math.inf, 0.5])
async def test_all_failed_names_every_failure_in_order(autojump_clock, hedge_after_s):
    script = Script(failing={"a/x": failed("a"), "b/x": failed("b")})
    with pytest.raises(AllCandidatesFailed) as caught:
        async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=hedge_after_s):
            raise AssertionError("nothing was ready")
    assert [f.model_id for f in caught.value.failures] == ["a/x", "b/x"]
    assert caught.value.status == 502


async def test_the_only_candidates_own_failure_is_raised(autojump_clock):
    script = Script(failing={"a/x": failed("a")})
    with pytest.raises(ProviderFailed):
        async with first_ready(models("a/x"), script.attempt):
            raise AssertionError("nothing was ready")


@pytest.mark.parametrize("hedge_after_s", [math.inf, 0.5])
async def test_an_error_of_the_body_is_the_bodys(autojump_clock, hedge_after_s):
    script = Script()
    with pytest.raises(ProviderFailed, match="after content"):
        async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=hedge_after_s):
            raise ProviderFailed(provider="a", upstream_status=200, detail="after content")
    assert not script.still_open()


@pytest.mark.parametrize("hedge_after_s", [math.inf, 0.5])
async def test_cancellation_closes_what_is_open(autojump_clock, hedge_after_s):
    script = Script(ready_after_s={"a/x": 60, "b/x": 60})
    with trio.move_on_after(5) as scope:
        async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=hedge_after_s):
            raise AssertionError("nothing was ready")
    assert scope.cancelled_caught
    assert not script.still_open()


async def test_hedge_begins_late_and_the_first_ready_one_wins(autojump_clock):
    script = Script(ready_after_s={"a/x": 10, "b/x": 1})
    began = trio.current_time()
    async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=2) as ready:
        assert ready.call == "b/x"
        assert trio.current_time() - began == pytest.approx(3)
    assert not script.still_open()


async def test_hedge_is_not_begun_when_the_first_is_quick(autojump_clock):
    script = Script(ready_after_s={"a/x": 1})
    async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=2) as ready:
        assert ready.call == "a/x"
    assert script.opened() == ["a/x"]


async def test_a_failure_lets_the_next_begin_before_the_hedge_delay(autojump_clock):
    script = Script(ready_after_s={"a/x": 0.1, "b/x": 0.1}, failing={"a/x": failed("a")})
    began = trio.current_time()
    async with first_ready(models("a/x", "b/x"), script.attempt, hedge_after_s=30) as ready:
        assert ready.call == "b/x"
    assert trio.current_time() - began == pytest.approx(0.2)


async def test_a_stale_connection_is_tried_once_more_as_an_attempt_of_its_own(autojump_clock):
    script = Script(failing={"a/x": StaleConnection(provider="a")})
    async with first_ready(models("a/x", "b/x"), script.attempt) as ready:
        assert ready.call == "b/x"
    assert script.opened() == ["a/x", "a/x", "b/x"]


async def test_two_ready_in_the_same_instant_one_is_held_and_the_other_closed_at_once(autojump_clock):
    script = Script(ready_after_s={"a/x": 3, "b/x": 1, "c/x": 60})
    async with first_ready(models("a/x", "b/x", "c/x"), script.attempt, hedge_after_s=2) as ready:
        await trio.sleep(1)
        assert script.still_open() == {ready.call}
    assert script.opened() == ["a/x", "b/x"]
    assert not script.still_open()


async def test_the_callers_fault_ends_a_race_as_one_error(autojump_clock):
    rejected = ProviderRejected(provider="a", upstream_status=400)
    script = Script(ready_after_s={"a/x": 3, "b/x": 1}, failing={"a/x": rejected, "b/x": rejected})
    with pytest.raises(ProviderRejected):
        async with first_ready(models("a/x", "b/x", "c/x"), script.attempt, hedge_after_s=2):
            raise AssertionError("nothing was ready")
    assert script.opened() == ["a/x", "b/x"]


async def test_a_hedged_answer_that_ends_well_lets_its_provider_leave_in_peace(autojump_clock):
    left: list[str] = []

    @asynccontextmanager
    async def attempt(model):
        await trio.sleep(1)
        yield Ready(call=model.id, mark=None, stream=None, events=[])
        left.append(model.id)

    async with first_ready(models("a/x", "b/x"), attempt, hedge_after_s=30):
        pass
    assert left == ["a/x"]


async def test_a_hedged_answer_that_breaks_off_is_told_to_its_attempt(autojump_clock):
    kept: list[Ready] = []

    @asynccontextmanager
    async def attempt(model):
        await trio.sleep(1)
        kept.append(Ready(call=model.id, mark=None, stream=None, events=[]))
        yield kept[-1]

    with pytest.raises(ProviderFailed):
        async with first_ready(models("a/x", "b/x"), attempt, hedge_after_s=30):
            raise failed("a")
    assert isinstance(kept[0].error, ProviderFailed)
