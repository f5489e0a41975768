"""Finds the requests that are one turn (listen, think, speak), where the caller sends no turn id.

Ids that the caller sends are a wall. Texts are compared only among requests of one project, one key and one session id
(or none), and a request with a turn id but no session id is compared with nothing.

Without ids, a language model that is asked the words that a transcript has just ended in, and speech with words that a
language model has just written, belong together if nothing else is possible:

    transcript  ── its text is in the last user message ──▶  chat request  ── its answer holds the text ──▶  speech

* Each transcript and each word of an answer is used once, in their order, so a phrase that repeats finds its own.
* The request's own source is always among those that fit. So one that fits alone is the right one, unless the text also
  comes from apps that transcribe or think elsewhere: a text that was once used without any source proves nothing.
* Of several conversations that fit, the one counts to which the request's connection has belonged twice (`Link`). Where
  connections change between conversations (an app with one pool for all its calls), they prove nothing.
* Requests that may come from several conversations are counted (`Doubts`). Once all of these have sent theirs, none of them is in the
  way of the next one with the same words.
* Everything else stays alone.

Texts are held in memory only, as letters and digits in lower case (transcripts and sentences change in punctuation and
spacing on their way through an app), bounded in number, size and age. Times are Unix seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable

from gw.policy.turn_memory import Memory
from gw.policy.turn_texts import DISTINCTIVE, MAX_DOUBTS, Claim, HeardText, TurnPlace, WrittenAnswer, compact, sentences
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

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
MAX_SEQUENCES = 8
MAX_KEYS = 2_048
SILENT_ANSWERS = 256
"""After so many answers in a row without any speech, a key has no voice app: its answers are not remembered."""


class Turns:
    def __init__(self) -> None:
        self._memories: dict[tuple[str, str | None, str | None], Memory] = {}
        self._finals: deque[HeardText] = deque()
        self._answers: deque[WrittenAnswer] = deque()
        self._count = 0
        """Transcripts and answers until now."""

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        """Remember a final transcript. `part`: for one of the many of a live session."""
        words = compact(text)
        if not words or place.is_walled:
            return
        self._count += 1
        final = HeardText(place, words, now, part, number=self._count)
        memory = self._memory(place)
        memory.repeated.add(words, place.request_id)
        memory.finals.add(final)
        place.is_recording = part is None
        if part is not None:
            memory.keep(place.request_id, place)
        self._finals.append(final)
        while len(self._finals) > MAX_FINALS or self._finals[0].at < now - HEARD_S:
            oldest = self._finals.popleft()
            kept = self._memories.get(oldest.source.key)
            if kept is not None:
                kept.finals.remove(oldest)

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        """Find the turn of a chat request. Return where to add its answer's text, or None where that is not needed."""
        if place.is_walled:
            return None
        memory = self._memory(place)
        if memory.finals.latest_at() >= now - HEARD_S and (message := last_user()) is not None:
            run = _run_in_session(memory, place, message, now) if place.is_named else _only_run(memory, place, message, now)
            if run:
                _join(memory, place, run, Claim(place, message.context, now))
                _close_earlier(memory, run[0])
        if place.call is None and not place.is_named:
            place.call = memory.session_of(place)
        if memory.unspoken >= SILENT_ANSWERS:
            return None
        memory.unspoken += 1
        self._count += 1
        answer = place.answer = WrittenAnswer(place, now, [], number=self._count, conversation=_conversation(place))
        memory.answers.add(answer)
        self._answers.append(answer)
        while len(self._answers) > MAX_ANSWERS or self._answers[0].at < now - SPOKEN_S:
            oldest = self._answers.popleft()
            kept = self._memories.get(oldest.place.key)
            if kept is not None:
                kept.answers.remove(oldest)
        return answer

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        """Find the turn of a text that is sent to a voice. Return whether it has one."""
        if place.is_walled:
            return True
        memory = self._memory(place)
        memory.unspoken = 0
        words = compact(text)
        if not words:
            return place.turn_id is not None
        match = _answer_in_session(memory, words, place, now) if place.is_named else _only_answer(memory, text, place, now)
        if match is None:
            return place.turn_id is not None
        answer, end = match
        place.spoke, place.spoke_from = answer, answer.spoken
        answer.spoken, answer.at = max(answer.spoken, end), now
        source = answer.place
        if source.turn_id is None:
            source.turn_id = source.request_id
        if place.turn_id is None:
            place.turn_id, place.session_id = source.turn_id, source.session_id
            place.earlier += (source.request_id,)
        if not place.is_named:
            memory.note(place, source.call)
        memory.answers.remove_before(answer)
        return True

    def _memory(self, place: TurnPlace) -> Memory:
        memory = self._memories.pop(place.key, None)
        if memory is None:
            memory = Memory()
            if len(self._memories) >= MAX_KEYS:
                del self._memories[next(iter(self._memories))]
        self._memories[place.key] = memory  # the one used last is the last to go
        return memory


# ---------------------------------------------------------------- from transcripts to a chat request


def _only_run(memory: Memory, place: TurnPlace, last: LastUser, now: float) -> list[HeardText]:
    """Return the transcripts whose words a chat request holds, if they are certainly those of its conversation."""
    message = compact(last.text)
    for used in memory.asked.take_used(message, lambda final: final.is_open, now - HEARD_S, now):
        used.is_used = True
    own = memory.session_of(place)
    held = memory.finals.within(message, now - HEARD_S, math.inf if own else MAX_DOUBTS)
    if held is None:
        return []  # of more conversations than are counted
    contained = _contained(held, message, last, now)
    runs = _plausible(contained, message)
    recordings = [run[0] for run in contained if run[0].part is None and run[0].is_open]
    if together := _sequences(recordings, message):  # one per stretch of speech
        runs = [*together, *(run for run in runs if len(_words(run)) == len(message))]
    if not runs:
        if message:
            memory.typed.add(message)
        return []
    if len(runs) == 1 and message not in memory.typed:
        run = runs[0]
        session_id = _session_of(memory, run)
        if own is not None and session_id is not None and own != session_id:
            memory.note(place, session_id)  # a conversation that has moved to another connection, or a stranger
            return []
        if own is None and message in memory.repeated and _is_new_beside(place, run[0].source.partner):
            return []
    else:
        mine = [run for run in runs if own is not None and _session_of(memory, run) == own]
        if not mine:
            if not last.is_answered:
                memory.asked.add(message, place, (run[-1] for run in runs), now)
            return []
        run = mine[-1]
    return run if last.is_answered or any(final.is_open for final in run) else []


def _is_new_beside(place: TurnPlace, partner: Link | None) -> bool:
    """Return whether a request came on a connection without a conversation, while the conversation's own is open."""
    link = place.link
    return link is not None and link.session_id is None and partner is not None and not partner.is_closed


def _session_of(memory: Memory, run: list[HeardText]) -> str | None:
    """Return the conversation of transcripts: the live session, or that of a recording's connection."""
    if run[0].part is not None:
        return run[0].source.request_id
    sessions = {memory.session_of(recording.source) for recording in run}
    return sessions.pop() if len(sessions) == 1 else None


def _contained(finals: Iterable[HeardText], message: str, last: LastUser, now: float) -> list[list[HeardText]]:
    """Group the transcripts that a message holds by conversation, also those that were used just now."""
    groups: dict[int, list[HeardText]] = {}
    for final in finals:
        if final.is_open or (final.claim is not None and final.claim.context == last.context):
            groups.setdefault(id(final.source), []).append(final)
    runs = [run for group in groups.values() if (run := _within(group, message))]
    return [run for run in runs if last.is_answered or any(_may_be_asked(final, now) for final in run)]


def _plausible(runs: list[list[HeardText]], message: str) -> list[list[HeardText]]:
    """Return the runs that are all of a message, else those that are long enough to be a part of it."""
    return [run for run in runs if _words(run) == message] or [run for run in runs if len(_words(run)) >= DISTINCTIVE]


def _may_be_asked(final: HeardText, now: float) -> bool:
    """Return whether a request may ask these words: for the first time, again, or beside another one."""
    return final.is_open or (final.claim is not None and not final.claim.by.is_done and final.claim.at >= now - PARALLEL_S)


def _sequences(recordings: list[HeardText], message: str) -> list[list[HeardText]]:
    """Return the sequences of two or more recordings that together are the message, at most MAX_SEQUENCES."""
    sequences: list[list[HeardText]] = []
    begun: list[tuple[int, list[HeardText]]] = [(0, [])]
    for recording in recordings:
        for length, sequence in begun[:MAX_SEQUENCES]:
            if message.startswith(recording.text, length):
                end, longer = length + len(recording.text), [*sequence, recording]
                if end == len(message):
                    sequences.append(longer)
                else:
                    begun.append((end, longer))
    return [sequence for sequence in sequences if len(sequence) > 1][:MAX_SEQUENCES]


def _within(group: list[HeardText], message: str) -> list[HeardText]:
    """Return the latest transcripts of a conversation that the message holds one after the other."""
    for begin in range(len(group)):
        if _words(group[begin:]) in message:
            return group[begin:]
    return []


def _words(run: list[HeardText]) -> str:
    return "".join(final.text for final in run)


def _run_in_session(memory: Memory, place: TurnPlace, last: LastUser, now: float) -> list[HeardText]:
    """Return the transcripts of a chat request in a session that the caller names: by words, else the unused ones."""
    message = compact(last.text)
    held = [final for final in memory.finals.within(message, now - HEARD_S) or () if _may_share_turn(final, place)]
    runs = _plausible(_contained(held, message, last, now), message)
    fitting = [run for run in runs if last.is_answered or any(final.is_open for final in run)]
    if fitting:
        return fitting[-1]
    if last.is_answered:
        return []
    new = [final for final in memory.finals if final.claim is None and final.at >= now - SESSION_S and _may_share_turn(final, place)]
    return new if len({id(final.source) for final in new}) == 1 else []


def _may_share_turn(final: HeardText, place: TurnPlace) -> bool:
    """Return whether no turn ids that were sent keep a transcript and a chat request apart."""
    return final.part is not None or final.source.turn_id is None or place.turn_id in (None, final.source.turn_id)


def _join(memory: Memory, place: TurnPlace, run: list[HeardText], claim: Claim) -> None:
    """Make the chat request at `place` and the transcripts of `run` one turn."""
    first = run[0]
    if place.turn_id is None:
        claimed = [final.claim.by.turn_id for final in run if final.claim is not None]
        place.turn_id = next(iter(claimed), None) or (first.source.turn_id if first.part is None else None) or place.request_id
    if not place.is_named:
        place.session_id = _session_of(memory, run)
        place.call = _call_of(memory, place, first)
        memory.note(place, place.call)
        first.source.partner = place.link
    for final in run:
        used, final.claim = final.claim, claim if final.is_open else final.claim
        source = final.source
        if source.session_id is None:
            source.session_id = place.session_id
        if used is not None:
            continue
        if final.part is not None:
            place.heard = _extended(place.heard, final.part)
        elif source.turn_id is None:
            source.turn_id = place.turn_id
            place.earlier += (source.request_id,)


def _close_earlier(memory: Memory, first: HeardText) -> None:
    """Close what was heard before in the same live session: it was ignored, or its request was not recognised."""
    for final in memory.finals.before(first):
        final.is_used = final.is_used or final.claim is None


def _call_of(memory: Memory, place: TurnPlace, first: HeardText) -> str:
    """Return the conversation of a chat request and its transcripts."""
    source = first.source
    if first.part is not None:
        return source.request_id
    known = [link.session_id for link in (source.link, place.link) if link is not None and memory.is_live(link.session_id)]
    call = next(iter(known), None) or source.request_id
    memory.keep(call, source)
    memory.note(source, call)
    return call


def _extended(parts: tuple[HeardSpeech, ...], part: HeardSpeech) -> tuple[HeardSpeech, ...]:
    """Add a part; transcripts of the same session that follow each other are one stretch."""
    if not parts or parts[-1].request_id != part.request_id:
        return (*parts, part)
    return (*parts[:-1], parts[-1].then(part))


# ---------------------------------------------------------------- from answers to speech

_Match = tuple[WrittenAnswer, int]
"""An answer, and where the words end that are spoken now."""


def _only_answer(memory: Memory, text: str, place: TurnPlace, now: float) -> _Match | None:
    """Return the answer that these words are certainly of."""
    words, parts = compact(text), sentences(text)
    own = memory.session_of(place)
    matches = memory.answers.holding(words, now - SPOKEN_S, math.inf if own else MAX_DOUBTS)
    if matches is None:
        return None  # of more conversations than are counted
    numbers = {answer.number for answer, _ in matches}
    used = {one.number for one in memory.said.take_used(words, lambda answer: answer.number in numbers, now - SPOKEN_S, now)}
    for answer, at in matches:
        if answer.number in used:
            answer.spoken = at + len(words)
    matches = [match for match in matches if match[0].number not in used]
    if not matches:
        for part in {words, *parts}:
            memory.canned.add(part)
        return None
    is_canned = words in memory.canned or all(part in memory.canned for part in parts)
    if len({answer.conversation for answer, _ in matches}) > 1 or is_canned:
        mine = [match for match in matches if own is not None and match[0].place.call == own]
        if not mine:
            memory.said.add(words, place, (answer for answer, _ in matches), now)
            return None
        matches = mine
    answer, at = matches[-1]  # of several answers in one conversation: the others were interrupted
    call = answer.place.call
    if own is not None and call is not None and own != call:
        memory.note(place, call)
        return None
    if len(words) < DISTINCTIVE and at != answer.spoken:
        return None
    return answer, at + len(words)


def _conversation(place: TurnPlace) -> str:
    return place.call or place.turn_id or place.request_id


def _answer_in_session(memory: Memory, words: str, place: TurnPlace, now: float) -> _Match | None:
    """Return the answer that is spoken in a session that the caller names: by words, else the only one of late."""
    matches = [
        (answer, at)
        for answer, at in memory.answers.holding(words, now - SPOKEN_S) or ()
        if place.turn_id in (None, answer.place.turn_id) and (len(words) >= DISTINCTIVE or at == answer.spoken)
    ]
    if matches:
        answer, at = matches[-1]
        return answer, at + len(words)
    new = [
        answer
        for answer in memory.answers
        if answer.at >= now - SESSION_S and place.turn_id in (None, answer.place.turn_id)
    ]
    if len({answer.place.turn_id or answer.place.request_id for answer in new}) != 1:
        return None
    return new[-1], new[-1].spoken
