"""Slots of a vendor: how many calls at once its account may have, as far as its answers and refusals tell.

    named     an answer or a refusal has the number (ElevenLabs), an answer also how many are in use   forgotten after NAMED_S
    inferred  a refusal without a number (Deepgram, Cartesia): what ran already when the refused       forgotten after INFERRED_S
              call began is what the vendor takes
    elsewhere calls of the same account that are not this process's, as of the latest answer           forgotten after ELSEWHERE_S

What is forgotten is tried again: the next calls go to the vendor, and its answers tell anew.
"""

from __future__ import annotations

from gw.types.gate_view import SlotsSource, SlotsView

NAMED_S = 300.0
"""A plan seldom changes, and every answer repeats the number."""
INFERRED_S = 30.0
"""Other clients of the account may end their calls at any time: one refusal in half a minute is what it costs to notice."""
ELSEWHERE_S = 2.0
"""About as long as a vendor makes speech for one utterance, which is what holds these slots."""


class LearntSlots:
    """The slots for one model of a provider. `now` is monotonic seconds; whoever begins and ends calls counts them in `in_flight`."""

    __slots__ = ("_at", "_elsewhere", "_elsewhere_until", "_is_named", "_most", "_source", "in_flight", "known_until")

    def __init__(self) -> None:
        self.in_flight = 0
        self._most = 0
        self._elsewhere = 0
        self.known_until = self._elsewhere_until = self._at = -1.0
        self._is_named = False
        self._source: SlotsSource = "answer"

    def named(self, most: int, used: int | None, now: float) -> None:
        """Note what an answer has: the number of slots, and how many are in use, its own call included."""
        self._learn(most, "answer", now, is_named=True)
        if used is not None:
            self._note_elsewhere(used - self.in_flight, now)

    def refused(self, most: int | None, beside: int, now: float) -> None:
        """Note that the vendor had no slot for a call, when `beside` others of it ran here. `most`: the number, if the refusal has it."""
        if most is not None:
            self._learn(most, "refusal", now, is_named=True)
            self._note_elsewhere(most - beside, now)
        elif self._is_named and now < self.known_until:
            self._note_elsewhere(self._most - beside, now)
        else:
            known = now < self.known_until
            self._learn(min(self._most, beside) if known else beside, "refusal", now, is_named=False)

    def _learn(self, most: int, source: SlotsSource, now: float, *, is_named: bool) -> None:
        self._most, self._source, self._is_named, self._at = most, source, is_named, now
        self.known_until = now + (NAMED_S if is_named else INFERRED_S if most else ELSEWHERE_S)
        self._elsewhere_until = now

    def _note_elsewhere(self, count: int, now: float) -> None:
        self._elsewhere, self._elsewhere_until = max(0, count), now + ELSEWHERE_S

    def room(self, now: float) -> int | None:
        """Return how many more calls the vendor would take; None: that is not known."""
        if now >= self.known_until:
            return None
        return self._most - self.in_flight - (self._elsewhere if now < self._elsewhere_until else 0)

    def most_here(self, now: float) -> int:
        """Return how many calls at once this process may have, at least one: some call must tell when that is no longer so."""
        if now >= self.known_until:
            return self.in_flight + 1
        return max(1, self._most - (self._elsewhere if now < self._elsewhere_until else 0))

    def view(self, now: float) -> SlotsView | None:
        """Return what is known now; None for nothing."""
        if now >= self.known_until:
            return None
        elsewhere = self._elsewhere if now < self._elsewhere_until else 0
        return SlotsView(
            self._most, self.in_flight + elsewhere, self._source, round(now - self._at, 3), self.in_flight, self._is_named
        )  # fmt: skip
