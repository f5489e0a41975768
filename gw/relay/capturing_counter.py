"""A counter of a request's answer that also hands the events to its capture."""

from __future__ import annotations

from typing import Any

from gw.relay.meter import Captured
from gw.relay.response import UsageCounter
from gw.types.usage import Usage


class CapturingCounter:
    """A counter of a request's answer that notes the events as they are counted."""

    def __init__(self, counter: UsageCounter[Any], capture: Captured) -> None:
        self._counter = counter
        self._capture = capture

    def add(self, events: list[Any], provider: str) -> bool:
        self._capture.give(events)
        return self._counter.add(events, provider)

    def usage(self) -> tuple[Usage, Usage | None]:
        return self._counter.usage()

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        return self._counter.reached(usage, passed_on=passed_on, after_s=after_s)
