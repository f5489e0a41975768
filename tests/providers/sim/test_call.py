"""The options at work, on every kind of call; time is virtual."""

import attrs
import pytest
import trio

from gw.errors import (
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.providers.sim import SPEC, fsk
from gw.types.audio import PCM_16K
from tests.providers.sim.engine import (
    Recording,
    account,
    chat,
    chat_request,
    listen,
    read,
    speak,
    speak_live,
    transcribe,
)


async def live_stt(account_):
    async with listen(account_) as session:
        await session.send_audio(b"".join(fsk.encode("a b", 16_000)))
        await session.finish()
        return await read(session)


async def live_tts(account_):
    async with speak_live(PCM_16K, account_) as session:
        await session.send_text("a b")
        await session.finish()
        return await read(session)


CALLS = {
    "chat": ("echo", lambda a: chat(a, "a b c")),
    "transcribe": ("tone", lambda a: transcribe(Recording(b"noise"), a)),
    "speak": ("tone", lambda a: speak("a b", PCM_16K, a)),
    "listen": ("tone", live_stt),
    "speak_live": ("tone", live_tts),
}


@pytest.fixture(params=CALLS)
def call(request):
    """A whole call with these options."""
    model, make = CALLS[request.param]
    return lambda **options: make(account(model, **options))


@pytest.mark.parametrize(
    ("fail_with", "error", "facts"),
    [
        (503, ProviderFailed, {"upstream_status": 503}),
        (500, ProviderFailed, {"upstream_status": 500}),
        (402, ProviderFailed, {"upstream_status": 402}),
        (429, RateLimitError, {"limit_source": "upstream", "retry_after_s": 7.0}),
        (401, ProviderRejected, {"upstream_status": 401, "fault": "candidate"}),
        (400, ProviderRejected, {"upstream_status": 400, "fault": "caller"}),
        ("reset", UpstreamCut, {}),
        ("malformed", UpstreamProtocolError, {}),
        ("refused", ProviderUnreachable, {}),
    ],
)
async def test_faults(call, fail_with, error, facts):
    with pytest.raises(error) as caught:
        await call(fail_rate=1, fail_with=fail_with, retry_after_s=7)
    assert caught.value.provider == "sim"
    assert {name: getattr(caught.value, name) for name in facts} == facts


async def test_slow_never_answers(call, autojump_clock):
    with trio.move_on_after(3_600) as scope:
        await call(fail_rate=1, fail_with="slow")
    assert scope.cancelled_caught


@pytest.mark.parametrize("name", [name for name in CALLS if name != "chat"])  # a language model refuses in its answer
async def test_refusal(name):
    model, make = CALLS[name]
    with pytest.raises(ProviderRefused):
        await make(account(model, refuse=True))


async def test_cut_at_once(call):
    with pytest.raises(UpstreamCut):
        await call(cut_after=0)


async def test_latency_comes_before_the_first_event(call, autojump_clock):
    before = trio.current_time()
    await call(latency_ms=250)
    assert trio.current_time() - before == pytest.approx(0.25)


async def test_a_bad_option_rejects_the_call_naming_it(call):
    with pytest.raises(ProviderRejected, match="latency_ms must be a number"):
        await call(latency_ms="soon")


async def test_tokens_take_their_time(autojump_clock):
    before = trio.current_time()
    times = []
    async with SPEC.chat(chat_request("one two three"), account("echo", latency_ms=100, token_ms=20)) as stream:
        for _ in range(4):
            await stream.receive()
            times.append(trio.current_time() - before)
    assert times == pytest.approx([0.1, 0.12, 0.14, 0.16])


async def test_a_cut_in_the_middle_comes_after_so_many_pieces():
    async with SPEC.chat(chat_request("one two three"), account("echo", cut_after=2)) as stream:
        assert [(await stream.receive())[0].text for _ in range(2)] == ["one", " two"]
        with pytest.raises(UpstreamCut):
            await stream.receive()


async def outcomes(n, account_):
    matches = []
    for _ in range(n):
        try:
            await chat(account_)
            matches.append(True)
        except ProviderFailed as error:
            matches.append(error.upstream_status)
    return matches


async def test_flaky_fails_three_in_ten_and_first_of_all():
    assert await outcomes(11, account("flaky")) == [503, *[True] * 3, 503, *[True] * 2, 503, *[True] * 2, 503]


async def test_flaky_takes_another_rate():
    assert await outcomes(4, account("flaky", fail_rate=0.5)) == [503, True, 503, True]
    assert await outcomes(4, account("flaky", "other", fail_rate=0)) == [True] * 4


async def test_failures_are_counted_per_provider():
    one, two = account("flaky", "one"), account("flaky", "two")
    assert [await outcomes(1, each) for each in (one, two, one)] == [[503], [503], [True]]


async def test_other_models_do_not_disturb_the_sequence():
    flaky = account("flaky")
    assert await outcomes(1, flaky) == [503]
    await chat(attrs.evolve(flaky, model="echo"))
    assert await outcomes(4, flaky) == [True, True, True, 503]


async def test_rate_limit(autojump_clock):
    limited = account("echo", rate_limit=2)
    await chat(limited)
    await chat(limited)
    with pytest.raises(RateLimitError) as caught:
        await chat(limited)
    assert caught.value.limit_source == "upstream"
    assert caught.value.retry_after_s == pytest.approx(30)
    await chat(account("echo", "another", rate_limit=1))
    await trio.sleep(30)
    await chat(limited)


async def test_a_changed_rate_limit_counts_anew():
    before = account("echo", rate_limit=1)
    await chat(before)
    await chat(attrs.evolve(before, options={"rate_limit": 2}))


async def test_cancelling_leaves_nothing_behind(call, autojump_clock):
    tasks = trio.lowlevel.current_statistics().tasks_living
    with trio.move_on_after(0.05) as scope:
        await call(latency_ms=100)
    assert scope.cancelled_caught
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_a_session_that_breaks_takes_no_more():
    async with listen(account("tone", cut_after=0)) as session:
        await session.send_audio(b"".join(fsk.encode("a", 16_000)))
        with pytest.raises(UpstreamCut, match="simulated"):
            await session.receive()
        with pytest.raises(UpstreamCut, match="ended"):
            await session.send_audio(bytes(640))
