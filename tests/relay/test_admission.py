from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs

from gw.errors import BudgetExceededError, BudgetReserved, StoreUnavailable, TooManyAtOnce
from gw.relay.admission import Ledger, admit
from gw.relay.key_limits import project_budgets
from gw.relay.leases import Leases
from gw.types.entities import Project
from gw.workers.keeper_bank import KeeperBank


class NoonClock:
    def now(self):
        return 20_000 * 86_400 + 43_200


def project(action="block", budget=1_000):
    return Project(id="shop", daily_budget_nusd=budget, budget_action=action)


def ledger(spent=0):
    return Ledger(NoonClock(), {"shop": spent})


def test_without_a_budget_the_estimate_is_reserved_all_the_same():
    book = ledger(10_000)
    held = admit(book, project(budget=0), 70, store_accepts=False)
    assert (held.project, held.nusd, book.reserved("shop")) == ("shop", 70, 70)


def test_within_the_budget():
    book = ledger(900)
    admit(book, project(), 50, store_accepts=True)
    assert book.reserved("shop") == 50


def test_what_runs_counts_with_what_is_spent():
    book = ledger(400)
    admit(book, project(), 600, store_accepts=True)
    with pytest.raises(BudgetReserved) as caught:
        admit(book, project(), 1, store_accepts=True)
    assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (503, "budget_reserved", 1.0)
    assert "(spent $4e-07, reserved $6e-07)" in caught.value.message
    assert book.reserved("shop") == 600


def test_what_is_spent_alone_refuses_for_the_day():
    with pytest.raises(BudgetExceededError) as caught:
        admit(ledger(1_000), project(), 1, store_accepts=True)
    assert caught.value.spent == pytest.approx(1_000 / 1e9)


def test_a_warned_project_goes_on_and_the_log_says_so():
    book = ledger(5_000)
    with capture_logs() as logs:
        admit(book, project("warn"), 50, store_accepts=False)
    assert book.reserved("shop") == 50
    assert [(entry["event"], entry["project"]) for entry in logs] == [("budget_exceeded", "shop")]


def test_a_blocking_budget_needs_a_store():
    book = ledger()
    with pytest.raises(StoreUnavailable):
        admit(book, project(), 50, store_accepts=False)
    assert book.reserved("shop") == 0


def test_a_project_has_so_many_requests_at_once_and_no_more():
    book, busy = ledger(), Project(id="shop", max_concurrent=2)
    held = [admit(book, busy, nusd, store_accepts=True) for nusd in (0, 5)]
    with pytest.raises(TooManyAtOnce) as caught:
        admit(book, busy, 0, store_accepts=True)
    assert (caught.value.status, caught.value.code) == (429, "rate_limited")
    assert "'shop'" in caught.value.message
    admit(book, Project(id="other", max_concurrent=2), 0, store_accepts=True)
    book.settle(held[0], 3)
    assert book.in_flight("shop") == 1
    admit(book, busy, 0, store_accepts=True)


async def test_what_other_processes_have_spent_is_shown_and_taken_over_with_the_lease(autojump_clock):
    bank, day = KeeperBank(), 20_000
    keepers, workers = Leases(bank, "keeper"), Leases(bank, "w1")
    async with trio.open_nursery() as nursery:
        await nursery.start(keepers.run)
        await nursery.start(workers.run)
        book = Ledger(NoonClock(), {"shop": 100}, leases=keepers)
        [own] = book.budget_leases(project_budgets(project()))
        theirs = workers.lease(own.lease.account, "budget", 1_000)
        await workers.wait(theirs, 300)
        theirs.reserve(300)
        theirs.settle(300, 300)
        book.count_elsewhere("shop", day, 300, 50)
        book.count_elsewhere("shop", day - 1, 999, 0)  # a request that began yesterday
        assert (book.spent("shop"), book.spent_in_fleet("shop"), book.cost("shop")) == (100, 400, 350)
        book.take_over("shop", day, 300, 50)
        assert (book.spent("shop"), book.cost("shop")) == (400, 350)
        assert own.lease.used == 400
        nursery.cancel_scope.cancel()
