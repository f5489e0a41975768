"""Replaces what names a person in texts that are to be kept: card numbers, other long numbers, mail addresses, listed names.

It prefers to replace too much. Every number of seven digits or more goes, however it is grouped, except a date such as
2026-12-01. It does not understand language: digits that are spelled out ("four one one one") and names that are not
listed stay.
"""

from __future__ import annotations

import re
from functools import lru_cache

CARD, PHONE, NUMBER, MAIL, NAME = "[card]", "[phone]", "[number]", "[mail]", "[name]"
_LEAST_DIGITS, _MOST_PHONE_DIGITS = 7, 15  # E.164 allows 15
_CARD_DIGITS = range(19, 12, -1)

_MAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_DIGITS = re.compile(r"[+(]?\d(?:[ .()/\-\u00a0\u2009\u2010-\u2015\u202f]{0,3}\d)+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4}")


def redacted(text: str, names: tuple[str, ...] = ()) -> str:
    """Return `text` with placeholders."""
    if "@" in text:
        text = _MAIL.sub(MAIL, text)
    text = _DIGITS.sub(_placeholder, text)
    return _any_of(names).sub(NAME, text) if names else text


def _placeholder(match: re.Match[str]) -> str:
    number = match[0]
    digits = [int(c) for c in number if c.isdecimal()]
    if len(digits) < _LEAST_DIGITS or _DATE.fullmatch(number):
        return number
    if _has_card(digits):
        return CARD
    return PHONE if len(digits) <= _MOST_PHONE_DIGITS else NUMBER


def _has_card(digits: list[int]) -> bool:
    """Return whether a card number is among the digits, to which those of a next number may have been joined."""
    return any(
        _passes_luhn(digits[start : start + length])
        for length in _CARD_DIGITS
        for start in range(min(len(digits) - length + 1, 64))
    )


def _passes_luhn(digits: list[int]) -> bool:
    doubled = (digit * 2 for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(digit - 9 if digit > 9 else digit for digit in doubled)) % 10 == 0


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(filter(str.strip, names), key=len, reverse=True)
    if not longest_first:
        return re.compile(r"(?!)")
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
