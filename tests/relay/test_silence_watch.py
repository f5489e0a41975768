from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from gw.relay.silence_watch import APART_S, SilenceWatch


class Watched:
    def __init__(self, watch, every_s=math.inf):
        self.look_at = self.queued_at = math.inf
        self.watch, self.every_s, self.looks = watch, every_s, []

    def look(self, now):
        self.looks.append(now)
        if self.every_s < math.inf:
            self.watch.set_time(self, now + self.every_s)


@pytest.fixture
def watch(nursery, autojump_clock):
    made = SilenceWatch()
    nursery.start_soon(made.watch_sessions)
    return made


async def test_each_is_looked_at_when_it_said(watch):
    began = trio.current_time()
    one, other, never = Watched(watch, 1.0), Watched(watch), Watched(watch)
    watch.set_time(other, began + 0.5)
    watch.set_time(one, began + 1)
    await trio.sleep(3.5)
    assert one.looks == pytest.approx([began + 1, began + 2, began + 3])
    assert other.looks == pytest.approx([began + 0.5])
    assert never.looks == []


async def test_a_time_can_be_set_earlier_and_later(watch):
    began = trio.current_time()
    earlier, later, never = Watched(watch), Watched(watch), Watched(watch)
    for watched in (earlier, later, never):
        watch.set_time(watched, began + 1)
    watch.set_time(earlier, began + 0.5)
    watch.set_time(later, began + 2)
    watch.set_time(never, math.inf)
    await trio.sleep(5)
    assert earlier.looks == pytest.approx([began + 0.5])
    assert later.looks == pytest.approx([began + 2])
    assert never.looks == []


async def test_who_wants_a_look_now_has_it_before_time_passes(watch):
    await trio.sleep(1)
    now, watched = trio.current_time(), Watched(watch)
    watch.set_time(watched, now)
    await trio.testing.wait_all_tasks_blocked()
    assert watched.looks == [now]


async def test_looks_that_are_due_close_together_are_one_round(watch):
    class Rounds(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task):
            self.count += task.name.endswith("watch_sessions")

    rounds, began = Rounds(), trio.current_time()
    everyone = [Watched(watch) for _ in range(100)]
    for n, watched in enumerate(everyone):
        watch.set_time(watched, began + 1 + n * APART_S / 50)
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(rounds)
    await trio.sleep(2)
    trio.lowlevel.remove_instrument(rounds)
    assert all(len(watched.looks) == 1 for watched in everyone)
    assert rounds.count <= 4
    assert all(0 <= watched.looks[0] - (began + 1 + n * APART_S / 50) <= APART_S + 1e-6 for n, watched in enumerate(everyone))
