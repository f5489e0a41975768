"""What a period is, and the one before it."""

from __future__ import annotations

import pytest

from gw.admin.periods import BOUNDED, ROLLING, moment, read_period
from gw.errors import RequestError
from tests.fakes.temporary_gateway import DAY_S, NOON

MIDNIGHT = NOON - NOON % DAY_S


def test_periods_of_utc_days_are_compared_until_the_same_time():
    for name, days in (("today", 1), ("week", 7), ("month", 30)):
        period = read_period(NOON, period=name)
        assert (period.since, period.until, period.open) == (MIDNIGHT - (days - 1) * DAY_S, NOON, True)
        assert period.before is not None
        assert (period.before.since, period.before.until) == (period.since - days * DAY_S, NOON - days * DAY_S)
        assert not period.before.open
    assert read_period(NOON) == read_period(NOON, period="today")
    assert read_period(NOON, period="all").before is None


def test_periods_that_end_now_follow_the_one_before():
    for name, length in ROLLING.items():
        period = read_period(NOON + 0.5, period=name)
        assert (period.since, period.until) == (NOON + 0.5 - length, NOON + 0.5)
        assert period.before is not None
        assert (period.before.since, period.before.until) == (NOON + 0.5 - 2 * length, period.since)


def test_custom_periods():
    assert moment("2026-01-31T09:30:00Z", "from") == moment("2026-01-31T09:30:00", "from") == 1_769_851_800.0
    assert moment("2026-01-31T10:30:00 01:00", "from") == 1_769_851_800.0, "a plus sign that was not encoded"
    assert moment("1769851800.5", "from") == 1_769_851_800.5
    period = read_period(NOON, since=str(NOON - 900), until=str(NOON - 300))
    assert (period.name, period.since, period.until, period.open) == ("custom", NOON - 900, NOON - 300, False)
    assert period.before is not None
    assert (period.before.since, period.before.until) == (NOON - 1_500, NOON - 900)
    assert read_period(NOON, since=str(NOON - 900), period="custom").open


def test_what_is_no_period():
    for fields in (
        {"period": "x"}, {"period": ""}, {"period": "custom"}, {"until": "5"}, {"since": "5", "period": "week"}, {"since": "x"},
        {"since": "nan"}, {"since": "-1"}, {"since": "9", "until": "9"}, {"since": "10", "until": "9"},
        {"since": str(NOON + 1)}, {"since": "0", "until": str(NOON)},
    ):  # fmt: skip
        with pytest.raises(RequestError) as caught:
            read_period(NOON, **fields)
        assert caught.value.status == 422


def test_points_are_as_fine_as_the_period_is_short():
    periods = {name: read_period(NOON, period=name) for name in BOUNDED}
    steps = {name: (period.step(None, split=False), period.step(None, split=True)) for name, period in periods.items()}
    assert steps == {
        "today": (3_600, 3_600), "week": (DAY_S, DAY_S), "month": (DAY_S, DAY_S), "15m": (10, 60), "1h": (10, 60),
        "24h": (60, 3_600), "7d": (3_600, 3_600), "30d": (DAY_S, DAY_S),
    }  # fmt: skip
    assert read_period(NOON, period="24h").step("600", split=True) == 600
    for step in ("7", "x", "0", "10"):
        with pytest.raises(RequestError):
            read_period(NOON, period="24h").step(step, split=False)


def test_steps_cover_the_period():
    period = read_period(NOON + 5, period="15m")
    buckets = period.buckets(10)
    assert (buckets[0] * 10, buckets[-1] * 10) == (NOON - 900, NOON)
    closed = read_period(NOON, since=str(NOON - 60), until=str(NOON - 30))
    assert [bucket * 10 for bucket in closed.buckets(10)] == [NOON - 60, NOON - 50, NOON - 40]
