import math

import pytest

from gw.policy.hedge import begin_after


@pytest.mark.parametrize(("setting_ms", "expected_s"), [(None, math.inf), (300.0, 0.3), (0.5, 0.0005)])
def test_seconds_from_the_setting(setting_ms, expected_s):
    assert begin_after(setting_ms) == expected_s
