"""Places for requests at once, and the requests that wait for one."""

from __future__ import annotations

from collections.abc import Callable

import trio

from gw.policy.fair_queue import FairQueue

PLACE_S = 1.0
"""A burst that is over in a moment is not refused; who would wait longer for a place is better told to come again."""


class Places:
    """So many requests run at once; of those that wait, whose turn it is gets the next place.

    A place that is free goes to the request that waits, never to one that comes in the same moment: it is `promised` until that
    request goes on. Whoever frees a place calls `hand_over`.
    """

    def __init__(self, most: int, running: Callable[[], int]) -> None:
        """`running` returns how many run: without those that wait here, and without those to whom a place is promised."""
        self.most = most
        self.promised = 0
        self._running = running
        self._queue: FairQueue[trio.Event] = FairQueue(PLACE_S, most, trio.current_time())

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    def full(self) -> bool:
        return self._running() + self.promised >= self.most

    def hand_over(self) -> None:
        """Give the places that are free to those that wait."""
        while self._queue.waiting and not self.full():
            self.promised += 1
            self._queue.take(trio.current_time()).set()

    async def wait(self, project: str, key: str = "", weight: int = 1) -> bool:
        """Wait for a place, PLACE_S at most. Return False, at once or after that, if there is none.

        The caller takes the place before its next checkpoint.
        """
        turn = trio.Event()
        if not self._queue.add(turn, project, key, weight, trio.current_time()):
            return False
        try:
            with trio.move_on_after(PLACE_S):
                await turn.wait()
        except BaseException:  # its caller has left, perhaps in the moment in which its turn came
            if self._leave(turn, project, key):
                self.hand_over()
            raise
        return self._leave(turn, project, key)

    def _leave(self, turn: trio.Event, project: str, key: str) -> bool:
        if turn.is_set():
            self.promised -= 1
            return True
        self._queue.discard(turn, project, key)
        return False
