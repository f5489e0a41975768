import math

import pytest

from gw.policy.hedge import begin_after


@pytest.mark.parametrize(
    ("setting_ms", "p95_s", "expected_s"),
    [(None, None, math.inf), (None, 0.2, math.inf), (300.0, None, 0.3), (300.0, 0.1, 0.3), (300.0, 0.9, 0.9), (0.0, None, 0.0)],
)
def test_the_later_of_the_setting_and_the_usual(setting_ms, p95_s, expected_s):
    assert begin_after(setting_ms, p95_s) == expected_s
