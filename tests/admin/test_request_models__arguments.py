"""Checks of the arguments of reports."""

from __future__ import annotations

import pytest

from gw.admin.request_models import first_day, page_size
from gw.errors import RequestError
from tests.fakes.temporary_gateway import DAY_S, NOON


@pytest.mark.parametrize(("period", "days_back"), [("today", 0), ("week", 6), ("month", 29)])
def test_periods_are_utc_days_including_today(period, days_back):
    assert first_day(period, NOON) == 20_000 - days_back
    assert first_day(period, 20_000 * DAY_S) == 20_000 - days_back
    assert first_day(period, 20_001 * DAY_S - 1) == 20_000 - days_back


def test_all_has_no_beginning():
    assert first_day("all", NOON) is None


@pytest.mark.parametrize("period", ["", "Today", "year", "day", "all "])
def test_an_unknown_period_is_never_all(period):
    with pytest.raises(RequestError) as caught:
        first_day(period, NOON)
    assert caught.value.param == "period"


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("1000", 1000), (7, 7), ("007", 7)])
def test_good_limits(value, number):
    assert page_size(value, 1000) == number


@pytest.mark.parametrize("value", ["0", "1001", "-1", "+1", "1.0", "1e2", "ten", "", " 5", "٣", "9" * 5000, -3, 0])
def test_bad_limits(value):
    with pytest.raises(RequestError) as caught:
        page_size(value, 1000)
    assert caught.value.param == "limit"
