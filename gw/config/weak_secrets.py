"""Rules for tokens and keys that people choose themselves: too easily guessed ones are refused.

A token guards everything that the gateway can spend, and nothing limits how often a network may try. Random tokens pass; the rules only
catch what people write by hand: short texts, repetitions, sequences, words, and examples from documentation.
"""

from __future__ import annotations

import re

FEWEST_CHARACTERS = 16
"""A random text of letters and digits of this length has more than 90 bits."""
_FEWEST_DIFFERENT = 6
_FEWEST_UNPREDICTABLE = 12
HINT = "use a random one, such as the output of `openssl rand -hex 32`"

_EXAMPLE = re.compile(
    r"change[-_ ]?me|change[-_ ]?this|replace[-_ ]?|example|placeholder|your[-_ ]|<.*>|\$\{|lorem|correct horse", re.IGNORECASE
)
_WORD = re.compile(
    r"password|passwort|passwd|secret|admin(istrator)?|token|gateway|default|test(ing)?|demo|bench|qwerty(uiop)?|asdf(ghjkl)?|zxcvbnm?"
    r"|letmein|welcome|dragon|monkey|master|public|private|access|super|user|root|login|key|gwk?|voice|local(host)?|dev(elopment)?|prod(uction)?",
    re.IGNORECASE,
)
_LONGEST_RUN = 4


def weakness(value: str) -> str:
    """Return why `value` is too easy to guess, to be read after the name of a setting; "" if it is not, or is empty.

    The text says nothing of the value beyond the rule that it breaks.
    """
    if not value:
        return ""
    if len(value) < FEWEST_CHARACTERS:
        return f"is too short: it must have at least {FEWEST_CHARACTERS} characters"
    if _EXAMPLE.search(value):
        return "is an example or a placeholder"
    if len(set(value.casefold())) < _FEWEST_DIFFERENT or _is_repetition(value):
        return "is too easy to guess: it repeats a few characters"
    if len(_without_runs(_WORD.sub("w", value))) < _FEWEST_UNPREDICTABLE:
        return "is too easy to guess: it consists of common words or sequences"
    return ""


def _is_repetition(value: str) -> bool:
    """Return whether the value is a shorter text, repeated."""
    return value in (value + value)[1:-1]


def _without_runs(value: str) -> str:
    """Return `value` with each run of more than four equal, ascending or descending characters cut to two."""
    kept: list[str] = []
    start = 0
    while start < len(value):
        end = _run_end(value, start)
        kept.append(value[start : start + 2] if end - start > _LONGEST_RUN else value[start:end])
        start = end
    return "".join(kept)


def _run_end(value: str, start: int) -> int:
    """Return where the run of equal steps that begins at `start` ends."""
    codes = [ord(character) for character in value[start:]]
    for step in (-1, 0, 1):
        length = 1
        while length < len(codes) and codes[length] - codes[length - 1] == step:
            length += 1
        if length > _LONGEST_RUN:
            return start + length
    return start + 1
