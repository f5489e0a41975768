"""Messages between gateways that share limits and the bank that counts for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

LeaseKind: TypeAlias = Literal["budget", "rate", "slots"]
"""budget: nano-USD of a project or a key in one period; rate: calls of a provider or a key, refilled evenly; slots: calls at once."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """State of one member's lease, in absolute figures, and how much more it wants.

    Absolute figures make an exchange that is lost or repeated harmless: the next one corrects it.
    """

    account: str
    kind: LeaseKind
    limit: int
    """Limit of the account in nano-USD, calls a minute, or calls at once."""
    used: int
    """All that this member has used of the account (0 for slots)."""
    open: int
    """Leased to this member and not used yet, what its requests in flight have reserved included."""
    want: int
    need: int
    """Sum of all that waiting requests lack."""
    least: int
    """Need of the first of them, which is granted while anything is free."""


class LeaseGrant(msgspec.Struct, frozen=True, array_like=True):
    granted: int
    free: int
    """Neither used nor leased by anybody, after this grant. Negative where more was used than the limit."""
    used: int
    """Used by all members."""
    wait_s: float = 0.0
    """For a rate: seconds until the first of the granted calls may be made, the others one after another at the rate; or, where none
    was granted, until it is worth asking again. For a budget: seconds until the bank, which has just begun, grants any."""
    scarce: bool = False
    """The free part of a budget may be used up within moments: whoever leases more than it needs keeps it from others."""
    share: int | None = None
    """Most slots that this member should have, while another one has less than its even share and waits. None: keep all."""


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """Answer of the bank: one grant for each ask, in the same order."""

    grants: Sequence[LeaseGrant]
    members: int
    """Members whose last exchange was within MEMBER_DEAD_S, at least 1."""
    replaced: bool = False
    """A newer run has this member's name. Nothing was changed."""


MEMBER_DEAD_S = 10.0
"""A member that was silent for this long is dead: its slots and unused calls return."""


class Bank(Protocol):
    """Counts for all members. Each exchange is atomic."""

    async def join(self, member: str) -> str:
        """Return the name of a new run of `member`, which sorts after its earlier ones. Raise BankUnreachable."""

    async def exchange(self, member: str, run: str, number: int, asks: Sequence[Ask]) -> Exchange:
        """Take over the figures of one member and grant what it may have more; also the sign that it lives.

        `run` tells a member from the one of the same name before its restart. `number` rises with each exchange of a run, and a
        repeated number gets the first answer. Raise BankUnreachable.
        """

    async def leave(self, member: str, run: str) -> None:
        """Take the member out: nothing of it is open any more. Raise BankUnreachable."""


class MemberStatus(msgspec.Struct, frozen=True, order=True):
    instance: str
    run: str
    seen_s: float | None
    """Seconds since its last exchange; None: it is dead, or has left."""


class ShareStatus(msgspec.Struct, frozen=True, order=True):
    """Share of one member in an account, in the account's unit."""

    instance: str
    used: int
    open: int


class AccountStatus(msgspec.Struct, frozen=True, order=True):
    account: str
    kind: LeaseKind
    limit: int
    used: int
    open: int
    shares: tuple[ShareStatus, ...]


class BankStatus(msgspec.Struct, frozen=True):
    members: Sequence[MemberStatus]
    accounts: Sequence[AccountStatus]


class BankReader(Protocol):
    """Says who has what."""

    async def status(self) -> BankStatus:
        """Return all members, also those that are gone, and all accounts. Raise BankUnreachable."""
