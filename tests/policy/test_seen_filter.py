from __future__ import annotations

from hashlib import sha256

from gw.policy.seen_filter import SeenFilter


def key(number):
    return sha256(b"%d" % number).digest()


def test_what_was_added_is_in_it_and_nearly_nothing_else():
    seen = SeenFilter(2**16)
    for number in range(2_000):
        seen.add(key(number))
    assert all(key(number) in seen for number in range(2_000))
    assert sum(key(number) in seen for number in range(10_000, 20_000)) < 100
    seen.clear()
    assert not any(key(number) in seen for number in range(2_000))
