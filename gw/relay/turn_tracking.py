"""What requests tell of their words, so that `gw.policy.turns` finds the turn each belongs to."""

from __future__ import annotations

from collections.abc import Callable

from gw.policy.turns import Turns
from gw.relay.meter import Meter
from gw.types.llm import ChatRequest
from gw.types.stt import Final
from gw.types.usage import HeardSpeech
from gw.wire.last_user_message import last_user

ENOUGH = 24
"""Characters of live text that are looked for the first time; then again when they are whole."""


def _key(meter: Meter) -> tuple[str, str | None]:
    return meter.caller.project, meter.caller.key_id


def asks(turns: Turns, meter: Meter, request: ChatRequest) -> list[str] | None:
    """A chat request begins. The list that takes the pieces of its answer, None = they are not wanted."""
    said = turns.asks(meter.place, _key(meter), lambda: last_user(request), meter.timestamp)
    return None if said is None else said.pieces


def speaks(turns: Turns, meter: Meter, text: str) -> None:
    """A text is spoken whole."""
    turns.speaks(meter.place, _key(meter), text, meter.timestamp)


def transcribed(turns: Turns, meter: Meter, text: str) -> None:
    """A recording has been transcribed."""
    turns.transcript(meter.place, _key(meter), text, meter.now())


def heard(
    turns: Turns, meter: Meter, final: Final, model_id: str, heard_s: float, cost_of: Callable[[float], int | None]
) -> None:
    """A final transcript of a live session, which has been given `heard_s` seconds of audio until now.

    When the speaker stopped is told by how much audio came since, so it is right at real time and never in the future.
    """
    now = meter.now()
    end_s = final.words[-1].end_s if final.words else final.end_s
    late_s = min(max(0.0, heard_s - end_s), now - meter.timestamp) if end_s > 0 else 0.0
    spoken_s = max(0.0, final.end_s - final.start_s)
    part = HeardSpeech(
        request_id=meter.id,
        model_id=model_id,
        ended_at=now - late_s,
        final_at=now,
        audio_seconds=spoken_s,
        cost_nusd=cost_of(spoken_s),
    )
    turns.transcript(meter.place, _key(meter), final.text, now, part)


class Voice:
    """The text of one live speech session, looked at until its turn is known."""

    def __init__(self, turns: Turns, meter: Meter) -> None:
        self._turns = turns
        self._meter = meter
        self._looked = self._found = False

    def read(self, text: str, *, whole: bool = False) -> None:
        """`whole`: it stops here, for a moment or for good."""
        if self._found or not text or not (whole or (len(text) >= ENOUGH and not self._looked)):
            return
        self._looked = True
        self._found = self._turns.speaks(self._meter.place, _key(self._meter), text, self._meter.now())
