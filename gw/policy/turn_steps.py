"""Applies events of several processes to one `Turns`, in the order of their times, and completes records by what it finds.

When it is safe to apply an event is for the subclasses to say: `gw.policy.merged_turns`, `gw.policy.ordered_turns`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
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
    TurnProcessEnded,
    TurnRequestEnded,
    TurnSpeech,
    TurnTranscript,
)
from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.policy.turns import Turns
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.types.usage import RequestRecord


@attrs.define(eq=False)
class TurnProcess:
    """Requests of one process that run, or whose records are still to be completed."""

    until: float = -math.inf
    """Time up to which its events have arrived."""
    is_elsewhere: bool = False
    """Whether its records are completed by another gateway, so that nothing is kept for them."""
    places: dict[str, TurnPlace] = attrs.field(factory=dict)
    links: dict[int, Link] = attrs.field(factory=dict)
    answers: dict[str, WrittenAnswer] = attrs.field(factory=dict)


class TurnSteps:
    """Events that wait for their turn, and the requests that they are about."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.applied_until = -math.inf
        """Time up to which all events are applied."""
        self._processes: dict[str, TurnProcess] = {}
        self._pending: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def until(self, process: str) -> float:
        """Return the time up to which all events of a process have arrived."""
        known = self._processes.get(process)
        return -math.inf if known is None else known.until

    def _push(self, at: float, step: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._pending, (at, self._count, step))

    def _apply_until(self, limit: float) -> None:
        while self._pending and self._pending[0][0] <= limit:
            heapq.heappop(self._pending)[2]()
        self.applied_until = limit

    def complete(self, process: str, record: RequestRecord) -> RequestRecord:
        """Return the record of a request of a process with its session and turn, as far as they are known."""
        known = self._processes.get(process)
        if known is None or (place := known.places.pop(record.id, None)) is None:
            return record
        known.answers.pop(record.id, None)
        _end(place, failed=record.error_code is not None, cancelled=record.status == "cancelled")  # of a process that was killed
        return with_turn(record, place)

    def forget(self, process: str) -> None:
        """Note the end of a process, whose records are complete: with it, its connections and requests have ended."""
        if (known := self._processes.pop(process, None)) is not None:
            self._process_ended(known)

    # ---- steps

    def _step(self, known: TurnProcess, event: TurnEvent, at: float) -> Callable[[], object]:
        match event:
            case TurnTranscript():
                return partial(self.turns.transcript, _place(known, event.place), event.text, at, event.part)
            case TurnChat():
                answer = known.answers[event.place.request_id] = WrittenAnswer(_place(known, event.place), at, [])
                return partial(self.chat, answer, event.last)
            case TurnAnswerText():
                answer_of = known.answers.get(event.request_id)
                return _nothing if answer_of is None else partial(answer_of.pieces.append, event.text)
            case TurnSpeech():
                return partial(self.speech, _place(known, event.place), event.text, at)
            case TurnRequestEnded():
                ended = known.places.get(event.request_id)
                return _nothing if ended is None else partial(self._request_ended, known, ended, event)
            case TurnLinkClosed():
                link = known.links.pop(event.link, None)
                return _nothing if link is None else link.close
            case TurnProcessEnded():
                return partial(self._process_ended, known)
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

    def _process_ended(self, known: TurnProcess) -> None:
        for link in known.links.values():
            link.is_closed = True
        for place in known.places.values():
            _end(place, failed=True, cancelled=False)

    def _request_ended(self, known: TurnProcess, place: TurnPlace, event: TurnRequestEnded) -> None:
        _end(place, failed=event.failed, cancelled=event.cancelled)
        if known.is_elsewhere:
            known.places.pop(place.request_id, None)
            known.answers.pop(place.request_id, None)


def with_turn(record: RequestRecord, place: TurnPlace) -> RequestRecord:
    """Return the record with the session and the turn of its place."""
    if (place.turn_id, place.session_id, place.heard) == (record.turn_id, record.session_id, record.heard):
        return record
    return msgspec.structs.replace(
        record, session_id=place.session_id, turn_id=place.turn_id, heard=place.heard, earlier=place.earlier
    )


def _nothing() -> None:
    """Do nothing, for what concerns a request whose record is complete."""


def _end(place: TurnPlace, *, failed: bool, cancelled: bool) -> None:
    if not place.is_done:
        place.end(failed=failed, cancelled=cancelled)


def _place(known: TurnProcess, facts: PlaceFacts) -> TurnPlace:
    place = known.places.get(facts.request_id)
    if place is None:
        link = known.links.setdefault(facts.link, Link()) if facts.link else None
        place = known.places[facts.request_id] = TurnPlace(
            request_id=facts.request_id, key=facts.key, session_id=facts.key[2], turn_id=facts.turn_id, link=link,
            endpoint=facts.endpoint,
        )  # fmt: skip
    return place
