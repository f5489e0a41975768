"""Four processes on one budget and on one rate, under load from all sides, with a real server between them."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left

import pytest

from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fleet_processes import Caller, FleetProcesses
from tests.fakes.fork_server import fork_server
from tests.fakes.nightly import NIGHTLY, times
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

CALLERS = 8
BUDGET_NUSD = 20 * 10**9
COST_NUSD, ESTIMATE_NUSD = 12_000_000, 22_000_000
"""Of one request: 10 tokens in and 2 out; reserved for it are up to 35 in and 2 out."""
NOT_ANSWERED = "is not known: no answer within 50 ms"
"""End of a refusal by a server that is starved on a busy machine, which says nothing about the budget."""
PER_MINUTE = 600
WINDOW_S, WINDOWS = times(10, 60), times(1, 5)


@pytest.fixture
def server(tmp_path):
    running = ValkeyServer(tmp_path)
    yield running
    running.kill()


def test_a_budget_is_used_up_and_not_passed(tmp_path, server):
    done = threading.Event()
    with counting_upstream() as vendor, fork_server() as gateways:
        more = "projects: {default: {daily_budget: 20, budget_action: block}}"
        fleet = FleetProcesses(tmp_path, gateways, vendor=vendor.base_url, port=server.port, more=more, price=(400, 4000))
        callers = [Caller(fleet.members, n % 4, done, until=frozenset({402})) for n in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
            assert not caller.is_alive()
        fleet.stop()
        records = [cost for status, cost, _ in fleet.records() if status == "success"]
    assert set(records) == {COST_NUSD}
    assert len(records) == vendor.calls
    refusals = sorted(refusal for caller in callers for refusal in caller.refusals if not refusal[2].endswith(NOT_ANSWERED))
    first = refusals[0][0]
    before = bisect_left(vendor.times, first) * COST_NUSD  # a call that runs is paid for, too
    spent = vendor.calls * COST_NUSD
    print(f"{vendor.calls} calls; {before / BUDGET_NUSD:.3%} used at the first refusal, {spent / BUDGET_NUSD:.3%} in the end")
    assert before >= 0.99 * BUDGET_NUSD
    assert spent <= BUDGET_NUSD + ESTIMATE_NUSD


def let_time_pass(seconds: float) -> None:
    """Do nothing for so long, while callers call: a rate is a count in a time, and these processes have real clocks."""
    time.sleep(seconds)


def part_in_which_it_ran(callers: list[Caller], began: float, seconds: float) -> float:
    """Return the part of the time in which a gateway answered or refused a request at least every quarter second.

    Two callers have both within 75 ms, unless the machine gives the gateway, or them, nothing of its cores.
    """
    moments = [at for caller in callers for at in (*(at for at, _ in caller.answered), *(at for at, _, _ in caller.refusals))]
    return len({int((at - began) / 0.25) for at in moments if began <= at < began + seconds}) / (seconds / 0.25)


def test_a_rate_is_kept_in_every_window(tmp_path, server):
    """After a first minute, which begins with a full bucket: ten seconds, or five minutes at night."""
    done = threading.Event()
    with counting_upstream() as vendor, fork_server() as gateways:
        more = f"rate_limiting: {{openai: {{requests_per_minute: {PER_MINUTE}}}}}"
        fleet = FleetProcesses(tmp_path, gateways, vendor=vendor.base_url, port=server.port, more=more)
        callers = [Caller(fleet.members, n % 4, done) for n in range(CALLERS)]
        for caller in callers:
            caller.start()
        vendor.wait_calls(PER_MINUTE + 20)  # the bucket is empty, and for two seconds calls came at the rate
        began = time.monotonic()
        let_time_pass(WINDOW_S * WINDOWS)
        done.set()
        for caller in callers:
            caller.join()
        fleet.stop()
    starts = [began + n * WINDOW_S for n in range(WINDOWS)]
    counts = [bisect_left(vendor.times, at + WINDOW_S) - bisect_left(vendor.times, at) for at in starts]
    most = max(bisect_left(vendor.times, at + 60) - n for n, at in enumerate(vendor.times))
    by_member = [sum(at > began for c in callers[n::4] for at, _ in c.answered) for n in range(4)]
    ran = [part_in_which_it_ran(callers[n::4], began, WINDOW_S * WINDOWS) for n in range(4)]
    print(f"calls in windows of {WINDOW_S} s: {counts}; most in any minute: {most}; by gateway: {by_member}, which ran {ran} of the time")
    expected = PER_MINUTE * WINDOW_S / 60
    assert all(abs(count - expected) <= (0.02 if NIGHTLY else 0.04) * expected for count in counts)
    assert most <= 2 * PER_MINUTE
    paces = [calls / part for calls, part in zip(by_member, ran, strict=True)]
    assert min(paces) > 0.5 * max(paces)  # exactly, on a virtual clock: tests/relay/test_leases.py
