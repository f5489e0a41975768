"""Waste: the part of a request's cost that reached nobody.

- An attempt that gave the caller nothing (too slow, cut off, or the slower of two hedged ones) is waste as a whole, as
  far as its vendor may charge for it. So is a request that its caller left before the first content.
- Speech: characters billed, less those heard. Where a vendor reports word times, a word counts when its end was played;
  else text counts in proportion to its audio, and where that is not complete yet, at the pace so far, or at
  `CHARACTERS_PER_S`. Audio is played as it is sent on, no faster than real time: audio that a caller received ten
  seconds ahead and dropped when its user interrupted was not heard. Text that another provider repeats, from the first
  word that was not heard completely, was wasted the first time.
- Chat: output tokens generated, less those sent on; in a spoken conversation, less those spoken. The input counts as
  used once any of the answer reached somebody.
- Transcription: audio that another provider had to hear again; the complete recording when no text came of it.

Units are counted as the record's are. The money is the difference between two costs by the same price, so it is exact:
the cost billed, and the cost that the part that was used would have had by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from gw.types.ids import Modality
from gw.types.usage import Cost, Usage

CHARACTERS_PER_S = 15.0  # an ordinary voice's pace


class Waste(msgspec.Struct, frozen=True):
    """Units of the record, and their cost; None where the price is unknown."""

    units: float = 0
    nusd: int | None = 0

    def __add__(self, other: Waste) -> Waste:
        known = self.nusd is not None and other.nusd is not None
        return Waste(self.units + other.units, (self.nusd or 0) + (other.nusd or 0) if known else None)


NO_WASTE = Waste()


def waste_of(modality: Modality, billed: Usage, reached: Usage, cost_of: Callable[[Usage], Cost]) -> Waste:
    """Return the difference between the usage billed and the part of it that reached somebody."""
    used = units_of(modality, reached)
    units = units_of(modality, billed) - used
    if units <= 0:
        return NO_WASTE
    total, part = cost_of(billed).nusd, cost_of(reached).nusd if used > 0 else 0
    return Waste(units, None if total is None or part is None else max(0, total - part))


def units_of(modality: Modality, usage: Usage) -> float:
    match modality:
        case "llm":
            return usage.input_tokens + usage.output_tokens
        case "stt":
            return usage.audio_seconds
        case "tts":
            return usage.characters


def played_part(usage: Usage, characters: int, played_s: float) -> Usage:
    """Return the part of a speech's usage that its listener heard."""
    share = min(1.0, characters / usage.characters) if usage.characters else 0.0
    return msgspec.structs.replace(
        usage,
        characters=min(characters, usage.characters),
        audio_seconds=min(played_s, usage.audio_seconds),
        output_tokens=int(usage.output_tokens * share),
        output_audio_tokens=int(usage.output_audio_tokens * share),
    )


def sent_part(usage: Usage, share: float) -> Usage:
    """Return the part of a chat's usage of which this share of the text was sent on or spoken."""
    if share <= 0:
        return Usage()
    return msgspec.structs.replace(
        usage,
        output_tokens=math.ceil(usage.output_tokens * share),
        output_audio_tokens=math.ceil(usage.output_audio_tokens * share),
    )


def with_estimated_length(usage: Usage) -> Usage:
    """Return the usage of a speech whose audio could not be measured with the length that its text takes."""
    if usage.audio_seconds or not usage.characters:
        return usage
    seconds = round(usage.characters / CHARACTERS_PER_S, 6)
    return msgspec.structs.replace(usage, audio_seconds=seconds, source="estimated")
