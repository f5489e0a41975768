from __future__ import annotations

import pytest

from gw.errors import CandidateSkipped, ProviderFailed, ProviderRejected, RateLimitError, UpstreamCut, UpstreamSlow
from gw.relay.dial_order import SERVED_S, DialOrder
from gw.types.entities import Model

A, B = (Model(id=f"{name}/x", modality="stt", provider=name, name="x") for name in "ab")
CUT = UpstreamCut(provider="p", detail="closed")


def test_each_candidate_and_then_again_those_that_were_open():
    order = DialOrder([A, B])
    assert next(order) is A
    order.failed(A, CUT, 0.0)
    assert next(order) is B  # and its handshake fails: nobody says so
    assert order.has_next
    assert next(order) is A
    order.failed(A, CUT, SERVED_S - 1)
    assert not order.has_next
    assert list(order) == []


def test_one_that_has_served_for_a_while_is_dialled_again():
    order = DialOrder([A])
    for _ in range(5):
        assert next(order) is A
        assert order.can_follow(A, SERVED_S)
        order.failed(A, UpstreamSlow(provider="p", after_s=1.0, detail=""), SERVED_S)
    assert next(order) is A
    assert not order.can_follow(A, 1.0)


def test_the_first_failure_can_always_be_followed():
    order = DialOrder([A])
    next(order)
    assert order.can_follow(A, 0.0)
    assert not order.has_next


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError(provider="p", limit_source="upstream", detail=""),
        ProviderRejected(provider="p", upstream_status=101, fault="candidate", detail=""),
        CandidateSkipped(provider="p", reason="busy", detail=""),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_fail_again_is_not_dialled_again(error):
    order = DialOrder([A])
    next(order)
    order.failed(A, error, 0.0)
    assert not order.has_next


def test_a_failure_of_the_vendors_is():
    order = DialOrder([A])
    next(order)
    order.failed(A, ProviderFailed(provider="p", detail="", upstream_status=101), 0.0)
    assert next(order) is A
