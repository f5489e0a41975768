"""A process's side of leases: how much of an account it may give away by itself, and when it has to have more.

    room = ceiling − used − reserved

Requests take from the room without waiting for anybody. At half of what it uses in AHEAD_S, the lease is `due`: the process tells the
bank what it has used, and wants more. It gives back what it does not use, and most of it when the account comes to its end.
Only a request that finds less room than it needs has to wait for the bank. A process that begins anew leases a little of each budget
of which it has used some before, so that its first requests find room.

Calls of a rate that is used up come one after another: the bank says at which moment each may be made, and none is asked for before
the last of them. Slots that others wait for are held up to the `share` that the bank says.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gw.types.bank import Ask, LeaseGrant, LeaseKind

HEARTBEAT_S = 1.0
"""Between two exchanges with the bank, at most."""
AHEAD_S = 2.0
REFUSED_S = 0.5
"""After a refusal of a budget by the bank, requests are refused for this long without another exchange."""
APART_S = 0.25
"""Between two exchanges for which no request waits, at least."""
_FIRST_PART = 1_000
"""A process that has used some of a budget before it began leases a thousandth of it at once: its first request need not wait."""
_FIRST_KEPT_S = 10.0
_KEPT_S = 10.0
"""A call of a rate of less than one a second is kept for a request to come back for so long, or until the next call is due."""
_SHORTEST_S = 0.05  # over which use is measured: the first call of a burst says nothing


class Lease:
    """A lease of one account. `now` is monotonic seconds."""

    __slots__ = (
        "_coming", "_coming_at", "_counted_at", "_first_kept_until", "_kept_until", "_least", "_need", "_per_s", "_reported", "_resumes",
        "_settles_at", "_taken", "account", "ceiling", "empty_until", "free", "kind", "limit", "members", "on_grant", "others_used",
        "reserved", "scarce", "share", "used", "waiting",
    )  # fmt: skip

    def __init__(self, account: str, kind: LeaseKind, limit: int, now: float, *, used: int = 0) -> None:
        """`used`: what this process knows to have used of the account before it leased anything."""
        self.account = account
        self.kind = kind
        self.limit = limit
        self.used = self.ceiling = used
        self.reserved = 0
        self.free: int | None = None
        """Left in the bank at the last exchange; None before the first."""
        self.others_used = 0
        """Used by other processes until the last exchange."""
        self.members = 1
        self.waiting = 0
        """Requests that wait for longer than one exchange: each needs 1, whenever the bank may have it."""
        self.on_grant: Callable[[], None] | None = None
        """Called after a grant."""
        self.scarce = False
        self.share: int | None = None
        self._kept_until = -math.inf  # what was granted is for a request that may not have taken it yet
        self._first_kept_until = -math.inf
        self._coming = 0
        self._coming_at = math.inf
        self.empty_until = self._settles_at = -math.inf
        self._resumes = kind == "budget" and used > 0
        self._need = self._least = 0
        self._per_s = 0.0
        self._taken = 0
        self._counted_at = now
        self._reported: tuple[int, int, int] | None = None

    @property
    def room(self) -> int:
        return self.ceiling - self.used - self.reserved

    @property
    def open(self) -> int:
        """Return what is leased and not used; at least what is reserved."""
        return max(self.ceiling - self.used, self.reserved) + self._coming

    def mature(self, now: float) -> None:
        """Make room for the granted calls of a rate whose moment has come."""
        while self._coming_at <= now:
            self.ceiling = max(self.ceiling, self.used + self.reserved) + 1
            self._coming -= 1
            self._coming_at = self._coming_at + 60 / self.limit if self._coming else math.inf

    def wait_s(self, now: float) -> float:
        """Return the seconds until a call that finds no room may be made, or is worth another question to the bank."""
        return min(self._coming_at, max(now, self.empty_until)) - now

    def reserve(self, amount: int) -> None:
        """Set `amount` aside for a request, which must have checked `room`, or be one that may exceed it."""
        self.reserved += amount
        self._taken += amount

    def settle(self, reserved: int, used: int) -> None:
        """Note that a request has used `used` in place of what was reserved for it."""
        self.reserved -= reserved
        self.used += used
        self._taken += used - reserved

    def must_wait(self, need: int, now: float) -> bool:
        """Return whether a request should wait for the bank: the room is too small, and the bank may have more."""
        self.mature(now)
        return self.room < need and now >= self.empty_until

    def require(self, need: int) -> None:
        """Note that a request waits for so much."""
        self._least = self._least or need
        self._need += need

    def due(self, now: float) -> bool:
        """Return whether an exchange should come now, and not only at the next heartbeat."""
        if self._need or now >= self.due_at(now):
            return True
        return now >= max(self.empty_until, self._counted_at + APART_S) and self.room < self._target(now) / 2

    def due_at(self, now: float) -> float:
        """Return when an exchange is due even if nothing else happens; infinite: at the next heartbeat.

        Requests wait here and the bank may have something again, or slots are idle here that the bank lacks, or that others wait for.
        """
        apart = self._counted_at + APART_S
        if self.waiting > self.room:
            return max(apart, self.empty_until)
        if self.kind != "slots" or self.free is None:
            return math.inf
        lacks = self.share is not None and self._reported is not None and self._reported[1] > self.open
        if lacks:
            return apart
        return max(apart, self._kept_until) if self.free <= 0 and self.room > 2 * self._target(now) else math.inf

    def changed(self, now: float) -> bool:
        """Return whether the bank does not know the figures, or should get something back."""
        return self._resumes or self._reported != (self.used, self.open, self.limit) or self._is_idle(now) or self.due(now)

    def ask(self, now: float) -> Ask:
        """Return what to say to the bank. Nothing that is given back may be taken from now on."""
        target = self._target(now)
        passed = now - self._counted_at
        if passed >= _SHORTEST_S:
            weight = 1 - 0.5 ** (passed / AHEAD_S)
            self._per_s = max(0.0, self._per_s + weight * (self._taken / passed - self._per_s))
            self._counted_at, self._taken = now, 0
        self.mature(now)
        if self._is_idle(now):
            self.ceiling -= self.room - max(target, self._first_part(now))
        if self._coming > (most := 2 * max(1, self._demand(now))):
            self._coming = most
        room = max(0, self.room)
        need = max(0, self._need + self.waiting - room)
        least = max(0, (self._least or min(1, self.waiting)) - room)
        ahead = self._demand(now) if self.kind == "rate" else target
        want = need + ahead - room if need or room < target / 2 else 0
        if self._resumes:
            want = max(want, self.limit // _FIRST_PART)
        self._need = self._least = 0
        self._reported = (self.used, self.open, self.limit)
        return Ask(self.account, self.kind, self.limit, self.used, self.open, max(want, need), need, least)

    def take(self, ask: Ask, grant: LeaseGrant, members: int, now: float) -> None:
        """Take over the answer to `ask`."""
        self.members = members
        self.free = grant.free
        self.scarce, self.share = grant.scarce, grant.share
        self.others_used = grant.used - ask.used
        if grant.granted:
            self._kept_until = max(self._kept_until, now + APART_S)
            self._first_kept_until = now + _FIRST_KEPT_S if self._resumes else self._first_kept_until
            self._reported = (ask.used, ask.open + grant.granted, ask.limit)
            if grant.wait_s and self.kind == "rate":
                self._coming_at = min(self._coming_at, now + grant.wait_s)
                self._coming += grant.granted
                self.empty_until = now + grant.wait_s + (grant.granted - 1) * 60 / self.limit
                if self.limit < 60:
                    self._kept_until = self.empty_until + min(_KEPT_S, 60 / self.limit)
            else:
                self.ceiling = max(self.ceiling, self.used + self.reserved) + grant.granted
                self.empty_until = -math.inf
        elif grant.wait_s and self.kind == "budget":
            self.empty_until = self._settles_at = now + grant.wait_s
        elif ask.need:
            asks_at = now + max(REFUSED_S if self.kind == "budget" else APART_S, grant.wait_s)
            self.empty_until = max(self.empty_until, asks_at) if self._coming else asks_at
        if self._coming:
            self._need = self._least = 0  # who waits is refused until the first of them comes
        self._resumes = self._resumes and self.settles_in_s(now) > 0
        if self.share is not None:
            self.ceiling = min(self.ceiling, max(self.share, grant.granted))
        if grant.granted and self.on_grant is not None:
            self.on_grant()

    def settles_in_s(self, now: float) -> float:
        """Return the seconds until the bank, which has just begun, grants budgets; 0: it does."""
        return max(0.0, self._settles_at - now)

    def lost(self) -> None:
        """Note that no answer came: the bank may have other figures than this process."""
        self._reported = None

    def _is_idle(self, now: float) -> bool:
        """Return whether more is leased here than is used."""
        return now >= self._kept_until and self.room > 2 * max(self._target(now), self._first_part(now))

    def _first_part(self, now: float) -> int:
        """Return how much of a budget is kept for the first request of a process that has begun, also if nothing is used."""
        return self.limit // _FIRST_PART if now < self._first_kept_until else 0

    def _target(self, now: float) -> int:
        """Return the room that would last for AHEAD_S; less where the account ends before that."""
        if self.scarce:
            return 0
        demand = self._demand(now)
        if self.free is None:
            return demand
        return min(demand, max(0, self.free + max(0, self.room)) // (2 * self.members))

    def _demand(self, now: float) -> int:
        """Return what this process uses in AHEAD_S; of slots, a quarter of what it has in use."""
        if self.kind == "slots":
            return self.reserved // 4 + 1 if self.reserved else 0
        passed = now - self._counted_at
        per_s = self._per_s * 0.5 ** (passed / AHEAD_S)
        if passed >= _SHORTEST_S:
            per_s = max(per_s, self._taken / passed)
        return int(per_s * AHEAD_S)
