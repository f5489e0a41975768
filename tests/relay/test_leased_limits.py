"""Test the reason of a refusal where several processes share a limit: it is used up, not known, or this process is alone."""

from __future__ import annotations

import pytest
import trio

from gw.errors import KeyRateLimited, TooManyAtOnce
from gw.policy.bucket import Bucket
from gw.relay.key_limits import KeyUse, check_concurrency, check_rate
from gw.relay.leased_limits import LeasedBucket, LeasedSlots, why_refused
from gw.relay.leases import ALONE_S, Leases
from gw.relay.shared_key import SharedKey
from gw.types.ids import KeyLimits
from tests.fakes.slow_bank import SlowBank


@pytest.fixture
async def bank(autojump_clock):
    return SlowBank()


@pytest.fixture
async def leases(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    yield leases
    nursery.cancel_scope.cancel()


async def refused(leases, shared):
    """Wait as a request does, and return what its refusal says."""
    if (wait := leases.wait(shared.lease, 1)) is not None:
        await wait
    if isinstance(shared, LeasedBucket):
        assert shared.take(trio.current_time())
    return why_refused(shared, "requests_per_minute 1", "used up")


def test_a_limit_of_one_process_is_used_up():
    assert why_refused(Bucket(1, 0.0), "requests_per_minute 1", "used up") == "used up"
    assert why_refused(None, "max_concurrent 1", "max_concurrent reached") == "max_concurrent reached"


async def test_a_rate_says_whether_it_is_used_up_or_the_answer_is_late(leases, bank):
    bucket = LeasedBucket(leases, "rate:p", 1)
    bank.hold()
    assert await refused(leases, bucket) == "what is left of requests_per_minute 1 is not known: no answer within 50 ms"
    bank.answer()
    assert await leases.wait(bucket.lease, 1)
    assert not bucket.take(trio.current_time())
    assert await refused(leases, bucket) == "used up"
    bank.hold()
    assert await refused(leases, bucket) == "used up"  # for as long as the last answer says


async def test_a_process_that_is_alone_says_so(leases, bank):
    bucket = LeasedBucket(leases, "rate:p", 1)
    bank.away = True
    await trio.sleep(2 * ALONE_S + 1)
    assert await refused(leases, bucket) == (
        "the part of requests_per_minute 1 that this process has alone, 1, is used up: "
        "the fleet's Valkey server at bank cannot be used: away"
    )


async def test_slots_say_whether_they_are_in_use_or_the_answer_is_late(leases, bank):
    slots = LeasedSlots(leases, "slots:p", 1, lambda: 0, lambda: None)
    bank.hold()
    assert await refused(leases, slots) == "what is left of requests_per_minute 1 is not known: no answer within 50 ms"
    bank.answer()
    assert await leases.wait(slots.lease, 1)
    slots.enter()
    assert await refused(leases, slots) == "used up"


async def test_the_limits_of_a_key_say_it_too(leases, bank):
    limits = KeyLimits(requests_per_minute=60, max_concurrent=2)
    use = KeyUse()
    use.shared = SharedKey(leases, "till", lambda: 0)
    use.shared.follow(limits)
    bank.hold()
    for shared in (use.shared.bucket, use.shared.slots):
        if (wait := leases.wait(shared.lease, 1)) is not None:
            await wait
    with pytest.raises(KeyRateLimited, match="what is left of the limit of the key 'till', 60 requests a minute, is not known: no ans"):
        check_rate(use, limits, "till", trio.current_time())
    with pytest.raises(TooManyAtOnce, match="the limit of the key 'till', 2 requests and sessions at once, is not known: no answer"):
        check_concurrency(use, limits, "till")
