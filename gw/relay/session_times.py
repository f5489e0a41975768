"""Times of a live transcription: a provider that began later, or was not sent all audio, counts from other zeros."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, SpeechStarted, UtteranceEnd, VendorFrame


class TimeMap:
    """The provider's time, in seconds of audio sent to it, to the session's.

    `pieces` are the stretches of the session that it got, `(start, end)` in session seconds; the last one is open.
    """

    def __init__(self, pieces: Sequence[tuple[float, float]]) -> None:
        self._sent_s: list[float] = []  # the provider's time at which each piece begins
        self._later_s: list[float] = []  # how much later the session's is
        sent_s = 0.0
        for start_s, end_s in pieces:
            self._sent_s.append(sent_s)
            self._later_s.append(start_s - sent_s)
            sent_s += end_s - start_s
        self.is_same = self._later_s == [0.0]
        """Whether both times are the same."""

    def start(self, at_s: float) -> float:
        """Return the session's time at which something begins: where two pieces meet, in the later one."""
        return at_s + self._later_s[max(0, bisect_right(self._sent_s, at_s) - 1)]

    def end(self, at_s: float) -> float:
        """Return the session's time at which something ends: where two pieces meet, in the earlier one."""
        return at_s + self._later_s[max(0, bisect_left(self._sent_s, at_s) - 1)]


def within(events: list[ListenEvent], most_s: float) -> list[ListenEvent]:
    """Return the events; times of those that lie before the session or after `most_s`, as no vendor can mean them, are the nearest ones.

    Prices, audio to replay and other protocols' milliseconds are computed from them. The vendor's frame is not passed on then.
    """
    for event in events:  # not `all` of a generator: this is every frame of a session
        if not _is_within(event, most_s):
            return [_brought_within(event, most_s) for event in events]
    return events


def _is_within(event: ListenEvent, most_s: float) -> bool:
    if isinstance(event, (Interim, Final)):
        if not (0.0 <= event.start_s <= most_s and 0.0 <= event.end_s <= most_s):
            return False
        return not event.words or all(0.0 <= word.start_s <= most_s and 0.0 <= word.end_s <= most_s for word in event.words)
    return 0.0 <= event.at_s <= most_s if isinstance(event, (SpeechStarted, UtteranceEnd)) else True


def _brought_within(event: ListenEvent, most_s: float) -> ListenEvent:
    def near(at_s: float) -> float:
        return min(max(0.0, at_s), most_s) if at_s == at_s else most_s  # NaN is not equal to itself

    if _is_within(event, most_s):
        return event
    match event:
        case SpeechStarted() | UtteranceEnd():
            return replace(event, at_s=near(event.at_s), raw=None)
        case Interim() | Final():
            words = tuple([replace(word, start_s=near(word.start_s), end_s=near(word.end_s)) for word in event.words])
            return replace(event, start_s=near(event.start_s), end_s=near(event.end_s), words=words, raw=None)
    return event


def shifted(event: ListenEvent, times: TimeMap) -> ListenEvent:
    """Return the event in the session's times; its frame, which has the provider's, is not passed on."""
    match event:
        case SpeechStarted():
            return replace(event, at_s=times.start(event.at_s), raw=None)
        case UtteranceEnd():
            return replace(event, at_s=times.end(event.at_s), raw=None)
        case Interim() | Final():
            words = tuple(
                [replace(word, start_s=times.start(word.start_s), end_s=times.end(word.end_s)) for word in event.words]
            )
            return replace(event, start_s=times.start(event.start_s), end_s=times.end(event.end_s), words=words, raw=None)
        case ListenEnd():
            return replace(event, raw=None)
        case VendorFrame():
            return event


def is_covered(event: ListenEvent, until_s: float) -> bool:
    """Return whether the event is about audio that another provider has transcribed before."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return event.at_s <= until_s
        case Interim() | Final():
            return event.end_s <= until_s
    return False
