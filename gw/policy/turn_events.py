"""Events by which turns are found, as processes report them to the one that finds them (`gw.policy.merged_turns`)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

Owner: TypeAlias = tuple[str, str | None]
"""Project and key."""


class PlaceFacts(msgspec.Struct, frozen=True, array_like=True):
    """A request, as `TurnPlace` has it at its beginning. `link`: number of its connection in its process, 0 = none."""

    request_id: str
    key: tuple[str, str | None, str | None]
    turn_id: str | None
    link: int
    endpoint: str


class _TurnEvent(msgspec.Struct, frozen=True, tag=True, array_like=True):
    at: float
    """Unix seconds."""


class TurnTranscript(_TurnEvent, frozen=True):
    """A final transcript, its letters and digits only."""

    place: PlaceFacts
    text: str
    part: HeardSpeech | None


class TurnChat(_TurnEvent, frozen=True):
    """A chat request that begins; the text of `last` as its letters and digits only."""

    place: PlaceFacts
    last: LastUser | None


class TurnAnswerText(_TurnEvent, frozen=True):
    """More text of the answer to a chat request. `at`: a time before all of it."""

    request_id: str
    text: str


class TurnSpeech(_TurnEvent, frozen=True):
    """Text that is sent to a voice; the same request may have more of it later."""

    place: PlaceFacts
    text: str


class TurnRequestEnded(_TurnEvent, frozen=True):
    """A request is over; its record follows."""

    request_id: str
    failed: bool
    cancelled: bool


class TurnLinkClosed(_TurnEvent, frozen=True):
    """A connection has ended."""

    link: int


TurnEvent: TypeAlias = TurnTranscript | TurnChat | TurnAnswerText | TurnSpeech | TurnRequestEnded | TurnLinkClosed
