"""The leases of this process: what it may give away by itself of the budgets, rates and slots that a fleet shares.

    connected ──an exchange fails──▶ alone ──an exchange succeeds──▶ connected
        └──a newer run has this member's name──▶ alone, for good

One task speaks to the bank: at every heartbeat, when a lease is due, and when a request waits. Alone, budgets go on inside the leases
that are held, and rates and slots by the share that this process last had.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterable, Sequence

import structlog
import trio

from gw.errors import BankUnreachable
from gw.policy.lease import HEARTBEAT_S, Lease
from gw.types.bank import Bank, LeaseKind

WAIT_S = 0.05
"""Longest wait of a request for the bank, if the settings say nothing else."""
ALONE_S = 0.5  # between two attempts to reach the bank
_LATE_S = 0.02
"""A wait that ends so much after its time says that this process was busy, and may not have read an answer that was there."""
_MOST_ASKS = 200
"""Leases in one exchange: the server answers nobody else meanwhile."""
_REFRESH_S = 10.0  # after which leases that have not changed are spoken of too, to learn what others have used

_log = structlog.get_logger("gw.relay")


class Leases:
    def __init__(self, bank: Bank, member: str, wait_s: float = WAIT_S) -> None:
        self.member = member
        self.wait_s = wait_s
        self.members = 1
        self.alone_since: float | None = trio.current_time()
        """Since when the bank cannot be reached; None: it can."""
        self.alone_s = 0.0
        """Seconds alone in all, the present ones not included."""
        self.why_alone = "not connected yet"
        self._bank = bank
        self._run = ""
        self._leases: dict[str, Lease] = {}
        self._retired: set[Lease] = set()
        self._number = 0
        self._rounds = self._rounds_done = 0
        self._must_report = False
        self._refresh_at = -math.inf
        self._wake = trio.Event()
        self._answered = trio.Event()

    @property
    def is_alone(self) -> bool:
        return self.alone_since is not None

    def seconds_alone_now(self) -> float:
        """Return how long the bank has not been reached; 0: it is."""
        return 0.0 if self.alone_since is None else trio.current_time() - self.alone_since

    def seconds_alone(self) -> float:
        """Return how long the bank could not be reached in all, since the start."""
        return self.alone_s + self.seconds_alone_now()

    def lease(self, account: str, kind: LeaseKind, limit: int, used: int = 0) -> Lease:
        """Return the lease of an account, made with the first call; `limit` may change."""
        lease = self._leases.get(account)
        if lease is None:
            lease = self._leases[account] = Lease(account, kind, limit, trio.current_time(), used=used)
            if used:
                self._report()
        lease.limit = limit
        self._retired.discard(lease)
        return lease

    def retire(self, leases: Iterable[Lease]) -> None:
        """Drop leases of accounts that are over, each as soon as none of its requests runs and the bank knows what was used."""
        self._retired.update(leases)

    def spoken_for(self, lease: Lease) -> None:
        """Have more leased where that is due; called when something was taken."""
        if not self._wake.is_set() and lease.due(trio.current_time()):
            self._wake.set()

    def schedule(self, lease: Lease) -> None:
        """Exchange when `due_at` of a lease says; called when that may have become earlier: a slot became free, or a request waits."""
        if not self._wake.is_set() and lease.due_at(trio.current_time()) < math.inf:
            self._wake.set()

    def wait(self, lease: Lease, need: int) -> Awaitable[bool] | None:
        """Return the wait for room, `wait_s` of the bank's time at most; None if there is room, or none can be had.

        Its result is whether there is room now, which the caller takes before its next checkpoint.
        """
        if self.alone_since is not None or not lease.must_wait(need, trio.current_time()):
            return None
        return self._wait(((lease, need),))

    def wait_for_all(self, needs: Sequence[tuple[Lease, int]]) -> Awaitable[bool] | None:
        """Return the wait for room in several leases at once, like `wait`."""
        now = trio.current_time()
        if self.alone_since is not None or not any(lease.must_wait(need, now) for lease, need in needs):
            return None
        return self._wait(needs)

    async def _wait(self, needs: Sequence[tuple[Lease, int]]) -> bool:
        if await self._wait_in_time(needs) > _LATE_S:
            await self._wait_in_time(needs)
        return all(lease.room >= need for lease, need in needs)

    async def _wait_in_time(self, needs: Sequence[tuple[Lease, int]]) -> float:
        """Wait for room, `wait_s` at most; return by how much later than that it ended."""
        with trio.move_on_after(self.wait_s) as scope:
            while self.alone_since is None:
                now = trio.current_time()
                lacking = [(lease, need) for lease, need in needs if lease.must_wait(need, now)]
                if not lacking:
                    break
                for lease, need in lacking:
                    lease.require(need)
                self._wake.set()
                await self._answered.wait()
        return trio.current_time() - scope.deadline

    def why_unknown(self, lease: Lease, need: int) -> str:
        """Return why it is not known whether the bank has what a request needs that has waited for it; empty: it is known."""
        if self.is_alone:
            return self.why_alone
        now = trio.current_time()
        if settles_in_s := lease.settles_in_s(now):
            return f"the fleet's count has just begun; budgets are open in {settles_in_s:.1f} s, when all gateways have reported theirs"
        return f"no answer within {self.wait_s * 1000:g} ms" if lease.must_wait(need, now) else ""

    def _report(self) -> None:
        """Have the next exchange at once, whether a lease is due or not."""
        self._must_report = True
        self._wake.set()

    async def report(self) -> bool:
        """Tell the bank what was used until now; return whether it knows. It does not if it cannot be reached."""
        target = self._rounds + 1
        self._report()
        while self.alone_since is None and self._rounds_done < target:
            await self._answered.wait()
        return self.alone_since is None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Speak to the bank until cancelled. Reports as started after the first exchange, whether it succeeds or not."""
        beat_at = -math.inf
        first = True
        while True:
            now = trio.current_time()
            if await self._exchange(now, is_beat=now >= beat_at):
                beat_at = now + HEARTBEAT_S
            if first:
                first = False
                task_status.started()
            next_at = trio.current_time() + ALONE_S if self.is_alone else self._next_at()
            with trio.move_on_at(min(beat_at, next_at)):
                if self.is_alone:
                    await trio.sleep_forever()
                await self._wake.wait()

    def _next_at(self) -> float:
        """Return when the first lease is due, if nothing else happens."""
        now = trio.current_time()
        return min((lease.due_at(now) for lease in self._leases.values()), default=math.inf)

    async def leave(self) -> None:
        """Give everything back; what was used stays counted. Never raises."""
        try:
            self._refresh_at = -math.inf
            await self._exchange(trio.current_time(), is_beat=True)
            await self._bank.leave(self.member, self._run)
        except BankUnreachable as error:
            _log.warning("fleet_not_left", why=error.message)

    async def _exchange(self, now: float, *, is_beat: bool) -> bool:
        """Exchange what has changed, if it is time; return whether it was."""
        self._wake = trio.Event()
        if not (is_beat or self.is_alone or self._must_report or any(lease.due(now) for lease in self._leases.values())):
            return False  # the request that woke this task has left, or another exchange has served it
        self._must_report = False
        self._rounds += 1
        refresh = self.is_alone or now >= self._refresh_at
        if refresh:
            self._refresh_at = now + _REFRESH_S
        leases = [lease for lease in self._leases.values() if refresh or lease.changed(now)]
        for start in range(0, max(1, len(leases)), _MOST_ASKS):
            if not await self._exchange_some(leases[start : start + _MOST_ASKS], now):
                for lease in leases[start:]:
                    lease.lost()
                break
        if self._retired and not self.is_alone:
            self._drop_retired(trio.current_time())
        self._rounds_done = self._rounds
        answered, self._answered = self._answered, trio.Event()
        answered.set()
        return True

    async def _exchange_some(self, leases: Sequence[Lease], now: float) -> bool:
        """Exchange these leases; return whether the bank has answered."""
        asks = [lease.ask(now) for lease in leases]
        self._number += 1
        try:
            if not self._run:
                self._run = await self._bank.join(self.member)
            answer = await self._bank.exchange(self.member, self._run, self._number, asks)
        except BankUnreachable as error:
            self._go_alone(error.message)
            return False
        if answer.replaced:
            self._go_alone(f"another gateway of the fleet has the name {self.member!r}, and began later")
            return True
        self._go_on(answer.members)
        now = trio.current_time()
        for lease, ask, grant in zip(leases, asks, answer.grants, strict=True):
            lease.take(ask, grant, answer.members, now)
        return True

    def _go_alone(self, why: str) -> None:
        if self.why_alone != why:
            _log.error("fleet_unreachable", why=why)
        self.why_alone = why
        if self.alone_since is None:
            self.alone_since = trio.current_time()

    def _go_on(self, members: int) -> None:
        self.members = members
        if self.alone_since is not None:
            self.alone_s, self.alone_since, self.why_alone = self.seconds_alone(), None, ""
            _log.info("fleet_reached", members=members)

    def _drop_retired(self, now: float) -> None:
        for lease in [lease for lease in self._retired if not lease.reserved and not lease.changed(now)]:
            self._retired.discard(lease)
            if self._leases.get(lease.account) is lease:
                del self._leases[lease.account]
