"""Text of live speech is cut into parts for the cache and parts for the vendor, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.policy.phrase_parts import TextParts, beginning_of, beginnings

GREETING = "Welcome to the hotel. How can I help you?"


class Kept:
    def __init__(self, *texts):
        self.texts = set(texts)

    def has(self, text):
        return text in self.texts

    def may_have(self, beginning):
        return any(text.startswith(beginning_of(beginning)) for text in self.texts)


def write(parts, text):
    parts.add(text)
    parts.decide()


def shown(parts, text):
    """Return the parts as they are: `=` from the cache, `>` for the vendor, `|` closed."""
    made = []
    while parts.has_next:
        part = parts.next()
        made.append("flush" if part.is_flush else ("=" if part.cached else ">") + text[part.start : part.end] + "|" * part.closed)
    return made


def cut(pieces, *texts, only_whole=False):
    parts = TextParts(Kept(*texts), only_whole=only_whole)
    for piece in pieces:
        write(parts, piece) if piece is not None else parts.flush()
    parts.finish()
    assert not parts.held
    return shown(parts, "".join(piece or "" for piece in pieces))


@pytest.mark.parametrize(
    ("pieces", "made"),
    [
        ([GREETING], ["=" + GREETING + "|"]),
        (list(GREETING), ["=" + GREETING + "|"]),
        (["Welcome to the hotel. ", "How can I help you? ", " "], ["=" + GREETING + "|"]),
        ([GREETING + " Or not?"], ["=" + GREETING + "|", "> Or not?|"]),
        (["Good day. ", GREETING], [">Good day. |", "=" + GREETING + "|"]),
        (["Good day. " + GREETING], [">Good day.|", "= " + GREETING + "|"]),
        (["Good day. ", GREETING, " Bye."], [">Good day. |", "=" + GREETING + "|", "> Bye.|"]),
        (["Welcome to the hotel", ", madam."], [">Welcome to the hotel, madam.|"]),
        (["Welcome to the hotel. Bye."], [">Welcome to the hotel. Bye.|"]),
        (["Yes. One moment. No."], [">Yes.|", "= One moment.|", "> No.|"]),
        (["One moment"], [">One moment|"]),
        (["One moment. ", None, "One moment."], ["=One moment.|", "flush", "=One moment.|"]),
        (["Yes. ", None, "One moment.", None], [">Yes. |", "=One moment.|", "flush"]),
        (["I owe you 3.", "5 dollars. "], [">I owe you 3.5 dollars. |"]),
        (["请稍等。", "谢谢。"], ["=请稍等。|", ">谢谢。|"]),
        (["  "], []),
        ([], []),
    ],
)  # fmt: skip
def test_what_is_kept_comes_from_the_cache(pieces, made):
    assert cut(pieces, GREETING, "One moment.", "请稍等。", "I owe you 3.") == made


def test_a_whole_text_or_nothing():
    assert cut(["One moment. ", None], "One moment.", only_whole=True) == ["=One moment. |", "flush"]
    assert cut(["One moment."], "One moment.", only_whole=True) == ["=One moment.|"]
    assert cut(["Yes. One moment."], "One moment.", only_whole=True) == [">Yes. One moment.|"]
    assert cut(["Yes. ", None, "One moment."], "One moment.", only_whole=True) == [">Yes. One moment.|"]


def test_text_is_held_only_while_it_may_be_a_kept_one():
    parts = TextParts(Kept(GREETING))
    write(parts, "Welcome to the ")
    assert (parts.held, parts.has_next) == (True, False)
    write(parts, "zoo, where ")
    assert (parts.held, parts.has_next) == (False, True)
    part = parts.next()
    write(parts, "all is green")
    assert (part.end, part.closed) == (len("Welcome to the zoo, where all is green"), False)
    parts.finish()
    assert (part.closed, parts.is_over) == (True, True)


def test_a_hold_that_is_over():
    parts = TextParts(Kept(GREETING, "Welcome to the hotel."))
    write(parts, "Welcome to the hotel.")
    assert parts.held
    parts.expire()
    assert shown(parts, "Welcome to the hotel.") == ["=Welcome to the hotel.|"]
    write(parts, " Welcome to the")
    parts.expire()
    assert (parts.held, parts.next().cached) == (False, False)


def test_an_interruption_drops_what_was_not_begun():
    parts = TextParts(Kept("One moment."))
    write(parts, "Yes. One moment. No, welc")
    part = parts.next()
    parts.clear()
    assert (part.closed, parts.has_next, parts.held) == (True, False, False)
    write(parts, "One moment. ")
    assert parts.next().cached
    write(parts, "Something else")
    part = parts.next()
    parts.clear()
    write(parts, " again. ")
    assert (part.closed, part.end) == (False, len("Yes. One moment. No, welcOne moment. Something else again. "))


@given(
    st.lists(st.sampled_from(["Yes", " no", ". ", "One ", "moment.", " ", "Good bye!", "\n", "3.", "5", None]), max_size=12),
    st.integers(0, 12),
)
def test_every_character_is_in_one_part_and_in_order(pieces, cleared_at):
    parts, text, made = TextParts(Kept("One moment.", "Good bye!", "Yes. no")), "", []
    for n, piece in enumerate(pieces):
        if piece is None:
            parts.flush()
        else:
            text += piece
            write(parts, piece)
        if n == cleared_at:
            parts.expire()
        while parts.has_next:
            made.append(parts.next())
    parts.finish()
    while parts.has_next:
        made.append(parts.next())
    assert parts.is_over
    at = 0
    for part in made:
        assert text[at : part.start].strip() == ""
        assert part.start >= at
        assert part.closed or part.is_flush
        at = part.end
    assert text[at:].strip() == ""


def test_beginnings_are_few():
    assert beginnings(6) == [1, 2, 3, 4, 5, 6]
    assert len(beginnings(300)) < 30
    assert beginning_of("") == ""
