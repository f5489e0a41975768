"""Waste: the part of what a request costs that reached nobody.

- An attempt that gave the caller nothing (too slow, cut off, or the slower of two hedged ones) is waste as a whole, as far as
  its vendor may charge for it. So is a request that its caller left before the first content.
- Speech: characters billed, less those heard. Where a vendor tells when each word is spoken, a word counts when its end was
  played; else text counts in proportion to its audio, and where that is not all made yet, at the pace of what was, or at
  `CHARACTERS_PER_S`. Audio is played as it is sent on, no faster than real time: what a caller was given ten seconds ahead and
  dropped when its user interrupted was not heard. What is said again by another provider, from the first word that was not
  heard whole, was wasted the first time.
- Chat: output tokens generated, less those sent on; in a conversation that is spoken, less those spoken. The input counts
  once nothing of the answer reached anybody.
- Transcription: audio that another provider had to hear again; the whole recording when no text came of it.

Units are counted as the record's are. The money is the difference between two costs by the same price, so it is exact: what is
billed, and what the part that was heard would have cost by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from gw.types.ids import Modality
from gw.types.usage import Cost, Usage

CHARACTERS_PER_S = 15.0
"""An ordinary voice's pace."""


class Waste(msgspec.Struct, frozen=True):
    """`units` of the record's kind; `nusd` is None where no price is known."""

    units: float = 0
    nusd: int | None = 0

    def __add__(self, other: Waste) -> Waste:
        known = self.nusd is not None and other.nusd is not None
        return Waste(self.units + other.units, (self.nusd or 0) + (other.nusd or 0) if known else None)


NO_WASTE = Waste()


class Lost(msgspec.Struct, frozen=True):
    """What attempts that gave no content used and cost; all of it is waste."""

    usage: Usage
    cost: Cost
    waste: Waste


def times(usage: Usage, count: int) -> Usage:
    """So many of the same. Of the units that are known before an answer."""
    return msgspec.structs.replace(
        usage,
        input_tokens=usage.input_tokens * count,
        audio_seconds=usage.audio_seconds * count,
        characters=usage.characters * count,
    )


def waste_of(modality: Modality, billed: Usage, reached: Usage, cost_of: Callable[[Usage], Cost]) -> Waste:
    """Between what is billed and the part of it that reached somebody."""
    left = units_of(modality, reached)
    units = units_of(modality, billed) - left
    if units <= 0:
        return NO_WASTE
    whole, part = cost_of(billed).nusd, cost_of(reached).nusd if left > 0 else 0
    return Waste(units, None if whole is None or part is None else max(0, whole - part))


def units_of(modality: Modality, usage: Usage) -> float:
    match modality:
        case "llm":
            return usage.input_tokens + usage.output_tokens
        case "stt":
            return usage.audio_seconds
        case "tts":
            return usage.characters


def heard_of(usage: Usage, characters: int, heard_s: float) -> Usage:
    """The part of a speech's usage that was heard."""
    share = min(1.0, characters / usage.characters) if usage.characters else 0.0
    return msgspec.structs.replace(
        usage,
        characters=min(characters, usage.characters),
        audio_seconds=min(heard_s, usage.audio_seconds),
        output_tokens=int(usage.output_tokens * share),
        output_audio_tokens=int(usage.output_audio_tokens * share),
    )


def said_of(usage: Usage, share: float) -> Usage:
    """The part of a chat's usage of whose text so much was sent on or spoken."""
    if share <= 0:
        return Usage()
    return msgspec.structs.replace(
        usage,
        output_tokens=math.ceil(usage.output_tokens * share),
        output_audio_tokens=math.ceil(usage.output_audio_tokens * share),
    )


class Playback:
    """How much of the audio that was sent on has been played: each piece after those before it, at real time."""

    def __init__(self) -> None:
        self.sent_s = 0.0
        self._until = 0.0

    def send(self, seconds: float, now: float) -> None:
        self.sent_s += seconds
        self._until = max(self._until, now) + seconds

    def played_s(self, now: float) -> float:
        return max(0.0, self.sent_s - max(0.0, self._until - now))
