"""Finds the turns of requests in several processes, by one memory: the events of all are applied in the order of their times.

    worker 1 ── events, complete until t1 ──┐
    worker 2 ── events, complete until t2 ──┼─▶ pending, by time ── until min(t1, t2), or HOLD_S old ──▶ `Turns`
    own requests ── events ─────────────────┘                                                             │
    finished record ───────────────────────────────────────────── its session and its turn ◀──────────────┘

`Turns` may trust that a request's own source is among those that fit only if it knows all sources. So no process looks for turns by
itself, and nothing is applied while an earlier event may still be on its way. A process that reports nothing says nothing of what it
has seen until now, so an event waits for HOLD_S at most. Requests never wait; their records do, for as long.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import attrs
import msgspec

from gw.policy.turn_events import (
    PlaceFacts,
    TurnAnswerText,
    TurnChat,
    TurnEvent,
    TurnLinkClosed,
    TurnRequestEnded,
    TurnSpeech,
    TurnTranscript,
)
from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.policy.turns import Turns
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.types.usage import RequestRecord

HOLD_S = 0.1
"""For earlier events of other processes, which report every 20 ms what there is."""
MAX_PENDING = 20_000
"""Events that wait; when there are more, the earliest are applied without waiting for others."""


@attrs.define(eq=False)
class _Process:
    """Requests of one process that run, or whose records are still to be completed."""

    until: float = -math.inf
    """Time up to which its events have arrived."""
    places: dict[str, TurnPlace] = attrs.field(factory=dict)
    links: dict[int, Link] = attrs.field(factory=dict)
    answers: dict[str, WrittenAnswer] = attrs.field(factory=dict)


class MergedTurns:
    """`now` of its methods is on a monotonic clock, `at` and `until` are Unix seconds."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.applied_until = -math.inf
        """Time up to which all events are applied."""
        self._processes: dict[str, _Process] = {}
        self._pending: list[tuple[float, int, Callable[[], object]]] = []
        self._arrived: deque[tuple[float, float]] = deque()
        """(arrival, time) of events that were pending then."""
        self._count = 0

    def expect(self, process: str) -> None:
        """Wait for the reports of a process from now on."""
        self._processes[process] = _Process()

    def add(self, process: str, events: Sequence[TurnEvent], until: float, now: float) -> None:
        """Take over events of a process; it has reported all of its events up to `until`."""
        known = self._processes.setdefault(process, _Process())
        for event in events:
            self.add_step(event.at, self._step(known, event), now)
        known.until = until
        self.apply(now)

    def add_step(self, at: float, step: Callable[[], object], now: float) -> None:
        """Call `step` when its time has come."""
        self._count += 1
        heapq.heappush(self._pending, (at, self._count, step))
        self._arrived.append((now, at))

    def until(self, process: str) -> float:
        """Return the time up to which all events of a process have arrived."""
        known = self._processes.get(process)
        return -math.inf if known is None else known.until

    @property
    def due_at(self) -> float:
        """Return when to call `apply` at the latest; infinite if nothing is pending."""
        return self._arrived[0][0] + HOLD_S if self._arrived else math.inf

    def apply(self, now: float) -> None:
        """Apply all events before which no other can come, and those that have waited for HOLD_S."""
        latest = max((at for at, _, _ in self._pending), default=-math.inf) if not self._processes else -math.inf
        limit = max(self.applied_until, min((known.until for known in self._processes.values()), default=latest))
        while self._arrived and (self._arrived[0][0] + HOLD_S <= now or len(self._arrived) > MAX_PENDING):
            limit = max(limit, self._arrived.popleft()[1])
        while self._pending and self._pending[0][0] <= limit:
            heapq.heappop(self._pending)[2]()
        if not self._pending:
            self._arrived.clear()
        self.applied_until = limit

    def complete(self, process: str, record: RequestRecord) -> RequestRecord:
        """Return the record of a request of a process with its session and turn, as far as they are known."""
        known = self._processes.get(process)
        if known is None or (place := known.places.pop(record.id, None)) is None:
            return record
        known.answers.pop(record.id, None)
        _end(place, failed=record.error_code is not None, cancelled=record.status == "cancelled")  # of a process that was killed
        if (place.turn_id, place.session_id, place.heard) == (record.turn_id, record.session_id, record.heard):
            return record
        return msgspec.structs.replace(
            record, session_id=place.session_id, turn_id=place.turn_id, heard=place.heard, earlier=place.earlier
        )

    def forget(self, process: str) -> None:
        """Note the end of a process, whose records are complete: with it, its connections and requests have ended."""
        if (known := self._processes.pop(process, None)) is not None:
            for link in known.links.values():
                link.is_closed = True
            for place in known.places.values():
                _end(place, failed=True, cancelled=False)

    # ---- steps

    def _step(self, known: _Process, event: TurnEvent) -> Callable[[], object]:
        match event:
            case TurnTranscript():
                return partial(self.turns.transcript, _place(known, event.place), event.text, event.at, event.part)
            case TurnChat():
                answer = known.answers[event.place.request_id] = WrittenAnswer(_place(known, event.place), event.at, [])
                return partial(self.chat, answer, event.last)
            case TurnAnswerText():
                answer_of = known.answers.get(event.request_id)
                return _nothing if answer_of is None else partial(answer_of.pieces.append, event.text)
            case TurnSpeech():
                return partial(self.speech, _place(known, event.place), event.text, event.at)
            case TurnRequestEnded():
                ended = known.places.get(event.request_id)
                return _nothing if ended is None else partial(_end, ended, failed=event.failed, cancelled=event.cancelled)
            case TurnLinkClosed():
                link = known.links.pop(event.link, None)
                return _nothing if link is None else link.close
            case _:
                assert_never(event)

    def chat(self, answer: WrittenAnswer, last: LastUser | None) -> None:
        """Find the turn of the chat request of an answer, whose text is added to its `pieces`."""
        result = self.turns.chat(answer.place, lambda: last, answer.at)
        if result is not None:
            result.pieces = answer.pieces

    def speech(self, place: TurnPlace, text: str, at: float) -> None:
        """Find the turn of text that is sent to a voice, unless it is known by earlier text of the same request."""
        if not place.turn_is_known:
            place.turn_is_known = self.turns.speech(place, text, at)


def _nothing() -> None:
    """Do nothing, for what concerns a request whose record is complete."""


def _end(place: TurnPlace, *, failed: bool, cancelled: bool) -> None:
    if not place.is_done:
        place.end(failed=failed, cancelled=cancelled)


def _place(known: _Process, facts: PlaceFacts) -> TurnPlace:
    place = known.places.get(facts.request_id)
    if place is None:
        link = known.links.setdefault(facts.link, Link()) if facts.link else None
        place = known.places[facts.request_id] = TurnPlace(
            request_id=facts.request_id, key=facts.key, session_id=facts.key[2], turn_id=facts.turn_id, link=link,
            endpoint=facts.endpoint,
        )  # fmt: skip
    return place
