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


class TurnProcessEnded(_TurnEvent, frozen=True):
    """A worker has ended, and with it its requests and connections."""


TurnEvent: TypeAlias = (
    TurnTranscript | TurnChat | TurnAnswerText | TurnSpeech | TurnRequestEnded | TurnLinkClosed | TurnProcessEnded
)


class TurnReport(msgspec.Struct, frozen=True, array_like=True):
    """Events of one process of a gateway, for all gateways of its fleet."""

    member: str
    """Name of the gateway."""
    run: str
    """Name of this run of the gateway."""
    number: int
    """Number of the report, from 1 on, in this run."""
    process: str
    """Name of the worker; empty: the gateway's own requests."""
    offset: float
    """Seconds that the gateway's clock lacks to the server's."""
    until: float
    """Time of the report, by the gateway's clock, in Unix seconds. Its events are not later."""
    events: list[TurnEvent]
