from __future__ import annotations

import json
import re

import pytest

from gw import __version__
from gw.cli.status import _rounded
from gw.relay.relay import Relay
from gw.types.compiled import edition_of
from tests.fakes.gateway_http import json_reply

HEALTH = {"status": "ok", "uptime_seconds": 90_061.0, "version": "9.9"}


def rows(result) -> dict[str, str]:
    return dict(line.split("\t") for line in result.stdout.splitlines())


def test_a_gateway_that_runs(run, real_gateway):
    real_gateway.chat(project="shop")
    result = run("status")
    assert result.exit_code == 0, result.output
    answer = rows(result)
    assert (answer["gateway"], answer["address"], answer["models"], answer["projects"]) == ("ready", real_gateway.url, "3", "2")
    assert (answer["provider sim"], answer["requests today"], answer["running now"]) == ("configured (local)", "1", "0")
    assert re.fullmatch(r"\d records wait, 0\.0 of 256 MB", answer["journal"])
    assert answer["budget shop"] == "0% of $1.00, ok"
    assert float(answer["cost today"]) > 0


def test_which_edition_runs(run, real_gateway):
    word = {"compiled": "compiled", "python": "pure Python"}[edition_of(Relay)]
    assert rows(run("status"))["version"] == f"{__version__}, {word}"
    assert json.loads(run("status", "--json").stdout)["health"]["edition"] == edition_of(Relay)


def test_for_people(run, real_gateway, terminal):
    real_gateway.chat()
    assert " ms" in run("status").stdout


def test_as_json(run, real_gateway):
    answer = json.loads(run("status", "--json").stdout)
    assert (answer["running"], answer["ready"], answer["url"]) == (True, True, real_gateway.url)
    assert set(answer) >= {"health", "status", "overview"}


def test_quiet_says_nothing(run, real_gateway):
    assert (run("status", "--quiet").exit_code, run("status", "-q").output) == (0, "")


def test_nothing_runs(run, configured):
    result = run("status")
    assert result.exit_code == 1
    assert rows(result)["gateway"] == "not running"
    assert rows(result)["provider flaky"] == "configured (local)"
    assert "read from" in result.stderr
    quiet = run("status", "--quiet")
    assert (quiet.exit_code, quiet.output) == (1, "")
    assert json.loads(run("status", "--json").stdout)["running"] is False


def test_nothing_runs_and_nothing_is_configured(run):
    result = run("status")
    assert result.exit_code == 1
    assert "no gateway answers at http://127.0.0.1:8080" in result.stderr


def test_a_gateway_that_drains(run, gateway):
    gateway.replies |= {"GET /ready": json_reply({"status": "draining"}, 503), "GET /health": json_reply(HEALTH)}
    gateway.replies["GET /v1/status"] = json_reply({"error": {"code": "unauthorized", "message": "no"}}, 401)
    result = run("status", "--url", gateway.url)
    assert result.exit_code == 1
    assert rows(result)["gateway"].startswith("not ready: it drains")
    assert "more needs the admin token" in result.stderr
    assert rows(result)["uptime"] == "90061"


def test_a_gateway_that_fails_otherwise(run, gateway):
    gateway.replies["GET /ready"] = json_reply({}, 500)
    assert run("status", "--url", gateway.url).exit_code == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.4, "3 s"), (61, "1 min"), (3_700, "1 h 1 min"), (90_061, "1 d 1 h")]
)
def test_uptimes(seconds, text):
    assert _rounded(seconds) == text
