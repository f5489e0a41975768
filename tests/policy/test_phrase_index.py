from __future__ import annotations

from gw.policy.phrase_index import MARK_BYTES, PhraseIndex


class Reversed:
    """Hashes that can be read: the text from behind."""

    def hashed(self, key):
        return key[::-1]

    def hashed_mark(self, mark):
        return mark[::-1][:MARK_BYTES]


def test_nothing_is_there_before_its_hashes_can_be_made():
    index = PhraseIndex(2**10, 2**10)
    assert (index.may_have(b"12345678"), index.may_begin(b"12345678")) == (False, False)
    index.hashes = Reversed()
    assert (index.may_have(b"12345678"), index.may_begin(b"12345678")) == (True, False)  # anything, before all of it is known


def test_what_was_noted_is_there_until_it_is_cleared():
    index = PhraseIndex(2**10, 2**10)
    index.hashes, index.is_whole = Reversed(), True
    index.note(b"87654321", b"hgfedcba" + b"ponmlkji")
    assert index.may_have(b"12345678")
    assert index.may_begin(b"abcdefgh")
    assert index.may_begin(b"ijklmnop")
    assert not index.may_have(b"abcdefgh")
    assert not index.may_begin(b"12345678")
    index.clear()
    assert not index.may_have(b"12345678")
    assert not index.may_begin(b"abcdefgh")
