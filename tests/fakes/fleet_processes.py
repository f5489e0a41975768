"""Several gateways as processes, which share limits through a Valkey server, and callers who never stop."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.fakes.fork_server import Forked, ForkServer
from tests.fakes.processes import children, wait_gone

YAML = """
providers: {{openai: {{api_key: sk-0123456789abcdef, base_url: "{vendor}"}}}}
models: {{llm: {{openai/m: {{price: {{unit: 1M_tokens, input: {input}, output: {output}}}}}}}}}
fleet: {{valkey: "valkey://127.0.0.1:{port}", name: {name}, instance: gw-{n}}}
cost_tracking: {{{tracking}}}
{more}
"""
NAME = "processes"
BODY = json.dumps({"model": "openai/m", "messages": [{"role": "user", "content": "word " * 20}], "max_tokens": 2})


class FleetProcesses:
    def __init__(
        self, folder: Path, gateways: ForkServer, *, vendor: str, port: int, more: str, members: int = 4, price: tuple[int, int] = (1, 0),
        database: str = "",
    ) -> None:  # fmt: skip
        """`port`: of the server that counts; `price` of a million tokens in and out, in USD; `more`: further sections of gw.yaml.

        `database`: address of a PostgreSQL database that all use; without it, each has a file of its own.
        """
        self._gateways = gateways
        self._database = database
        self.folders = [folder / str(n) for n in range(members)]
        facts = {"vendor": vendor, "port": port, "name": NAME, "input": price[0], "output": price[1], "more": more}
        trackings = [f'database: "{database}"' if database else f"db_path: {of_member}/gw.db" for of_member in self.folders]
        self._texts = [YAML.format(n=n, tracking=tracking, **facts) for n, tracking in enumerate(trackings)]
        for of_member in self.folders:
            of_member.mkdir()
        self.members = [self._start(n) for n in range(members)]

    def _start(self, n: int) -> Forked:
        return self._gateways.start(self.folders[n], self._texts[n], within_s=60)

    def kill(self, n: int) -> None:
        """Kill a member, as a machine that fails would, and start it again."""
        self.members[n].kill()
        self.members[n] = self._start(n)

    def workers(self, n: int) -> list[int]:
        """Return the processes of a member's workers, and of the spare one."""
        return children(self.members[n].pid, "worker_start")

    def kill_keeper(self, n: int) -> None:
        """Kill a member's keeper, whose workers go on until its next run ends them."""
        orphans = self.workers(n)
        self.kill(n)
        for pid in orphans:
            wait_gone(pid)

    def fail(self, n: int) -> None:
        """Kill a member and its workers, as a machine that fails would."""
        workers = self.workers(n)
        self.members[n].kill()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_gone(pid)

    def start_again(self, n: int) -> None:
        self.members[n] = self._start(n)

    def stop(self) -> None:
        for member in self.members:
            if member.handle != -1:
                member.kill(signal.SIGTERM)

    def records(self) -> list[tuple[str, int | None, int]]:
        """Return the status or error, the cost in nano-USD and the input tokens of all records. All members have stopped."""
        return [row for rows in self._query("select coalesce(error_code, status), cost_nusd, input_tokens from requests") for row in rows]

    def spend(self) -> int:
        """Return the nano-USD that count for budgets: costs, and estimates in place of unknown ones. All members have stopped."""
        return sum(rows[0][0] or 0 for rows in self._query("select sum(cost_nusd + estimated_nusd) from rollup_day"))

    def _query(self, sql: str) -> list[list[tuple[str, int | None, int]]]:
        if self._database:
            with psycopg.connect(self._database, options="-c search_path=gw") as postgres:
                return [postgres.execute(sql.encode()).fetchall()]
        found = []
        for folder in self.folders:
            db = sqlite3.connect(f"file:{folder}/gw.db?mode=ro", uri=True)
            found.append(db.execute(sql).fetchall())
            db.close()
        return found


def wait_asked(callers: list[Caller], more: int, within_s: float = 60.0) -> None:
    """Wait until the callers have had so many more answers and refusals: a pace that follows the machine's."""
    target = sum(caller.asked for caller in callers) + more
    _wait_until(lambda: sum(caller.asked for caller in callers) >= target, within_s)


def wait_all_answered(callers: list[Caller], within_s: float = 60.0) -> None:
    """Wait until each of the callers has had one more answer, and not a refusal."""
    before = [len(caller.answered) for caller in callers]
    _wait_until(lambda: all(len(caller.answered) > n for caller, n in zip(callers, before, strict=True)), within_s)


def wait_status(callers: list[Caller], status: int, within_s: float = 60.0) -> None:
    """Wait until each of the callers has had one more answer with this status."""
    before = [caller.statuses[status] for caller in callers]
    _wait_until(lambda: all(caller.statuses[status] > n for caller, n in zip(callers, before, strict=True)), within_s)


def wait_health(members: list[Forked], problems: list[str], within_s: float = 60.0) -> None:
    """Wait until all members say that they have these problems."""
    _wait_until(lambda: all(_problems(member) == problems for member in members), within_s)


def _problems(member: Forked) -> list[str]:
    connection = http.client.HTTPConnection(urlsplit(member.url).netloc, timeout=60)
    try:
        connection.request("GET", "/health")
        return list(json.loads(connection.getresponse().read())["problems"])
    finally:
        connection.close()


def _wait_until(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


class Caller(threading.Thread):
    """Sends one request after the other to a member, which may be away, until `done`; notes the answers."""

    def __init__(
        self, members: list[Forked], n: int, done: threading.Event, *, until: frozenset[int] = frozenset(), project: str = "default"
    ) -> None:
        """`n`: of the member; `until`: statuses after which it stops by itself, once it was answered."""
        super().__init__()
        self._headers = {"content-type": "application/json", "x-gw-project": project}
        self._members, self._n, self._done, self._until = members, n, done, until
        self.answered: list[tuple[float, int]] = []
        """Monotonic time and input tokens of each answer."""
        self.statuses: Counter[int] = Counter()
        self.refusals: list[tuple[float, int, str]] = []
        """Monotonic time, status and message of each refusal after the first answer."""

    @property
    def asked(self) -> int:
        """Return how many requests were answered or refused."""
        return self.statuses.total()

    def run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._done.is_set():
            if connection is None:
                connection = http.client.HTTPConnection(urlsplit(self._members[self._n].url).netloc, timeout=60)
            try:
                connection.request("POST", "/v1/chat/completions", BODY, self._headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException):
                connection.close()
                connection = None
                self._done.wait(0.02)
                continue
            self.statuses[response.status] += 1
            if response.status == 200:
                self.answered.append((time.monotonic(), answer["usage"]["prompt_tokens"]))
                continue
            if self.answered:
                self.refusals.append((time.monotonic(), response.status, answer["error"]["message"]))
            if self.answered and response.status in self._until:
                break
            self._done.wait(0.02)
        if connection is not None:
            connection.close()
