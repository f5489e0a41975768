"""What a client of live speech may say; the sessions themselves are held in `gw.dialects.speech_contexts`."""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias

import msgspec


class Text(msgspec.Struct, frozen=True):
    """More to speak."""

    text: str


class TtsCommand(Enum):
    FLUSH = auto()
    """Speak what has been said so far."""
    FINISH = auto()
    """No more will be said."""


Told: TypeAlias = Text | TtsCommand
