"""Limits of a request's project and key: checked before it is admitted, and leased where several processes share them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from gw.policy.lease import Lease
from gw.relay.admission import Ledger
from gw.relay.candidate_list import Candidates
from gw.relay.key_limits import check_budgets, check_concurrency, check_rate
from gw.relay.shared_key import SharedKey
from gw.types.ids import Caller


def room(ledger: Ledger, candidates: Candidates, caller: Caller, estimate_nusd: int) -> Awaitable[bool] | None:
    """Return the wait for what has to be leased for a request; None if there is room, or nothing is shared."""
    if ledger.leases is None:
        return None
    lacking = [(lease, need) for lease, need in _leases(ledger, candidates, caller, max(1, estimate_nusd)) if lease.room < need]
    return ledger.leases.wait_for_all(lacking) if lacking else None


def _leases(ledger: Ledger, candidates: Candidates, caller: Caller, need: int) -> Iterator[tuple[Lease, int]]:
    """Yield the leases from which a request takes, with how much."""
    for one in ledger.budget_leases(candidates.budgets):
        yield one.lease, need
    for lease in key_leases(ledger, candidates, caller):
        yield lease, need
    if (key := shared_key(ledger, caller)) is not None and key.bucket is not None:
        yield key.bucket.lease, 1


def key_leases(ledger: Ledger, candidates: Candidates, caller: Caller) -> tuple[Lease, ...]:
    """Return the leases of the budgets of the caller's key."""
    if ledger.shared is None or caller.limits is None or caller.key_id is None:
        return ()
    owner = ledger.key(caller.key_id).budgets(caller.limits, candidates.project.id, caller.key_id)
    return tuple([one.lease for one in ledger.budget_leases(owner)])


def shared_key(ledger: Ledger, caller: Caller) -> SharedKey | None:
    """Return the part of this process in rate and slots of the caller's key; None: it counts alone, or the key has no limits."""
    if ledger.leases is None or caller.limits is None or caller.key_id is None:
        return None
    return ledger.limited_key(caller.key_id, caller.limits).shared


def check_limits(
    ledger: Ledger, candidates: Candidates, caller: Caller, estimate_nusd: int, now: float, *, has_place: bool = False,
    is_new: bool = True,
) -> None:  # fmt: skip
    """Check the limits of the caller's key, and the project's budgets of more than a day. `now` is monotonic.

    `has_place`: the request takes over a place among those at once. `is_new`: it counts as one more for the key's rate.

    Raise what `gw.relay.key_limits` and `SharedBudgets.check` raise.
    """
    project, limits = candidates.project, caller.limits
    if candidates.longer is not None and ledger.shared is None:  # else they are checked with the daily one
        spent, reserved = ledger.spent(project.id), ledger.reserved(project.id)
        check_budgets(candidates.longer, today=spent, earlier=ledger.earlier(project.id), reserved=reserved)
    if limits is None or caller.key_id is None:
        return
    key = ledger.limited_key(caller.key_id, limits)
    if not has_place:
        check_concurrency(key, limits, caller.key_id)
    if (owner := key.budgets(limits, project.id, caller.key_id)) is not None:
        if ledger.shared is not None:
            ledger.shared.check(owner, ledger.budget_leases(owner), estimate_nusd)
        else:
            check_budgets(owner, today=key.spend.today, earlier=key.spend.earlier, reserved=key.reserved)
    if is_new:
        check_rate(key, limits, caller.key_id, now)
