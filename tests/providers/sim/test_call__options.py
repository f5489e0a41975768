import attrs
import pytest

from gw.providers.sim.call import SimOptions
from gw.types.provider_types import PROVIDER_TYPES


def test_defaults_and_foreign_options():
    assert SimOptions.parse({"device": "cpu", "latency_ms": None}) == SimOptions()


def test_every_option_is_read():
    options = {
        "latency_ms": 5,
        "token_ms": "2.5",
        "fail_rate": 0.25,
        "fail_with": "503",
        "retry_after_s": 1,
        "rate_limit": 60,
        "refuse": "true",
        "cut_after": 3,
        "script": {"a": "b"},
    }
    assert set(options) == set(PROVIDER_TYPES["sim"].options) == {field.name for field in attrs.fields(SimOptions)}
    assert SimOptions.parse(options) == SimOptions(
        latency_ms=5.0, token_ms=2.5, fail_rate=0.25, fail_with=503, retry_after_s=1.0,
        rate_limit=60, refuse=True, cut_after=3, script={"a": "b"},
    )  # fmt: skip


@pytest.mark.parametrize("word", ["reset", "malformed", "refused", "slow"])
def test_faults_by_name(word):
    assert SimOptions.parse({"fail_with": word}).fail_with == word


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("latency_ms", -1, "a number from 0"),
        ("latency_ms", True, "a number from 0"),
        ("token_ms", float("nan"), "a number from 0"),
        ("token_ms", "fast", "a number from 0"),
        ("fail_rate", 1.1, "from 0 to 1"),
        ("fail_with", 200, "HTTP status from 400 to 599 or one of reset"),
        ("fail_with", "bang", "HTTP status from 400 to 599 or one of reset"),
        ("rate_limit", 0, "from 1"),
        ("rate_limit", 1.5, "whole number"),
        ("cut_after", -1, "from 0"),
        ("refuse", "perhaps", "true or false"),
        ("refuse", 1, "true or false"),
        ("script", ["a"], "map a piece"),
        ("script", {"a": 1}, "map a piece"),
    ],
)
def test_a_bad_value_is_an_error_naming_the_option(name, value, what):
    with pytest.raises(ValueError, match=f"^{name} must .*{what}"):
        SimOptions.parse({name: value})
