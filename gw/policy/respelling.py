"""Replaces words of a text by how they are to be pronounced, before any vendor gets it, and maps its word times back.

Words are matched whole, leftmost and longest first. Text may come in pieces that are cut anywhere: only what may still become a word
of the table is held back. Letters are compared as Unicode's composed forms, so `é` is the same in one code point or two. Markup in a text
(`<break time="1s"/>`, all of a `<phoneme …>` element, Cartesia's `<<…>>`, Deepgram's `\\{…\\}`) stays as it is.

    caller's text   Call Nguyen |now.       held: "Nguyen", until the next piece shows that the word ends
    sent            Call win now.
    vendor's words  Call, win, now.    →    Call, Nguyen, now.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from gw.policy.wide_letters import is_wide
from gw.types.pronunciation import Pronunciation
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, WordTiming

Phonemes = Callable[[str, str], str]
"""(phonemes with spaces between them, word) → markup for them; "" where the respelling must do."""

_ELEMENT = r"<(phoneme|sub|say-as)\b[^<>]*(?<!/)>"
_MARKUP: Final = re.compile(
    rf"<<[^<>]*>>|{_ELEMENT}.*?</\1\s*>|<[A-Za-z/!?][^<>]*>|\\\{{[^{{}}]*\}}", re.DOTALL | re.IGNORECASE
)  # fmt: skip
_OPEN_MARKUP: Final = re.compile(
    rf"<(?:<[^<>]*>?|[A-Za-z/!?][^<>]*)?\Z|{_ELEMENT}(?!.*</\1\s*>).*\Z|\\(?:\{{[^{{}}]*)?\Z", re.DOTALL | re.IGNORECASE
)  # fmt: skip
_LONGEST_MARKUP: Final = 500
"""Markup that is open for longer is text."""
_AHEAD: Final = 200
"""Characters within which a word that the vendor reports is looked for."""


class _Entry(NamedTuple):
    clusters: tuple[str, ...]
    folded: tuple[str, ...]
    of: Pronunciation


class ReplacedPart(NamedTuple):
    """A part of the sent text, from `start` to `end`, and the caller's words that it stands for."""

    start: int
    end: int
    original: str


class PronunciationTable:
    """Pronunciations for one language, in the form of one model: with its markup for phonemes, or respelled."""

    def __init__(self, entries: Iterable[Pronunciation], phonemes: Phonemes | None = None) -> None:
        self._phonemes = phonemes
        self._by_first: dict[str, list[_Entry]] = {}
        for of in entries:
            clusters = tuple(_clusters(of.word))
            entry = _Entry(clusters, tuple(map(str.casefold, clusters)), of)
            self._by_first.setdefault(entry.folded[0], []).append(entry)
        for same in self._by_first.values():
            same.sort(key=lambda entry: (-len(entry.clusters), not entry.of.match_case))
        self._firsts = tuple(self._by_first)

    def spoken(self, entry: Pronunciation, word: str) -> str:
        """Return what is sent for a word of a text."""
        return (self._phonemes(entry.ipa, word) if self._phonemes is not None and entry.ipa else "") or entry.say

    def candidates(self, cluster: str, *, may_go_on: bool) -> Sequence[_Entry]:
        """Return the entries that begin with a letter. `may_go_on`: a mark above it may follow."""
        folded = cluster.casefold()
        if not may_go_on:
            return self._by_first.get(folded, ())
        return [entry for first in self._firsts if _begins(first, folded) for entry in self._by_first[first]]


def for_language(entries: Iterable[Pronunciation], language: str | None) -> list[Pronunciation]:
    """Return those for speech in a language: `en` holds for `en-US` as well. None: it is not known, so only those for any."""
    spoken = (language or "").replace("_", "-").lower()
    return [
        entry for entry in entries
        if not entry.language or spoken == (own := entry.language.replace("_", "-").lower()) or spoken.startswith(f"{own}-")
    ]  # fmt: skip


class RespelledText:
    """A text as it goes to one vendor. `sent`: all that was sent so far; `characters`: of the caller's text, those that it stands for."""

    def __init__(self, table: PronunciationTable) -> None:
        self._table = table
        self._held = ""
        self._before = ""  # the letter before what is held
        self.sent = ""
        self.characters = 0
        self.is_changed = False
        self.spans: list[ReplacedPart] = []
        self._cursor = 0  # in what was sent: the end of the word that was reported last
        self._open: tuple[int, int, float, float] | None = None  # a word reported in part: from, to, and its times

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def sent_for(self, characters: int) -> int:
        """Return the characters sent for the first so many of the caller's, in proportion."""
        return round(len(self.sent) * min(1.0, characters / self.characters)) if self.characters else 0

    def feed(self, text: str) -> str:
        """Take a piece of the caller's text, and return what can be sent."""
        self._held += text
        return self._advance(complete=False)

    def end(self) -> str:
        """Return what is left to send: the text stops here, for a moment or for good."""
        return self._advance(complete=True)

    def clear(self) -> None:
        """Drop what is held: the listener interrupted."""
        self._held, self._before, self._open = "", "", None
        self._cursor = len(self.sent)

    def _advance(self, *, complete: bool) -> str:
        text, out, at = self._held, [], 0
        sent = len(self.sent)
        for begin, end, is_markup in _parts(text, complete=complete):
            if is_markup:
                out.append(text[begin:end])
                sent, at, self._before = sent + end - begin, end, ">"
                continue
            is_last = end == len(text)
            clusters = _clusters_at(text, begin, end)
            index = 0
            while index < len(clusters):
                result = self._match(clusters, index, complete=complete or not is_last)
                if result is None:
                    self._held = text[clusters[index][0] :]
                    return self._send(out, text[: clusters[index][0]])
                length, spoken = result
                stop = clusters[index + length][0] if index + length < len(clusters) else end
                original = text[clusters[index][0] : stop]
                if spoken is not None:
                    self.is_changed = True
                    self.spans.append(ReplacedPart(sent, sent + len(spoken), original))
                out.append(original if spoken is None else spoken)
                sent += len(out[-1])
                self._before, index = clusters[index + length - 1][1], index + length
            at = end
        self._held = text[at:]
        return self._send(out, text[:at])

    def _send(self, out: list[str], consumed: str) -> str:
        piece = "".join(out)
        self.sent += piece
        self.characters += len(consumed)
        return piece

    def _match(self, clusters: list[tuple[int, str]], index: int, *, complete: bool) -> tuple[int, str | None] | None:
        """Return how many letters at `index` are a word of the table, and what is sent for it: (1, None) for none; None: to be held."""
        first = clusters[index][1]
        if _goes_on(first, self._before):
            return 1, None
        left = len(clusters) - index
        for entry in self._table.candidates(first, may_go_on=not complete and left == 1):
            length = len(entry.clusters)
            own, fold = (entry.clusters, str) if entry.of.match_case else (entry.folded, str.casefold)
            part = [fold(cluster) for _, cluster in clusters[index : index + length]]
            if not complete and left <= length and _may_become(part, own):
                return None
            if left >= length and part == list(own) and not _goes_on(part[-1], clusters[index + length][1] if left > length else ""):
                word = "".join(cluster for _, cluster in clusters[index : index + length])
                return length, self._table.spoken(entry.of, word)
        return 1, None

    # ------------------------------------------------------------------ the vendor's words

    def mapped(self, events: Iterable[SpeakEvent]) -> list[SpeakEvent]:
        """Return events with the caller's own words in place of those sent, and without frames of the vendor's that have the latter."""
        out: list[SpeakEvent] = []
        for event in events:
            if isinstance(event, WordTiming):
                out += self._words(event)
            elif isinstance(event, AudioChunk):
                out.append(event if event.raw is None else AudioChunk(data=event.data))
            else:
                if isinstance(event, (Flushed, SpeakEnd)):
                    out += self._close()
                out.append(event)
        return out

    def _words(self, event: WordTiming) -> list[SpeakEvent]:
        word = event.word.strip()
        at = self.sent.find(word, self._cursor, self._cursor + _AHEAD + len(word)) if word else -1
        if at < 0:
            return [*self._close(), replace(event, raw=None)]
        end = self._cursor = at + len(word)
        begin, out = at, []
        if self._open is not None:
            if at < self._open[1]:
                begin, event = self._open[0], replace(event, start_s=self._open[2])
                self._open = None
            else:
                out += self._close()
        begin = next((span.start for span in self.spans if span.start < begin < span.end), begin)
        self.spans = [span for span in self.spans if span.end > begin]
        inside = next((span for span in self.spans if span.start < end < span.end), None)
        if inside is not None:
            self._open = (begin, inside.end, event.start_s, event.end_s)
            return out
        return [*out, *self._timed(begin, end, event.start_s, event.end_s)]

    def _close(self) -> list[SpeakEvent]:
        """Return the word that was reported in part only."""
        if self._open is None:
            return []
        begin, end, start_s, end_s = self._open
        self._open = None
        self._cursor = max(self._cursor, end)
        return self._timed(begin, end, start_s, end_s)

    def _timed(self, begin: int, end: int, start_s: float, end_s: float) -> list[SpeakEvent]:
        """Return the caller's words for a part of what was sent; several words have equal parts of the time."""
        parts, at = [], begin
        for span in self.spans:
            if span.end > begin and span.start < end:
                parts += [self.sent[at : span.start], span.original]
                at = span.end
        words = ("".join(parts) + self.sent[at:end]).split()
        each_s = (end_s - start_s) / max(1, len(words))
        return [
            WordTiming(word=word, start_s=start_s + n * each_s, end_s=start_s + (n + 1) * each_s) for n, word in enumerate(words)
        ]


def respelled(table: PronunciationTable, text: str) -> RespelledText:
    """Return a whole text as it is sent."""
    whole = RespelledText(table)
    whole.feed(text)
    whole.end()
    return whole


def _parts(text: str, *, complete: bool) -> Iterable[tuple[int, int, bool]]:
    """Yield where text and markup alternate: from, to, and whether it is markup. Markup that is not complete yet is left out."""
    at, end = 0, len(text)
    if not complete and (cut := _OPEN_MARKUP.search(text)) is not None and end - cut.start() <= _LONGEST_MARKUP:
        end = cut.start()
    for markup in _MARKUP.finditer(text, 0, end):
        if markup.start() > at:
            yield at, markup.start(), False
        yield markup.start(), markup.end(), True
        at = markup.end()
    if end > at:
        yield at, end, False


def _clusters(text: str) -> list[str]:
    return [cluster for _, cluster in _clusters_at(text, 0, len(text))]


def _clusters_at(text: str, begin: int, end: int) -> list[tuple[int, str]]:
    """Return the letters of a part of a text, each with its marks and where it begins: composed, and any space as a plain one."""
    clusters: list[tuple[int, str]] = []
    for at in range(begin, end):
        character = text[at]
        if clusters and not character.isascii() and unicodedata.category(character)[0] == "M":
            start, before = clusters[-1]
            clusters[-1] = (start, unicodedata.normalize("NFC", before + character))
        else:
            clusters.append((at, " " if character.isspace() else unicodedata.normalize("NFC", character)))
    return clusters


def _may_become(part: Sequence[str], word: Sequence[str]) -> bool:
    """Return whether letters at the end of a piece are the beginning of a word, or all of it."""
    return all(a == b for a, b in zip(part[:-1], word, strict=False)) and _begins(word[len(part) - 1], part[-1])


def _begins(cluster: str, part: str) -> bool:
    """Return whether a letter may be what a part of it becomes with more marks."""
    return cluster == part or unicodedata.normalize("NFD", cluster).startswith(unicodedata.normalize("NFD", part))


def _goes_on(edge: str, beside: str) -> bool:
    """Return whether a word goes on beside the letter or sign at its edge."""
    return bool(beside) and _is_letter(beside) and not (is_wide(edge[0]) or is_wide(beside[0]))


def _is_letter(cluster: str) -> bool:
    return cluster[0].isalnum() or cluster[0] == "_" or unicodedata.category(cluster[0])[0] == "M"
