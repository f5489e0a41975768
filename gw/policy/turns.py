"""Which requests are one turn (listen, think, speak) where the caller does not say so: told from their words.

A language model asked with the words that a transcript has just ended in, and speech whose words a language model has just
written, belong together. That is remembered per project and key, and only where it can be one: what fits two conversations
at once is given to none. Ids that the caller sent always stand.

    transcript  ── its text is in the last user message ──▶  chat request  ── its answer holds the text ──▶  speech

Texts are held in memory only, as letters and digits in lower case (transcripts and sentences change in punctuation and
spacing on their way through an app), bounded in number, size and age. Times are Unix seconds.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

Key = tuple[str, str | None]
"""Project and key: within it, texts are compared."""

HEARD_S = 30.0
"""From a final transcript to the language model that is asked with it: end of turn, and a tool that is called first."""
SPOKEN_S = 120.0
"""From an answer's beginning, or its sentence spoken last, to its next sentence."""
PARALLEL_S = 3.0
"""Requests to several language models about the same words (a guard beside the answer) begin within so long."""
SESSION_S = 10.0
"""Within one session of the caller's own naming, what follows so soon belongs to the turn although its words differ."""
MAX_FINALS = 1_024
"""Remembered for all callers together, each of at most MAX_TEXT characters; beyond it the oldest go."""
MAX_ANSWERS = 1_024
MAX_TEXT = 4_000
MAX_KEYS = 1_024
TELLING = 12
"""Letters that are enough to find a text in a longer one. Shorter ones must be all of it, or the next to be spoken."""
SILENT_ANSWERS = 256
"""After so many answers in a row without speech of its key's, the key has no voice app: its answers are not kept."""

_WORD = re.compile(r"[^\W_]+")
_ASCII_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())


def compact(text: str) -> str:
    """Letters and digits in lower case."""
    text = text[:MAX_TEXT]
    if text.isascii():  # ten times as fast
        return text.lower().encode().translate(None, _ASCII_BETWEEN).decode()
    return "".join(_WORD.findall(text.casefold()))


class Place(msgspec.Struct, eq=False, kw_only=True):
    """Where one request belongs, known when its record is made at the latest. The caller's own ids come first."""

    request_id: str
    session_id: str | None = None
    turn_id: str | None = None
    heard: tuple[HeardSpeech, ...] = ()
    """What live transcriptions did in this turn."""
    earlier: tuple[str, ...] = ()
    """Requests of this turn whose records may have been made already."""


class _Claim(msgspec.Struct, eq=False):
    """Who asked with a transcript first, when, and after what."""

    by: Place
    context: int
    at: float


class _Final(msgspec.Struct, eq=False):
    """`part` is None for a recording, whose request belongs to one turn as a whole."""

    key: Key
    source: Place
    text: str
    at: float
    part: HeardSpeech | None
    claim: _Claim | None = None


class Utterance(msgspec.Struct, eq=False):
    """An answer in the making: the relay adds to `pieces` as it passes on."""

    key: Key
    place: Place
    at: float
    pieces: list[str]
    text: str = ""
    """What `pieces` held when it was last looked at, compact."""
    spoken: int = 0
    """So much of `text` has been given to a voice."""

    def read(self) -> None:
        if len(self.text) < MAX_TEXT:
            self.text += compact("".join(self.pieces))
        self.pieces.clear()


class _Memory(msgspec.Struct, eq=False):
    """Of one key."""

    finals: deque[_Final] = msgspec.field(default_factory=deque)
    answers: deque[Utterance] = msgspec.field(default_factory=deque)
    unspoken: int = 0
    """Answers since a voice was asked for."""


class Turns:
    def __init__(self) -> None:
        self._memories: dict[Key, _Memory] = {}
        self._finals: deque[_Final] = deque()
        self._answers: deque[Utterance] = deque()

    def transcript(self, place: Place, key: Key, text: str, now: float, part: HeardSpeech | None = None) -> None:
        """A final transcript. `part`: of a live session, which has many."""
        words = compact(text)
        if not words:
            return
        memory = self._memory(key)
        final = _Final(key, place, words, now, part)
        memory.finals.append(final)
        self._finals.append(final)
        while len(self._finals) > MAX_FINALS or self._finals[0].at < now - HEARD_S:
            self._memories[self._finals.popleft().key].finals.popleft()

    def chat(self, place: Place, key: Key, last_user: Callable[[], LastUser | None], now: float) -> Utterance | None:
        """A chat request begins: finds its turn. What it answers is to be added to what is returned, None = not wanted."""
        memory = self._memory(key)
        if memory.finals and memory.finals[-1].at >= now - HEARD_S and (asked := last_user()) is not None:
            run = _run(memory.finals, place, asked, now)
            if run:
                _join(place, run, _Claim(place, asked.context, now))
        if memory.unspoken >= SILENT_ANSWERS:
            return None
        memory.unspoken += 1
        said = Utterance(key, place, now, [])
        memory.answers.append(said)
        self._answers.append(said)
        while len(self._answers) > MAX_ANSWERS or self._answers[0].at < now - SPOKEN_S:
            self._memories[self._answers.popleft().key].answers.popleft()
        return said

    def speech(self, place: Place, key: Key, text: str, now: float) -> bool:
        """Text is given to a voice: finds its turn. True when it has one."""
        memory = self._memory(key)
        memory.unspoken = 0
        if place.turn_id is not None:
            return True
        words = compact(text)
        if not words or not memory.answers:
            return False
        said, end = _written(memory.answers, words, place, now) or _next(memory.answers, place, now) or (None, 0)
        if said is None:
            return False
        said.spoken = max(said.spoken, end)
        said.at = now
        of = said.place
        if of.turn_id is None:
            of.turn_id = of.request_id
            of.session_id = of.session_id or place.session_id
        place.turn_id, place.session_id = of.turn_id, of.session_id
        place.earlier += (of.request_id,)
        return True

    def _memory(self, key: Key) -> _Memory:
        memory = self._memories.get(key)
        if memory is None:
            if len(self._memories) >= MAX_KEYS:
                self._memories.clear()
                self._finals.clear()
                self._answers.clear()
            memory = self._memories[key] = _Memory()
        return memory


def _fits(of: Place, place: Place) -> bool:
    """Whether the sessions named allow that `place` joins the turn of `of`, or begins one with it."""
    if of.turn_id is not None:
        return place.session_id is None or place.session_id == of.session_id
    return place.session_id is None or of.session_id is None or place.session_id == of.session_id


# ---------------------------------------------------------------- from transcripts to a chat request


def _run(finals: Iterable[_Final], place: Place, asked: LastUser, now: float) -> list[_Final]:
    """The transcripts that a chat request was asked with: those of one conversation, or none."""
    message = compact(asked.text)
    groups: dict[int, list[_Final]] = {}
    for final in finals:
        if final.text in message and _is_open(final, place, asked, now):
            groups.setdefault(id(final.source), []).append(final)
    runs = [run for group in groups.values() if (run := _within(group, message))]
    whole = [run for run in runs if _words(run) == message]
    if whole:
        return whole[0] if len(whole) == 1 else []
    recordings = [run[0] for run in runs if run[0].part is None]  # one per stretch of speech, all of this message
    if _words(recordings) == message and message:
        return recordings
    telling = [run for run in runs if len(_words(run)) >= TELLING]
    if telling:
        return telling[0] if len(telling) == 1 else []
    return _of_session(finals, place, asked, now) if place.session_id is not None else []


def _is_open(final: _Final, place: Place, asked: LastUser, now: float) -> bool:
    """A transcript is asked with once; again after the same messages (a tool was called), or at the same time."""
    claim, source = final.claim, final.source
    if final.at < now - HEARD_S:
        return False
    if claim is not None and claim.context != asked.context and now - claim.at > PARALLEL_S:
        return False
    if None not in (place.session_id, source.session_id) and place.session_id != source.session_id:
        return False
    if final.part is None and source.turn_id is not None:  # a recording that is in a turn already
        return place.turn_id in (None, source.turn_id) and _fits(source, place)
    return True


def _within(group: list[_Final], message: str) -> list[_Final]:
    """The last ones of a conversation that stand in the message one after the other."""
    for begin in range(len(group)):
        if _words(group[begin:]) in message:
            return group[begin:]
    return []


def _words(run: list[_Final]) -> str:
    return "".join(final.text for final in run)


def _of_session(finals: Iterable[_Final], place: Place, asked: LastUser, now: float) -> list[_Final]:
    """Where the caller names its sessions: what was just heard in this one, if one source of it speaks."""
    new = [
        final
        for final in finals
        if final.source.session_id == place.session_id
        and final.claim is None
        and final.at >= now - SESSION_S
        and _is_open(final, place, asked, now)
    ]
    return new if len({id(final.source) for final in new}) == 1 else []


def _join(place: Place, run: list[_Final], claim: _Claim) -> None:
    """The chat request at `place` and the transcripts of `run` become one turn."""
    if place.turn_id is None:
        _settle(place, run)
    for final in run:
        source = final.source
        if final.claim is not None:
            continue
        final.claim = claim
        if source.session_id is None:
            source.session_id = place.session_id
        if final.part is not None:
            if source.turn_id is None or source.turn_id != place.turn_id:
                place.heard = _longer(place.heard, final.part)
        elif source.turn_id is None and source.session_id == place.session_id:
            source.turn_id = place.turn_id
            place.earlier += (source.request_id,)


def _settle(place: Place, run: list[_Final]) -> None:
    """Turn and session of a request that was sent without a turn."""
    claimed = next((final.claim.by for final in run if final.claim is not None and _fits(final.claim.by, place)), None)
    first = run[0]
    if claimed is not None and claimed.turn_id is not None:
        place.turn_id, place.session_id = claimed.turn_id, claimed.session_id
    elif first.part is None and first.source.turn_id is not None:
        place.turn_id, place.session_id = first.source.turn_id, first.source.session_id
    else:
        place.turn_id = place.request_id
        known = first.source.request_id if first.part is not None else None
        place.session_id = place.session_id or first.source.session_id or known


def _longer(heard: tuple[HeardSpeech, ...], part: HeardSpeech) -> tuple[HeardSpeech, ...]:
    """One after the other of the same session's transcripts are one stretch."""
    if not heard or heard[-1].request_id != part.request_id:
        return (*heard, part)
    return (*heard[:-1], heard[-1].then(part))


# ---------------------------------------------------------------- from answers to speech


def _written(answers: Iterable[Utterance], words: str, place: Place, now: float) -> tuple[Utterance, int] | None:
    """The one answer these words stand in, and where they end; else one they were spoken of just now, and are again."""
    found: list[tuple[Utterance, int]] = []
    for said in answers:
        if said.pieces:
            said.read()
        if said.spoken < len(said.text) and (at := said.text.find(words, said.spoken)) >= 0:
            found.append((said, at))
    if len(words) < TELLING:
        found = [(said, at) for said, at in found if at == said.spoken]
    elif not found:
        since = now - SESSION_S
        found = [(said, at) for said in answers if said.at >= since and (at := said.text.find(words)) >= 0]
    fitting = [(said, at) for said, at in found if said.at >= now - SPOKEN_S and _fits(said.place, place)]
    if len({_conversation(said.place) for said, _ in fitting}) != 1:
        return None
    said, at = fitting[-1]
    return said, at + len(words)


def _conversation(place: Place) -> str:
    """Of several answers in one session the last is spoken; the others were interrupted."""
    return place.session_id or place.turn_id or place.request_id


def _next(answers: Iterable[Utterance], place: Place, now: float) -> tuple[Utterance, int] | None:
    """Where the caller names its sessions: the only answer that was just asked for in this one."""
    if place.session_id is None:
        return None
    new = [said for said in answers if said.place.session_id == place.session_id and said.at >= now - SESSION_S]
    if len({said.place.turn_id or said.place.request_id for said in new}) != 1:
        return None
    return new[-1], new[-1].spoken
