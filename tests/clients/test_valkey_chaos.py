"""A fleet of processes under load, while its members are killed and its server, or its database, fails.

By default 4 kills and 3 failures of the server, and 1 and 3 of a database that all share; `GW_NIGHTLY=1` makes it 100 and 20, and 50
and 20. Each call of the vendor uses another number of tokens, so each has a cost of its own: the vendor's ledger and the records are
compared call by call, to the nano-dollar.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import trio

from gw.policy.budget_account import account_of
from gw.telemetry.clock import utc_day
from tests.fakes.bank_status import bank_status
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fleet_processes import NAME, Caller, FleetProcesses, wait_all_answered, wait_asked, wait_health
from tests.fakes.fork_server import Forked, fork_server
from tests.fakes.nightly import times
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.reset_proxy import ResetProxy
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

MEMBERS = 4
CLIENTS = 2
"""Of each member."""
KILLS = times(4, 100)
DATABASE_KILLS = times(1, 50)
FAILURES = times(3, 20)
TOKEN_NUSD = 1_000


async def budget_in_bank(port: int) -> tuple[int, int]:
    """Return what the bank has as used and as leased of today's budget."""
    name = account_of(("project", "default"), "day", utc_day(time.time())).name
    status = await bank_status(f"valkey://127.0.0.1:{port}", NAME)
    [found] = [account for account in status.accounts if account.account == name]
    return found.used, found.open


def fail_server(kind: str, server: ValkeyServer, proxy: ResetProxy, members: list[Forked]) -> None:
    """Take the server away, bring it back when all gateways have noticed, and wait until they have it again."""
    away, back = {"restart": (server.kill, server.start), "freeze": (server.freeze, server.thaw), "reset": (proxy.cut, proxy.mend)}[kind]
    away()
    wait_health(members, ["fleet_unreachable"])
    back()
    await_bank(proxy.port)
    wait_health(members, [])


def await_bank(port: int) -> None:
    trio.run(bank_status, f"valkey://127.0.0.1:{port}", NAME)


def fail_database(kind: str, server: PostgresServer, clients: list[Caller]) -> None:
    """Take the database away, and bring it back after a while, in which gateways go on without it."""
    away, back = {"stop": (server.stop, server.start), "crash": (server.crash, server.start), "frozen": (server.freeze, server.thaw)}[kind]
    away()
    wait_asked(clients, 40)
    back()


def test_ledgers_agree_to_the_nano_dollar_whatever_is_killed_or_cut_off(tmp_path):
    chance = random.Random(7)
    events = ["kill"] * KILLS + [("restart", "freeze", "reset")[n % 3] for n in range(FAILURES)]
    chance.shuffle(events)
    compare_ledgers(tmp_path, chance, events, None)


@pytest.mark.needs_program("postgres")
def test_ledgers_agree_also_while_the_database_is_stopped_crashes_or_hangs(tmp_path):
    """The gateways share a database of PostgreSQL; some are killed while it is away."""
    chance = random.Random(11)
    events = ["kill"] * DATABASE_KILLS + [("stop", "crash", "frozen")[n % 3] for n in range(FAILURES)]
    chance.shuffle(events)
    postgres = PostgresServer()
    try:
        compare_ledgers(tmp_path, chance, events, postgres)
    finally:
        postgres.remove()


def compare_ledgers(tmp_path: Path, chance: random.Random, events: list[str], postgres: PostgresServer | None) -> None:
    server, kills = ValkeyServer(tmp_path), events.count("kill")
    done = threading.Event()
    try:
        with ResetProxy(server.port) as proxy, counting_upstream(numbers_calls=True) as vendor, fork_server() as gateways:
            more = "projects: {default: {daily_budget: 100000, budget_action: block}}"
            database = "" if postgres is None else postgres.url()
            fleet = FleetProcesses(
                tmp_path, gateways, vendor=vendor.base_url, port=proxy.port, more=more, members=MEMBERS, database=database
            )
            clients = [Caller(fleet.members, n % MEMBERS, done) for n in range(MEMBERS * CLIENTS)]
            for client in clients:
                client.start()
            wait_all_answered(clients)  # the server has begun to grant
            for event in events:
                if event == "kill":
                    fleet.kill(chance.randrange(MEMBERS))
                elif postgres is not None:
                    fail_database(event, postgres, clients)
                else:
                    fail_server(event, server, proxy, fleet.members)
                wait_asked(clients, chance.randrange(10, 100))
            wait_all_answered(clients)  # a bank that has lost its memory grants again
            done.set()
            for client in clients:
                client.join()
            fleet.stop()
            records = fleet.records()
            used, leased = trio.run(budget_in_bank, server.port)
    finally:
        done.set()  # also after a failure: the callers go on until then
        server.kill()
    answered = [tokens for client in clients for _, tokens in client.answered]
    statuses = sum((client.statuses for client in clients), Counter[int]())
    successes = [(cost, tokens) for status, cost, tokens in records if status == "success"]
    print(f"{len(events)} events: {vendor.calls} calls, {len(answered)} answered, {len(records)} records, {dict(statuses)}")
    assert len(answered) > 50 * len(events) ** 0.5, "the load was no load"
    assert set(statuses) <= {200, 503}  # 503: the server was away, or has just begun
    # What a caller was answered, and what the vendor has counted, is in the records once, at its price.
    assert sorted(tokens for _, tokens in successes) == sorted({tokens for _, tokens in successes})
    assert {tokens for _, tokens in successes} <= set(range(1, vendor.calls + 1))
    assert set(answered) <= {tokens for _, tokens in successes}
    assert [row for row in successes if row[0] != row[1] * TOKEN_NUSD] == []
    unknown = vendor.calls - len(successes)  # calls that a kill cut off, before their answer was recorded
    interrupted = sum(status == "interrupted" for status, _, _ in records)
    assert unknown <= interrupted <= kills * CLIENTS
    # The bank knows exactly what the records have, and nothing is leased to anybody any more.
    assert (used, leased) == (fleet.spend(), 0)
