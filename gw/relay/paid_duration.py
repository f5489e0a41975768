"""The part of a conversation that its vendor bills by duration: what was used of it and is in no record yet."""

from __future__ import annotations

import msgspec

from gw.registry.catalog import Model, Provider
from gw.relay.meter import Meter
from gw.types.conversation import ConverseCounter, Frame
from gw.types.usage import NO_DIMENSIONS, Cost, Dimensions, Usage

AHEAD_S = 30.0
"""Time for which money is reserved ahead: a session costs at most so much more than a budget has left."""
_NO_TOKENS = {"input_tokens": 0, "output_tokens": 0}


class PaidDuration:
    """Duration and messages of one session. Each record takes what is new since the one before it, so that nothing is billed twice."""

    def __init__(self, counter: ConverseCounter, began: float) -> None:
        self._counter = counter
        self._began = began
        self._taken_s = 0.0
        self._taken_messages = 0

    def sent(self, frame: Frame) -> None:
        self._counter.sent(frame)

    def received(self, frame: Frame, now: float) -> None:
        self._counter.received(frame, now - self._began)

    def due(self, now: float, ahead_s: float = 0.0) -> Usage:
        """Return what no record has yet, with so many seconds more."""
        messages = self._counter.text_messages - self._taken_messages
        return Usage(
            audio_seconds=max(0.0, self._counter.total_s(now - self._began) - self._taken_s) + ahead_s,
            dimensions=Dimensions(text_messages=messages) if messages else NO_DIMENSIONS,
        )

    def take(self, now: float, counted: Usage | None) -> Usage:
        """Return what no record has yet, with the vendor's count of tokens, for the next record."""
        due = self.due(now)
        self._taken_s += due.audio_seconds
        self._taken_messages = self._counter.text_messages
        if counted is None:
            return due
        source = counted.source if self._counter.reported_s else due.source
        dimensions = counted.dimensions + due.dimensions
        return msgspec.structs.replace(counted, audio_seconds=due.audio_seconds, dimensions=dimensions, source=source)


def duration_cost(meter: Meter, usage: Usage, model: Model, provider: Provider) -> Cost:
    """Return the cost of a usage by the duration, where the price has no rates for the tokens that the vendor counts as well."""
    cost = meter.cost_of(usage, model, provider)
    return cost if cost.nusd is not None else meter.cost_of(msgspec.structs.replace(usage, **_NO_TOKENS), model, provider)


def reserved_nusd(meter: Meter, usage: Usage, model: Model, provider: Provider) -> int:
    """Return the money to reserve for a usage; by the stand-in where it has no price."""
    nusd = duration_cost(meter, usage, model, provider).nusd
    return meter.stand_in(usage) if nusd is None else nusd
