"""Several whole gateways on one budget and one rate, over HTTP, with a real Valkey server between them."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import attrs
import pytest
import trio

from gw.errors import ConfigError
from gw.fleet.valkey_bank import open_bank
from gw.relay.leases import Leases
from gw.types.bank import Ask
from gw.types.bank_address import BankAddress
from tests.contract.test_control_plane import conforms
from tests.fakes.reset_proxy import ResetProxy
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import NOON, SetClock
from tests.fakes.valkey_server import ValkeyServer
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = pytest.mark.clients
YAML = """
providers: {{openai: {{api_key: k, base_url: "{openai}/v1"}}}}
models: {{llm: {{openai/first: {{price: {{unit: 1M_tokens, input: 100, output: 1000}}}}}}}}
fleet: {{valkey: "{valkey}", name: {name}, instance: {instance}, wait_ms: 250}}
{more}
"""
CHAT = {"model": "openai/first", "messages": [{"role": "user", "content": "word " * 20}], "max_tokens": 10}
ESTIMATE_USD = 0.0135
"""Reserved for one request, which then costs 0.007."""
WITHIN_S = 120
"""After its start the server grants no budget for 2.5 s, and gateways learn every ten seconds what others have spent."""


@pytest.fixture
def server(tmp_path):
    running = ValkeyServer(tmp_path)
    yield running
    running.kill()


@asynccontextmanager
async def fleet(folder, server, *, count=4, now=NOON, more="projects: {default: {daily_budget: 1, budget_action: block}}", before=None):
    """`before`: wraps the vendor's application."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as opened:
        vendor = FakeOpenAI(api_key="k", models=("first",))
        openai = await nursery.start(partial(serve_asgi, before(vendor) if before else vendor))
        members = []
        for n in range(count):
            (folder / str(n)).mkdir(exist_ok=True)
            text = YAML.format(openai=openai, valkey=server.url, name="test", instance=f"gw-{n}", more=more)
            members.append(await opened.enter_async_context(open_running(folder / str(n), text, SetClock(now))))
        try:
            yield members
        finally:
            await opened.aclose()
            nursery.cancel_scope.cancel()


async def wait_until(true):
    with trio.fail_after(WITHIN_S):
        while not true():
            await trio.testing.wait_all_tasks_blocked(0.01)


async def spend_until_refused(member, statuses):
    while True:
        answer = await member.ask("POST", "/v1/chat/completions", CHAT)
        statuses.append(answer.status)
        if answer.status == 402:
            return
        assert answer.status in (200, 503), answer.body


async def cost(member):
    """Return today's cost in USD that the reports of one gateway have."""
    return (await member.get("/v1/costs")).json["total"]


async def begin_granting(member):
    """Wait until the server grants budgets: then a request is answered."""
    with trio.fail_after(WITHIN_S):
        while (await member.ask("POST", "/v1/chat/completions", CHAT)).status != 200:
            await trio.testing.wait_all_tasks_blocked(0.05)


async def test_four_gateways_on_one_budget_spend_no_more_than_it(tmp_path, server):
    async with fleet(tmp_path, server) as members:
        await begin_granting(members[0])
        statuses: list[int] = []
        async with trio.open_nursery() as nursery:
            for member in members:
                for _ in range(4):
                    nursery.start_soon(spend_until_refused, member, statuses)
        costs = [await cost(member) for member in members]
        assert 1 <= sum(costs) < 1 + ESTIMATE_USD
        assert min(costs) > 0
        for member in members:
            assert (await member.get("/v1/projects/default")).json["budget_status"] == "exceeded"


async def test_a_rate_is_shared(tmp_path, server):
    more = "rate_limiting: {openai: {requests_per_minute: 60}}"
    async with fleet(tmp_path, server, count=2, more=more) as members:
        statuses: list[int] = []

        async def call(member):
            statuses.append((await member.ask("POST", "/v1/chat/completions", CHAT)).status)

        began = time.monotonic()
        for _ in range(50):
            async with trio.open_nursery() as nursery:
                for member in members:
                    nursery.start_soon(call, member)
        took_s = time.monotonic() - began
        assert 59 <= statuses.count(200) <= 60 + took_s + 1
        assert statuses.count(429) == 100 - statuses.count(200)


class SlowVendor:
    """Counts how many calls it has at once. Keeps each until it has had `places` at once, and then for HOLD_S."""

    HOLD_S = 0.2

    def __init__(self, places):
        self.running = self.most = 0
        self._places, self._full = places, trio.Event()

    def __call__(self, app):
        async def slow(scope, receive, send):
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == self._places:
                self._full.set()
            try:
                await self._full.wait()
                await trio.sleep(self.HOLD_S)
                await app(scope, receive, send)
            finally:
                self.running -= 1

        return slow


@pytest.mark.parametrize(
    "limit", ["projects: {default: {max_concurrent: 6}}", "rate_limiting: {openai: {max_concurrent: 6}}"], ids=["project", "provider"]
)
async def test_requests_at_once_are_shared(tmp_path, server, limit):
    vendor = SlowVendor(places=6)
    async with fleet(tmp_path, server, more=limit, before=vendor) as members:

        async def call(member):
            return (await member.ask("POST", "/v1/chat/completions", CHAT)).status

        statuses = await at_once(call, [*members] * 6)
        assert set(statuses) <= {200, 429}  # those that waited a second for a place, and got none, are refused
        await wait_answered(call, [members[0]] * 6)  # which gets the places that the others had
        assert vendor.most == 6
        await wait_until(lambda: all(not m.gateway.leases.lease(account, "slots", 6).reserved for m in members for account in ACCOUNTS))


async def at_once(call, members):
    """Return the statuses of one call of each of `members`, all at the same time."""
    statuses = []

    async def note(member):
        statuses.append(await call(member))

    with trio.fail_after(WITHIN_S):
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(note, member)
    return statuses


async def wait_answered(call, members):
    """Call as often as it takes until all of these calls are answered at once."""
    with trio.fail_after(WITHIN_S):
        while set(await at_once(call, members)) != {200}:
            pass


class FailingVendor:
    """Answers 500 while `fails`, and counts its calls."""

    def __init__(self):
        self.fails, self.calls = False, 0

    def __call__(self, app):
        async def vendor(scope, receive, send):
            self.calls += 1
            if not self.fails:
                await app(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        return vendor


async def test_a_breaker_that_opens_costs_the_other_gateways_one_call_each(tmp_path, server):
    vendor = FailingVendor()
    async with fleet(tmp_path, server, count=3, more="", before=vendor) as members:
        first, *others = members
        for member in members:
            assert (await member.ask("POST", "/v1/chat/completions", CHAT)).status == 200
        vendor.fails = True
        while await breaker(first) == "closed":
            await first.ask("POST", "/v1/chat/completions", CHAT)
        for member in others:
            with trio.fail_after(WITHIN_S):
                while await breaker(member) == "closed":
                    await trio.testing.wait_all_tasks_blocked(0.01)
        calls = vendor.calls
        for _ in range(5):
            for member in others:
                await member.ask("POST", "/v1/chat/completions", CHAT)
        assert vendor.calls == calls + len(others)
        assert [await breaker(member) for member in members] == ["open"] * 3


async def breaker(member):
    [view] = member.gateway.limits.view(trio.current_time()).values()
    return view.breaker


async def test_requests_that_wait_for_a_budget_keep_their_places(tmp_path, server):
    """A gateway that has just started leases all of it as requests come: a slot of the project, budget, a slot and a call of the vendor."""
    more = """
projects: {default: {daily_budget: 100, budget_action: block, max_concurrent: 300}}
rate_limiting: {openai: {max_concurrent: 300, requests_per_minute: 60000}}"""
    async with fleet(tmp_path, server, count=1, more=more) as members:
        await begin_granting(members[0])
    failed: list[bytes] = []

    async def call(member):
        answer = await member.ask("POST", "/v1/chat/completions", CHAT)
        if answer.status != 200:
            failed.append(answer.body)

    for _ in range(3):
        async with fleet(tmp_path, server, count=2, more=more) as members:
            async with trio.open_nursery() as nursery:
                for _ in range(30):
                    for member in members:
                        nursery.start_soon(call, member)
                    await trio.testing.wait_all_tasks_blocked(0.001)  # so that some come while others wait
            if any([await alone_s(member) for member in members]):  # the server was too slow, on a machine that others keep busy
                assert all(b'"rate_limited"' in body or b'"usage_store_unavailable"' in body for body in failed)
            else:
                assert failed == []
        failed.clear()


async def alone_s(member):
    """Return for how long the gateway has been without the server."""
    text = (await member.get("/v1/metrics")).body.decode()
    return float(re.search(r"^gw_fleet_alone_seconds_total (\S+)$", text, re.MULTILINE)[1])


ACCOUNTS = ("slots:project:default", "slots:provider:openai")


async def test_a_gateway_that_is_restarted_frees_what_it_had_leased(tmp_path, server):
    async with fleet(tmp_path, server, count=1) as (only,):
        await begin_granting(only)
        spent = await cost(only)
    async with fleet(tmp_path, server, count=2) as members:
        await begin_granting(members[1])
        others = await cost(members[1])
        assert await cost(members[0]) == spent
        ledger = members[1].gateway.ledger
        with trio.fail_after(WITHIN_S):
            while ledger.spent_in_fleet("default") != round((spent + others) * 1e9):
                await trio.testing.wait_all_tasks_blocked(0.05)


async def test_without_the_server_requests_go_on_inside_the_lease_and_are_refused_beyond_it(tmp_path, server):
    async with fleet(tmp_path, server, count=1) as (only,):
        await begin_granting(only)
        server.kill()
        leases = only.gateway.leases
        assert isinstance(leases, Leases)
        await wait_until(lambda: leases.is_alone)
        health = (await only.get("/health")).json
        assert (health["status"], health["problems"]) == ("degraded", ["fleet_unreachable"])
        assert (await only.get("/ready")).json["checks"]["fleet"] == "degraded"
        statuses = []
        while not statuses or statuses[-1] == 200:
            answer = await only.ask("POST", "/v1/chat/completions", CHAT)
            statuses.append(answer.status)
        assert (statuses[-1], answer.json["error"]["code"]) == (503, "usage_store_unavailable")
        assert b"gw_fleet_alone_seconds_total" in (await only.get("/v1/metrics")).body
        server.start()
        await wait_until(lambda: not leases.is_alone)
        await begin_granting(only)


async def test_a_server_that_cannot_be_reached_is_a_clear_error_at_the_start(tmp_path, server):
    server.kill()
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=r"gw.yaml:4: fleet.valkey|Valkey server"), flatten_subgroups=True):
        async with fleet(tmp_path, server, count=1):
            pass


async def test_an_older_server_is_a_clear_error_at_the_start(tmp_path, server):
    version = re.search(r"(?:valkey|redis)_version:(\S+)", server.command("INFO", "server"))[1]
    older = f"6{version[1:]}"
    message = rf"gw.yaml:4:\d+: .*the server has version {older}, and gw needs 7 or later"
    with ResetProxy(server.port, replace=(f"_version:{version}".encode(), f"_version:{older}".encode())) as proxy:
        old = Address(f"valkey://127.0.0.1:{proxy.port}")
        with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=message), flatten_subgroups=True):
            async with fleet(tmp_path, old, count=1):
                pass


@attrs.frozen
class Address:
    url: str


async def test_a_gateway_shows_the_fleet(tmp_path, server):
    async with fleet(tmp_path, server, count=2) as members:
        await begin_granting(members[0])
        first, spent = await members[1].get("/v1/fleet"), await cost(members[0])
        assert conforms(first, "fleet")
        answer = first.json
        with trio.fail_after(WITHIN_S):
            while [share["used"] for account in answer["accounts"] for share in account["shares"]][:1] != [spent] or any(
                one["last_seen_s"] >= 5 for one in answer["members"]
            ):
                answer = (await members[1].get("/v1/fleet")).json
        assert [one["instance"] for one in answer["members"]] == ["gw-0", "gw-1"]
        assert (answer["name"], answer["instance"], answer["problem"]) == ("test", "gw-1", "")
        [account] = answer["accounts"]
        assert (account["account"], account["limit"]) == ("budget default", 1.0)
        assert account["shares"][0]["instance"] == "gw-0"
        assert (await members[1].get("/api/pages/settings")).json["fleet"]["members"][0]["instance"] == "gw-0"
        server.kill()
        await wait_until(lambda: members[1].gateway.leases.is_alone)
        answer = (await members[1].get("/v1/fleet")).json
        assert answer["members"] == []
        assert "cannot be used" in answer["problem"]


async def gw(folder, server, *arguments):
    """Run a command, in a process of its own, with the gw.yaml of a fleet that has the name `test`; return status, stdout and stderr."""
    path = folder / "gw.yaml"
    path.write_text(YAML.format(openai="http://127.0.0.1:9", valkey=server.url, name="test", instance="", more=""))
    command = [sys.executable, "-m", "gw", *arguments, "--config", str(path)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_the_command_shows_members_and_leases_and_forgets_one_that_is_gone(tmp_path, server):
    run = partial(gw, tmp_path, server)
    async with fleet(tmp_path, server, count=2, now=time.time()) as members:
        await begin_granting(members[0])
        spent = await cost(members[0])
        status, text, _ = await run("fleet", "status", "--json")
        assert status == 0
        answer = json.loads(text)
        assert sorted(one["instance"] for one in answer["members"]) == ["gw-0", "gw-1"]
        [account] = answer["accounts"]
        assert (account["account"], account["limit"]) == ("budget default", 1.0)
        status, _, error = await run("fleet", "forget", "gw-0")
        assert status == 1
        assert "stop it first" in error
    status, text, _ = await run("fleet", "status")
    assert f"gw-0\tgone\t\tbudget default\t{spent}\t0\t1" in text
    assert (await run("fleet", "forget", "gw-0"))[0] == 0
    status, _, error = await run("fleet", "forget", "nobody")
    assert (status, "gw-0, gw-1" in error) == (1, True)


async def test_the_command_forgets_the_workers_of_a_gateway_too_and_nobody_else(tmp_path, server):
    run = partial(gw, tmp_path, server)
    names = ["gw-0", "gw-0/1a2b3c-1-1", "gw-01"]
    async with open_bank(BankAddress.parse(server.url), "test", settle_s=0) as bank:
        for name in names:
            await bank.exchange(name, await bank.join(name), 1, [Ask("budget:project:total:0:p", "budget", 1_000, 10, 0, 50, 50, 50)])
        server.command("ZREM", "gw:{test}:seen", "gw-0", "gw-01")  # as if they had been silent for ten seconds
        status, _, error = await run("fleet", "forget", "gw-0")
        assert (status, "stop it first" in error) == (1, True)  # its worker still runs
        server.command("ZREM", "gw:{test}:seen", "gw-0/1a2b3c-1-1")
        assert (await run("fleet", "forget", "gw-0"))[0] == 0
        [account] = (await bank.status()).accounts
    assert [(share.instance, share.used, share.open) for share in sorted(account.shares)] == [
        ("gw-0", 10, 0), ("gw-0/1a2b3c-1-1", 10, 0), ("gw-01", 10, 50),
    ]  # fmt: skip
    assert (account.used, account.open) == (30, 50)
