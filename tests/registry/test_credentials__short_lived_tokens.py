"""Short-lived tokens: nobody else makes one, and none of it tells whose key it was."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.registry.credentials import PREFIX, Grant, ShortLivedTokens, new_single_use_id

DIGEST = sha256(b"gwk_shop-key-8351026789").digest()
TOKENS = ShortLivedTokens()
GRANT = Grant(TOKENS.key_fingerprint(DIGEST), "shop", 1_800_000_000.5)


def test_what_is_issued_is_read():
    token = TOKENS.issue(GRANT)
    assert token.isascii()
    assert token.replace("_", "").replace("-", "").isalnum()
    assert TOKENS.read(token.encode()) == GRANT
    assert DIGEST[:8] not in token.encode()


@pytest.mark.parametrize("at", range(4, 90, 7))
def test_a_changed_token_is_none(at):
    token = TOKENS.issue(GRANT)
    other = "A" if token[at] != "A" else "B"
    assert TOKENS.read((token[:at] + other + token[at + 1 :]).encode()) is None


@given(st.binary(max_size=200))
def test_anything_else_is_none(data):
    assert TOKENS.read(data) is None
    assert TOKENS.read(PREFIX + data) is None


@pytest.mark.parametrize("added", ["!", " ", "+", "/", "é"])
def test_a_token_with_another_letter_is_none(added):
    token = TOKENS.issue(GRANT)
    assert TOKENS.read((token + added).encode()) is None
    assert TOKENS.read((token[:20] + added + token[20:]).encode()) is None


def test_marks_differ_with_their_keys():
    assert TOKENS.key_fingerprint(DIGEST) == TOKENS.key_fingerprint(DIGEST) != TOKENS.key_fingerprint(sha256(b"x").digest())


def test_a_single_use_token_has_an_id_of_its_own():
    first, second = (Grant(TOKENS.key_fingerprint(DIGEST), "shop", 1_800_000_000.5, new_single_use_id()) for _ in range(2))
    assert first.single_use_id != second.single_use_id
    assert TOKENS.read(TOKENS.issue(first).encode()) == first


def test_another_gateway_does_not_accept_it():
    other = ShortLivedTokens()
    assert other.read(TOKENS.issue(GRANT).encode()) is None
    assert other.key_fingerprint(DIGEST) != TOKENS.key_fingerprint(DIGEST)
