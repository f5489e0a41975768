"""Two parts of trio at their barest, for live sessions: a task that waits until another wakes it, and the time."""

from __future__ import annotations

from collections.abc import Callable

import trio


def clock_of_run() -> Callable[[], float]:
    """Return the function that returns the time, as `trio.current_time` does for three times the price: twice a frame is a lot."""
    return trio.lowlevel.current_clock().current_time


class Wakeup:
    """Unlike `trio.lowlevel.ParkingLot` it holds nothing while nobody waits, and takes one task at a time."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        """Wait for the next `wake`. Raises trio.BusyResourceError if another task already waits."""
        if self._task is not None:
            raise trio.BusyResourceError("another task already waits here")
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self) -> None:
        """Let the waiting task go on, if there is one."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
