"""Simulate a fleet that shares a budget and a rate limit, with the policy code of the gateway, on a virtual clock.

    python bench/fleet_sim.py [--processes 1000] [--seconds 120] [--per-second 2000] [--kind budget|rate|slots] [--seed 1]

Traffic is skewed (a tenth of the processes has half of it) and bursty (each process is five times as busy for a fifth of the time). Every
exchange with the bank takes 0.5 to 5 ms. A request that finds no room waits for the bank as in the gateway, 50 ms at most; for a slot, it
then waits in a queue of its process, 1 s at most.

Prints what was admitted beyond the limit, the share of requests that were refused although enough was free (neither used nor
reserved anywhere), the part left unused at the first refusal, and the exchanges of a process per second. Of a rate: the calls of each
minute, how evenly the processes had them, and the longest time that one of them had none.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import math
import random
from collections.abc import Callable

from gw.policy.lease import HEARTBEAT_S, Lease
from gw.policy.lease_account import LeaseAccounts

WAIT_S = 0.05
PLACE_S = 1.0
REQUEST_S = 0.5
BURST_S = 2.0
NUSD = 1_000_000
"""Mean cost of a request."""


class Clock:
    """Runs what is due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), action))

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()


class Fleet:
    """All processes, and what is true of the account, which none of them sees."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.clock, self.random = Clock(), random.Random(options.seed)
        self.kind, self.limit = options.kind, options.limit
        self.bank = LeaseAccounts(0.0)
        self.used = self.reserved = 0
        self.requests = self.refused = self.false_refusals = self.exchanges = 0
        self.most = 0
        self.unused_at_refusal: int | None = None
        self.admitted_at: list[float] = []
        self.calls: dict[str, list[float]] = {}
        self.numbers = itertools.count()
        share = 0.5 / max(1, options.processes // 10)
        rest = 0.5 / max(1, options.processes - options.processes // 10)
        self.processes = [
            Process(self, f"p{n}", options.per_second * (share if n < options.processes // 10 else rest)) for n in range(options.processes)
        ]

    def admit(self, need: int, process: str) -> None:
        self.requests += 1
        if self.kind == "rate":
            self.admitted_at.append(self.clock.now)
            self.calls.setdefault(process, []).append(self.clock.now)
        else:
            self.reserved += need
        self.most = max(self.most, self.used + self.reserved)

    def refuse(self, need: int) -> None:
        self.requests += 1
        self.refused += 1
        if self.kind == "rate":
            return
        left = self.limit - self.used - self.reserved
        if self.unused_at_refusal is None:
            self.unused_at_refusal = left
        self.false_refusals += left >= need


class Process:
    def __init__(self, fleet: Fleet, name: str, per_s: float) -> None:
        self.fleet, self.name, self.per_s = fleet, name, per_s
        self.lease = Lease("account", fleet.kind, fleet.limit, 0.0)
        self.number = 0
        self.busy = self.called = False
        self.waiting: list[tuple[int, float]] = []
        self.queue: dict[int, float] = {}  # number of a request → when it came
        self.exchanged_at = -math.inf
        self.wakes_at = math.inf
        self.phase = fleet.random.random() * BURST_S * 5
        fleet.clock.at(fleet.random.random() * HEARTBEAT_S, self.beat)
        self._next()

    def _next(self) -> None:
        clock, random = self.fleet.clock, self.fleet.random
        in_burst = (clock.now + self.phase) % (BURST_S * 5) < BURST_S
        rate = self.per_s * (5 if in_burst else 1) / 1.8
        clock.at(clock.now + random.expovariate(rate), self.request)

    def request(self) -> None:
        self._next()
        fleet = self.fleet
        need = int(NUSD * fleet.random.uniform(0.5, 1.5)) if fleet.kind == "budget" else 1
        self.decide(need, fleet.clock.now + WAIT_S)
        if self.lease.due(fleet.clock.now):
            self.exchange()

    def decide(self, need: int, until: float) -> None:
        fleet, lease = self.fleet, self.lease
        if fleet.clock.now < until and lease.must_wait(need, fleet.clock.now):
            lease.require(need)
            self.waiting.append((need, until))
            return
        if lease.room < need or self.queue:
            self.enqueue() if fleet.kind == "slots" else fleet.refuse(need)
            return
        self.admit(need)

    def admit(self, need: int) -> None:
        fleet, lease = self.fleet, self.lease
        fleet.admit(need, self.name)
        lease.reserve(need)
        if fleet.kind == "rate":
            lease.settle(1, 1)
        else:
            fleet.clock.at(fleet.clock.now + fleet.random.expovariate(1 / REQUEST_S), lambda: self.end(need))

    def enqueue(self) -> None:
        fleet, number = self.fleet, next(self.fleet.numbers)
        self.queue[number] = fleet.clock.now
        self.lease.waiting += 1

        def give_up() -> None:
            if self.queue.pop(number, None) is not None:
                self.lease.waiting -= 1
                fleet.refuse(1)

        fleet.clock.at(fleet.clock.now + PLACE_S, give_up)
        self.wake()

    def hand_over(self) -> None:
        while self.queue and self.lease.room > 0:
            del self.queue[next(iter(self.queue))]
            self.lease.waiting -= 1
            self.admit(1)
        self.wake()

    def wake(self) -> None:
        """Exchange when the lease is due, if nothing happens before."""
        at = self.lease.due_at(self.fleet.clock.now)
        if at < self.wakes_at:
            self.wakes_at = at

            def woken() -> None:
                self.wakes_at = math.inf
                if self.lease.due(self.fleet.clock.now):
                    self.exchange()

            self.fleet.clock.at(max(at, self.fleet.clock.now), woken)

    def end(self, need: int) -> None:
        fleet = self.fleet
        cost = need if fleet.kind == "budget" else 0
        self.lease.settle(need, cost)
        fleet.reserved -= need
        fleet.used += cost
        self.hand_over()

    def beat(self) -> None:
        if self.fleet.clock.now >= self.exchanged_at + HEARTBEAT_S:
            self.exchange()
        self.fleet.clock.at(self.exchanged_at + HEARTBEAT_S, self.beat)

    def exchange(self) -> None:
        if self.busy:
            self.called = True
            return
        fleet, lease = self.fleet, self.lease
        now = fleet.clock.now
        self.busy, self.called = True, False
        self.number += 1
        fleet.exchanges += 1
        self.exchanged_at = now
        number, waiting = self.number, self.waiting
        self.waiting = []
        ask = lease.ask(now)

        def at_bank() -> None:
            answer = fleet.bank.exchange(self.name, "r", number, [ask], fleet.clock.now)

            def back() -> None:
                lease.take(ask, answer.grants[0], answer.members, fleet.clock.now)
                self.busy = False
                self.hand_over()
                for need, until in waiting:
                    self.decide(need, until)
                if self.called and (self.waiting or lease.due(fleet.clock.now)):
                    self.exchange()

            fleet.clock.at(fleet.clock.now + fleet.random.uniform(0.00025, 0.0025), back)

        fleet.clock.at(now + fleet.random.uniform(0.00025, 0.0025), at_bank)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--per-second", type=float, default=2000, help="requests of all processes")
    parser.add_argument("--kind", choices=["budget", "rate", "slots"], default="budget")
    parser.add_argument("--limit", type=int, default=0, help="default: lasts for two thirds of the time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not options.limit:
        options.limit = {
            "budget": int(options.per_second * options.seconds * NUSD * 2 / 3), "rate": int(options.per_second * 60 / 2),
            "slots": int(options.per_second * REQUEST_S * 1.5),
        }[options.kind]  # fmt: skip
    fleet = Fleet(options)
    fleet.clock.run(options.seconds)
    per_process = fleet.exchanges / options.processes / options.seconds
    print(f"{fleet.requests} requests, {fleet.refused} refused, {per_process:.2f} exchanges a second and process")
    if fleet.kind == "rate":
        times = fleet.admitted_at
        for minute in range(int(options.seconds // 60)):
            count = sum(minute * 60 <= at < minute * 60 + 60 for at in times)
            print(f"minute {minute + 1}: {count} of {options.limit} ({count / options.limit:.1%})")
        most = max(bisect.bisect_left(times, at + 60) - n for n, at in enumerate(times))
        print(f"most in any minute: {most} ({most / options.limit:.2f} times the limit)")
        of_each = [[0.0, *fleet.calls.get(process.name, []), options.seconds] for process in fleet.processes]
        counts = [len(moments) - 2 for moments in of_each]
        longest = max(after - before for moments in of_each for before, after in itertools.pairwise(moments))
        print(f"calls of each process: {min(counts)} to {max(counts)}; longest time without any: {longest:.0f} s")
        return
    over = max(0, fleet.most - fleet.limit)
    unit = 1.5 * NUSD if fleet.kind == "budget" else 1
    print(f"beyond the limit: {over} of {fleet.limit} ({over / unit:.2f} times the largest request)")
    print(f"refused although enough was free: {fleet.false_refusals} ({fleet.false_refusals / fleet.requests:.4%} of all requests)")
    if fleet.unused_at_refusal is not None:
        print(f"unused at the first refusal: {fleet.unused_at_refusal / fleet.limit:.3%}")


if __name__ == "__main__":
    main()
