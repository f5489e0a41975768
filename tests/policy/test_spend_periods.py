from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.policy.spend_periods import PERIODS, EarlierSpend, first_day

EPOCH = date(1970, 1, 1)
days = st.integers(0, 60_000)


def day_of(text: str) -> int:
    return (date.fromisoformat(text) - EPOCH).days


@pytest.mark.parametrize(
    ("day", "week", "month"),
    [
        ("2026-11-25", "2026-11-23", "2026-11-01"),
        ("2026-11-23", "2026-11-23", "2026-11-01"),
        ("2026-11-22", "2026-11-16", "2026-11-01"),
        ("2026-12-01", "2026-11-30", "2026-12-01"),
        ("2024-02-29", "2024-02-26", "2024-02-01"),
        ("1970-01-01", "1969-12-29", "1970-01-01"),
    ],
)
def test_first_days(day, week, month):
    assert [first_day(period, day_of(day)) for period in ("day", "week", "month")] == [day_of(day), day_of(week), day_of(month)]


@given(days)
def test_periods_are_those_of_the_calendar(day):
    today = EPOCH + timedelta(day)
    assert EPOCH + timedelta(first_day("week", day)) == today - timedelta(today.weekday())
    assert EPOCH + timedelta(first_day("month", day)) == today.replace(day=1)
    assert first_day("total", day) <= 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 100), st.integers(0, 50)), max_size=30), days)
def test_sums_are_those_of_the_days_in_each_period(steps, start):
    """Days pass, money is spent on them, and some of it is known only on a later day."""
    day, today, earlier = start, 0, EarlierSpend()
    spent: dict[int, int] = {}
    for passed, amount, late in steps:
        if passed:
            earlier.end_day(day, day + passed, today)
            day, today = day + passed, 0
        today += amount
        spent[day] = spent.get(day, 0) + amount
        before = day - 1 - late % 35
        earlier.add_late(before, day, late)
        spent[before] = spent.get(before, 0) + late
    for period in PERIODS:
        begins = first_day(period, day)
        assert today + earlier.of(period) == sum(amount for when, amount in spent.items() if begins <= when <= day)
