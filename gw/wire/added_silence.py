"""Times of a vendor without the silence that was sent beside the caller's audio.

A vendor that ends an utterance only after a silence gets one for a flush, and one that ends an idle session gets one to keep it
alive. Its times count that silence; those of the session do not.
"""

from __future__ import annotations

from collections import deque

from gw.wire.bounds import seconds


class AddedSilence:
    """The silences of one session, by the vendor's time."""

    def __init__(self) -> None:
        self._before_s = 0.0  # silence before all that is still to be answered
        self._silences: deque[tuple[float, float]] = deque()  # start and length of each

    def add(self, at_s: float, length_s: float) -> None:
        self._silences.append((at_s, length_s))

    def own_s(self, time: float | None) -> float:
        """Return a vendor's time as one of the session; 0.0 for None and for an impossible one."""
        vendor_s = seconds(time) or 0.0
        within_s = sum(min(length_s, max(0.0, vendor_s - at_s)) for at_s, length_s in self._silences)
        return max(0.0, vendor_s - self._before_s - within_s)

    def answered(self, time: float | None) -> None:
        """Forget the silences before a final transcript that ends at `time`."""
        vendor_s = seconds(time) or 0.0
        while self._silences and sum(self._silences[0]) <= vendor_s:
            self._before_s += self._silences.popleft()[1]
