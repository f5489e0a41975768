"""Words that voices mispronounce, and how they are to be spoken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

MOST_PRONUNCIATIONS = 2_000
LONGEST_WORD, LONGEST_SPOKEN, LONGEST_LANGUAGE = 100, 300, 35


class Pronunciation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One word, or several that belong together, and its respelling (docs/pronunciation.md)."""

    word: Annotated[str, "as it stands in texts; matched as a whole word"]
    say: Annotated[str, "what is spoken in its place, spelled as it sounds"]
    ipa: Annotated[
        str, "phonemes with spaces between them, for models that take them in place of `say`"
    ] = ""
    language: Annotated[str, "only for speech in this language (en, de, …). Default: any"] = ""
    match_case: Annotated[bool, "true: capitals count, so that US is not us"] = False


def problems_of(entries: Iterable[Pronunciation]) -> Iterator[tuple[int, str]]:
    """Yield the position of each entry of a table at fault, and what is wrong with it."""
    seen = set[tuple[str, str, bool]]()
    for number, entry in enumerate(entries):
        identity = _identity(entry)
        if problem := problem_of(entry) or (f"{entry.word!r} appears twice for the same language" if identity in seen else ""):
            yield number, problem
        seen.add(identity)


def _identity(entry: Pronunciation) -> tuple[str, str, bool]:
    return entry.word if entry.match_case else entry.word.casefold(), entry.language.lower(), entry.match_case


def problem_of(entry: Pronunciation, others: Iterable[Pronunciation] = ()) -> str:
    """Return what is wrong with an entry beside the `others` of its table, "" for nothing."""
    for name, longest in (("word", LONGEST_WORD), ("say", LONGEST_SPOKEN), ("ipa", LONGEST_SPOKEN), ("language", LONGEST_LANGUAGE)):
        text = getattr(entry, name)
        if len(text) > longest or text != text.strip() or not (text.isprintable() or not text):
            return f"{name} must be at most {longest} printable characters, without space around them"
    if not entry.word or not entry.say:
        return "word and say cannot be empty"
    if any(character in entry.ipa for character in '<>"&|'):
        return 'ipa must have phonemes only, without any of < > " & |'
    if any(character in entry.word for character in "<>"):
        return "word cannot have < or >, which stand around markup"
    if any(_identity(entry) == _identity(other) for other in others):
        return f"{entry.word!r} appears twice for the same language"
    return ""
