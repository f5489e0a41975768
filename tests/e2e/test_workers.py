"""`gw serve --workers 2` as processes: one port, one database, one budget, one control plane."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import attrs
import pytest
from rich.console import Console

from gw.cli import status
from gw.cli.backend import Backend
from gw.types.secret import Secret
from tests.e2e.conftest import Daemon, compiled_once, starter
from tests.fakes.counting_upstream import CountingUpstream, counting_upstream
from tests.fakes.processes import children, wait_gone

pytestmark = pytest.mark.process

MESSAGES = [{"role": "user", "content": "hi"}]
ADMIN = "b7d1f3a95c2e4860"
PRICE_USD, ESTIMATE_USD = 0.012, 0.010
"""Cost of an answer of the fake vendor, 12 tokens at 1000 USD per million; and of its estimate: a token for 4 of 35 characters, and 2."""
TEXT = """
providers:
  up: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{base_url}"}}
  sim: {{token_ms: 150}}
models: {{llm: {{up/m: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}, sim/echo: }}}}
projects:
  free: {{}}
  tight: {{daily_budget: 0.3, budget_action: block}}
  monthly: {{monthly_budget: 0.12, budget_action: block}}
auth:
  admin_token: {admin}
  keys:
  - {{key: 9f27c1d86ab340e5, project: free}}
  - {{key: 5e80b4c97d12af36, project: tight}}
  - {{key: 1c4de0b37a9f8256, project: monthly}}
serve: {{workers: 2, drain_s: 10}}
"""


class Caller:
    """One connection to the gateway."""

    def __init__(self, url: str, key: str = "9f27c1d86ab340e5") -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self.headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        response = self.connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if data.startswith((b"{", b"[")) else data

    def chat(self, model: str = "up/m", max_tokens: int = 2) -> int:
        return self.ask("POST", "/v1/chat/completions", {"model": model, "max_tokens": max_tokens, "messages": MESSAGES})[0]

    def close(self) -> None:
        self.connection.close()


def once(url: str, method: str, path: str, body: object = None, key: str = ADMIN) -> tuple[int, Any]:
    """Ask on a connection of its own."""
    caller = Caller(url, key)
    try:
        return caller.ask(method, path, body)
    finally:
        caller.close()


def chat_once(url: str, key: str = "9f27c1d86ab340e5") -> int:
    caller = Caller(url, key)
    try:
        return caller.chat()
    finally:
        caller.close()


@attrs.define
class Two:
    """A gateway with two workers, and its fake vendor."""

    daemon: Daemon
    upstream: CountingUpstream
    config: Path

    @property
    def url(self) -> str:
        return self.daemon.url

    @property
    def process(self) -> subprocess.Popen[str]:
        return self.daemon.process

    def wait_for(self, pattern: str) -> re.Match[str]:
        return self.daemon.wait_for(pattern)

    def chat_in(self, project: str) -> int:
        body = {"model": "up/m", "messages": MESSAGES}
        return once(self.url, "POST", f"/v1/chat/completions?gw_project={project}", body)[0]


@contextmanager
def running(folder: Path) -> Iterator[Two]:
    with counting_upstream() as upstream, starter(folder) as start:
        daemon = start(TEXT.format(base_url=upstream.base_url, admin=ADMIN), **compiled_once(folder))
        yield Two(daemon, upstream, folder / "gw.yaml")


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[Two]:
    with running(tmp_path_factory.mktemp("two")) as started:
        yield started


def workers_of(url: str) -> list[dict[str, Any]]:
    return once(url, "GET", "/v1/status")[1]["workers"]


def wait_until(condition, within_s: float = 60.0) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.02)


def test_both_serve_one_port_and_all_requests_are_in_the_reports(two):
    before = once(two.url, "GET", "/v1/costs?period=today")[1]
    assert [chat_once(two.url) for _ in range(40)] == [200] * 40
    after = once(two.url, "GET", "/v1/costs?period=today")[1]
    until = time.monotonic() + 60
    while after["requests"] - before["requests"] < 40:  # a report waits a quarter of a second, which a busy machine may need
        assert time.monotonic() < until
        after = once(two.url, "GET", "/v1/costs?period=today")[1]
    assert after["requests"] - before["requests"] == 40
    assert after["total"] - before["total"] == pytest.approx(40 * PRICE_USD)
    wait_until(lambda: sum(worker["requests"] for worker in workers_of(two.url)) >= 40)
    states = workers_of(two.url)
    assert [(w["worker"], w["state"], w["starts"]) for w in states] == [(1, "serving", 1), (2, "serving", 1)]
    assert all(worker["requests"] > 0 for worker in states)
    assert all(worker["journal_bytes"] > 0 for worker in states)
    journal = once(two.url, "GET", "/v1/status")[1]["journal"]
    assert journal["bytes"] >= sum(worker["journal_bytes"] for worker in states)
    assert (journal["limit_bytes"], journal["keeps_records"]) == (256_000_000, True)
    metrics = once(two.url, "GET", "/v1/metrics")[1].decode()
    assert 'gw_worker_up{worker="2"} 1.0' in metrics
    assert float(re.search(r'gw_requests_total\{provider="up"\} (\S+)', metrics)[1]) >= 40


def test_the_command_line_shows_the_workers(two):
    def gw(*arguments: str) -> str:
        command = [sys.executable, "-m", "gw", *arguments, "--url", two.url, "--key", ADMIN]
        return subprocess.run(command, cwd=two.config.parent, capture_output=True, text=True, check=True).stdout

    assert len(re.findall(r"worker [12]\tserving \(process \d+\), \d+ running, \d+ finished", gw("status"))) == 2
    listed = json.loads(gw("top", "--json"))["workers"]
    assert [(worker["worker"], worker["state"]) for worker in listed] == [(1, "serving"), (2, "serving")]
    page = io.StringIO()
    Console(file=page, width=100).print(status._rendered(status.snapshot(Backend(url=two.url, key=Secret(ADMIN)))))
    lines = [line.split() for line in page.getvalue().splitlines()]
    assert [line[:3] for line in lines if line[1:2] == ["serving"]] == [[str(w["worker"]), "serving", str(w["pid"])] for w in listed]


def test_one_connection_carries_requests_of_both_planes(two):
    caller = Caller(two.url, ADMIN)
    assert caller.chat() == 200
    sock = caller.connection.sock
    assert caller.ask("GET", "/health")[0] == 200
    assert caller.ask("POST", "/v1/projects", {"project_id": "made", "daily_budget": 1})[0] == 200
    assert caller.chat() == 200
    assert caller.ask("GET", "/v1/projects/made")[0] == 200
    assert caller.connection.sock is sock
    caller.close()


def test_a_large_change_moves_with_what_was_read_of_it(two):
    """The body is longer than what a worker has read when it sees the head."""
    text = "# " + "x" * 300_000
    status, answer = once(two.url, "POST", "/v1/config/check", {"content": text})
    assert status == 200, answer


def test_a_change_is_in_force_in_every_worker_when_it_is_answered(two):
    kept = [Caller(two.url, "9f27c1d86ab340e5") for _ in range(8)]
    assert [caller.chat() for caller in kept] == [200] * 8
    for number in range(5):
        created, answer = once(two.url, "POST", "/v1/keys", {"project": "free", "name": f"k{number}"})
        assert created == 200, answer
        callers = [Caller(two.url, answer["key"]) for _ in range(6)]
        assert [caller.chat() for caller in callers] == [200] * 6
        assert once(two.url, "DELETE", f"/v1/keys/{answer['key_id']}?confirm=true")[0] == 200
        assert [caller.chat() for caller in callers] == [401] * 6
        for caller in callers:
            caller.close()
    for caller in kept:
        caller.close()


def test_a_short_lived_token_is_good_for_one_use_on_any_connection(two):
    status, answer = once(two.url, "POST", "/v1/single-use-token/realtime_scribe", key="9f27c1d86ab340e5")
    assert status == 200, answer
    assert [chat_once(two.url, answer["token"]) for _ in range(4)] == [200, 401, 401, 401]


def test_a_budget_holds_over_both_workers_and_is_used_up(two):
    statuses: Counter[int] = Counter()
    before = two.upstream.calls

    def hammer() -> None:
        mine = Counter(chat_once(two.url, "5e80b4c97d12af36") for _ in range(12))
        statuses.update(mine)

    threads = [threading.Thread(target=hammer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until = time.monotonic() + 60
    while (status := chat_once(two.url, "5e80b4c97d12af36")) != 402:  # 503: what was reserved is free again soon
        statuses[status] += 1
        assert time.monotonic() < until, statuses
    until = time.monotonic() + 60
    while (spent := once(two.url, "GET", "/v1/costs?period=today&project=tight")[1])["requests"] < sum(statuses.values()):
        assert time.monotonic() < until
    assert set(statuses) <= {200, 402, 503}
    assert spent["requests"] >= statuses[200]
    assert two.upstream.calls - before == statuses[200]
    assert spent["total"] == pytest.approx(statuses[200] * PRICE_USD)
    # The last request may go beyond the budget by its own estimate, and each that runs then by what it costs above its own.
    assert 0.3 - PRICE_USD < spent["total"] <= 0.3 + ESTIMATE_USD + len(threads) * (PRICE_USD - ESTIMATE_USD)
    shown = once(two.url, "GET", "/v1/projects/tight")[1]
    assert shown["today_spend"] == pytest.approx(spent["total"])


def test_the_limits_of_a_key_hold_over_all_processes_from_the_moment_they_are_set(two):
    made, answer = once(two.url, "POST", "/v1/keys", {"project": "free"})
    assert made == 200, answer
    kept = [Caller(two.url, answer["key"]) for _ in range(6)]
    assert [caller.chat() for caller in kept] == [200] * 6
    changed, why = once(two.url, "PATCH", f"/v1/keys/{answer['key_id']}", {"daily_budget": 10 * PRICE_USD})
    assert changed == 200, why
    assert in_turn(kept, 3) == Counter({200: 4, 402: 14})  # six of ten were used
    for caller in kept:
        caller.close()
    wait_until(lambda: spent_of(two, answer["key_id"]) == pytest.approx(10 * PRICE_USD))


def in_turn(callers: list[Caller], times: int) -> Counter[int]:
    """Return the statuses of requests in turn on connections that both workers have; none costs more than is reserved for it."""
    statuses: Counter[int] = Counter()
    for _ in range(times):
        for caller in callers:
            until = time.monotonic() + 60
            while (status := caller.chat(max_tokens=10)) == 503:  # the other worker holds what is left, and gives it back within a second
                assert time.monotonic() < until
            statuses[status] += 1
    return statuses


def spent_of(two: Two, key_id: str) -> float:
    return once(two.url, "GET", f"/v1/keys/{key_id}")[1]["spent_total"]


def test_a_monthly_budget_of_a_project_holds_over_both_workers(two):
    callers = [Caller(two.url, "1c4de0b37a9f8256") for _ in range(6)]
    assert in_turn(callers, 4) == Counter({200: 10, 402: 14})
    for caller in callers:
        caller.close()
    shown = once(two.url, "GET", "/v1/projects/monthly")[1]["budgets"]
    assert [(use["period"], use["spent"], use["budget_status"]) for use in shown] == [("month", pytest.approx(0.12), "exceeded")]


def test_requests_a_minute_of_a_key_are_counted_over_both_workers(two):
    key = once(two.url, "POST", "/v1/keys", {"project": "free", "requests_per_minute": 3})[1]["key"]
    callers, began = [Caller(two.url, key) for _ in range(6)], time.monotonic()
    statuses = Counter(caller.chat() for caller in [*callers, *callers])
    one_each_s = 60 / 3
    assert 3 <= statuses[200] <= 3 + (time.monotonic() - began) / one_each_s
    assert statuses[200] + statuses[429] == 12
    for caller in callers:
        caller.close()


def test_requests_at_once_of_a_key_are_counted_over_both_workers(two):
    key = once(two.url, "POST", "/v1/keys", {"project": "free", "max_concurrent": 2})[1]["key"]
    callers = [Caller(two.url, key) for _ in range(8)]
    body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": "word " * 2_000}]}
    for caller in callers:
        caller.connection.request("POST", "/v1/chat/completions", json.dumps(body), caller.headers)
    answers = [caller.connection.getresponse() for caller in callers]
    assert Counter(answer.status for answer in answers) == Counter({200: 2, 429: 6})
    for caller, answer in zip(callers, answers, strict=True):
        answer.close()
        caller.close()
    for _ in range(2):  # the places of those who have left are free again
        wait_until(lambda: chat_once(two.url, key) == 200)


def test_a_reload_reaches_all(two):
    assert two.chat_in("later") == 404
    two.config.write_text(two.config.read_text().replace("  free: {}", "  free: {}\n  later: {}"))
    two.process.send_signal(signal.SIGHUP)
    two.wait_for('"reloaded"')
    assert [two.chat_in("later") for _ in range(8)] == [200] * 8


def test_a_worker_that_hangs_is_replaced(tmp_path):
    with running(tmp_path) as two:
        wait_until(lambda: len(children(two.process.pid, "worker_start")) == 3)  # the spare one, too
        hung = workers_of(two.url)[0]["pid"]
        os.kill(hung, signal.SIGSTOP)
        try:
            two.daemon.wait_for(rf'"worker_hung".*"pid": ?{hung}\b|"pid": ?{hung}\b.*"worker_hung"')
            wait_gone(hung)
        finally:
            with suppress(ProcessLookupError):
                os.kill(hung, signal.SIGKILL)  # a stopped process would outlive its keeper
        wait_until(lambda: [w["state"] for w in workers_of(two.url)] == ["serving"] * 2)
        assert hung not in [worker["pid"] for worker in workers_of(two.url)]
        assert [chat_once(two.url) for _ in range(8)] == [200] * 8


def test_a_drain_lets_streams_of_all_workers_finish(tmp_path):
    with running(tmp_path) as two:
        streams = [Caller(two.url) for _ in range(8)]
        body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": "one two three four five six seven"}]}
        answers = []
        for caller in streams:
            caller.connection.request("POST", "/v1/chat/completions", json.dumps(body), caller.headers)
            answers.append(caller.connection.getresponse())
        assert all(answer.readline().startswith(b"data: ") for answer in answers)
        pids = [worker["pid"] for worker in workers_of(two.url)]
        two.process.send_signal(signal.SIGTERM)
        assert all(answer.read().endswith(b"data: [DONE]\n\n") for answer in answers)
        assert two.process.wait(60) == 0
        for pid in pids:
            wait_gone(pid)
        for caller in streams:
            caller.close()
        assert [path.name for path in tmp_path.iterdir() if ".worker-" in path.name] == []
        with apsw.Connection(str(tmp_path / "gw.db")) as db:
            assert db.execute("select status, count(*) from requests group by status").fetchall() == [("success", 8)]


def test_a_second_signal_ends_all_and_each_cut_request_has_its_record(tmp_path):
    with running(tmp_path) as two:
        caller = Caller(two.url)
        body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": "word " * 200}]}
        caller.connection.request("POST", "/v1/chat/completions", json.dumps(body), caller.headers)
        answer = caller.connection.getresponse()
        answer.readline()
        two.process.send_signal(signal.SIGTERM)
        two.wait_for('"draining"')
        two.process.send_signal(signal.SIGTERM)
        assert b"shutting_down" in answer.read()
        assert two.process.wait(60) == 0
        caller.close()
        with apsw.Connection(str(tmp_path / "gw.db")) as db:
            assert db.execute("select status, error_code from requests").fetchall() == [("error", "shutting_down")]


def test_an_address_in_use_is_one_clear_error(two, tmp_path):
    port = urlsplit(two.url).port
    text = f"providers: {{sim: {{}}}}\nmodels: {{llm: [sim/echo]}}\ncost_tracking: {{db_path: {tmp_path}/gw.db}}\n"
    (tmp_path / "gw.yaml").write_text(text)
    command = [sys.executable, "-m", "gw", "serve", "--workers", "2", "--port", str(port)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_a_worker_imports_neither_quart_nor_reports_and_one_process_nothing_of_workers():
    text = "import sys; import {}; print(sorted(name for name in sys.modules if name.startswith(({}))))"
    for module, prefixes in (
        ("gw.workers.worker_main", "'quart', 'gw.web.routes', 'gw.web.app', 'gw.mcp', 'gw.admin.overview', 'gw.admin.session_reports'"),
        ("gw.serve", "'gw.workers', 'gw.fleet', 'gw.web.app', 'gw.web.routes', 'gw.alerts.monitor', 'gw.alerts.conditions'"),
    ):
        done = subprocess.run([sys.executable, "-c", text.format(module, prefixes)], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n", done.stdout
