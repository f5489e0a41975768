"""Fair order of the requests that wait while there are more of them than places.

Weighted round robin over the projects that wait, and in turn over the keys of each, so a key or project that sends ten times its
share gets no more than its share while others wait. A request waits only if it can expect a place in time: what would wait in vain
is refused at once, which is cheaper for both sides.

    expected wait = requests of the same key before it ÷ places per second × weights of all that wait ÷ weight of the project × its keys
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

_WINDOW_S = 1.0
_STALE_S = 3.0
_LEAST_PER_S = 32.0
"""Places a second that are expected before any was counted, at least: a short burst for one place may wait."""


class _Project(Generic[T]):
    __slots__ = ("keys", "turns", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = self.turns = weight
        self.keys: dict[str, deque[T]] = {}


class FairQueue(Generic[T]):
    """`now` is monotonic seconds. Items are told apart by identity and wait under one project and key each."""

    def __init__(self, wait_s: float, places: int, now: float) -> None:
        self.waiting = 0
        self._wait_s = wait_s
        self._projects: dict[str, _Project[T]] = {}
        """Those that wait, the next one first."""
        self._weights = 0
        self._expected_per_s = max(_LEAST_PER_S, 2.0 * places / wait_s)
        self._per_s = self._expected_per_s
        self._given = 0
        self._since = now

    def add(self, item: T, project: str, key: str, weight: int, now: float) -> bool:
        """Let `item` wait; return False if it would wait in vain. The first of a key may always wait."""
        self._count(now)
        entry = self._projects.get(project)
        if entry is None:
            entry = self._projects[project] = _Project(weight)
            self._weights += weight
        items = entry.keys.get(key)
        if items is None:
            items = entry.keys[key] = deque()
        elif (len(items) + 1) * self._weights * len(entry.keys) > self._per_s * entry.weight * self._wait_s / 2:
            return False
        items.append(item)
        self.waiting += 1
        return True

    def take(self, now: float) -> T:
        """Return the next item, which no longer waits. Raise LookupError if none waits."""
        if not self._projects:
            raise LookupError("nothing waits")
        self._count(now)
        self._given += 1
        name, project = next(iter(self._projects.items()))
        key, items = next(iter(project.keys.items()))
        item = items.popleft()
        self.waiting -= 1
        project.turns -= 1
        del project.keys[key]
        if items:
            project.keys[key] = items  # the last of its project's keys
        self._rotate(name, project)
        return item

    def discard(self, item: T, project: str, key: str) -> None:
        """Take `item`, which waits, out of the queue."""
        entry = self._projects[project]
        items = entry.keys[key]
        items.remove(item)
        self.waiting -= 1
        if not items:
            del entry.keys[key]
            if not entry.keys:
                self._drop(project)

    def _rotate(self, name: str, project: _Project[T]) -> None:
        if not project.keys:
            self._drop(name)
        elif project.turns <= 0:
            project.turns = project.weight
            self._projects[name] = self._projects.pop(name)

    def _drop(self, name: str) -> None:
        self._weights -= self._projects.pop(name).weight

    def _count(self, now: float) -> None:
        """Note how many places a second were given."""
        passed = now - self._since
        if passed < _WINDOW_S:
            return
        self._per_s = self._expected_per_s if not self.waiting and passed > _STALE_S else self._given / passed
        self._given = 0
        self._since = now
