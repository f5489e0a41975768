from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gw.errors import BudgetExceededError, StoreUnavailable
from gw.relay.admission import admit
from gw.relay.ledger import Ledger
from gw.types.project import Project


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
    with pytest.raises(BudgetExceededError) as caught:
        admit(book, project(), 1, store_accepts=True)
    assert caught.value.spent == pytest.approx(1_000 / 1e9)
    assert book.reserved("shop") == 600


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
