"""Events of a provider that began in the middle of a live session, in the session's time."""

from __future__ import annotations

from msgspec.structs import replace

from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, SpeechStarted, UtteranceEnd, VendorFrame


def is_covered(event: ListenEvent, until_s: float) -> bool:
    """Return whether the event is about audio that another provider has transcribed before."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return event.at_s <= until_s
        case Interim() | Final():
            return event.end_s <= until_s
    return False


def shifted(event: ListenEvent, by_s: float) -> ListenEvent:
    """Return the event with its times moved; its frame, which has the provider's times, is not passed on."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return replace(event, at_s=event.at_s + by_s, raw=None)
        case Interim() | Final():
            words = tuple([replace(word, start_s=word.start_s + by_s, end_s=word.end_s + by_s) for word in event.words])
            return replace(event, start_s=event.start_s + by_s, end_s=event.end_s + by_s, words=words, raw=None)
        case ListenEnd():
            return replace(event, raw=None)
        case VendorFrame():
            return event
