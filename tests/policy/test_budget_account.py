from __future__ import annotations

from datetime import date

import pytest

from gw.policy.budget_account import account_of, parse_account

FRIDAY = date(2026, 10, 30).toordinal() - date(1970, 1, 1).toordinal()


@pytest.mark.parametrize(("period", "days"), [("day", 1), ("week", 3), ("month", 2), ("total", 10_000)])
def test_an_account_is_that_of_one_period(period, days):
    """From a Friday: the next day, Monday, and Sunday the first of November."""
    account = account_of(("key", "till:1"), period, FRIDAY)
    assert parse_account(account.name) == account
    assert account.is_current(FRIDAY)
    assert account.is_current(FRIDAY + days - 1)
    assert account.is_current(FRIDAY + days) == (period == "total")


def test_accounts_of_rates_and_slots_are_no_budgets():
    assert parse_account("rate:openai") is None
    assert parse_account("slots:project:budget") is None
