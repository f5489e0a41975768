"""Fallback and hedging on the virtual clock, without providers: an attempt is any context manager."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, nullcontext

import attrs
import msgspec
import pytest
import trio
import trio.testing

from gw.errors import AllCandidatesFailed, ProviderFailed, ProviderRejected, StaleConnection, Stopping, UpstreamSlow
from gw.net.http1 import Pool
from gw.registry.catalog import Model, Provider
from gw.relay.attempt import Attempt
from gw.relay.attempts import OpenAttempt
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.prepared_call import PreparedCall
from gw.types.ids import Caller
from gw.wire.openai_chat import parse_request
from tests.fakes.net import FakeNet, ServerSide


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
            yield OpenAttempt(call=model.id, attempt=None, stream=None, events=[])
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


@asynccontextmanager
async def first_ready(candidates, open_attempt):
    """Hold the first ready candidate open, as a request does."""
    async with AsyncExitStack() as stack:
        yield await try_in_turn(candidates, lambda model: stack.enter_async_context(open_attempt(model)))


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


async def test_all_failed_names_every_failure_in_order(autojump_clock):
    script = Script(failing={"a/x": failed("a"), "b/x": failed("b")})
    with pytest.raises(AllCandidatesFailed) as caught:
        async with first_ready(models("a/x", "b/x"), script.attempt):
            raise AssertionError("nothing was ready")
    assert [f.model_id for f in caught.value.failures] == ["a/x", "b/x"]
    assert caught.value.status == 503  # as both of them


async def test_the_only_candidates_own_failure_is_raised(autojump_clock):
    script = Script(failing={"a/x": failed("a")})
    with pytest.raises(ProviderFailed):
        async with first_ready(models("a/x"), script.attempt):
            raise AssertionError("nothing was ready")


async def test_an_error_of_the_body_is_the_bodys(autojump_clock):
    script = Script()
    with pytest.raises(ProviderFailed, match="after content"):
        async with first_ready(models("a/x", "b/x"), script.attempt):
            raise ProviderFailed(provider="a", upstream_status=200, detail="after content")
    assert not script.still_open()


async def test_cancellation_closes_what_is_open(autojump_clock):
    script = Script(ready_after_s={"a/x": 60, "b/x": 60})
    with trio.move_on_after(5) as scope:
        async with first_ready(models("a/x", "b/x"), script.attempt):
            raise AssertionError("nothing was ready")
    assert scope.cancelled_caught
    assert not script.still_open()


async def test_a_stale_connection_is_tried_once_more_as_an_attempt_of_its_own(autojump_clock):
    script = Script(failing={"a/x": StaleConnection(provider="a")})
    async with first_ready(models("a/x", "b/x"), script.attempt) as ready:
        assert ready.call == "b/x"
    assert script.opened() == ["a/x", "a/x", "b/x"]


async def test_a_failure_after_which_none_can_continue_is_raised_at_once():
    tried: list[str] = []

    async def attempt(model):
        tried.append(model.id)
        raise failed("a")

    with pytest.raises(ProviderFailed):
        await try_in_turn(models("a/x", "b/x"), attempt, lambda: False)
    assert tried == ["a/x"]


class Request:
    """The least that an attempt needs of its request, gate and meter."""

    first_event_s = 5.0
    first_event = "session"
    attempts = ()
    started = 0.0

    def __init__(self):
        self.meter = self
        self.in_flight = InFlight()
        self.left: list[tuple[object, bool]] = []

    def begin_attempt(self, model, now):
        return Attempt(model, now)

    def calling(self, attempt, model):
        pass

    def end_attempt(self, attempt, error, now):
        assert attempt.error is None
        attempt.error = error

    def prepare(self, model, now):
        return PreparedCall(model, Provider(id="a", type="sim", location="local"), None, self, nullcontext)

    async def first_content(self, stream, provider):
        return []

    def note_speed(self, model, seconds):
        pass

    def leave(self, now, error, *, answered, beside=0):
        self.left.append((error, answered))


HTTP = """
providers: {up: {type: openai, api_key: sk-0123456789abcdef, base_url: "http://up.example/v1"}}
models: {llm: [up/m]}
routing: {first_event_s: {llm: 2, stt: 90, tts: 90}, whole_answer_s: 3, idle_s: 60}
"""
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}'


@pytest.fixture
async def slow_relay(make_relay, nursery):
    """A relay whose upstream answers after `after_s`; its attempts stand under a keeper."""
    net = FakeNet(nursery)

    async def start(after_s: float):
        async def upstream(stream):
            server = ServerSide(stream)
            while await server.request() is not None:
                await trio.sleep(after_s)
                await server.respond(200, ANSWER)

        net.hosts["up.example", 80] = upstream
        h = make_relay(HTTP, pool=Pool(connect=net))
        nursery.start_soon(h.relay.in_flight.keeper.run)
        await trio.testing.wait_all_tasks_blocked()
        return h

    return start


SLOWLY = b'{"model":"up/m","stream":true,"messages":[{"role":"user","content":"hi"}]}'


async def ask(h) -> None:
    request = parse_request(b'{"model":"up/m","messages":[{"role":"user","content":"hi"}]}')
    async with h.relay.chat(request, Caller()) as answer:
        assert len(h.relay.in_flight.keeper.deadlines) == 1
        assert not h.relay.in_flight.scopes
        while not answer.done:
            await answer.receive()


async def test_a_kept_attempt_ends_when_its_time_is_over(slow_relay, autojump_clock):
    h = await slow_relay(after_s=10)
    for number in (1, 2):
        with pytest.raises(UpstreamSlow, match="no content within 3 s"):
            await ask(h)
        assert trio.current_time() == 3 * number
    assert [record.error_code for record in h.sink.records] == ["upstream_too_slow"] * 2
    assert not h.relay.in_flight.keeper.deadlines


@pytest.fixture
async def dripping_relay(make_relay, nursery):
    """A relay whose upstream says something at 0, 30 and 60 s and then nothing; its attempts stand under a keeper."""

    async def upstream(stream):
        server = ServerSide(stream)
        await server.request()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n")
        for _ in range(3):
            await stream.send_all(b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n')
            await trio.sleep(30)
        await trio.sleep_forever()

    net = FakeNet(nursery)
    net.hosts["up.example", 80] = upstream
    h = make_relay(HTTP, pool=Pool(connect=net))
    nursery.start_soon(h.relay.in_flight.keeper.run)
    await trio.testing.wait_all_tasks_blocked()
    return h


@pytest.mark.parametrize("stops", [False, True])
async def test_a_kept_answer_that_falls_silent_is_given_up(dripping_relay, nursery, autojump_clock, stops):
    h = dripping_relay
    if stops:
        nursery.start_soon(_stop_after, h.relay.in_flight, 45)
    with pytest.raises(Stopping if stops else UpstreamSlow, match="stopping" if stops else "silent for 60 s"):
        await ask_slowly(h)
    assert trio.current_time() == (45 if stops else 61 + 60)
    assert h.sink.record.error_code == ("shutting_down" if stops else "upstream_too_slow")
    assert not h.relay.in_flight.keeper.deadlines


async def ask_slowly(h) -> None:
    async with h.relay.chat(parse_request(SLOWLY), Caller()) as answer:
        while not answer.done:
            await answer.receive()
            await trio.sleep(1)  # a slow caller takes no part of the upstream's time


async def _stop_after(running, seconds):
    await trio.sleep(seconds)
    running.stop()


async def test_a_kept_attempt_that_is_ready_has_no_deadline(slow_relay, autojump_clock):
    h = await slow_relay(after_s=2.5)
    await ask(h)
    await trio.sleep(10)
    await ask(h)
    assert [record.status for record in h.sink.records] == ["success"] * 2


async def test_kept_attempts_are_told_when_the_gateway_stops(slow_relay, autojump_clock):
    h = await slow_relay(after_s=2.5)

    async def stop():
        await trio.sleep(1)
        h.relay.in_flight.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        with pytest.raises(Stopping):
            await ask(h)
    assert trio.current_time() == 1
    assert h.sink.record.error_code == "shutting_down"


async def test_a_slow_caller_is_cut_when_the_gateway_stops(dripping_relay, autojump_clock):
    """The upstream is aborted, and the write that waits is given up a moment later by the host."""
    h = dripping_relay
    with trio.move_on_after(5):
        async with h.relay.chat(parse_request(SLOWLY), Caller()) as answer:
            await answer.receive()
            h.relay.in_flight.stop()
            await trio.sleep_forever()
    assert (h.sink.record.status, h.sink.record.error_code) == ("error", "shutting_down")


async def test_a_caller_who_leaves_a_kept_attempt_is_no_failure(slow_relay, autojump_clock):
    h = await slow_relay(after_s=2.5)
    with trio.move_on_after(1):
        await ask(h)
    assert (h.sink.record.status, h.relay.in_flight.keeper.deadlines) == ("cancelled", {})


async def test_shorter_times_hold_from_the_next_request_on(slow_relay, autojump_clock):
    h = await slow_relay(after_s=10)
    await trio.sleep(0.5)
    h.relay.configure(msgspec.structs.replace(h.relay.planner.routing, whole_answer_s=0.25), None)
    with pytest.raises(UpstreamSlow):
        await ask(h)
    assert trio.current_time() == 0.75
