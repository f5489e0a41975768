"""The relay over the real `sim` provider on the virtual clock: every way a request can end leaves exactly one right record."""

from __future__ import annotations

import sys

import msgspec
import pytest
import trio
import trio.testing

from gw.errors import (
    AllCandidatesFailed,
    BudgetExceededError,
    BudgetReserved,
    PluginMissing,
    ProviderFailed,
    RateLimitError,
    Stopping,
    StoreUnavailable,
    UnknownModelError,
    UnsupportedSetting,
    UpstreamCut,
    UpstreamSlow,
)
from gw.relay.meter import cost_of, hedged_nusd
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.ids import Caller
from gw.types.llm import Delta
from gw.types.tts import AudioChunk, SpeakRequest
from gw.wire.openai_chat import parse_request

CHAIN = """
providers:
  bad: {{type: sim, {knobs}}}
  good: {{type: sim}}
models:
  llm: [bad/echo, good/echo]
  tts: [bad/tone, good/tone]
fallbacks:
  llm: [bad/echo, good/echo]
  tts: [bad/tone, good/tone]
routing: {{first_event_s: {{llm: 2, tts: 2}}, whole_answer_s: 2, idle_s: 5}}
projects:
  small: {{daily_budget: 0.0001, budget_action: block}}
  warned: {{daily_budget: 0.0001, budget_action: warn}}
"""


def chat(model: str = "bad/echo", text: str = "hello there", stream: bool = True):
    flag = "true" if stream else "false"
    return parse_request(
        b'{"model":"%s","stream":%s,"messages":[{"role":"user","content":"%s"}]}'
        % (model.encode(), flag.encode(), text.encode())
    )


async def said(relay, request, caller=None) -> str:
    text = ""
    async with relay.chat(request, caller or Caller(request_id="r1")) as answer:
        while not answer.done:
            text += "".join(e.text for e in await answer.receive() if isinstance(e, Delta))
    return text


async def keep_deadlines(h, nursery):
    """Run the task that hedging needs."""
    nursery.start_soon(h.relay.in_flight.keeper.run)
    await trio.testing.wait_all_tasks_blocked()


async def test_one_good_answer(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 100"))
    assert await said(h.relay, chat()) == "hello there"
    record = h.sink.record
    assert (record.id, record.status, record.model_id, record.fallback_from) == ("r1", "success", "bad/echo", None)
    assert record.ttfb_ms == pytest.approx(100, abs=1)
    assert record.usage.source == "vendor"
    assert record.cost_nusd == record.usage.input_tokens * 100 + record.usage.output_tokens * 400
    assert h.ledger.spent("default") == record.cost_nusd
    assert h.ledger.reserved("default") == 0
    assert [i.model_id for i in h.sink.intents] == ["bad/echo"]
    assert h.relay.in_flight.requests == 0


@pytest.mark.parametrize(
    ("knobs", "outcome"),
    [
        ("fail_rate: 1, fail_with: 429", "rate_limited"),
        ("fail_rate: 1, fail_with: 429, retry_after_s: 7", "rate_limited"),
        ("fail_rate: 1, fail_with: 500", "failed"),
        ("fail_rate: 1, fail_with: 503", "failed"),
        ("fail_rate: 1, fail_with: refused", "unreachable"),
        ("fail_rate: 1, fail_with: slow", "too_slow"),
        ("fail_rate: 1, fail_with: malformed", "malformed"),
        ("fail_rate: 1, fail_with: reset", "cut"),
        ("refuse: true", "refused"),
        ("latency_ms: 60000", "too_slow"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_every_failure_before_content_moves_on(make_relay, autojump_clock, knobs, outcome, stream):
    h = make_relay(CHAIN.format(knobs=knobs))
    assert await said(h.relay, chat(stream=stream)) == "hello there"
    record = h.sink.record
    assert (record.status, record.model_id, record.provider, record.fallback_from) == (
        "fallback",
        "good/echo",
        "good",
        "bad/echo",
    )
    assert [a.outcome for a in record.attempts] == [outcome, "ok"]
    assert record.attempts[1].started_ms >= record.attempts[0].started_ms + record.attempts[0].duration_ms - 0.01
    assert [(i.attempt, i.model_id) for i in h.sink.intents] == [(0, "bad/echo"), (1, "good/echo")]


async def test_fallback_off_stops_after_the_model_asked_for(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="fail_rate: 1, fail_with: 503"))
    with pytest.raises(ProviderFailed):
        await said(h.relay, chat(), Caller(request_id="r1", fallback=False))
    assert (h.sink.record.status, h.sink.record.error_code, h.sink.record.cost_nusd) == ("error", "upstream_failed", 0)


async def test_all_failed_is_one_error_and_one_record(make_relay, autojump_clock):
    h = make_relay(
        CHAIN.format(knobs="fail_rate: 1, fail_with: 503").replace(
            "good: {type: sim}", "good: {type: sim, fail_rate: 1, fail_with: 500}"
        )
    )
    with pytest.raises(AllCandidatesFailed) as caught:
        await said(h.relay, chat())
    assert caught.value.status == 502
    assert [a.outcome for a in h.sink.record.attempts] == ["failed", "failed"]
    assert h.sink.record.status == "error"


@pytest.mark.parametrize("hedge", ["", ", hedge: 300"])
async def test_after_content_there_is_no_switch(make_relay, nursery, autojump_clock, hedge):
    h = make_relay(CHAIN.format(knobs="cut_after: 1").replace("idle_s: 5", "idle_s: 5" + hedge))
    await keep_deadlines(h, nursery)
    with pytest.raises(UpstreamCut):
        await said(h.relay, chat(text="one two three four five six"))
    record = h.sink.record
    assert (record.status, record.model_id) == ("error", "bad/echo")
    assert [attempt.outcome for attempt in record.attempts] == ["cut"]
    assert record.usage.source == "estimated"
    assert record.cost_nusd > 0


async def test_silence_in_the_middle_of_an_answer_is_an_error(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="token_ms: 60000"))
    with pytest.raises(UpstreamSlow):
        await said(h.relay, chat(text="one two three"))
    assert (h.sink.record.status, h.sink.record.error_code) == ("error", "upstream_too_slow")


async def test_the_caller_leaves_in_mid_stream(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="token_ms: 1000"))
    with trio.move_on_after(2.5) as scope:
        await said(h.relay, chat(text="one two three four five six seven"))
    assert scope.cancelled_caught
    record = h.sink.record
    assert record.status == "cancelled"
    assert 0 < record.usage.output_tokens < 7
    assert record.cost_nusd > 0
    assert h.ledger.reserved("default") == 0
    assert h.relay.in_flight.requests == 0


async def test_the_caller_leaves_before_any_content(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1500"))
    with trio.move_on_after(1):
        await said(h.relay, chat())
    record = h.sink.record
    assert record.status == "cancelled"
    assert [a.outcome for a in record.attempts] == ["cancelled"]
    assert (record.usage.source, record.usage.output_tokens) == ("estimated", 0)  # the vendor has read the prompt
    assert record.cost_nusd == record.usage.input_tokens * 100 > 0


@pytest.mark.parametrize("leaves_s", [0.1, 0.5])
async def test_a_caller_who_leaves_during_a_race_is_cancelled(make_relay, nursery, autojump_clock, leaves_s):
    text = CHAIN.format(knobs="latency_ms: 1900").replace("idle_s: 5", "idle_s: 5, hedge: 300")
    h = make_relay(text.replace("good: {type: sim}", "good: {type: sim, latency_ms: 1000}"))
    await keep_deadlines(h, nursery)
    with trio.move_on_after(leaves_s):
        await said(h.relay, chat())
    assert (h.sink.record.status, h.sink.record.error_code) == ("cancelled", None)


@pytest.mark.parametrize("hedge", ["", ", hedge: 300"])
@pytest.mark.parametrize("after_s", [0.5, 2.5])
async def test_the_end_of_a_drain_is_an_error_not_the_caller_leaving(
    make_relay, nursery, autojump_clock, hedge, after_s
):
    h = make_relay(
        CHAIN.format(knobs="latency_ms: 1000, token_ms: 1000")
        .replace("idle_s: 5", "idle_s: 5" + hedge)
        .replace("good: {type: sim}", "good: {type: sim, latency_ms: 1000, token_ms: 1000}")
    )

    await keep_deadlines(h, nursery)

    async def stop():
        await trio.sleep(after_s)
        h.relay.in_flight.stop()

    nursery.start_soon(stop)
    with pytest.raises(Stopping):
        await said(h.relay, chat(text="one two three four five six"))
    assert (h.sink.record.status, h.sink.record.error_code) == ("error", "shutting_down")
    assert not h.relay.in_flight.scopes


async def test_a_projects_own_key_has_troubles_of_its_own(make_relay, autojump_clock):
    text = CHAIN.format(knobs="fail_rate: 1, fail_with: 429, retry_after_s: 60")
    h = make_relay(text + "  own: {providers: {bad: sk-0123456789abcdef}}\n")
    for _ in range(2):
        await said(h.relay, chat(), Caller(project="own"))
    assert h.sink.records[1].attempts[0].outcome == "rate_limited"
    assert len(h.sink.intents) == 3  # the second time the first candidate was not called
    await said(h.relay, chat(), Caller(project="default"))
    assert len(h.sink.intents) == 5  # the shared key was


async def test_a_generous_max_tokens_does_not_lock_the_project_out(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1000").replace("daily_budget: 0.0001", "daily_budget: 1"))
    big = parse_request(b'{"model":"bad/echo","max_tokens":100000000,"messages":[{"role":"user","content":"hi"}]}')
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(said, h.relay, big, Caller(project="small"))
    assert [r.status for r in h.sink.records] == ["success"] * 3


async def test_a_defect_is_an_error_not_a_cancellation(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1"))
    with pytest.raises(ZeroDivisionError):
        async with h.relay.chat(chat(), Caller(request_id="r1")):
            1 / 0  # noqa: B018
    assert (h.sink.record.status, h.sink.record.error_code) == ("error", "internal_error")


async def test_unknown_model_lists_what_there_is(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1"))
    with pytest.raises(UnknownModelError, match="bad/echo"):
        await said(h.relay, chat("bad/nothing"))
    assert h.sink.records == []


async def test_rate_limiting_moves_on_and_refuses_when_nothing_is_left(make_relay, autojump_clock):
    h = make_relay(
        CHAIN.format(knobs="latency_ms: 1")
        + "rate_limiting: {bad: {requests_per_minute: 1}, good: {requests_per_minute: 1}}\n"
    )
    for _ in range(2):
        await said(h.relay, chat())
    assert [r.model_id for r in h.sink.records] == ["bad/echo", "good/echo"]
    with pytest.raises(AllCandidatesFailed) as caught:
        await said(h.relay, chat())
    assert caught.value.status == 429
    assert caught.value.retry_after_s == pytest.approx(60, abs=1)
    assert len(h.sink.intents) == 2  # nobody was called a third time
    with pytest.raises(RateLimitError):
        await said(h.relay, chat(), Caller(fallback=False))
    await trio.sleep(60)
    await said(h.relay, chat())


async def test_a_spent_budget_blocks_before_any_upstream_call_and_midnight_opens_it(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1"), spent={"small": 100_000})
    with pytest.raises(BudgetExceededError) as caught:
        await said(h.relay, chat(), Caller(request_id="r1", project="small"))
    assert (caught.value.project, caught.value.daily_budget, caught.value.status) == ("small", 0.0001, 402)
    assert h.sink.intents == []
    assert (h.sink.record.status, h.sink.record.error_code, h.sink.record.attempts) == ("error", "budget_exceeded", ())
    h.clock.ahead_s = 43_200
    await said(h.relay, chat(), Caller(project="small"))
    assert h.sink.records[-1].status == "success"


async def test_warn_only_warns(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1"), spent={"warned": 200_000})
    await said(h.relay, chat(), Caller(project="warned"))
    assert h.sink.record.status == "success"


async def test_a_burst_cannot_overshoot_by_more_than_its_reservations(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1000"))
    outcomes: list[str] = []

    async def one():
        try:
            await said(h.relay, chat(), Caller(project="small"))
            outcomes.append("ok")
        except (BudgetExceededError, BudgetReserved):
            outcomes.append("blocked")

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(one)
    reservation = max(i.estimate_nusd for i in h.sink.intents)
    assert outcomes.count("blocked") >= 190
    assert outcomes.count("ok") >= 1
    assert sum(i.estimate_nusd for i in h.sink.intents) < 100_000 + reservation
    assert h.ledger.spent("small") <= 100_000 + reservation


async def test_a_blocking_budget_is_not_served_when_usage_cannot_be_kept(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1"))
    h.sink.accepting = False
    with pytest.raises(StoreUnavailable):
        await said(h.relay, chat(), Caller(project="small"))
    await said(h.relay, chat(), Caller(project="default"))


async def test_hedging_answers_from_the_quicker_one_and_leaves_one_record(make_relay, nursery, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 1900").replace("idle_s: 5", "idle_s: 5, hedge: 300"))
    await keep_deadlines(h, nursery)
    assert await said(h.relay, chat()) == "hello there"
    record = h.sink.record
    assert record.model_id == "good/echo"
    assert record.total_latency_ms < 500
    assert {a.outcome for a in record.attempts} == {"ok", "cancelled"}


async def test_speech_passes_on_the_first_audio_before_the_last_is_made(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="token_ms: 40"))
    arrivals = []
    async with h.relay.speak(SpeakRequest(model="bad/tone", text="hello", format=PCM_24K), Caller()) as answer:
        while not answer.done:
            if any(isinstance(e, AudioChunk) for e in await answer.receive()):
                arrivals.append(trio.current_time())
    assert arrivals[0] < arrivals[-1] - 0.3
    record = h.sink.record
    assert record.usage.characters == 5
    assert record.usage.audio_seconds > 0.2
    assert record.cost_nusd == 5 * 15_000


async def test_a_whole_answer_may_take_longer_than_a_first_event(make_relay, autojump_clock):
    h = make_relay(CHAIN.format(knobs="latency_ms: 3000").replace("whole_answer_s: 2", "whole_answer_s: 10"))
    await said(h.relay, chat(stream=False))
    await said(h.relay, chat(stream=True))
    assert [r.model_id for r in h.sink.records] == ["bad/echo", "good/echo"]


ENGINES = """
providers:
  whisper: {model_path: nowhere}
  piper: {model_path: nowhere.onnx}
  sim: {}
models:
  tts: [piper/en_US-lessac-medium, sim/tone]
fallbacks:
  tts: [piper/en_US-lessac-medium, sim/tone]
"""


@pytest.mark.parametrize("alone", [False, True])
async def test_an_engine_that_is_not_installed_is_passed_over(make_relay, autojump_clock, alone):
    h = make_relay(ENGINES)
    request = SpeakRequest(model="piper/en_US-lessac-medium", text="hello", format=PCM_24K)
    for _ in range(10):  # its breaker stays shut: nothing is wrong with a server
        if alone:
            with pytest.raises(PluginMissing) as caught:
                async with h.relay.speak(request, Caller(fallback=False)):
                    raise AssertionError
            assert (caught.value.status, caught.value.module, caught.value.extra) == (501, "piper", "piper")
        else:
            async with h.relay.speak(request, Caller()) as answer:
                assert answer.call.model.id == "sim/tone"
    first = h.sink.records[-1].attempts[0]
    assert (first.outcome, first.error_code) == ("not_configured", "plugin_missing")


async def test_speech_that_cannot_be_converted_is_requested_of_nobody(make_relay, autojump_clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    h = make_relay(ENGINES)
    request = SpeakRequest(model="piper/en_US-lessac-medium", text="hello", format=AudioFormat(encoding="opus"))
    with pytest.raises(UnsupportedSetting, match=r"piper .* with its extra 'audio'; sim .* with its extra 'audio'") as caught:
        async with h.relay.speak(request, Caller()):
            raise AssertionError
    assert caught.value.param == "response_format"
    assert [attempt.outcome for attempt in h.sink.records[-1].attempts] == ["missing_ability", "missing_ability"]


AUTO = CHAIN.replace("idle_s: 5", "idle_s: 5, hedge: auto")


def talk(h, project="default"):
    """Have the project speak once, so that it is one of voice."""
    h.relay.planner.voice_projects.add(project)


async def test_auto_hedges_after_the_candidates_own_p95(make_relay, nursery, autojump_clock):
    h = make_relay(AUTO.format(knobs="latency_ms: 600"), spent={"default": 10**9})
    await keep_deadlines(h, nursery)
    talk(h)
    h.relay.configure(msgspec.structs.replace(h.relay.planner.routing, hedge="off"), None)
    for _ in range(32):
        await said(h.relay, chat())
    assert all(len(record.attempts) == 1 for record in h.sink.records)  # that is how long this candidate takes
    slow = make_relay(AUTO.format(knobs="latency_ms: 1900"), spent={"default": 10**9})
    slow.relay.planner.response_times = h.relay.planner.response_times
    await keep_deadlines(slow, nursery)
    talk(slow)
    before = trio.current_time()
    assert await said(slow.relay, chat()) == "hello there"
    assert trio.current_time() - before == pytest.approx(0.6, abs=0.01)
    record = slow.sink.record
    assert (record.model_id, [attempt.outcome for attempt in record.attempts]) == ("good/echo", ["cancelled", "ok"])
    assert [attempt.hedges for attempt in record.attempts] == [False, True]
    view = slow.relay.planner._limits.view(trio.current_time())["bad"]
    assert view.breaker == "closed", "being overtaken is no failure"


async def test_auto_hedges_only_projects_of_voice(make_relay, nursery, autojump_clock):
    h = make_relay(AUTO.format(knobs="latency_ms: 1900"), spent={"default": 10**9})
    await keep_deadlines(h, nursery)
    await said(h.relay, chat())
    assert h.sink.record.model_id == "bad/echo"


async def test_auto_stays_within_its_share_of_the_days_spend(make_relay, nursery, autojump_clock):
    """One hedge of about 200,000 nano-USD is allowed by a spend of 4,000,000; what it has cost counts from then on."""
    h = make_relay(AUTO.format(knobs="latency_ms: 1900"), spent={"default": 0})
    await keep_deadlines(h, nursery)
    talk(h)
    await said(h.relay, chat())
    assert len(h.sink.records[-1].attempts) == 1  # nothing was spent today
    request = chat()
    model = h.relay.planner.current.catalog.models["llm:good/echo"]
    estimate = h.relay.chat(request, Caller()).spec.estimate
    provider = h.relay.planner.current.catalog.provider("good")
    one = cost_of(h.relay.accounting.book, estimate, model, provider, 0).nusd
    assert one > 0
    h = make_relay(AUTO.format(knobs="latency_ms: 1900"), spent={"default": one * 20})
    await keep_deadlines(h, nursery)
    talk(h)
    for _ in range(4):
        await said(h.relay, chat())
        spent, hedged = h.relay.accounting.ledger.spent("default"), sum(map(hedged_nusd, h.sink.records))
        assert h.relay.planner.hedge_budget.spent_nusd("default") == hedged <= 0.05 * spent, "as a restart would load it"
    assert hedged < one, "less than estimated"
    assert [len(record.attempts) for record in h.sink.records] == [2, 1, 1, 1]
