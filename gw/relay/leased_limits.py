"""A rate and a number of calls at once that a fleet shares, in place of those of one process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gw.policy.bucket import Bucket
from gw.relay.leases import Leases


class LeasedBucket:
    """A rate that a fleet shares, in place of a `Bucket` of this process; alone, a bucket with its share."""

    def __init__(self, leases: Leases, account: str, per_minute: int) -> None:
        self.per_minute = per_minute
        self.leases = leases
        self.lease = leases.lease(account, "rate", per_minute)
        self._alone: Bucket | None = None

    def take(self, now: float) -> float:
        """Take a call and return 0.0; without one, return the seconds until there may be one."""
        lease = self.lease
        if (since := self.leases.alone_since) is not None:
            if self._alone is None:
                self._alone = Bucket(self.share, since, tokens=min(self.share, max(0, lease.room)))
            wait_s = self._alone.take(now)
            if not wait_s:
                lease.settle(0, 1)  # so that the bank learns of it afterwards
            return wait_s
        self._alone = None
        lease.mature(now)
        if lease.room < 1:
            return max(self.leases.wait_s, lease.wait_s(now))
        lease.reserve(1)
        lease.settle(1, 1)
        self.leases.spoken_for(lease)
        return 0.0

    @property
    def share(self) -> int:
        """Return how many calls a minute this process may make alone."""
        return max(1, self.per_minute // self.leases.members)

    def end(self) -> None:
        """Stop counting: the limit is gone, or another one begins."""
        self.leases.retire([self.lease])

    def left(self, now: float) -> tuple[int, float]:
        """Return the calls left in the whole fleet, as far as this process knows, and the seconds until all of a minute are there again."""
        if self._alone is not None:
            return self._alone.left(now)
        left = min(self.per_minute, max(0, self.lease.room) + max(0, self.lease.free or 0))
        return left, (self.per_minute - left) * 60 / self.per_minute


class LeasedSlots:
    """Calls at once that a fleet shares. What it counts is what `running` counts, so `enter` and `leave` come with each change of that."""

    def __init__(self, leases: Leases, account: str, limit: int, running: Callable[[], int], granted: Callable[[], None]) -> None:
        """`granted` is called when this process may have more at once than before."""
        self.leases = leases
        self.lease = leases.lease(account, "slots", limit)
        self.lease.on_grant = granted
        self.lease.reserve(running() - self.lease.reserved)

    @property
    def most(self) -> int:
        """Return how many this process may have at once; alone, at least its share of the limit."""
        lease = self.lease
        if self.leases.is_alone:
            return max(lease.ceiling, lease.limit // self.leases.members, 1)
        return min(lease.ceiling, lease.limit)

    def enter(self) -> None:
        self.lease.reserve(1)
        self.leases.spoken_for(self.lease)

    def leave(self) -> None:
        self.lease.settle(1, 0)
        self.leases.schedule(self.lease)

    def wait(self) -> Awaitable[bool] | None:
        """Return the wait for one more from the bank, a short one; None if there is room, or none can be had."""
        return self.leases.wait(self.lease, 1)

    async def queue(self, place: Awaitable[bool]) -> bool:
        """Return what `place` returns, a wait in this process; meanwhile the bank is asked again whenever it may have one."""
        self.lease.waiting += 1
        try:
            self.leases.schedule(self.lease)
            return await place
        finally:
            self.lease.waiting -= 1

    def end(self) -> None:
        """Stop counting: the limit is gone."""
        self.lease.settle(self.lease.reserved, 0)
        self.lease.on_grant = None
        self.leases.retire([self.lease])


def why_refused(shared: LeasedBucket | LeasedSlots | Bucket | None, limit: str, reached: str) -> str:
    """Return why a limit has just refused a call: `reached`, unless this process is alone, or the bank has not answered in time."""
    if not isinstance(shared, (LeasedBucket, LeasedSlots)):
        return reached
    leases = shared.leases
    if leases.is_alone:
        share = shared.share if isinstance(shared, LeasedBucket) else shared.most
        return f"the part of {limit} that this process has alone, {share}, is used up: {leases.why_alone}"
    why = leases.why_unknown(shared.lease, 1)
    return f"what is left of {limit} is not known: {why}" if why else reached


def why_full(slots: LeasedSlots | None, owner: str, most: int, counted: str) -> str:
    """Return why a project or key may not have one more at once of what is `counted`."""
    return why_refused(slots, f"the limit of {owner}, {most} {counted} at once,", f"{owner} has {most} {counted} at once, its limit")
