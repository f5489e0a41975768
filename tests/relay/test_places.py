from __future__ import annotations

from collections import Counter
from statistics import quantiles

import trio
import trio.testing

from gw.relay.places import PLACE_S, Places


class Server:
    """Has `most` places; each request holds one for `hold_s`."""

    def __init__(self, most: int, hold_s: float) -> None:
        self.running = 0
        self.hold_s = hold_s
        self.places = Places(most, lambda: self.running)
        self.served: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.refused_after: list[float] = []
        self.most_running = 0

    async def ask(self, project: str, key: str = "", weight: int = 1) -> bool:
        began = trio.current_time()
        if self.places.full() and not await self.places.wait(project, key, weight):
            self.refused[project + key] += 1
            self.refused_after.append(trio.current_time() - began)
            return False
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep(self.hold_s)
            self.served[project + key] += 1
        finally:
            self.running -= 1
            self.places.hand_over()
        return True

    async def offer(self, per_s: float, seconds: float, project: str, key: str = "", weight: int = 1) -> None:
        """Ask evenly, whether others are answered or not."""
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            for n in range(round(per_s * seconds)):
                await trio.sleep_until(began + n / per_s)
                nursery.start_soon(self.ask, project, key, weight)


async def test_one_project_at_ten_times_its_share_gets_its_share_and_the_others_all_they_ask_for(autojump_clock):
    server, seconds = Server(most=20, hold_s=0.1), 20  # 200 a second: 20 for each of ten
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.offer, 200, seconds, "greedy")
        for n in range(9):
            nursery.start_soon(server.offer, 20, seconds, f"p{n}")
        await trio.sleep(5)
        before = server.served.copy()
        await trio.sleep(10)
        served = server.served - before
    assert [server.served[f"p{n}"] for n in range(9)] == [20 * seconds] * 9
    assert 0.95 * 200 <= served["greedy"] <= 1.02 * 200
    assert server.most_running == 20
    assert served.total() >= 0.99 * 200 * 10
    assert set(server.refused) == {"greedy"}


async def test_keys_of_one_project_share_like_projects(autojump_clock):
    server, seconds = Server(most=10, hold_s=0.1), 20  # 100 a second
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.offer, 250, seconds, "shop", "greedy")
        nursery.start_soon(server.offer, 25, seconds, "shop", "modest")
        nursery.start_soon(server.offer, 50, seconds, "shop", "busy")
    assert server.served["shopmodest"] == 25 * seconds
    for key in ("greedy", "busy"):  # what is left is shared evenly
        assert abs(server.served["shop" + key] - 37.5 * seconds) < 0.06 * 37.5 * seconds, (key, server.served)


async def test_weights_divide_what_all_want_more_of(autojump_clock):
    server, seconds = Server(most=10, hold_s=0.1), 20
    async with trio.open_nursery() as nursery:
        for weight in (1, 2, 5):
            nursery.start_soon(server.offer, 400, seconds, f"w{weight}", "", weight)
    whole = server.served.total()
    for weight in (1, 2, 5):
        assert abs(server.served[f"w{weight}"] / whole - weight / 8) < 0.03, server.served


async def test_at_four_times_the_capacity_refusals_are_made_at_once(autojump_clock):
    server, seconds = Server(most=40, hold_s=0.2), 20  # 200 a second
    async with trio.open_nursery() as nursery:
        for n in range(8):
            nursery.start_soon(server.offer, 100, seconds, f"p{n}")
    assert server.served.total() >= 0.95 * 200 * seconds
    assert server.refused.total() > 2 * server.served.total()
    assert quantiles(server.refused_after, n=100)[98] == 0.0
    assert max(server.refused_after) <= PLACE_S
    assert server.places.waiting == server.places.promised == 0
    assert await server.ask("late")  # recovered


async def test_places_that_do_not_become_free_are_waited_for_by_few(autojump_clock):
    """Sessions of minutes: all that come in the first second wait in vain; after that one of each key."""
    server = Server(most=4, hold_s=300)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.offer, 100, 20, "shop")
        await trio.sleep(19.5)
        assert server.places.waiting == 1
        nursery.cancel_scope.cancel()
    assert sum(after == PLACE_S for after in server.refused_after) < 60
    assert server.refused.total() > 1_900


async def test_a_request_that_leaves_in_the_moment_of_its_turn_gives_the_place_on(autojump_clock):
    server = Server(most=1, hold_s=0.5)
    outcome: list[str] = []

    async def waiting(name: str, scope: trio.CancelScope) -> None:
        with scope:
            outcome.append(f"{name} {await server.places.wait(name)}")

    leaving, staying = trio.CancelScope(), trio.CancelScope()
    server.running = 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting, "leaving", leaving)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(waiting, "staying", staying)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        server.running = 0
        server.places.hand_over()
        assert (server.places.promised, server.places.waiting) == (1, 1)
        assert server.places.full()  # for any that comes now
    assert outcome == ["staying True"]
    assert (server.places.promised, server.places.waiting, server.places.full()) == (0, 0, False)
