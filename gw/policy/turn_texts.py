"""State of `gw.policy.turns`: the place of a request in its conversation, answers in the making, compared texts, and doubts."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import attrs
import msgspec

from gw.types.ids import Link
from gw.types.usage import HeardSpeech

MAX_TEXT = 4_000
MAX_TEXTS = 1_024
MAX_DOUBTS = 64
DOUBT_S = 120.0
REPEATED_S = 3.0  # within which an app may send a request again, or another one with the same words
DISTINCTIVE = 12
"""Letters that suffice to find a text within a longer one. A shorter one must be all of it, or spoken next."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[^.!?。！？]+")
_ASCII_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())


def compact(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    text = text[:MAX_TEXT]
    if text.isascii():  # ten times as fast
        return text.lower().encode().translate(None, _ASCII_BETWEEN).decode()
    return "".join(_WORD.findall(text.casefold()))


class TurnPlace(msgspec.Struct, eq=False, kw_only=True):
    """Session and turn of one request, as far as known until its record is made. The caller's own ids come first."""

    request_id: str
    key: tuple[str, str | None, str | None]
    """Project, key and the session id that was sent: only requests with the same are ever one turn."""
    session_id: str | None = None
    turn_id: str | None = None
    link: Link | None = None
    """The caller's connection."""
    endpoint: str = ""
    heard: tuple[HeardSpeech, ...] = ()
    """Parts that live transcriptions have in this turn."""
    earlier: tuple[str, ...] = ()
    """Requests of this turn whose records may have been made already."""
    is_walled: bool = False
    """Sent with a turn id and without a session id: compared with nothing."""
    is_done: bool = False
    is_void: bool = False
    """Ended without a use: it failed, or its caller left before any of its answer was spoken."""
    is_recording: bool = False
    call: str | None = None
    """The conversation, by its live transcription or else by its connections: known before it is certain enough for `session_id`."""
    answer: WrittenAnswer | None = None
    """The answer of a chat request."""
    partner: Link | None = None
    """The connection of the chat request that used this live transcription last."""
    spoke: WrittenAnswer | None = None
    """The answer that this speech request speaks, from `spoke_from` on."""
    spoke_from: int = 0
    turn_is_known: bool = False
    """For speech of which more text may come: its turn was found by what came until now."""
    on_end: Callable[[TurnPlace, bool, bool], object] | None = None
    """Called with `failed` and `cancelled` when the request is over."""

    def __post_init__(self) -> None:
        self.is_walled = self.turn_id is not None and self.key[2] is None

    @property
    def is_named(self) -> bool:
        """Return whether the caller sent a session id."""
        return self.key[2] is not None

    def end(self, *, failed: bool, cancelled: bool) -> None:
        """Note that the request is over. What it used may be used again if nothing came of it."""
        self.is_done = True
        self.is_void = failed or (cancelled and (self.answer is None or self.answer.spoken == 0))
        if failed and self.spoke is not None:
            self.spoke.spoken = min(self.spoke.spoken, self.spoke_from)
        self.answer = self.spoke = None
        if self.on_end is not None:
            self.on_end(self, failed, cancelled)


class WrittenAnswer(msgspec.Struct, eq=False):
    """An answer in the making: the relay adds to `pieces` what it passes on."""

    place: TurnPlace
    at: float
    pieces: list[str]
    number: int = 0
    """By which it is known among the answers of all keys, in their order."""
    conversation: str = ""
    text: str = ""
    """The pieces so far, compact."""
    spoken: int = 0
    """Characters of `text` that have been sent to a voice."""

    def read_pieces(self) -> None:
        if len(self.text) < MAX_TEXT:
            self.text += compact("".join(self.pieces))
        self.pieces.clear()


class Claim(msgspec.Struct, eq=False):
    """The chat request that used a transcript first, the hash of its earlier messages, and its time."""

    by: TurnPlace
    context: int
    at: float


class HeardText(msgspec.Struct, eq=False):
    """A final transcript. A recording has no `part`: its request belongs to one turn as a unit."""

    source: TurnPlace
    text: str
    at: float
    part: HeardSpeech | None
    claim: Claim | None = None
    number: int = 0
    """By which it is known among the transcripts of all keys, in their order."""
    is_used: bool = False
    """Used by one of several requests, whichever."""

    @property
    def is_open(self) -> bool:
        """Return whether no chat request has used it, or only one that failed or was given up before any of it was spoken."""
        return not self.is_used and (self.claim is None or self.claim.by.is_void)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, compact."""
    return [words for words in map(compact, _SENTENCE.findall(text[:MAX_TEXT])) if words]


class CommonTexts:
    """Texts that were used by more than one source, or by none. The newest MAX_TEXTS, as hashes of this process."""

    __slots__ = ("_sources",)

    def __init__(self) -> None:
        self._sources: OrderedDict[int, str] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return self._sources.get(hash(text)) == ""

    def add(self, text: str, source: str = "") -> None:
        """Note a use of the text by `source`; "" for a use without any."""
        known = self._sources.setdefault(hash(text), source)
        if known != source:
            self._sources[hash(text)] = ""
        self._sources.move_to_end(hash(text))
        if len(self._sources) > MAX_TEXTS:
            self._sources.popitem(last=False)


class Source(Protocol):
    """A transcript or an answer."""

    at: float


S = TypeVar("S", bound=Source)


@attrs.define(eq=False)
class _Doubt(Generic[S]):
    places: list[TurnPlace]
    sources: dict[int, S]
    at: float


class Doubts(Generic[S]):
    """Requests that may come from any of several sources with the same words: once they are as many, all sources are used."""

    __slots__ = ("_doubts",)

    def __init__(self) -> None:
        self._doubts: OrderedDict[int, _Doubt[S]] = OrderedDict()

    def add(self, words: str, place: TurnPlace, sources: Iterable[S], now: float) -> None:
        """Note a request that may come from any of the sources."""
        doubt = self._doubts.setdefault(hash(words), _Doubt([], {}, now))
        self._doubts.move_to_end(hash(words))
        if place not in doubt.places:
            doubt.places.append(place)
        doubt.sources |= {id(source): source for source in sources}
        doubt.at = now
        if len(doubt.places) > MAX_DOUBTS:
            del self._doubts[hash(words)]
        while self._doubts and (len(self._doubts) > MAX_DOUBTS or next(iter(self._doubts.values())).at < now - DOUBT_S):
            self._doubts.popitem(last=False)

    def take_used(self, words: str, is_open: Callable[[S], bool], since: float, now: float) -> list[S]:
        """Return the sources that have all been used, later than REPEATED_S after the last request. Forget those before `since`."""
        doubt = self._doubts.get(hash(words))
        if doubt is None or now < doubt.at + REPEATED_S:
            return []
        left = [source for source in doubt.sources.values() if is_open(source)]
        is_old = any(source.at < since for source in left)
        if not is_old and sum(not place.is_void for place in doubt.places) < len(left):
            return []
        del self._doubts[hash(words)]
        return [] if is_old else left
