"""A counter of a request's answer that also keeps the events for its capture."""

from __future__ import annotations

from typing import Any

from gw.relay.meter import Captured
from gw.relay.response import UsageCounter
from gw.types.usage import Usage


class CapturingCounter:
    """A counter of a request's answer that notes the events as they are counted."""

    __slots__ = ("_add", "_counter", "_give")

    def __init__(self, counter: UsageCounter[Any], capture: Captured) -> None:
        self._counter = counter
        self._add = counter.add
        self._give = capture.give

    def add(self, events: list[Any], provider: str) -> bool:
        self._give(events)
        return self._add(events, provider)

    def usage(self) -> tuple[Usage, Usage | None]:
        return self._counter.usage()

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        return self._counter.reached(usage, passed_on=passed_on, after_s=after_s)
