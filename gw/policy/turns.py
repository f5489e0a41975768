"""Finds the requests that are one turn (listen, think, speak) by their words, where the caller sends no turn id.

A language model that is asked the words that a transcript has just ended in, and speech with words that a language
model has just written, belong together. Texts are remembered per project and key, and matched only if the match is
unambiguous: a text that fits two conversations at once joins neither. Ids that the caller sent always win.

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
"""From a final transcript to the chat request with its words: end of turn, and perhaps a tool that is called first."""
SPOKEN_S = 120.0  # from an answer's beginning, or the sentence of it spoken last, to the next sentence
PARALLEL_S = 3.0
"""Requests to several language models about the same words (a guard beside the answer) begin within this time."""
SESSION_S = 10.0
"""In a session that the caller names, a request that follows within this time joins the turn with any words."""
MAX_FINALS = 1_024
"""Remembered for all callers together, each of at most MAX_TEXT characters; beyond it the oldest are dropped."""
MAX_ANSWERS = 1_024
MAX_TEXT = 4_000
MAX_KEYS = 1_024
DISTINCTIVE = 12
"""Letters that suffice to find a text within a longer one. A shorter one must be all of it, or spoken next."""
SILENT_ANSWERS = 256
"""After so many answers in a row without any speech, a key has no voice app: its answers are not remembered."""

_WORD = re.compile(r"[^\W_]+")
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
    key: Key
    session_id: str | None = None
    turn_id: str | None = None
    heard: tuple[HeardSpeech, ...] = ()
    """Parts that live transcriptions have in this turn."""
    earlier: tuple[str, ...] = ()
    """Requests of this turn whose records may have been made already."""


class _Claim(msgspec.Struct, eq=False):
    """The chat request that used a transcript first, the hash of its earlier messages, and its time."""

    by: TurnPlace
    context: int
    at: float


class _Final(msgspec.Struct, eq=False):
    """A final transcript. A recording has no `part`: its request belongs to one turn as a unit."""

    source: TurnPlace
    text: str
    at: float
    part: HeardSpeech | None
    claim: _Claim | None = None


class WrittenAnswer(msgspec.Struct, eq=False):
    """An answer in the making: the relay adds to `pieces` what it passes on."""

    place: TurnPlace
    at: float
    pieces: list[str]
    text: str = ""
    """The pieces so far, compact."""
    spoken: int = 0
    """Characters of `text` that have been sent to a voice."""

    def read_pieces(self) -> None:
        if len(self.text) < MAX_TEXT:
            self.text += compact("".join(self.pieces))
        self.pieces.clear()


class _Memory(msgspec.Struct, eq=False):
    """Recent texts of one key."""

    finals: deque[_Final] = msgspec.field(default_factory=deque)
    answers: deque[WrittenAnswer] = msgspec.field(default_factory=deque)
    unspoken: int = 0
    """Answers since the last speech request."""


class Turns:
    def __init__(self) -> None:
        self._memories: dict[Key, _Memory] = {}
        self._finals: deque[_Final] = deque()
        self._answers: deque[WrittenAnswer] = deque()

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        """Remember a final transcript. `part`: for one of the many of a live session."""
        words = compact(text)
        if not words:
            return
        memory = self._memory(place.key)
        final = _Final(place, words, now, part)
        memory.finals.append(final)
        self._finals.append(final)
        while len(self._finals) > MAX_FINALS or self._finals[0].at < now - HEARD_S:
            self._memories[self._finals.popleft().source.key].finals.popleft()

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        """Find the turn of a chat request. Return where to add its answer's text, or None where that is not needed."""
        memory = self._memory(place.key)
        if memory.finals and memory.finals[-1].at >= now - HEARD_S and (message := last_user()) is not None:
            run = _matching_run(memory.finals, place, message, now)
            if run:
                _join(place, run, _Claim(place, message.context, now))
        if memory.unspoken >= SILENT_ANSWERS:
            return None
        memory.unspoken += 1
        answer = WrittenAnswer(place, now, [])
        memory.answers.append(answer)
        self._answers.append(answer)
        while len(self._answers) > MAX_ANSWERS or self._answers[0].at < now - SPOKEN_S:
            self._memories[self._answers.popleft().place.key].answers.popleft()
        return answer

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        """Find the turn of a text that is sent to a voice. Return whether it has one."""
        memory = self._memory(place.key)
        memory.unspoken = 0
        if place.turn_id is not None:
            return True
        words = compact(text)
        if not words or not memory.answers:
            return False
        match = _matching_answer(memory.answers, words, place, now) or _only_answer(memory.answers, place, now)
        if match is None:
            return False
        answer, end = match
        answer.spoken = max(answer.spoken, end)
        answer.at = now
        source = answer.place
        if source.turn_id is None:
            source.turn_id = source.request_id
            source.session_id = source.session_id or place.session_id
        place.turn_id, place.session_id = source.turn_id, source.session_id
        place.earlier += (source.request_id,)
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


def _may_join(source: TurnPlace, place: TurnPlace) -> bool:
    """Return whether the sessions that the caller named allow `place` in the turn of `source`, or a new one with it."""
    if source.turn_id is not None:
        return place.session_id is None or place.session_id == source.session_id
    return place.session_id is None or source.session_id is None or place.session_id == source.session_id


# ---------------------------------------------------------------- from transcripts to a chat request


def _matching_run(finals: Iterable[_Final], place: TurnPlace, last: LastUser, now: float) -> list[_Final]:
    """Return the transcripts whose words a chat request holds: those of one conversation, or none."""
    message = compact(last.text)
    groups: dict[int, list[_Final]] = {}
    for final in finals:
        if final.text in message and _is_open(final, place, last, now):
            groups.setdefault(id(final.source), []).append(final)
    runs = [run for group in groups.values() if (run := _within(group, message))]
    if complete := [run for run in runs if _words(run) == message]:
        return complete[0] if len(complete) == 1 else []
    recordings = [run[0] for run in runs if run[0].part is None]  # one per stretch of speech, together the message
    if _words(recordings) == message and message:
        return recordings
    if distinctive := [run for run in runs if len(_words(run)) >= DISTINCTIVE]:
        return distinctive[0] if len(distinctive) == 1 else []
    return _new_in_session(finals, place, last, now) if place.session_id is not None else []


def _is_open(final: _Final, place: TurnPlace, last: LastUser, now: float) -> bool:
    """Return whether a chat request may use this transcript: once, then at the same time or after the same messages."""
    claim, source = final.claim, final.source
    if final.at < now - HEARD_S:
        return False
    if claim is not None and claim.context != last.context and now - claim.at > PARALLEL_S:
        return False
    if None not in (place.session_id, source.session_id) and place.session_id != source.session_id:
        return False
    if final.part is None and source.turn_id is not None:  # a recording that is in a turn already
        return place.turn_id in (None, source.turn_id) and _may_join(source, place)
    return True


def _within(group: list[_Final], message: str) -> list[_Final]:
    """Return the latest transcripts of a conversation that the message holds one after the other."""
    for begin in range(len(group)):
        if _words(group[begin:]) in message:
            return group[begin:]
    return []


def _words(run: list[_Final]) -> str:
    return "".join(final.text for final in run)


def _new_in_session(finals: Iterable[_Final], place: TurnPlace, last: LastUser, now: float) -> list[_Final]:
    """Return the unused transcripts of the last seconds in a session that the caller names, if they have one source."""
    new = [
        final
        for final in finals
        if final.source.session_id == place.session_id
        and final.claim is None
        and final.at >= now - SESSION_S
        and _is_open(final, place, last, now)
    ]
    return new if len({id(final.source) for final in new}) == 1 else []


def _join(place: TurnPlace, run: list[_Final], claim: _Claim) -> None:
    """Make the chat request at `place` and the transcripts of `run` one turn."""
    if place.turn_id is None:
        _choose_turn(place, run)
    for final in run:
        source = final.source
        if final.claim is not None:
            continue
        final.claim = claim
        if source.session_id is None:
            source.session_id = place.session_id
        if final.part is not None:
            if source.turn_id is None or source.turn_id != place.turn_id:
                place.heard = _extended(place.heard, final.part)
        elif source.turn_id is None and source.session_id == place.session_id:
            source.turn_id = place.turn_id
            place.earlier += (source.request_id,)


def _choose_turn(place: TurnPlace, run: list[_Final]) -> None:
    """Set turn and session of a chat request that was sent without a turn."""
    claims = [final.claim.by for final in run if final.claim is not None]
    claimed = next((other for other in claims if _may_join(other, place)), None)
    first = run[0]
    if claimed is not None and claimed.turn_id is not None:
        place.turn_id, place.session_id = claimed.turn_id, claimed.session_id
    elif first.part is None and first.source.turn_id is not None:
        place.turn_id, place.session_id = first.source.turn_id, first.source.session_id
    else:
        place.turn_id = place.request_id
        live_session = first.source.request_id if first.part is not None else None
        place.session_id = place.session_id or first.source.session_id or live_session


def _extended(parts: tuple[HeardSpeech, ...], part: HeardSpeech) -> tuple[HeardSpeech, ...]:
    """Add a part; transcripts of the same session that follow each other are one stretch."""
    if not parts or parts[-1].request_id != part.request_id:
        return (*parts, part)
    return (*parts[:-1], parts[-1].then(part))


# ---------------------------------------------------------------- from answers to speech


def _matching_answer(
    answers: Iterable[WrittenAnswer], words: str, place: TurnPlace, now: float
) -> tuple[WrittenAnswer, int] | None:
    """Return the one answer that holds these words still unspoken, else just spoken, and where they end."""
    matches: list[tuple[WrittenAnswer, int]] = []
    for answer in answers:
        if answer.pieces:
            answer.read_pieces()
        if answer.spoken < len(answer.text) and (at := answer.text.find(words, answer.spoken)) >= 0:
            matches.append((answer, at))
    if len(words) < DISTINCTIVE:
        matches = [(answer, at) for answer, at in matches if at == answer.spoken]
    elif not matches:
        recent = [answer for answer in answers if answer.at >= now - SESSION_S]
        matches = [(answer, at) for answer in recent if (at := answer.text.find(words)) >= 0]
    matches = [match for match in matches if match[0].at >= now - SPOKEN_S and _may_join(match[0].place, place)]
    if len({_conversation(answer.place) for answer, _ in matches}) != 1:
        return None
    answer, at = matches[-1]
    return answer, at + len(words)


def _conversation(place: TurnPlace) -> str:
    """Identify a conversation: of several answers in one the last is spoken, since the others were interrupted."""
    return place.session_id or place.turn_id or place.request_id


def _only_answer(answers: Iterable[WrittenAnswer], place: TurnPlace, now: float) -> tuple[WrittenAnswer, int] | None:
    """Return the only answer of the last seconds in a session that the caller names."""
    if place.session_id is None:
        return None
    new = [a for a in answers if a.place.session_id == place.session_id and a.at >= now - SESSION_S]
    if len({a.place.turn_id or a.place.request_id for a in new}) != 1:
        return None
    return new[-1], new[-1].spoken
