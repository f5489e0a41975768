import pytest

from gw.wire.whole_words import WholeWords


@pytest.mark.parametrize(
    ("pieces", "words", "last"),
    [
        (("Hel", "lo wor", "ld. "), ["", "Hello ", "world. "], ""),
        (("one", " two"), ["", "one "], "two"),
        (("你好", "吗"), ["你好", "吗"], ""),
        (("see 你b", "c"), ["see 你", ""], "bc"),
        (("x" * 150, "x" * 51, "y"), ["", "x" * 201, ""], "y"),
        (("", ""), ["", ""], ""),
    ],
)
def test_the_beginning_of_a_word_waits_for_its_end(pieces, words, last):
    text = WholeWords()
    assert [text.add(piece) for piece in pieces] == words
    assert text.end() == last
    assert text.end() == ""
