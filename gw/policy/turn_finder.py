"""Finds the turns of requests, as the relay sees it: in this process (`gw.policy.turns`), or for several processes together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech


class TurnFinder(Protocol):
    """Gets the words of requests when they are known. None of its methods waits."""

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        """Remember a final transcript. `part`: for one of the many of a live session."""
        ...

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        """Find the turn of a chat request. Return where to add its answer's text, or None where that is not needed."""
        ...

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        """Find the turn of a text that is sent to a voice. Return whether it is known that it has one."""
        ...
