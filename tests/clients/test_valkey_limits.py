"""Limits of keys, and budgets of weeks, months and in total, over two gateways with a real Valkey server between them."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import trio

from tests.clients.test_valkey_fleet import CHAT, ESTIMATE_USD, WITHIN_S, SlowVendor, at_once, fleet, wait_answered
from tests.fakes.temporary_gateway import DAY_S, NOON
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

COST_USD = 0.007
MORE = """
projects: {{default: {{}}, shop: {{{project}, budget_action: block}}}}
auth:
  admin_token: admin-token-8351026789
  keys: [{{key: gwk_till_8351026789, project: shop, name: till, {key}}}]
"""
ADMIN = {"authorization": "Bearer admin-token-8351026789"}
TILL = {"authorization": "Bearer gwk_till_8351026789"}


@pytest.fixture
def server(tmp_path):
    running = ValkeyServer(tmp_path)
    yield running
    running.kill()


def two(folder, server, *, project="max_concurrent: 100", key="max_concurrent: 100", **others):
    return fleet(folder, server, count=2, more=MORE.format(project=project, key=key), **others)


async def chat(member) -> int:
    return (await member.ask("POST", "/v1/chat/completions", CHAT, **TILL)).status


async def begin_granting(member) -> None:
    with trio.fail_after(WITHIN_S):
        while await chat(member) != 200:
            await trio.testing.wait_all_tasks_blocked(0.05)


async def spend_all(members) -> Counter[int]:
    """Call all members from all sides until each has refused for good; return the statuses."""
    statuses: Counter[int] = Counter()

    async def call(member):
        while (status := await chat(member)) != 402:
            statuses[status] += 1

    async with trio.open_nursery() as nursery:
        for member in members:
            for _ in range(3):
                nursery.start_soon(call, member)
    return statuses


@pytest.mark.parametrize(
    ("limits", "period"),
    [({"key": "total_budget: 0.2"}, "total"), ({"project": "weekly_budget: 0.2"}, "week"), ({"key": "monthly_budget: 0.2"}, "month")],
)
async def test_a_budget_is_shared_used_up_not_passed_and_holds_after_a_restart(tmp_path, server, limits, period):
    path = "/v1/keys/till" if "key" in limits else "/v1/projects/shop"
    async with two(tmp_path, server, **limits) as members:
        for member in members:
            await begin_granting(member)
        statuses = await spend_all(members)
        spent = (len(members) + statuses[200]) * COST_USD
        assert 0.2 <= spent < 0.2 + ESTIMATE_USD
        for member in members:
            [use] = (await member.get(path, **ADMIN)).json["budgets"]
            assert (use["period"], use["spent"], use["budget_status"]) == (period, pytest.approx(spent), "exceeded")
        costs = [(await member.get("/v1/costs", **ADMIN)).json["total"] for member in members]
        assert min(costs) > 0
        assert sum(costs) == pytest.approx(spent)
    async with two(tmp_path, server, now=NOON + 60, **limits) as members:
        assert [await chat(member) for member in members] == [402, 402]
    server.kill()
    server.start()  # with no memory: each gateway says what it has used
    async with two(tmp_path, server, now=NOON + 120, **limits) as members:
        assert {await refused_for_good(member) for member in members} == {402}
    async with two(tmp_path, server, now=NOON + 40 * DAY_S, **limits) as members:
        if period == "total":
            assert {await refused_for_good(member) for member in members} == {402}
        else:
            await begin_granting(members[0])


async def refused_for_good(member) -> int:
    """Return the first status that is not 503, with which a server that has just begun makes gateways answer."""
    with trio.fail_after(WITHIN_S):
        while (status := await chat(member)) == 503:
            await trio.testing.wait_all_tasks_blocked(0.05)
    return status


async def test_a_budget_that_is_set_later_begins_with_what_both_have_spent(tmp_path, server):
    async with two(tmp_path, server) as members:
        for member in members:
            assert [await chat(member) for _ in range(3)] == [200] * 3
    async with two(tmp_path, server, key="total_budget: 0.05") as members:  # 7 of 8 requests
        await begin_granting(members[0])
        for member in members:
            with trio.fail_after(WITHIN_S):
                while await shown(member) != pytest.approx(7 * COST_USD):
                    await trio.testing.wait_all_tasks_blocked(0.05)
        statuses = await spend_all(members)
        assert statuses[200] == 1


async def shown(member) -> float:
    [use] = (await member.get("/v1/keys/till", **ADMIN)).json["budgets"]
    return use["spent"]


async def test_requests_a_minute_of_a_key_are_shared(tmp_path, server):
    async with two(tmp_path, server, key="requests_per_minute: 60") as members:
        statuses: Counter[int] = Counter()
        began = time.monotonic()
        for _ in range(40):
            for member in members:
                statuses[await chat(member)] += 1
        took_s = time.monotonic() - began
        assert 60 <= statuses[200] <= 61 + took_s
        assert statuses[429] == 80 - statuses[200]


async def test_requests_at_once_of_a_key_are_shared(tmp_path, server):
    vendor = SlowVendor(places=4)
    async with two(tmp_path, server, key="max_concurrent: 4", before=vendor) as members:
        assert set(await at_once(chat, [*members] * 4)) <= {200, 429}  # whoever gets no place within a second is refused
        for member in members:
            await wait_answered(chat, [member] * 4)  # it gets the places that the other one had
        assert vendor.most == 4


async def test_with_no_warning(tmp_path, server):
    async with two(tmp_path, server, project="total_budget: 5", key="total_budget: 5") as members:
        assert [member.gateway.settings.warnings for member in members] == [(), ()]
