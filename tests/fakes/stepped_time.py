"""Virtual time for a gateway with a real database: it stands still while a thread works, and then goes on in steps."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio
import trio.testing

NOON = 20_800 * 86_400 + 43_200


@attrs.frozen
class SteppedTime:
    """`clock` is that of trio (the fixture `mock_clock`). Wall time follows it, from NOON on."""

    clock: trio.testing.MockClock
    began: float = NOON

    def now(self) -> float:
        return self.began + self.clock.current_time()

    async def settle(self) -> None:
        """Wait until neither a thread nor a task has anything to do before time goes on."""
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if not trio.testing.active_thread_count():
                return
            await trio.testing.wait_all_threads_completed()

    async def go_on(self, seconds: float, *, step_s: float = 5.0, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, as long as `until` is not true."""
        end = self.clock.current_time() + seconds
        await self.settle()
        while self.clock.current_time() < end and not until():
            self.clock.jump(min(step_s, end - self.clock.current_time()))
            await self.settle()
