from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from gw.cli import status
from gw.cli.backend import Backend


@pytest.fixture
def busy(real_gateway):
    for model, times in (("sim/echo", 3), ("flaky/echo", 1)):
        for _ in range(times):
            real_gateway.chat(model)
    return real_gateway


def test_the_last_minute_model_by_model(run, busy):
    head, row = (line.split("\t") for line in run("top").stdout.splitlines())
    assert head == ["model", "requests", "errors", "fallbacks", "ttfb", "cost"]
    assert row[:4] == ["sim/echo", "4", "0", "1"]
    assert float(row[4]) > 0
    assert float(row[5]) > 0


def test_as_json(run, busy):
    answer = json.loads(run("top", "--json").stdout)
    assert (answer["requests_today"], answer["running"], answer["errors_today"]) == (4, 0, 0)
    assert answer["last_minute"][0]["requests"] == 4


def test_what_is_drawn_for_people(busy, terminal):
    page = io.StringIO()
    Console(file=page, width=100).print(status._rendered(status.snapshot(Backend(url=busy.url))))
    head, *lines = page.getvalue().splitlines()
    assert "today 4 requests, 0 errors, $" in head
    assert any(line.split()[:2] == ["sim/echo", "4"] for line in lines)
    assert sum("fallback" in line for line in lines) == 2  # a column, and the newest request


def test_it_takes_a_gateway(run, configured):
    result = run("top", "--once")
    assert result.exit_code == 1
    assert "no gateway answers" in result.stderr
