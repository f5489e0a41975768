"""The turns of requests in all workers and in the keeper itself, found in the keeper (`gw.policy.merged_turns`).

Records of workers are completed before they are committed. The keeper's own requests take what is known when they end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import trio

from gw.policy.merged_turns import HOLD_S, MergedTurns
from gw.policy.speaking_owners import SpeakingOwners
from gw.policy.turn_events import Owner, TurnEvent, TurnSpeech, TurnTranscript
from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.store.record_lines import encode_record
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech, RequestRecord


class WorkerTurns(Protocol):
    """Finds the turns of workers' requests: in the keeper, or in all gateways of a fleet (`gw.fleet_turns`)."""

    def expect(self, process: str) -> None: ...

    def take(self, process: str, events: Sequence[TurnEvent], until: float) -> None: ...

    def until(self, process: str) -> float: ...

    async def wait_applied(self, until: float, arrived: float) -> None: ...

    def apply_all(self) -> None: ...

    def completed(self, process: str, record: RequestRecord, line: bytes) -> tuple[RequestRecord, bytes]: ...

    def complete(self, process: str, record: RequestRecord) -> RequestRecord: ...

    def forget(self, process: str) -> None: ...


class SharedTurns:
    """Implements `TurnFinder` for the keeper's own requests. `run` must run beside."""

    def __init__(self) -> None:
        self.follow: Callable[[Sequence[Owner]], None] | None = None
        """Gets the keys that have speech, for the workers."""
        self._merged = MergedTurns()
        self._speakers = SpeakingOwners()
        self._progress = trio.Event()
        self._sleeping = trio.CancelScope()

    async def run(self) -> None:
        """Apply in time what waits for events of processes that report nothing, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._merged.due_at) as self._sleeping:
                await trio.sleep_forever()
            self._apply(trio.current_time())

    def expect(self, process: str) -> None:
        """Wait for the reports of a worker from now on."""
        self._merged.expect(process)

    def take(self, process: str, events: Sequence[TurnEvent], until: float) -> None:
        """Take over a report of a worker."""
        self._spread(event.place.key[:2] for event in events if isinstance(event, TurnTranscript | TurnSpeech))
        self._merged.add(process, events, until, trio.current_time())
        self._note_progress()

    def until(self, process: str) -> float:
        """Return the time up to which a worker has reported everything."""
        return self._merged.until(process)

    async def wait_applied(self, until: float, arrived: float) -> None:
        """Wait until the events of all workers up to a time are applied, for HOLD_S after `arrived`, on trio's clock, at most."""
        with trio.move_on_at(arrived + HOLD_S):
            while self._merged.applied_until < until:
                await self._progress.wait()
            return
        self._apply(trio.current_time())

    def apply_all(self) -> None:
        """Apply all that has arrived, and wait for no earlier events."""
        self._apply(math.inf)

    def completed(self, process: str, record: RequestRecord, line: bytes) -> tuple[RequestRecord, bytes]:
        """Return the record of a worker's request with its turn, and its line in the journal."""
        complete = self.complete(process, record)
        return (record, line) if complete is record else (complete, encode_record(complete))

    def complete(self, process: str, record: RequestRecord) -> RequestRecord:
        """Return the record of a worker's request with its turn."""
        return self._merged.complete(process, record)

    def forget(self, process: str) -> None:
        """Note that a worker has ended, and that its records are complete."""
        self._merged.forget(process)
        self._apply(trio.current_time())

    # ---- the keeper's own requests

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        self._spread((place.key[:2],))
        self._add(now, partial(self._merged.turns.transcript, place, text, now, part))

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        answer = WrittenAnswer(place, now, [])
        self._add(now, partial(self._merged.chat, answer, last_user()))
        return answer

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        self._spread((place.key[:2],))
        self._add(now, partial(self._merged.speech, place, text, now))
        return place.is_walled

    def _add(self, at: float, step: Callable[[], object]) -> None:
        self._merged.add_step(at, step, trio.current_time())
        self._apply(trio.current_time())

    # ----

    def _apply(self, now: float) -> None:
        self._merged.apply(now)
        self._note_progress()

    def _note_progress(self) -> None:
        self._sleeping.deadline = self._merged.due_at
        self._progress.set()
        self._progress = trio.Event()

    def _spread(self, owners: Iterable[Owner]) -> None:
        """Tell the workers which keys have speech, each key once in SPREAD_S."""
        due = self._speakers.due(owners, trio.current_time())
        if due and self.follow is not None:
            self.follow(due)
