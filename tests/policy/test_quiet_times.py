import pytest

from gw.policy.quiet_times import QuietTime, is_quiet

MON, FRI, SAT, SUN = 0, 4, 5, 6


def at(text, weekday, clock):
    hours, minutes = clock.split(":")
    return is_quiet([QuietTime.parse(text)], weekday, int(hours) * 60 + int(minutes))


@pytest.mark.parametrize(
    ("text", "weekday", "clock", "quiet"),
    [
        ("22:00-07:00", MON, "21:59", False),
        ("22:00-07:00", MON, "22:00", True),
        ("22:00-07:00", MON, "06:59", True),
        ("22:00-07:00", MON, "07:00", False),
        ("12:00-13:00", SUN, "12:30", True),
        ("sat-sun 00:00-24:00", SAT, "00:00", True),
        ("sat-sun 00:00-24:00", SUN, "23:59", True),
        ("sat-sun 00:00-24:00", MON, "00:00", False),
        ("fri 22:00-06:00", SAT, "05:59", True),
        ("fri 22:00-06:00", FRI, "05:59", False),
        ("sun-mon 08:00-09:00", MON, "08:30", True),
        ("sun-mon 08:00-09:00", SAT, "08:30", False),
        ("00:00-00:00", MON, "15:00", True),
    ],
)
def test_a_time_of_the_week(text, weekday, clock, quiet):
    assert at(text, weekday, clock) is quiet


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("22-7", "write it as"), ("25:00-07:00", "25:00"), ("22:61-07:00", "22:61"), ("foo 22:00-07:00", "'foo' is not a day"),
        ("24:00-07:00", "24:00"), ("", "write it as"),
    ],
)
def test_what_is_no_time_of_the_week(text, why):
    with pytest.raises(ValueError, match=why):
        QuietTime.parse(text)


def test_several_times():
    times = [QuietTime.parse("sat-sun 00:00-24:00"), QuietTime.parse("22:00-07:00")]
    assert [is_quiet(times, day, 12 * 60) for day in range(7)] == [False] * 5 + [True] * 2
