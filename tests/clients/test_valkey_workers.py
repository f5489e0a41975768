"""Two gateways with two workers each, real Valkey and PostgreSQL servers, and a keeper that is killed: one budget, each call once."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
import trio

from tests.fakes.bank_status import bank_status
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fork_server import Forked, fork_server
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.processes import children, wait_gone
from tests.fakes.valkey_server import ValkeyServer

pytestmark = [pytest.mark.clients, pytest.mark.needs_program("postgres")]

COST_NUSD, ESTIMATE_NUSD, BUDGET_NUSD = 12_000_000, 22_000_000, 500_000_000
YAML = """
providers: {{openai: {{api_key: sk-0123456789abcdef, base_url: "{vendor}"}}}}
models: {{llm: {{openai/m: {{price: {{unit: 1M_tokens, input: 400, output: 4000}}}}}}}}
projects: {{default: {{total_budget: 0.5, budget_action: block}}}}
fleet: {{valkey: "{valkey}", name: both, instance: gw-{n}}}
cost_tracking: {{database: "{database}"}}
serve: {{workers: 2}}
"""
BODY = json.dumps({"model": "openai/m", "messages": [{"role": "user", "content": "word " * 20}], "max_tokens": 2})


def chat(gateway: Forked) -> int:
    """Ask on a connection of its own, which either worker may accept."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=90)
    try:
        connection.request("POST", "/v1/chat/completions", BODY, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def chat_until_answered(gateway: Forked, status: int) -> None:
    """Ask until this is the answer; 503 until then: the server has just begun, or others hold what is left."""
    deadline = time.monotonic() + 120
    while (got := chat(gateway)) != status:
        assert got == 503
        assert time.monotonic() < deadline


def used(server: ValkeyServer) -> int:
    [account] = trio.run(bank_status, server.url, "both").accounts
    return account.used


def wait_used(server: ValkeyServer, nusd: int) -> None:
    deadline = time.monotonic() + 120
    while (now := used(server)) != nusd:
        assert time.monotonic() < deadline, f"{now} instead of {nusd}"


def test_one_budget_over_all_processes_also_after_a_keeper_was_killed(tmp_path):
    valkey, postgres = ValkeyServer(tmp_path), PostgresServer()
    try:
        with postgres.database() as database, counting_upstream() as vendor, fork_server() as gateways:
            texts = [YAML.format(vendor=vendor.base_url, valkey=valkey.url, database=database, n=n) for n in range(2)]
            folders = [tmp_path / str(n) for n in range(2)]
            for folder in folders:
                folder.mkdir()
            members = [gateways.start(folder, text, within_s=60) for folder, text in zip(folders, texts, strict=True)]
            for member in members:
                chat_until_answered(member, 200)
            for _ in range(7):
                for member in members:
                    chat_until_answered(member, 200)
            wait_used(valkey, 16 * COST_NUSD)
            workers = children(members[0].pid, "worker_start")
            members[0].kill()
            members[0] = gateways.start(folders[0], texts[0], within_s=60)
            for worker in workers:
                wait_gone(worker)
            wait_used(valkey, 16 * COST_NUSD)  # neither twice, as by the gateway and its dead workers, nor less
            statuses: Counter[int] = Counter()
            while statuses[402] < 4:
                for member in members:
                    statuses[chat(member)] += 1
            assert set(statuses) <= {200, 402, 503}
            wait_used(valkey, vendor.calls * COST_NUSD)
            for member in members:
                member.kill(15)
            assert used(valkey) == vendor.calls * COST_NUSD  # what workers had spent is their gateway's, also where that has ended
            [(count, cost)] = postgres.execute("select count(*), sum(cost_nusd) from gw.requests where status = 'success'", _name(database))
        assert (count, cost) == (vendor.calls, vendor.calls * COST_NUSD)
        assert BUDGET_NUSD - COST_NUSD < cost <= BUDGET_NUSD + ESTIMATE_NUSD
    finally:
        valkey.kill()
        postgres.remove()


def _name(database: str) -> str:
    return database.rpartition("/")[2]
