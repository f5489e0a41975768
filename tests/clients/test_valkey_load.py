"""Four processes on one budget and on one rate, under load from all sides, with a real server between them."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left

import pytest

from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fleet_processes import Caller, FleetProcesses
from tests.fakes.fork_server import fork_server
from tests.fakes.nightly import times
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

CALLERS = 8
BUDGET_NUSD = 20 * 10**9
COST_NUSD, ESTIMATE_NUSD = 12_000_000, 22_000_000
"""Of one request: 10 tokens in and 2 out; reserved for it are up to 35 in and 2 out."""
NOT_KNOWN = "is not known: "
"""In a refusal because the server, starved on a busy machine, has not answered, or not for so long that a gateway counts alone."""
PER_MINUTE = 600
PER_S = PER_MINUTE / 60
SECONDS = times(10, 300)
WITHIN_S = 240


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
            caller.join(WITHIN_S)
            assert not caller.is_alive()
        fleet.stop()
        records = [cost for status, cost, _ in fleet.records() if status == "success"]
    assert set(records) == {COST_NUSD}
    assert len(records) == vendor.calls
    refusals = sorted(refusal for caller in callers for refusal in caller.refusals if NOT_KNOWN not in refusal[2])
    first = refusals[0][0]
    before = bisect_left(vendor.times, first) * COST_NUSD  # a call that runs is paid for, too
    spent = vendor.calls * COST_NUSD
    print(f"{vendor.calls} calls; {before / BUDGET_NUSD:.3%} used at the first refusal, {spent / BUDGET_NUSD:.3%} in the end")
    assert before >= 0.99 * BUDGET_NUSD
    assert spent <= BUDGET_NUSD + ESTIMATE_NUSD


def let_time_pass(seconds: float) -> None:
    """Do nothing for so long, while callers call: a rate is a count in a time, and these processes have real clocks."""
    time.sleep(seconds)


def test_a_rate_is_kept_in_every_window(tmp_path, server):
    """For ten seconds after a full bucket, or for five minutes at night.

    A busy machine makes calls late, and they may come together then: a window that begins at any call has at most what a full bucket
    and its own seconds give. That each gateway has its part is tested on a virtual clock (tests/relay/test_leases.py).
    """
    done = threading.Event()
    with counting_upstream() as vendor, fork_server() as gateways:
        more = f"rate_limiting: {{openai: {{requests_per_minute: {PER_MINUTE}}}}}"
        fleet = FleetProcesses(tmp_path, gateways, vendor=vendor.base_url, port=server.port, more=more)
        callers = [Caller(fleet.members, n % 4, done) for n in range(CALLERS)]
        for caller in callers:
            caller.start()
        vendor.wait_calls(PER_MINUTE + 20, WITHIN_S)  # the bucket is empty, and for two seconds calls came at the rate
        began = time.monotonic()
        let_time_pass(SECONDS)
        took_s = time.monotonic() - began
        done.set()
        for caller in callers:
            caller.join()
        fleet.stop()
    came = sorted(vendor.times)
    in_time = bisect_left(came, began + took_s) - bisect_left(came, began)
    excess = max(n - first - PER_S * (at - came[first]) for first in range(len(came)) for n, at in enumerate(came[first:], first + 1))
    by_member = [sum(at > began for c in callers[n::4] for at, _ in c.answered) for n in range(4)]
    print(f"{in_time} calls in {took_s:.1f} s; at most {excess:.1f} at once of {PER_MINUTE}; by gateway: {by_member}")
    assert excess <= PER_MINUTE + PER_S + CALLERS  # calls of the coming second are granted ahead; each caller has one under way
    assert in_time >= PER_S * took_s / 2
    assert min(by_member) > 0
