"""Admission: may this request run at all? Decided before any upstream byte, by the day's spend in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

import structlog

from gw.errors import BudgetExceededError, BudgetReserved, StoreUnavailable, TooManyAtOnce
from gw.policy import budget
from gw.policy.budget_account import OwnerId
from gw.policy.lease import Lease
from gw.policy.spend_periods import BudgetPeriod, EarlierSpend
from gw.relay.key_limits import KeyUse
from gw.relay.leased_limits import LeasedSlots, why_full
from gw.relay.leases import Leases
from gw.relay.places import Places
from gw.relay.shared_budgets import BudgetLease, BudgetOwner, SharedBudgets
from gw.relay.shared_key import SharedKey
from gw.telemetry.clock import DAY_S, Clock, utc_day
from gw.types.entities import OnFullDisk, Project
from gw.types.ids import KeyLimits
from gw.types.usage import NANO


class Reservation:
    """An estimate set aside from a project's budget while its request runs."""

    __slots__ = ("day", "key", "key_id", "leases", "nusd", "project")

    def __init__(self, project: str, day: int, nusd: int, leases: Sequence[Lease] = ()) -> None:
        """`leases`: of budgets that several processes share, in which it is set aside as well."""
        self.project = project
        self.day = day
        self.nusd = nusd
        self.leases = leases
        self.key: KeyUse | None = None
        """The caller's key."""
        self.key_id = ""


class Ledger:
    """Today's spend per project: read before a request, reserved while it runs, settled at its end.

    The day is the UTC day. It only moves forward: a clock that jumps back does not reopen a past day. A cost belongs to
    the day its request began on, as in the stored rollups, so that memory and disk agree after a restart. What has no
    known cost is spent by its estimate.
    """

    def __init__(
        self, clock: Clock, spent_today: Mapping[str, int], estimated_today: Mapping[str, int] | None = None,
        leases: Leases | None = None, earlier: Mapping[str, EarlierSpend] | None = None, keys: Mapping[str, KeyUse] | None = None,
    ) -> None:  # fmt: skip
        """`estimated_today`: the part of `spent_today` that is estimated. `leases`: of budgets that a fleet shares.

        `earlier`: what each project spent before today; `keys`: what each key has spent.
        """
        self._earlier = dict(earlier or {})
        self._earlier_elsewhere: dict[str, EarlierSpend] = {}  # part of it that other processes of this gateway, which run, have spent
        self._keys = dict(keys or {})
        self.leases = leases
        self.shared = None if leases is None else SharedBudgets(leases, self._used_here)
        """Leases of the budgets that several processes share; None: this process counts alone."""
        self._clock = clock
        self._day = utc_day(clock.now())
        self._ends = (self._day + 1) * DAY_S
        self._spent = dict(spent_today)
        self._estimated = dict(estimated_today or {})
        self._elsewhere: dict[str, tuple[int, int]] = {}  # spent today, and the estimated part, in other processes of this gateway
        self._reserved: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}
        self._slots: dict[str, LeasedSlots] = {}  # of projects with `max_concurrent` in a fleet
        self._places: dict[str, Places] = {}  # of projects with `max_concurrent` that were full once

    @property
    def day(self) -> int:
        """Current UTC day, in days since 1970-01-01."""
        self._roll()
        return self._day

    def _roll(self) -> None:
        """Begin another day, once it has come."""
        now = self._clock.now()
        if now >= self._ends:
            ended, self._day = self._day, utc_day(now)
            self._end_day(ended)
            self._ends = (self._day + 1) * DAY_S
            if self.shared is not None:
                self.shared.end_day(self._day)
            self._spent.clear()
            self._estimated.clear()
            self._elsewhere.clear()

    def _end_day(self, ended: int) -> None:
        """Add what was spent on the day that has ended to what was spent before it."""
        for project in self._spent.keys() | self._earlier.keys() | self._elsewhere.keys():
            elsewhere, _ = self._elsewhere.get(project, (0, 0))
            self.earlier(project).end_day(ended, self._day, self._spent.get(project, 0) + elsewhere)
            if elsewhere or project in self._earlier_elsewhere:
                self._earlier_elsewhere.setdefault(project, EarlierSpend()).end_day(ended, self._day, elsewhere)
        for use in self._keys.values():
            use.spend.end_day(ended, self._day)
            use.elsewhere.end_day(ended, self._day)

    def earlier(self, project: str) -> EarlierSpend:
        """Return what a project spent before today."""
        earlier = self._earlier.get(project)
        if earlier is None:
            earlier = self._earlier[project] = EarlierSpend()
        return earlier

    def key(self, key_id: str) -> KeyUse:
        """Return what a key has spent and uses now."""
        self._roll()
        use = self._keys.get(key_id)
        if use is None:
            use = self._keys[key_id] = KeyUse()
        return use

    def limited_key(self, key_id: str, limits: KeyLimits) -> KeyUse:
        """Return the same of a key with limits; what several processes share of them is leased from now on."""
        use = self.key(key_id)
        if self.leases is not None:
            if use.shared is None:
                use.shared = SharedKey(self.leases, key_id, lambda: use.in_flight)
            use.shared.follow(limits)
        return use

    def charge_key(self, reservation: Reservation, key_id: str, leases: Sequence[Lease] = ()) -> None:
        """Set a reservation aside from what the caller's key may use, too. `leases`: of its budgets."""
        reservation.key, reservation.key_id = use, _ = self.key(key_id), key_id
        use.in_flight += 1
        use.reserved += reservation.nusd
        if use.shared is not None:
            use.shared.enter()
        if leases and self.shared is not None:
            self.shared.reserve(leases, reservation.nusd)
            reservation.leases = (*reservation.leases, *leases)

    def spent(self, project: str) -> int:
        """Return the nano-USD spent by finished requests of today."""
        if self._clock.now() >= self._ends:
            self._roll()
        return self._spent.get(project, 0)

    def spent_in_fleet(self, project: str) -> int:
        """Return `spent`, what other processes of this gateway have spent, and of a project with a budget the same of the whole fleet."""
        return self.spent_in(project, "day")

    def count_elsewhere(self, project: str, day: int, nusd: int, estimated_nusd: int) -> None:
        """Count what another process of this gateway has spent; `estimated_nusd` is a part of `nusd`."""
        if day == self.day:
            before, estimated = self._elsewhere.get(project, (0, 0))
            self._elsewhere[project] = before + nusd, estimated + estimated_nusd
        else:
            self.earlier(project).add_late(day, self._day, nusd)
            self._earlier_elsewhere.setdefault(project, EarlierSpend()).add_late(day, self._day, nusd)

    def count_key_elsewhere(self, key_id: str, day: int, nusd: int) -> None:
        """Count what a key has spent through another process of this gateway."""
        use = self.key(key_id)
        use.spend.add(nusd, day, self._day)
        use.elsewhere.add(nusd, day, self._day)

    def spent_in_gateway(self, project: str) -> int:
        """Return the nano-USD spent today by finished requests, in all processes of this gateway."""
        spent = self.spent(project)
        return spent + self._elsewhere[project][0] if project in self._elsewhere else spent

    def take_over(self, project: str, day: int, nusd: int, estimated_nusd: int) -> None:
        """Count as spent here what a process has spent that is gone, and that `count_elsewhere` has counted."""
        if day == self.day:
            self.count_elsewhere(project, day, -nusd, -estimated_nusd)
            self._spent[project] = self._spent.get(project, 0) + nusd
            self._estimated[project] = self._estimated.get(project, 0) + estimated_nusd
        else:
            self._earlier_elsewhere.setdefault(project, EarlierSpend()).add_late(day, self._day, -nusd)
        if self.shared is not None:
            self.shared.settle([("project", project)], (), 0, nusd, day)

    def take_over_key(self, key_id: str, day: int, nusd: int) -> None:
        """Count as spent here what a key has spent through a process that is gone, and that `count_key_elsewhere` has counted."""
        self.key(key_id).elsewhere.add(-nusd, day, self.day)
        if self.shared is not None:
            self.shared.settle([("key", key_id)], (), 0, nusd, day)

    def _used_here(self, owner: OwnerId, period: BudgetPeriod) -> int:
        """Return what this process alone has spent in the current period."""
        kind, id_ = owner
        if kind == "key":
            use = self._keys.get(id_)
            return use.spend.of(period) - use.elsewhere.of(period) if use is not None else 0
        elsewhere = self._earlier_elsewhere.get(id_)
        return self._spent.get(id_, 0) + self.earlier(id_).of(period) - (0 if elsewhere is None else elsewhere.of(period))

    def spent_in(self, project: str, period: BudgetPeriod) -> int:
        """Return the nano-USD that a project spent in the current period; where it has a budget, what others spent of it counts too."""
        return self._spent_by_all(("project", project), period, self.spent_in_gateway(project) + self.earlier(project).of(period))

    def key_spent(self, key_id: str, period: BudgetPeriod) -> int:
        """Return the nano-USD that a key spent in the current period, like `spent_in`."""
        self._roll()
        use = self._keys.get(key_id)
        return self._spent_by_all(("key", key_id), period, use.spend.of(period) if use is not None else 0)

    def _spent_by_all(self, owner: OwnerId, period: BudgetPeriod, in_gateway: int) -> int:
        lease = None if self.shared is None else self.shared.held(owner, period)
        if lease is None:
            return in_gateway
        return max(in_gateway, self._used_here(owner, period) + lease.lease.others_used)

    def budget_leases(self, owner: BudgetOwner | None) -> Sequence[BudgetLease]:
        """Return the leases of an owner's budgets, where several processes share them."""
        if self.shared is None or owner is None:
            return ()
        if self._clock.now() >= self._ends:
            self._roll()
        return self.shared.of(owner, self._day)

    def share(self, owners: Sequence[BudgetOwner], limits: Mapping[str, KeyLimits], *, only_used: bool) -> None:
        """Lease the budgets of these owners, and of no others, so that the bank knows what was spent of them.

        `limits`: of the keys that have some; `only_used`: leave out owners that have spent nothing here.
        """
        if self.shared is None:
            return
        self._roll()
        for owner in owners:
            if not only_used or any(self._used_here(owner.id, period) for period, _ in owner.budgets):
                self.shared.of(owner, self._day)
        self.shared.keep({owner.id for owner in owners})
        for key_id, use in self._keys.items():
            if use.shared is not None:
                use.shared.follow(limits.get(key_id))

    def cost(self, project: str) -> int:
        """Return the known costs of today, those of other processes of this gateway included."""
        self._roll()
        elsewhere, estimated = self._elsewhere.get(project, (0, 0))
        return self._spent.get(project, 0) - self._estimated.get(project, 0) + elsewhere - estimated

    def reserved(self, project: str) -> int:
        """Return the nano-USD reserved by requests in flight."""
        return self._reserved.get(project, 0)

    def in_flight(self, project: str) -> int:
        """Return the number of requests that hold a reservation."""
        return self._in_flight.get(project, 0)

    def most(self, project: Project) -> int | None:
        """Return how many requests of the project may run at once in this process; None: any number."""
        slots = self.slots(project)
        return project.max_concurrent if slots is None else slots.most

    def slots(self, project: Project) -> LeasedSlots | None:
        """Return the requests at once that the project shares with the fleet; None without a fleet or a limit."""
        if self.leases is None:
            return None
        slots, most = self._slots.get(project.id), project.max_concurrent
        if most is None:
            if slots is not None:
                self._slots.pop(project.id).end()
            return None
        if slots is None or slots.lease.limit != most:
            account, running = f"slots:project:{project.id}", partial(self.in_flight, project.id)
            slots = self._slots[project.id] = LeasedSlots(self.leases, account, most, running, partial(self.hand_over, project.id))
        return slots

    def is_full(self, project: Project) -> bool:
        """Return whether as many requests of the project run, or are about to, as may at once."""
        most, places = self.most(project), self._places.get(project.id) if self._places else None
        return most is not None and self.in_flight(project.id) + (places.promised if places is not None else 0) >= most

    def place(self, project: Project, key: str) -> Awaitable[bool]:
        """Wait for a place of the project, which its keys get in turn; return whether there is one."""
        slots, most = self.slots(project), self.most(project) or 0
        places = self._places.get(project.id)
        if places is None:
            places = self._places[project.id] = Places(project.max_concurrent or 1, partial(self.in_flight, project.id))
        places.most = most
        place = places.wait(project.id, key)
        return place if slots is None else slots.queue(place)

    def hand_over(self, project: str) -> None:
        """Give a free place of the project to the request whose turn it is."""
        if self._places and (places := self._places.get(project)) is not None:
            if self._slots and (slots := self._slots.get(project)) is not None:
                places.most = slots.most
            places.hand_over()

    def reserve(self, project: str, nusd: int, leases: Sequence[Lease] = ()) -> Reservation:
        if self._clock.now() >= self._ends:
            self._roll()
        if leases and self.shared is not None:
            self.shared.reserve(leases, nusd)
        self._in_flight[project] = self._in_flight.get(project, 0) + 1
        if self._slots and (slots := self._slots.get(project)) is not None:
            slots.enter()
        if nusd:
            self._reserved[project] = self._reserved.get(project, 0) + nusd
        return Reservation(project, self._day, nusd, leases)

    def extend(self, reservation: Reservation, nusd: int) -> None:
        """Set more aside for a request that runs."""
        project = reservation.project
        self._reserved[project] = self._reserved.get(project, 0) + nusd
        reservation.nusd += nusd
        if reservation.key is not None:
            reservation.key.reserved += nusd
        if reservation.leases and self.shared is not None:
            self.shared.reserve(reservation.leases, nusd)

    def settle(self, reservation: Reservation, nusd: int, estimated_nusd: int = 0) -> None:
        """Release the reservation and add the real cost of the request, and the estimate for what has no known cost."""
        project = reservation.project
        self._in_flight[project] -= 1
        if self._slots and (slots := self._slots.get(project)) is not None:
            slots.leave()
        if self._places:
            self.hand_over(project)
        if reservation.nusd:
            left = self._reserved[project] - reservation.nusd
            if left:
                self._reserved[project] = left
            else:
                del self._reserved[project]
        if self.shared is not None:
            owners: list[OwnerId] = [("project", project)]
            if reservation.key is not None:
                owners.append(("key", reservation.key_id))
            self.shared.settle(owners, reservation.leases, reservation.nusd, nusd + estimated_nusd, reservation.day)
        if reservation.key is not None:
            reservation.key.settle(reservation.nusd, nusd + estimated_nusd, reservation.day, self._day)
        if reservation.day != self._day:  # its day is over
            self.earlier(project).add_late(reservation.day, self._day, nusd + estimated_nusd)
            return
        if estimated_nusd:
            self._estimated[project] = self._estimated.get(project, 0) + estimated_nusd
            nusd += estimated_nusd
        if nusd:
            self._spent[project] = self._spent.get(project, 0) + nusd


_log = structlog.get_logger("gw.relay")


def admit(
    ledger: Ledger, project: Project, estimate_nusd: int, *, store_accepts: bool, on_full_disk: OnFullDisk = "budgets",
    budgets: BudgetOwner | None = None,
) -> Reservation:  # fmt: skip
    """Reserve the estimate. `budgets`: all of the project, which are decided on here where several processes share them.

    Raise TooManyAtOnce where the project has as many requests at once as it may, BudgetExceededError, BudgetReserved while
    only reservations fill the budget, or StoreUnavailable while no record can be written, as `on_full_disk` says.
    """
    if project.max_concurrent is not None and ledger.in_flight(project.id) >= (ledger.most(project) or 0):
        name = f"the project {project.id!r}"
        raise TooManyAtOnce(what=why_full(ledger.slots(project), name, project.max_concurrent, "requests"))
    leases: Sequence[Lease] = ()
    if budgets is not None or project.daily_budget_nusd or on_full_disk == "refuse":
        leases = check_budget(ledger, project, estimate_nusd, store_accepts=store_accepts, on_full_disk=on_full_disk, budgets=budgets)
    return ledger.reserve(project.id, estimate_nusd, leases)


def check_budget(
    ledger: Ledger, project: Project, estimate_nusd: int, *, used_nusd: int = 0, store_accepts: bool,
    on_full_disk: OnFullDisk = "budgets", budgets: BudgetOwner | None = None,
) -> Sequence[Lease]:  # fmt: skip
    """Return the leases of which the estimate is a part. `used_nusd`: what is used already of all that is reserved. Raise like `admit`."""
    if on_full_disk == "refuse" and not store_accepts:
        raise StoreUnavailable(what="usage cannot be recorded now, and cost_tracking.on_full_disk is refuse")
    limit = project.daily_budget_nusd
    if ledger.shared is None and not limit:
        return ()
    if not store_accepts and limit and project.budget_action == "block" and on_full_disk == "budgets":
        raise StoreUnavailable(what="usage cannot be recorded now, and this project's budget must hold")
    if ledger.shared is not None:
        if budgets is None:
            return ()
        leases = ledger.budget_leases(budgets)
        ledger.shared.check(budgets, leases, estimate_nusd)
        return tuple([one.lease for one in leases])
    spent = ledger.spent(project.id)
    committed, spent = spent + ledger.reserved(project.id), spent + used_nusd
    verdict = budget.decide(
        committed_nusd=committed, estimate_nusd=estimate_nusd, budget_nusd=limit, action=project.budget_action
    )
    if verdict == "block":
        if spent >= limit:
            raise BudgetExceededError(project=project.id, daily_budget=limit / NANO, spent=spent / NANO)
        raise BudgetReserved(
            what=f"the requests in flight of project {project.id!r} have reserved what is left of its daily budget of "
            f"${limit / NANO:g} (spent ${spent / NANO:.6g}, reserved ${(committed - spent) / NANO:.6g}); try again when one ends"
        )
    if verdict == "warn" and committed >= limit:
        _log.warning("budget_exceeded", project=project.id, daily_budget_usd=limit / NANO, spent_usd=spent / NANO)
    return ()
