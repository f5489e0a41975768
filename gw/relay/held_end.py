"""The end of an utterance that a flush of our own brought about before the pause was over: it is passed on when it is."""

from __future__ import annotations

import math

from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, SpeechStarted, UtteranceEnd


class HeldEnd:
    """Silence is in seconds since the last speech."""

    __slots__ = ("_after_s", "end")

    def __init__(self) -> None:
        self.end: UtteranceEnd | None = None
        """The one that is held."""
        self._after_s = 0.0

    def passed_on(self, events: list[ListenEvent], *, flushed: bool, quiet_s: float, after_s: float) -> list[ListenEvent]:
        """Return the events that the caller gets now: all of them unless an end is held or, `flushed`, they may answer a flush of our own.

        More speech before the pause is over means that the utterance goes on: its end is dropped.
        """
        kept: list[ListenEvent] = []
        for event in events:
            if isinstance(event, UtteranceEnd):
                self.end = None
                if flushed and event.raw is None and quiet_s < after_s:
                    self.end, self._after_s = event, after_s
                    continue
            elif isinstance(event, (SpeechStarted, Interim, Final)):
                self.end = None
            elif isinstance(event, ListenEnd):
                kept += self.taken()
            kept.append(event)
        return kept

    def wait_s(self, quiet_s: float) -> float:
        """Return how much more silence has to come; infinity if no end is held."""
        return math.inf if self.end is None else max(0.0, self._after_s - quiet_s)

    def taken(self) -> list[ListenEvent]:
        """Return the end that is held, if there is one, and forget it."""
        end, self.end = self.end, None
        return [] if end is None else [end]
