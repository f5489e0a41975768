"""Finds the turns of requests in all gateways of a fleet: each applies the same reports in the same order, and so finds the same.

    gateway 1 ── reports ──▶ channel of the fleet's server ──▶ `OrderedTurns` of gateway 1 ──▶ turns of its records
    gateway 2 ── reports ──▶  (one order for all)          ──▶ `OrderedTurns` of gateway 2 ──▶ turns of its records

What is applied, and when, follows from the reports alone: not from the time of their arrival, nor from which gateways are known. An event
is applied when a report says that it is HOLD_S later somewhere; so all earlier ones of all gateways have arrived, unless one took longer
than that, and then it is late for all of them alike. A gateway's own events take the same way as those of others.

A gateway that has missed a report knows too little to find turns, so it begins with an empty memory again.
"""

from __future__ import annotations

import math

from gw.policy.turn_events import TurnReport
from gw.policy.turn_steps import TurnProcess, TurnSteps
from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.policy.turns import Turns
from gw.types.llm import LastUser

HOLD_S = 0.1
"""Time for reports, which are made every 20 ms, to reach the server. After that, an event is applied."""
FORGET_S = 3_600.0
"""Silence after which a process of another gateway is taken to have ended."""


class OrderedTurns(TurnSteps):
    """Times are Unix seconds by the server's clock; a report says what its gateway's clock lacks to it."""

    def __init__(self, member: str, run: str) -> None:
        """`member`, `run`: of this gateway, whose records are completed here."""
        super().__init__()
        self.gaps = 0
        """Times at which reports were missing."""
        self.joined: list[tuple[str, TurnPlace]] = []
        """Ids of earlier requests that have got a turn since this was emptied, and the request that has it."""
        self._member, self._run = member, run
        self._latest = -math.inf
        self._numbers: dict[str, tuple[str, int]] = {}
        """Gateway → its run, and the number of its last report."""

    def take(self, report: TurnReport) -> None:
        """Take over the next report of the channel."""
        run, number = self._numbers.get(report.member, ("", 0))
        if run == report.run and number != report.number - 1:
            self._begin_again()
        elif run != report.run:
            self._forget_member(report.member)
        self._numbers[report.member] = report.run, report.number
        name, until = process_name(report.member, report.run, report.process), report.until + report.offset
        known = self._processes.get(name)
        if known is None:
            is_elsewhere = (report.member, report.run) != (self._member, self._run)
            known = self._processes[name] = TurnProcess(is_elsewhere=is_elsewhere)
        for event in report.events:
            self._push(event.at + report.offset, self._step(known, event, event.at + report.offset))
        known.until = until
        if until > self._latest:
            self._latest = until
            self._apply_until(max(self.applied_until, until - HOLD_S))
            self._forget_silent(until - FORGET_S)

    def chat(self, answer: WrittenAnswer, last: LastUser | None) -> None:
        """Find the turn of a chat request, as `TurnSteps` does."""
        known = len(answer.place.earlier)
        super().chat(answer, last)
        self.joined += [(id_, answer.place) for id_ in answer.place.earlier[known:]]

    def speech(self, place: TurnPlace, text: str, at: float) -> None:
        """Find the turn of text that is sent to a voice, as `TurnSteps` does."""
        known = len(place.earlier)
        super().speech(place, text, at)
        self.joined += [(id_, place) for id_ in place.earlier[known:]]

    def is_applied(self, until: float) -> bool:
        """Return whether all events up to a time are applied, but for late ones."""
        return self.applied_until >= until

    def place(self, process: str, request_id: str) -> TurnPlace | None:
        """Return what is known of a request; None before its first report has arrived."""
        known = self._processes.get(process)
        return None if known is None else known.places.get(request_id)

    def _begin_again(self) -> None:
        """Forget all texts: of those that were missed, some may be the source of the next request."""
        self.gaps += 1
        self.turns = Turns()
        self._pending.clear()
        for process, known in list(self._processes.items()):
            if known.is_elsewhere:
                del self._processes[process]
            known.answers.clear()

    def _forget_member(self, member: str) -> None:
        """Note the end of an earlier run of a gateway."""
        for process, known in list(self._processes.items()):
            if known.is_elsewhere and process.startswith(f"{member} "):
                self.forget(process)

    def _forget_silent(self, since: float) -> None:
        silent = [process for process, known in self._processes.items() if known.is_elsewhere and known.until < since]
        for process in silent:
            self.forget(process)


def process_name(member: str, run: str, process: str) -> str:
    """Return the name of a process among those of all gateways. `member` has no space."""
    return f"{member} {run} {process}"
