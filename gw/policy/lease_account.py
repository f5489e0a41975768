"""The bank's side of leases: what has been used and leased of one account, and how much more a member gets.

    kind     free                                    a member dies             a member restarts
    ──────   ─────────────────────────────────────   ───────────────────────   ─────────────────────────────────────────
    budget   limit − used by all − open to all       stays counted as it was   says what its own records have as used
    rate     tokens of a bucket that refills         its open calls return     its open calls return
    slots    limit − open to all                     its slots return          its slots return

A grant is at most the free amount divided by twice the number of members, so it becomes smaller towards the end, and no member sits
on what others need. In the last SCARCE_S of a budget, at the speed with which it is used, only requests that wait get something. Those get
what they need of it in any case; the last one may take it beyond its limit by its own estimate, as in a gateway that runs alone.

A rate that is used up grants calls to come, in the order in which members ask, each with the moment at which it may be made. A member has
at most its even part of those of AHEAD_S, rounded up, so busy members take turns; the last moment is at most twice as far away. So a member
asks about once a second, however often it has a request. Tokens and open calls together are at most the limit.

Of a rate of less than one call a second, members take turns by when each had its last one. Who has waited longest may have the next call a
whole pause between two calls ahead; who has just had one, when it is due, if nobody else has taken it by then.

Slots that members wait for are divided evenly between those that have or want some: who has more gets none, and gives back what ends.
Where there are fewer than that, a member gets one if it lacked one already at its last exchange.

`gw.fleet.valkey_script` says the same in Lua; one suite of tests runs against both.
"""

from __future__ import annotations

import math

from gw.types.bank import MEMBER_DEAD_S, Ask, Exchange, LeaseGrant, LeaseKind

SCARCE_S = 2.0
AHEAD_S = 1.0
_KEEP_S = 2 * 86_400.0
"""After the last ask, within which the figures of an account are kept: members that have used something ask every few seconds."""
_LOOK_S = 3_600.0
_COUNTED_S = 0.5  # over which the speed of use is measured, at least


class _Entry:
    __slots__ = ("granted", "lacks", "number", "open", "run", "turn", "used")

    def __init__(self, run: str) -> None:
        self.run = run
        self.number = self.used = self.open = self.granted = self.lacks = 0
        self.turn: int | None = None
        """Number of grants of a rate to all members, when this one got its last one."""


class LeaseAccount:
    """One account. `now`: seconds on the bank's clock."""

    def __init__(self, kind: LeaseKind, limit: int, now: float) -> None:
        self.kind = kind
        self.limit = limit
        self.used = self.open = self.lack = self._has_or_wants = 0  # sums over the entries
        self._entries: dict[str, _Entry] = {}
        self._tokens = float(limit)
        self._at = self._counted_at = self.asked_at = now
        self._counted = self._turns = 0
        self._per_s = 0.0

    def settle(self, ask: Ask, member: str, run: str, number: int, members: int, now: float, *, grants_in_s: float) -> LeaseGrant:
        """Take over a member's figures; grant more, unless that begins in some seconds only."""
        entry = self._entries.get(member)
        if entry is None or entry.run != run:
            entry = self._begin(member, run)
        if number <= entry.number:
            return self._answer(entry, entry.granted, max(self._wait_s(), grants_in_s), self._ahead(entry, members))
        self._refill(ask.limit, now)
        change = ask.used + ask.open - entry.used - entry.open
        if self.kind == "rate" and entry.number:
            self._tokens = min(float(self.limit), self._tokens - change)
        free = self._free - (change if self.kind != "rate" else 0)
        ahead = self._ahead(entry, members)
        granted = self._grant(ask, entry, free, members, ahead) if not grants_in_s and ask.want else 0
        wait_s = max(self._wait_s(), grants_in_s)
        if self.kind == "rate" and granted:
            self._tokens -= granted
            self._turns += 1
            entry.turn = self._turns
        self.used += ask.used - entry.used
        if not entry.number:
            self._counted += ask.used - entry.used  # it was used before
        self._count(now)
        self._replace(entry, ask.open + granted, ask.need - granted)
        entry.number, entry.used, entry.granted = number, ask.used, granted
        return self._answer(entry, granted, wait_s, ahead)

    def _ahead(self, entry: _Entry, members: int) -> float:
        """Return how many calls of a rate may be granted in advance to this member."""
        if self.kind != "rate":
            return 0.0
        ahead = self.limit / 60 * AHEAD_S
        if ahead >= 1 or members == 1:
            return 2 * ahead
        others = members - 1 if entry.turn is None else min(self._turns - entry.turn, members - 1)
        return max(2 * ahead, 1.0) * others / (members - 1)

    def _grant(self, ask: Ask, entry: _Entry, free: int, members: int, ahead: float) -> int:
        even = math.ceil(self.limit / 60 * AHEAD_S / members) if self.kind == "rate" else 0
        if free <= 0:
            return max(0, min(ask.want, even - ask.open)) if self._tokens > 1 - ahead and ahead else 0
        others_lack = self.lack - entry.lacks
        if others_lack > 0:
            has_or_wants = self._has_or_wants + (not (entry.open or entry.lacks))
            share = (self._share(has_or_wants) or bool(entry.lacks)) - ask.open
            return max(0, min(ask.need, free, max(share, free - others_lack)))
        share = 0 if self._is_scarce(free) else max(free // (2 * members), min(even, free))
        return max(ask.least, min(ask.need, free), min(ask.want, share))

    def _share(self, has_or_wants: int) -> int:
        """Return the even share of slots."""
        return self.limit // max(1, has_or_wants)

    def _replace(self, entry: _Entry, open_: int, wants: int) -> None:
        """Change what an entry has, what it lacks of an even share of slots (of the first one, in any case), and the sums."""
        has_or_wants = self._has_or_wants - bool(entry.open or entry.lacks)
        lacks = 0
        if self.kind == "slots" and wants > 0:
            lacks = max(0, min(wants, max(1, self._share(has_or_wants + 1)) - open_))
        self._has_or_wants = has_or_wants + bool(open_ or lacks)
        self.open += open_ - entry.open
        self.lack += lacks - entry.lacks
        entry.open, entry.lacks = open_, lacks

    def drop(self, member: str) -> None:
        """Forget what is open to a member that is gone; what it has used stays."""
        entry = self._entries.get(member)
        if entry is None:
            return
        if self.kind == "rate":
            self._tokens = min(float(self.limit), self._tokens + entry.open)
        self._replace(entry, 0, 0)
        entry.granted = 0
        if self.kind != "budget":
            self.used -= entry.used
            del self._entries[member]

    def _begin(self, member: str, run: str) -> _Entry:
        """Return the entry of a new run. What the run before it had is replaced by what this one says."""
        if member in self._entries:
            self.drop(member)
        entry = self._entries.get(member)
        if entry is None:
            entry = self._entries[member] = _Entry(run)
        entry.run, entry.number = run, 0
        return entry

    def _refill(self, limit: int, now: float) -> None:
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        if limit != self.limit and self.kind == "rate":
            self._tokens = min(self._tokens, float(limit))
        self.limit = limit
        if self.kind == "rate":
            most = max(self._tokens, float(limit - max(0, self.open)))
            self._tokens = min(most, self._tokens + passed * limit / 60)

    def _count(self, now: float) -> None:
        """Measure how much is used in a second."""
        passed = now - self._counted_at
        if self.kind == "budget" and passed >= _COUNTED_S:
            weight = 1 - 0.5 ** (passed / SCARCE_S)
            self._per_s += weight * (max(0, self.used - self._counted) / passed - self._per_s)
            self._counted, self._counted_at = self.used, now

    def _is_scarce(self, free: int) -> bool:
        return self.kind == "budget" and free < SCARCE_S * self._per_s

    @property
    def _free(self) -> int:
        if self.kind == "rate":
            return math.floor(self._tokens + 1e-6)
        return self.limit - self.used - self.open

    def _wait_s(self) -> float:
        """Return the seconds until the next call of a rate."""
        return max(0.0, 1 - self._tokens) * 60 / self.limit if self.kind == "rate" and self._tokens < 1 - 1e-6 else 0.0

    def _answer(self, entry: _Entry, granted: int, wait_s: float, ahead: float) -> LeaseGrant:
        if self.kind == "rate" and not granted and wait_s:
            wait_s = max(0.0, wait_s - ahead * 60 / self.limit)
        share = self._share(self._has_or_wants) if self.kind == "slots" and self.lack > entry.lacks else None
        return LeaseGrant(granted, self._free, self.used, wait_s, self._is_scarce(self._free), share)


class LeaseAccounts:
    """All accounts of a fleet, and its members. Sans I/O: a bank in one process, and the model that others are tested against."""

    def __init__(self, now: float, *, settle_s: float = 0.0) -> None:
        """`settle_s`: no budget is granted before, since members may not have reported yet what they had used."""
        self._grants_from = now + settle_s
        self._look_at = now + _LOOK_S
        self._accounts: dict[str, LeaseAccount] = {}
        self._seen: dict[str, float] = {}
        self._runs: dict[str, str] = {}

    def join(self, member: str) -> str:
        """Return the name of a new run of a member."""
        return f"{int(self._runs.get(member, '0')) + 1:015d}"

    def exchange(self, member: str, run: str, number: int, asks: list[Ask], now: float) -> Exchange:
        """`run`: later ones of a member sort after earlier ones."""
        if self._runs.get(member, "") > run:
            return Exchange([], len(self._seen), replaced=True)
        self._runs[member] = run
        self._seen[member] = now
        for other, at in list(self._seen.items()):
            if at < now - MEMBER_DEAD_S:
                self._bury(other)
        self._forget_old(now)
        grants = []
        for ask in asks:
            account = self._accounts.get(ask.account)
            if account is not None:
                account.asked_at = now
            else:
                account = self._accounts[ask.account] = LeaseAccount(ask.kind, ask.limit, now)
            grants_in_s = max(0.0, self._grants_from - now) if ask.kind == "budget" else 0.0
            grants.append(account.settle(ask, member, run, number, len(self._seen), now, grants_in_s=grants_in_s))
        return Exchange(grants, len(self._seen))

    def leave(self, member: str, run: str = "") -> None:
        """Take a member out, so that nothing is open to it any more. `run`: only if that is its newest one."""
        if run and self._runs.get(member) != run:
            return
        self._seen.pop(member, None)
        for account in self._accounts.values():
            account.drop(member)

    def _forget_old(self, now: float) -> None:
        """Forget accounts of which no member has said anything for a long time: their periods are over."""
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._accounts = {name: account for name, account in self._accounts.items() if account.asked_at >= now - _KEEP_S}

    def _bury(self, member: str) -> None:
        del self._seen[member]
        for account in self._accounts.values():
            if account.kind != "budget":
                account.drop(member)
