"""The bank in Valkey says what the pure policy says, on a real server, and every call to it ends."""

from __future__ import annotations

import random
import time
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from gw.errors import BankUnreachable
from gw.fleet.valkey_bank import open_bank
from gw.policy.lease_account import LeaseAccounts
from gw.types.bank import AccountStatus, Ask, ShareStatus
from gw.types.bank_address import BankAddress
from gw.types.notices import GateNotice
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

WITHIN_S = 120

@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    yield running
    running.kill()


@pytest.fixture
def address(server):
    return BankAddress.parse(server.url)


@pytest.mark.parametrize("seed", range(6))
async def test_random_exchanges_are_answered_as_by_the_policy(address, server, seed):
    """Budgets and slots, at the moments at which the server was asked."""
    chance, model = random.Random(seed), LeaseAccounts(0.0)
    members = {name: ["1", 0] for name in "abc"}
    told = {}
    async with open_patient(address, f"model-{seed}", settle_s=0) as bank:
        for _ in range(150):
            name = chance.choice("abc")
            member = members[name]
            if chance.random() < 0.03:
                member[:] = [str(int(member[0]) + 1), 0]
            if member[1] == 0 or chance.random() < 0.9:
                member[1] += 1
                told[name] = [random_ask(chance, kind) for kind in ("budget", "slots") if chance.random() < 0.8]
            answer = await bank.exchange(name, member[0], member[1], told[name])
            assert answer == model.exchange(name, member[0], member[1], told[name], asked_at(server, f"model-{seed}", name))
            if chance.random() < 0.03:
                model.leave(name, member[0])
                await bank.leave(name, member[0])


def asked_at(server, fleet, member):
    """Return when the server has answered a member last."""
    return int(server.command("ZSCORE", f"gw:{{{fleet}}}:seen", member)) / 1000


class Patient:
    """A bank whose server may be held up by other work on the machine. An exchange that is sent again is answered as before."""

    def __init__(self, bank):
        self._bank = bank
        self.leave = bank.leave

    async def exchange(self, *arguments):
        return await self._answered(self._bank.exchange, *arguments)

    async def status(self):
        return await self._answered(self._bank.status)

    async def _answered(self, call, *arguments):
        with trio.fail_after(WITHIN_S):
            while True:
                with suppress(BankUnreachable):
                    return await call(*arguments)


@asynccontextmanager
async def open_patient(address, name, **options):
    async with open_bank(address, name, **options) as bank:
        yield Patient(bank)


def random_ask(chance, kind):
    need = chance.choice([0, 0, chance.randint(1, 80)])
    want = max(need, chance.choice([0, chance.randint(1, 500)]))
    used = 0 if kind == "slots" else chance.choice([0, 10**15]) + chance.randint(0, 2_000)
    limit = 3_000 if kind == "slots" else 10**15 * 4 + 12_345
    return Ask(kind, kind, limit, used, chance.randint(0, 700), want, need, chance.randint(0, need))


async def test_a_rate_refills_by_the_clock_of_the_server(address):
    async with open_patient(address, "rate") as bank:
        ask = Ask("r", "rate", 600, 0, 0, 600, 600, 1)
        [grant] = (await bank.exchange("m", "1", 1, [ask])).grants
        assert (grant.granted, grant.free, grant.wait_s) == (600, 0, 0.0)
        await bank.exchange("m", "1", 2, [Ask("r", "rate", 600, 600, 0, 0, 0, 0)])
        began, number, free = time.monotonic(), 2, 0
        while free < 5:
            number += 1
            free = (await bank.exchange("m", "1", number, [Ask("r", "rate", 600, 600, 0, 0, 0, 0)])).grants[0].free
            assert free <= 10 * (time.monotonic() - began) + 1  # ten a second


async def test_a_rate_that_is_used_up_grants_coming_calls_in_turn(address, server):
    """Exactly those of the policy, whose own test says which, at the moments at which the server was asked."""
    async with open_patient(address, "coming") as bank:
        both = BankAndPolicy(bank, server, "coming")
        await both.exchange("a", 1, Ask("r", "rate", 600, 0, 0, 600, 600, 1))
        await both.exchange("a", 2, Ask("r", "rate", 600, 600, 0, 0, 0, 0))
        for number in range(3, 8):
            for name in "bcde":
                await both.exchange(name, number, Ask("r", "rate", 600, 0, 0, 20, 1, 1))
        granted = sum(grant.granted for grant in both.grants)
        assert granted >= 600 + 12
        await both.exchange("b", 8, Ask("r", "rate", 600, 0, 2, 20, 1, 1))  # has its part


async def test_members_take_turns_at_a_slow_rate_as_by_the_policy(address, server):
    async with open_patient(address, "slow") as bank:
        both = BankAndPolicy(bank, server, "slow")
        for name in "abc":
            await both.exchange(name, 1, Ask("r", "rate", 50, 0, 0, 0, 0, 0))
        await both.exchange("a", 2, Ask("r", "rate", 50, 0, 0, 50, 50, 1))
        calls, open_, number = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0), 2
        while min(calls["b"], calls["c"]) == 0 or sum(calls.values()) < 3:
            number += 1
            for name in "bca":
                grant = await both.exchange(name, number, Ask("r", "rate", 50, 0, open_[name], 1, 1, 1))
                calls[name] += grant.granted
                open_[name] = grant.granted  # what was granted before is over by then
            await trio.sleep(0.05)


class BankAndPolicy:
    """Has the policy answer each exchange of the bank as well, by the server's clock."""

    def __init__(self, bank, server, fleet):
        self.grants = []
        self._bank, self._server, self._fleet = bank, server, fleet
        self._model = LeaseAccounts(0.0)

    async def exchange(self, member, number, ask):
        answer = await self._bank.exchange(member, "1", number, [ask])
        expected = self._model.exchange(member, "1", number, [ask], asked_at(self._server, self._fleet, member))
        [grant], [by_policy] = answer.grants, expected.grants
        assert (grant.granted, grant.free, grant.used) == (by_policy.granted, by_policy.free, by_policy.used)
        assert grant.wait_s == pytest.approx(by_policy.wait_s, abs=1e-6)
        assert answer.members == expected.members
        self.grants.append(grant)
        return grant


async def test_a_bank_that_has_lost_its_memory_grants_no_budget_at_first(address):
    async with open_patient(address, "young", settle_s=3_600) as bank:
        asks = [Ask("b", "budget", 100, 0, 0, 10, 10, 10), Ask("s", "slots", 100, 0, 0, 10, 10, 10)]
        budget, slots = (await bank.exchange("m", "1", 1, asks)).grants
        assert (budget.granted, slots.granted, slots.wait_s) == (0, 10, 0)
        assert 3_000 < budget.wait_s <= 3_600
        again = (await bank.exchange("m", "1", 2, asks)).grants[0].wait_s
        assert 3_000 < again <= budget.wait_s


async def test_status_says_who_has_what(address):
    async with open_patient(address, "status", settle_s=0) as bank:
        began = time.monotonic()
        await bank.exchange("one", "1", 1, [Ask("budget:1:demo", "budget", 100, 20, 5, 10, 10, 10)])
        status = await bank.status()
        took_s = time.monotonic() - began
        [member] = status.members
        assert (member.instance, member.run) == ("one", "1")
        assert 0 <= member.seen_s <= took_s + 1
        assert status.accounts == [AccountStatus("budget:1:demo", "budget", 100, 20, 15, (ShareStatus("one", 20, 15),))]


async def test_a_call_that_is_cancelled_writes_nothing_but_what_it_said(address):
    """The client's thread read memory that was free by then: the server had members with names of any bytes, and could not be read."""
    async with open_bank(address, "cancelled", settle_s=0) as bank:
        names = [f"gw-{n}/{'m' * 300}" for n in range(200)]
        for name in names:
            with trio.CancelScope() as scope:
                scope.cancel()
                await bank.exchange(name, "1", 1, [Ask("b", "budget", 1_000, 5, 0, 0, 0, 0)])
            _ = [bytes([0xB0]) * len(name) for _ in range(300)]  # takes the memory that is free
        last = await bank.exchange("last", "1", 1, [Ask("b", "budget", 1_000, 0, 0, 0, 0, 0)])  # the thread has begun those before
        assert not last.replaced
        status = await bank.status()
    assert {member.instance for member in status.members} <= {*names, "last"}
    assert {share.used for share in status.accounts[0].shares} <= {0, 5}


async def test_a_name_that_is_no_text_does_not_keep_a_gateway_from_starting(address, server):
    """An earlier version may have written such a name."""
    server.command("HSET", "gw:{damaged}:runs", b"gw-0/\xb0\xb0", "1")
    async with open_bank(address, "damaged") as bank:
        assert [member.instance for member in (await bank.status()).members] == ["gw-0/\\xb0\\xb0"]


async def test_calls_end_while_the_server_hangs_and_go_on_afterwards(address, server):
    async with open_bank(address, "hangs", settle_s=0) as bank:
        await bank.exchange("m", "1", 1, [])
        server.freeze()
        try:
            with trio.fail_after(WITHIN_S), pytest.raises(BankUnreachable):  # before it goes on
                await bank.exchange("m", "1", 2, [])
        finally:
            server.thaw()
        with trio.fail_after(WITHIN_S):
            while not await answers(bank):
                await trio.lowlevel.checkpoint()


async def test_a_server_that_was_started_again_is_reached_again(tmp_path):
    running = ValkeyServer(tmp_path)
    try:
        async with open_bank(BankAddress.parse(running.url), "again", settle_s=0) as bank:
            await bank.exchange("m", "1", 1, [Ask("b", "budget", 100, 0, 0, 10, 10, 10)])
            running.kill()
            with pytest.raises(BankUnreachable):
                await bank.exchange("m", "1", 2, [])
            running.start()
            with trio.fail_after(WITHIN_S):
                while not await answers(bank):
                    await trio.lowlevel.checkpoint()
    finally:
        running.kill()


async def answers(bank):
    try:
        await bank.exchange("m", "1", 3, [])
    except BankUnreachable:
        return False
    return True


async def test_nobody_there_is_one_clear_error(tmp_path):
    running = ValkeyServer(tmp_path)
    running.kill()
    with pytest.raises(BankUnreachable, match=f"127.0.0.1:{running.port} cannot be used"):
        async with open_bank(BankAddress.parse(running.url), "x"):
            pass


async def test_a_notice_reaches_all_who_listen_also_after_the_server_was_started_again(tmp_path):
    running = ValkeyServer(tmp_path)
    notice = GateNotice("a", "openai", "llm:openai/gpt", 2.5)
    try:
        async with open_bank(BankAddress.parse(running.url), "n") as first, open_bank(BankAddress.parse(running.url), "n") as second:
            with trio.fail_after(WITHIN_S):
                await first.publish(notice)
                assert (await first.receive(), await second.receive()) == (notice, notice)
            running.kill()
            with pytest.raises(BankUnreachable):
                await first.publish(notice)
            running.start()
            async with trio.open_nursery() as nursery:

                async def publish():
                    while True:
                        with suppress(BankUnreachable):
                            await first.publish(notice)
                        await trio.sleep(0.1)

                nursery.start_soon(publish)
                with trio.fail_after(WITHIN_S):
                    assert await second.receive() == notice
                nursery.cancel_scope.cancel()
    finally:
        running.kill()
