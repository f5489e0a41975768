from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from gw.policy import budget
from gw.relay.admission import Ledger
from gw.telemetry.clock import DAY_S
from gw.types.usage import NANO

MIDDAY = 20_000 * DAY_S + DAY_S / 2


@attrs.define
class WallClock:
    at: float = MIDDAY

    def now(self) -> float:
        return self.at


def test_settling_releases_the_reservation_and_books_the_cost():
    ledger = Ledger(WallClock(), {"p": 5})
    held = ledger.reserve("p", 100)
    assert (ledger.spent("p"), ledger.reserved("p")) == (5, 100)
    ledger.settle(held, 70)
    assert (ledger.spent("p"), ledger.reserved("p")) == (75, 0)


def test_midnight_utc_empties_the_spend_but_not_the_reservations():
    clock = WallClock()
    ledger = Ledger(clock, {"p": 5})
    held = ledger.reserve("p", 100)
    clock.at = 20_001 * DAY_S
    assert (ledger.spent("p"), ledger.reserved("p")) == (0, 100)
    ledger.settle(held, 70)
    assert (ledger.spent("p"), ledger.reserved("p")) == (0, 0)  # booked to the day it began on


def test_the_day_never_moves_back():
    clock = WallClock()
    ledger = Ledger(clock, {"p": 5})
    clock.at = MIDDAY - 3 * DAY_S
    assert ledger.spent("p") == 5
    assert ledger.day == 20_000


def test_status_at_79_80_and_100_percent():
    spent = [Ledger(WallClock(), {"p": NANO * percent // 100}).spent("p") for percent in (0, 79, 80, 99, 100, 150)]
    seen = [budget.status(nusd, NANO) for nusd in spent]
    assert seen == ["ok", "ok", "warning", "warning", "exceeded", "exceeded"]


class LedgerMachine(RuleBasedStateMachine):
    """Whatever begins and ends in whatever order: nothing is lost, nothing is held for ever."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.clock = WallClock()
        self.ledger = Ledger(self.clock, {})
        self.running: list = []
        self.booked = 0

    @rule(target=held, nusd=st.integers(0, 10**9))
    def reserve(self, nusd):
        reservation = self.ledger.reserve("p", nusd)
        self.running.append(reservation)
        return reservation

    @rule(reservation=consumes(held), nusd=st.integers(0, 10**9))
    def settle(self, reservation, nusd):
        self.ledger.settle(reservation, nusd)
        self.running.remove(reservation)
        if reservation.day == self.ledger.day:
            self.booked += nusd

    @rule(days=st.integers(-2, 2))
    def pass_time(self, days):
        before = self.ledger.day
        self.clock.at += days * DAY_S
        if self.ledger.day != before:
            self.booked = 0

    @invariant()
    def books_balance(self):
        assert self.ledger.reserved("p") == sum(r.nusd for r in self.running)
        assert self.ledger.spent("p") == self.booked


TestLedgerMachine = LedgerMachine.TestCase
