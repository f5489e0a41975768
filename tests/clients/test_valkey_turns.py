"""Turns without ids over the gateways of a fleet, with real Valkey and PostgreSQL servers: of one process each, and with workers."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from gw.fleet.valkey_turns import open_turns
from gw.types.bank_address import BankAddress
from tests.fakes.fork_server import Forked, fork_server
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.valkey_server import ValkeyServer

pytestmark = [pytest.mark.clients, pytest.mark.needs_program("postgres")]

YAML = """
providers: {{sim: {{}}}}
models: {{llm: [sim/echo], tts: [sim/tone]}}
fleet: {{valkey: "{valkey}", name: turns, instance: gw-{n}}}
cost_tracking: {{database: "{database}"}}
serve: {{workers: {workers}}}
"""
JOINED = 4
"""Conversations that must be known as turns. Some may stay alone, as the first ones, before the gateways know the server's clock."""


def post(gateway: Forked, path: str, body: dict[str, object]) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=90)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return answer
    finally:
        connection.close()


def converse(gateways: list[Forked], number: int) -> None:
    """Ask a model at one gateway, and have its answer spoken by another one."""
    words = f"Please tell me what the weather will be on day {number} of the year."
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": words}]}
    answer = json.loads(post(gateways[number % 2], "/v1/chat/completions", body))
    text = answer["choices"][0]["message"]["content"]
    post(gateways[1 - number % 2], "/v1/audio/speech", {"model": "sim/tone", "voice": "any", "input": text})


def joined(postgres: PostgresServer, database: str) -> list[tuple[str, int]]:
    """Return the modalities of each turn that is known, and how many first sounds were counted."""
    turns = """
        select string_agg(modality, ' ' order by timestamp), (select count(*) from gw.turn_waits) from gw.requests
        where turn_id is not null group by turn_id"""
    return postgres.execute(turns, database.rpartition("/")[2])


@pytest.mark.parametrize("workers", [1, 2])
def test_what_one_gateway_asks_and_another_speaks_is_one_turn(tmp_path: Path, workers: int) -> None:
    valkey, postgres = ValkeyServer(tmp_path), PostgresServer()
    try:
        with postgres.database() as database, fork_server() as processes:
            gateways = []
            for n in range(2):
                (tmp_path / str(n)).mkdir()
                text = YAML.format(valkey=valkey.url, database=database, n=n, workers=workers)
                gateways.append(processes.start(tmp_path / str(n), text, within_s=60))
            deadline = time.monotonic() + 120
            for number in itertools.count():
                converse(gateways, number)
                known = joined(postgres, database)
                assert {modalities for modalities, _ in known} <= {"llm tts", "llm", "tts"}, known
                complete = [waits for modalities, waits in known if modalities == "llm tts"]
                if len(complete) >= JOINED and complete[0] >= len(complete):
                    break
                assert time.monotonic() < deadline, known
            for gateway in gateways:
                gateway.kill(15)
    finally:
        valkey.kill()
        postgres.remove()


async def test_the_server_gives_all_gateways_one_order_of_messages(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    address = BankAddress.parse(server.url)
    try:
        async with open_turns(address, "one") as first, open_turns(address, "one") as second, open_turns(address, "other") as stranger:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    for board in (first, second, stranger):
                        nursery.start_soon(board.publish, b"%d \xff" % number)
            with trio.fail_after(60):
                orders = [[await board.receive() for _ in range(40)] for board in (first, second)]
            assert orders[0] == orders[1]
            assert sorted(orders[0]) == sorted([b"%d \xff" % number for number in range(20)] * 2)
            began = time.time()
            assert began - 1 < await first.time() < time.time() + 1
    finally:
        server.kill()
