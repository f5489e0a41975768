"""A process's side of leases: how much of an account it may give away by itself, and when it has to have more.

    room = ceiling − used − reserved

Requests take from the room without waiting for anybody. At half of what it uses in AHEAD_S, the lease is `due`: the process tells the
bank what it has used, and wants more. It gives back what it does not use, and most of it when the account comes to its end.
Only a request that finds less room than it needs has to wait for the bank.
"""

from __future__ import annotations

import math

from gw.types.bank import Ask, LeaseGrant, LeaseKind

HEARTBEAT_S = 1.0
"""Between two exchanges with the bank, at most."""
AHEAD_S = 2.0
REFUSED_S = 0.5
"""After a refusal of the bank, requests are refused for this long without another exchange."""
APART_S = 0.25
"""Between two exchanges for which no request waits, at least."""
_SHORTEST_S = 0.05  # over which use is measured: the first call of a burst says nothing


class Lease:
    """A lease of one account. `now` is monotonic seconds."""

    __slots__ = (
        "_counted_at", "_least", "_need", "_per_s", "_reported", "_taken", "account", "ceiling", "empty_until", "free", "kind", "limit",
        "members", "others_used", "reserved", "scarce", "used",
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
        self.scarce = False
        self.empty_until = -math.inf
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
        return max(self.ceiling - self.used, self.reserved)

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
        return self.room < need and now >= self.empty_until

    def require(self, need: int) -> None:
        """Note that a request waits for so much."""
        self._least = self._least or need
        self._need += need

    def due(self, now: float) -> bool:
        """Return whether an exchange should come now, and not only at the next heartbeat."""
        if self._need:
            return True
        return now >= max(self.empty_until, self._counted_at + APART_S) and self.room < self._target(now) / 2

    def changed(self, now: float) -> bool:
        """Return whether the bank does not know the figures, or should get something back."""
        return self._reported != (self.used, self.open, self.limit) or self.room > 2 * self._target(now) or self.due(now)

    def ask(self, now: float) -> Ask:
        """Return what to say to the bank. Nothing that is given back may be taken from now on."""
        target = self._target(now)
        passed = now - self._counted_at
        if passed >= _SHORTEST_S:
            weight = 1 - 0.5 ** (passed / AHEAD_S)
            self._per_s = max(0.0, self._per_s + weight * (self._taken / passed - self._per_s))
            self._counted_at, self._taken = now, 0
        if self.room > 2 * target:
            self.ceiling -= self.room - target
        room = max(0, self.room)
        need, least = max(0, self._need - room), max(0, self._least - room)
        want = need + target - room if need or room < target / 2 else 0
        self._need = self._least = 0
        self._reported = (self.used, self.open, self.limit)
        return Ask(self.account, self.kind, self.limit, self.used, self.open, max(want, need), need, least)

    def take(self, ask: Ask, grant: LeaseGrant, members: int, now: float) -> None:
        """Take over the answer to `ask`."""
        self.members = members
        self.free = grant.free
        self.scarce = grant.scarce
        self.others_used = grant.used - ask.used
        if grant.granted:
            self.ceiling = max(self.ceiling, self.used + self.reserved) + grant.granted
            self.empty_until = -math.inf
            self._reported = (ask.used, ask.open + grant.granted, ask.limit)
        elif ask.need:
            self.empty_until = now + max(REFUSED_S, grant.wait_s)

    def lost(self) -> None:
        """Note that no answer came: the bank may have other figures than this process."""
        self._reported = None

    def _target(self, now: float) -> int:
        """Return the room that would last for AHEAD_S; less where the account ends before that."""
        if self.scarce:
            return 0
        if self.kind == "slots":
            target = self.reserved // 4 + 1 if self.reserved else 0
        else:
            passed = now - self._counted_at
            per_s = self._per_s * 0.5 ** (passed / AHEAD_S)
            if passed >= _SHORTEST_S:
                per_s = max(per_s, self._taken / passed)
            target = int(per_s * AHEAD_S)
        if self.free is None:
            return target
        return min(target, max(0, self.free + max(0, self.room)) // (2 * self.members))
