"""Short-lived tokens: nobody else makes one, and none of it tells whose key it was."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.dialects.short_lived_tokens import PREFIX, Grant, UsedTokens, issue, key_fingerprint, new_single_use_id, read

DIGEST = sha256(b"gwk_shop-key-0123456789").digest()
GRANT = Grant(key_fingerprint(DIGEST), "shop", 1_800_000_000.5)


def test_what_is_issued_is_read():
    token = issue(GRANT)
    assert token.isascii()
    assert token.replace("_", "").replace("-", "").isalnum()
    assert read(token.encode()) == GRANT
    assert DIGEST[:8] not in token.encode()


@pytest.mark.parametrize("at", range(4, 90, 7))
def test_a_changed_token_is_none(at):
    token = issue(GRANT)
    other = "A" if token[at] != "A" else "B"
    assert read((token[:at] + other + token[at + 1 :]).encode()) is None


@given(st.binary(max_size=200))
def test_anything_else_is_none(data):
    assert read(data) is None
    assert read(PREFIX + data) is None


def test_marks_differ_with_their_keys():
    assert key_fingerprint(DIGEST) == key_fingerprint(DIGEST) != key_fingerprint(sha256(b"x").digest())


def test_a_token_of_one_use_has_a_name():
    first, second = (Grant(key_fingerprint(DIGEST), "shop", 1_800_000_000.5, new_single_use_id()) for _ in range(2))
    assert first.single_use_id != second.single_use_id
    assert read(issue(first).encode()) == first


def test_used_names_are_kept_until_their_tokens_end():
    used = UsedTokens(most=2)
    assert used.add(b"a", 900.0, now=0.0)
    assert used.add(b"b", 950.0, now=60.0)
    assert not used.add(b"c", 960.0, now=899.0)
    assert b"a" in used
    assert b"c" not in used
    assert used.add(b"c", 960.0, now=900.0)
    assert b"a" not in used
    assert b"b" in used
    assert b"c" in used
