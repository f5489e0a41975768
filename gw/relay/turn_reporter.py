"""Reports what a process knows of turns: the words of transcripts, of chat requests and their answers, and of speech.

A worker reports to its keeper, a gateway of a fleet to all gateways. Nothing waits for them: reports are sent every FLUSH_S while there is
something new, and before each batch of records. Keys whose requests are never about speech are not reported, until another process
says that one of them has spoken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
import trio

from gw.policy.turn_events import (
    Owner,
    PlaceFacts,
    TurnAnswerText,
    TurnChat,
    TurnEvent,
    TurnLinkClosed,
    TurnRequestEnded,
    TurnSpeech,
    TurnTranscript,
)
from gw.policy.turn_texts import MAX_TEXT, TurnPlace, WrittenAnswer, compact
from gw.telemetry.clock import Clock
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

FLUSH_S = 0.02
MOST_EVENTS = 1_000
"""Events in one report; a fuller one is sent at once."""
SILENT_CHATS, SILENT_S = 256, 10.0
"""So many chat requests in a row, and so many seconds, without any speech: then a key has no voice app."""
MAX_OWNERS = 2_048
"""Keys whose speech is remembered; beyond it the one used least recently is forgotten, and is reported again."""


@attrs.define
class _Silence:
    chats: int
    since: float


class TurnReporter:
    """Implements `TurnFinder`. `run` must run beside."""

    def __init__(self, send: Callable[[Sequence[TurnEvent], float], bool], clock: Clock) -> None:
        """`send` gets all events up to a time, in Unix seconds, and returns False when nobody takes them any more."""
        self._send = send
        self._clock = clock
        self._events: list[TurnEvent] = []
        self._answers: list[WrittenAnswer] = []
        self._links: dict[int, tuple[Link, int]] = {}  # by the object's identity
        self._last_link = 0
        self._silences: dict[Owner, _Silence] = {}
        self._flushed_at = clock.now()
        self._wake = trio.Event()
        self._is_alone = False

    # ---- what requests say

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        words = compact(text)
        if words and not place.is_walled:
            self._note_voice(_owner(place), now)
            self._add(TurnTranscript(now, self._facts(place), words, part))

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        if place.is_walled or self._is_alone or self._is_silent(_owner(place), now):
            return None
        last = last_user()
        if last is not None:
            last = LastUser(compact(last.text), last.context, last.is_answered)
        self._add(TurnChat(now, self._facts(place), last))
        answer = WrittenAnswer(place, now, [])
        self._answers.append(answer)
        return answer

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        """Report the text; whether it has a turn is not known here."""
        if place.is_walled:
            return True
        self._note_voice(_owner(place), now)
        self._add(TurnSpeech(now, self._facts(place), text[:MAX_TEXT]))
        return False

    # ---- reports

    async def run(self) -> None:
        """Send reports until cancelled, or until nobody takes them."""
        while not self._is_alone:
            if not self._events and not self._answers:
                self._wake = trio.Event()
                await self._wake.wait()
            await trio.sleep(FLUSH_S)
            self.flush()

    def flush(self, *, also_empty: bool = False) -> None:
        """Report what is new now. `also_empty`: say so, too, if there is nothing."""
        self._add_answers()
        now = self._clock.now()
        if self._is_alone or not (self._events or also_empty):
            return
        events, self._events, self._flushed_at = self._events, [], now
        if not self._send(events, now):
            self._is_alone = True
            self._answers.clear()
            self._links.clear()

    def wake(self, owners: Iterable[Owner]) -> None:
        """Note that keys have requests about speech, in other processes."""
        for owner in owners:
            self._note_voice(owner, self._clock.now())

    def _add(self, event: TurnEvent) -> None:
        if self._is_alone:
            return
        self._events.append(event)
        self._wake.set()
        if len(self._events) >= MOST_EVENTS:
            self.flush()

    def _add_answers(self) -> None:
        """Add what was written of answers since the last report."""
        for answer in self._answers:
            if answer.pieces:
                text = "".join(answer.pieces)
                answer.pieces.clear()
                self._events.append(TurnAnswerText(max(self._flushed_at, answer.at), answer.place.request_id, text))
        if self._answers:
            self._answers = [answer for answer in self._answers if not answer.place.is_done]

    def _facts(self, place: TurnPlace) -> PlaceFacts:
        number = 0
        if (link := place.link) is not None and not link.is_closed and not self._is_alone:
            _, number = self._links.get(id(link), (link, 0))
            if not number:
                self._last_link = number = self._last_link + 1
                self._links[id(link)] = link, number
                link.on_close = self._link_closed
        place.on_end = self._request_ended
        return PlaceFacts(place.request_id, place.key, place.turn_id, number, place.endpoint)

    def _request_ended(self, place: TurnPlace, failed: bool, cancelled: bool) -> None:
        self._add(TurnRequestEnded(self._clock.now(), place.request_id, failed, cancelled))

    def _link_closed(self, link: Link) -> None:
        if (known := self._links.pop(id(link), None)) is not None:
            self._add(TurnLinkClosed(self._clock.now(), known[1]))

    # ---- keys without speech

    def _note_voice(self, owner: Owner, now: float) -> None:
        self._silences.pop(owner, None)
        self._remember(owner, _Silence(0, now))

    def _is_silent(self, owner: Owner, now: float) -> bool:
        silence = self._silences.get(owner)
        if silence is None:
            silence = self._remember(owner, _Silence(0, now))
        silence.chats += 1
        return silence.chats > SILENT_CHATS and now > silence.since + SILENT_S

    def _remember(self, owner: Owner, silence: _Silence) -> _Silence:
        if len(self._silences) >= MAX_OWNERS:
            del self._silences[next(iter(self._silences))]
        self._silences[owner] = silence
        return silence


def _owner(place: TurnPlace) -> Owner:
    return place.key[:2]
