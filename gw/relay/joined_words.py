"""Words that two transcripts may share, because a part of the audio was sent to two recognisers: said once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gw.types.stt import Final, Interim, ListenEvent, UtteranceEnd

_PUNCTUATION = ".,!?;:\u2026\"'()[]"


def _plain(words: Sequence[str]) -> list[str]:
    return [word.strip(_PUNCTUATION).casefold() for word in words]


class WordJoin:
    """Drops from the first transcripts of a recogniser the words with which the one before has ended.

    The audio of `said`, the last final transcript, may be a part of what is sent again. Its words are looked for at the
    beginning only, until one differs.
    """

    def __init__(self, said: str) -> None:
        self._said = _plain(said.split())

    def joined(self, events: list[ListenEvent]) -> list[ListenEvent]:
        """Return the events without the words said before. A final transcript of no other words is dropped with its end."""
        if not self._said:
            return events
        kept: list[ListenEvent] = []
        dropped = False
        for event in events:
            if isinstance(event, UtteranceEnd) and dropped:
                continue
            if not isinstance(event, (Interim, Final)) or not self._said or not event.text:
                kept.append(event)
                continue
            words = event.text.split()
            count = self._shared(words, final=isinstance(event, Final))
            dropped = count == len(words)
            if not dropped:
                kept.append(_without(event, words, count))
        return kept

    def _shared(self, words: Sequence[str], *, final: bool) -> int:
        """Return how many of the first words were said before; a final transcript uses them up."""
        plain, said = _plain(words), self._said
        for begin in range(len(said)):
            rest = said[begin:]
            count = min(len(rest), len(plain))
            if rest[:count] == plain[:count]:
                if final:
                    self._said = rest[count:]
                return count
        if final:
            self._said = []
        return 0


def _without(event: Interim | Final, words: Sequence[str], count: int) -> Interim | Final:
    """Return a transcript without its first words; times of words are kept where each word has one."""
    if not count:
        return event
    timed = event.words[count:] if len(event.words) == len(words) else ()
    start_s = timed[0].start_s if timed else event.start_s
    return replace(event, text=" ".join(words[count:]), words=timed, start_s=start_s, raw=None)
