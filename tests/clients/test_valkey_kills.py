"""Workers, keepers and whole gateways of a fleet are killed at random under load, in one run: records, ledger and budget agree.

By default 3 kills; `GW_NIGHTLY=1` makes it 100. Each call of the vendor uses another number of tokens, so each has a cost of its own.
At the end one gateway does not come back, until what it had leased was freed by `gw fleet forget`.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import trio
from click.testing import CliRunner

from gw.cli.main import main
from gw.policy.budget_account import account_of
from gw.telemetry.clock import utc_day
from tests.fakes.bank_status import bank_status
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fleet_processes import NAME, Caller, FleetProcesses, wait_all_answered, wait_asked, wait_status
from tests.fakes.fork_server import fork_server
from tests.fakes.nightly import times
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.processes import wait_gone
from tests.fakes.valkey_server import ValkeyServer

pytestmark = [pytest.mark.clients, pytest.mark.needs_program("postgres")]

MEMBERS = 2
KILLS = times(3, 100)
TOKEN_NUSD = 1_000
TIGHT_NUSD = 20_000_000
MORE = """
projects:
  default: {daily_budget: 100000, budget_action: block}
  tight: {daily_budget: 0.02, budget_action: block}
serve: {workers: 2}
"""


def shares(server: ValkeyServer, project: str) -> tuple[int, dict[str, int]]:
    """Return what the bank has as used of today's budget of a project, and what each gateway and worker has leased."""
    name = account_of(("project", project), "day", utc_day(time.time())).name
    [found] = [account for account in trio.run(bank_status, server.url, NAME).accounts if account.account == name]
    return found.used, {share.instance: share.open for share in found.shares}


def kill_one(fleet: FleetProcesses, kind: str, n: int, chance: random.Random) -> None:
    if kind == "worker":
        victim = chance.choice(fleet.workers(n))
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        wait_gone(victim)
    elif kind == "keeper":
        fleet.kill_keeper(n)
    else:
        fleet.fail(n)
        fleet.start_again(n)


def forget(folder: Path, instance: str) -> None:
    """Free what a gateway had leased, once the server has noticed that it is gone."""
    deadline = time.monotonic() + 120
    while (result := CliRunner().invoke(main, ["fleet", "forget", instance, "--config", str(folder / "gw.yaml")])).exit_code:
        assert "still running" in result.output, result.output
        assert time.monotonic() < deadline
        threading.Event().wait(0.2)


def test_records_and_budgets_are_exact_whatever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(5)
    events = [("worker", "keeper", "instance")[n % 3] for n in range(KILLS)]
    chance.shuffle(events)
    valkey, postgres, done = ValkeyServer(tmp_path), PostgresServer(), threading.Event()
    try:
        with counting_upstream(numbers_calls=True) as vendor, fork_server() as gateways:
            fleet = FleetProcesses(
                tmp_path, gateways, vendor=vendor.base_url, port=valkey.port, more=MORE, members=MEMBERS, database=postgres.url()
            )
            clients = [Caller(fleet.members, n % MEMBERS, done) for n in range(2 * MEMBERS)]
            tight = [Caller(fleet.members, n, done, project="tight") for n in range(MEMBERS)]
            for client in (*clients, *tight):
                client.start()
            wait_all_answered(clients)
            wait_status(tight, 402)  # its budget has ended
            for event in events:
                kill_one(fleet, event, chance.randrange(MEMBERS), chance)
                wait_asked(clients, chance.randrange(20, 60))
            wait_all_answered(clients)
            lost = MEMBERS - 1
            fleet.fail(lost)
            wait_asked([client for n, client in enumerate(clients) if n % MEMBERS != lost], 20)  # the other one goes on
            forget(fleet.folders[lost], f"gw-{lost}")
            _, leased = shares(valkey, "default")
            assert {name: of for name, of in leased.items() if name.split("/")[0] == f"gw-{lost}" and of} == {}
            fleet.start_again(lost)  # its disk is found again: what it has in its journals counts
            wait_all_answered(clients)
            wait_status(tight, 402)  # also what was freed is used up
            done.set()
            for client in (*clients, *tight):
                client.join()
            fleet.stop()
            records = fleet.records()
            with psycopg.connect(postgres.url(), options="-c search_path=gw") as db:
                spent = dict(db.execute("select project, sum(cost_nusd + estimated_nusd) from rollup_day group by project").fetchall())
            in_bank = {project: shares(valkey, project) for project in ("default", "tight")}
    finally:
        done.set()  # also after a failure: the callers go on until then
        valkey.kill()
        postgres.remove()
    answered = [tokens for client in (*clients, *tight) for _, tokens in client.answered]
    statuses = sum((client.statuses for client in (*clients, *tight)), Counter[int]())
    successes = [(cost, tokens) for status, cost, tokens in records if status == "success"]
    interrupted = sum(status == "interrupted" for status, _, _ in records)
    print(f"{len(events) + 1} kills: {vendor.calls} calls, {len(answered)} answered, {len(records)} records, {dict(statuses)}, {spent}")
    assert set(statuses) <= {200, 402, 503}
    # No record is lost, and none stands twice: what a caller was answered, and what the vendor has counted, at its price.
    assert sorted(tokens for _, tokens in successes) == sorted({tokens for _, tokens in successes})
    assert set(answered) <= {tokens for _, tokens in successes} <= set(range(1, vendor.calls + 1))
    assert [row for row in successes if row[0] != row[1] * TOKEN_NUSD] == []
    assert vendor.calls - len(successes) <= interrupted <= (len(events) + 1) * len((*clients, *tight))
    # The budget that ended was not passed but by the costs of the requests that ran then, and no kill has opened it again.
    largest = max(cost or 0 for cost, _ in successes)
    assert TIGHT_NUSD - largest < spent["tight"] <= TIGHT_NUSD + len(tight) * largest
    # The bank has what the records have, and nothing is leased to anybody any more.
    assert {project: used for project, (used, _) in in_bank.items()} == spent
    assert [name for _, leased in in_bank.values() for name, of in leased.items() if of] == []
