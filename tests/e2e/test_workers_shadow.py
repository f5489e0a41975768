"""Second models with two workers: the calls of both are compared in one report, within one budget."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.e2e.conftest import compiled_once, starter
from tests.e2e.test_workers import Caller, wait_until

pytestmark = pytest.mark.process

TEXT = """
providers: {sim: {}, other: {type: sim}}
models: {stt: {sim/tone: {price: {unit: minute, usd: 60}}, other/tone: {price: {unit: minute, usd: 120}}}}
shadow: {daily_budget: BUDGET, projects: [default], models: {sim/tone: {model: other/tone, share: 1}}}
serve: {workers: 2}
"""
SAMPLES = b"".join(fsk.encode("one two three", 16_000))
SECONDS = PCM_16K.seconds(len(SAMPLES))
BOUNDARY = b"0f1e2d3c"


class Reports:
    """One connection, which the keeper holds: a worker that is killed resets those that it has accepted or would accept."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, path: str) -> Any:
        status, answer = self._caller.ask("GET", path)
        assert status == 200
        return answer

    def pair(self) -> dict[str, Any]:
        pairs = self.get("/v1/compare")["pairs"]
        return pairs[0] if pairs else {"calls": 0, "left_out": {}}


def transcribe(url: str) -> str:
    """Transcribe over a connection of its own."""
    field = b'--%s\r\ncontent-disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    sound = wav.header(PCM_16K, len(SAMPLES)) + SAMPLES
    body = field % (BOUNDARY, b"model", b"", b"sim/tone") + field % (BOUNDARY, b"file", b'; filename="a.wav"', sound) + b"--%s--" % BOUNDARY
    headers = {"content-type": "multipart/form-data; boundary=" + BOUNDARY.decode()}
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/audio/transcriptions", body, headers)) as answer:
        return str(json.load(answer)["text"])


def counted(pair: dict[str, Any]) -> int:
    return int(pair["calls"] + sum(pair["left_out"].values()))


@contextmanager
def reports_of(url: str) -> Iterator[Reports]:
    caller = Caller(url)
    try:
        yield Reports(caller)
    finally:
        caller.close()


def test_calls_of_both_workers_are_compared_also_those_of_one_that_was_killed(tmp_path):
    with starter(tmp_path) as start:
        url = start(TEXT.replace("BUDGET", "1000"), **compiled_once(tmp_path)).url
        assert [transcribe(url) for _ in range(12)] == ["one two three"] * 12
        with reports_of(url) as reports:
            wait_until(lambda: counted(reports.pair()) == 12)
            wait_until(lambda: all(worker["requests"] for worker in reports.get("/v1/status")["workers"]))
            os.kill(reports.get("/v1/status")["workers"][0]["pid"], signal.SIGKILL)
            compared = reports.pair()
            calls = compared["calls"]
            assert calls > 0
            assert set(compared["left_out"]) <= {"refused"}  # on a busy machine the keeper may be late with what is left of the budget
            assert (counted(compared), compared["words"], compared["edits"]) == (12, 3 * calls, 0)
            assert compared["first"]["cost_usd"] == pytest.approx(calls * SECONDS, rel=0.01)
            assert compared["second"]["cost_usd"] == pytest.approx(2 * calls * SECONDS, rel=0.01)
            wait_until(lambda: reports.get("/v1/compare")["spent_today_usd"] == pytest.approx(compared["second"]["cost_usd"]))
            wait_until(lambda: reports.get("/v1/compare")["running"] == 0)


def test_the_budget_of_second_models_holds_over_both_workers(tmp_path):
    with starter(tmp_path) as start:
        budget = 5 * 2 * SECONDS
        url = start(TEXT.replace("BUDGET", f"{budget:.6f}"), **compiled_once(tmp_path)).url
        assert [transcribe(url) for _ in range(16)] == ["one two three"] * 16
        with reports_of(url) as reports:
            wait_until(lambda: counted(reports.pair()) == 16)
            last = reports.pair()
            assert set(last["left_out"]) == {"refused"}
            wait_until(lambda: reports.get("/v1/compare")["spent_today_usd"] == pytest.approx(last["second"]["cost_usd"]))
            assert 0 < last["second"]["cost_usd"] < budget + 2 * SECONDS * 1.01
