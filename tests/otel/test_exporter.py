"""Records on their way through the exporting process, a real one, to a receiver that decodes strictly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from gw.otel import exporter as exporter_module
from gw.otel.export_messages import ExportBatch
from gw.otel.export_program import BATCH, QUEUED
from gw.otel.exporter import OtlpExporter, Pace, open_exporter, pace_in
from gw.store.pipe_messages import framed
from gw.store.record_lines import encode_record
from tests.fakes import ports
from tests.fakes.otlp_receiver import otlp_receiver
from tests.fakes.records import record
from tests.otel.test_otlp_sender import start

pytestmark = pytest.mark.process
ENVIRONMENT = {**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
QUICK = Pace(gather_s=0.01, restart_s=0.1)


def lines(*ids: str, **fields) -> list[bytes]:
    return [encode_record(record(each, **fields)) for each in ids]


async def until(condition) -> None:
    """Wait for what another process brings about."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110  # nothing here is told of it
            await trio.sleep(0.02)


async def heard(exporter: OtlpExporter, condition) -> None:
    """Wait for counters that satisfy `condition`."""

    def asks() -> bool:
        exporter.put([])  # has the process asked for its counters
        return condition(exporter)

    await until(asks)


@pytest.fixture
def free_port() -> int:
    return ports.free_port()


async def test_committed_records_arrive_and_are_counted():
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url), ENVIRONMENT, QUICK) as exporter:
            exporter.put(lines("a", "b"))
            await heard(exporter, lambda e: e.counts.exported == 4)
            assert exporter.trouble == ""
            exporter.put(lines("c"))
        assert exporter.counts.exported == 6
        assert {span.attributes["gw.request.id"] for span in receiver.spans if span.kind == 2} == {"a", "b", "c"}
        assert len(receiver.logs) == 3
        assert sum(point.as_int for _, point in receiver.metrics["gw.requests"]) == 3
        assert exporter.pid is None


async def test_many_records_are_passed_on_before_their_time():
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url), ENVIRONMENT, attrs.evolve(QUICK, gather_s=600.0)) as exporter:
            exporter.put(lines(*(f"{n}" for n in range(exporter_module.TOGETHER))))
            await until(lambda: len(receiver.spans) == 2 * exporter_module.TOGETHER)


async def test_a_process_that_loads_for_longer_than_an_answer_takes_loses_nothing(monkeypatch):
    monkeypatch.setattr(exporter_module, "ANSWER_S", 0.0)
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url), ENVIRONMENT, attrs.evolve(QUICK, hear_s=600.0)) as exporter:
            exporter.put(lines("a", "b"))
            await until(lambda: len(receiver.spans) == 4)
            assert exporter.trouble == ""
            assert exporter.counts.dropped["process_ended"] == 0


async def test_a_record_that_no_message_can_hold_keeps_no_other_one_back():
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url), ENVIRONMENT, QUICK) as exporter:
            exporter.put([*lines("a"), *lines("before 1970", timestamp=-1.0), *lines("b")])
            await heard(exporter, lambda e: e.counts.exported == 4)
            assert exporter.counts.dropped["rejected"] == 2
        assert {span.attributes["gw.request.id"] for span in receiver.spans if span.kind == 2} == {"a", "b"}


async def test_nothing_is_started_before_the_first_record():
    async with open_exporter(start("http://127.0.0.1:1"), ENVIRONMENT, QUICK) as exporter:
        await trio.testing.wait_all_tasks_blocked()
        assert exporter.pid is None


async def test_logs_alone():
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url, signals=("logs",)), ENVIRONMENT, QUICK) as exporter:
            exporter.put(lines("a", "b"))
        assert (len(receiver.logs), receiver.spans) == (2, [])
        assert (exporter.counts.pending, sum(exporter.counts.dropped.values())) == (0, 0)


async def test_spans_that_were_accepted_count_as_such_though_the_logs_are_not():
    with otlp_receiver() as receiver:
        receiver.answers = [(200, {}, b""), *[(503, {}, b"")] * 50]
        pace = attrs.evolve(QUICK, last_s=0.5)
        async with open_exporter(start(receiver.url, signals=("traces", "logs")), ENVIRONMENT, pace) as exporter:
            exporter.put(lines("a"))
            await heard(exporter, lambda e: e.counts.exported == 2 and e.trouble == "logs: the collector answered 503")
        assert (exporter.counts.exported, exporter.counts.dropped["unsent"]) == (2, 0)


async def test_a_share_of_the_traces():
    with otlp_receiver() as receiver:
        async with open_exporter(start(receiver.url, ratio=0.0, signals=("traces",)), ENVIRONMENT, QUICK) as exporter:
            exporter.put(lines("a") + lines("b", status="error", error_code="all_failed"))
        assert [span.attributes["gw.request.id"] for span in receiver.spans if span.kind == 2] == ["b"]
        assert exporter.counts.exported == 2


async def test_after_an_hour_without_a_collector_memory_is_bounded_and_all_spans_are_accounted_for(free_port):
    """Ten requests a second for an hour, as fast as the pipe takes them."""
    requests, batch, pace = 36_000, 500, attrs.evolve(QUICK, last_s=0.2)
    async with open_exporter(start(f"http://127.0.0.1:{free_port}", signals=("traces",)), ENVIRONMENT, pace) as exporter:

        async def put(count: int) -> int:
            for at in range(0, count, batch):
                exporter.put(lines(*(f"{at + n}" for n in range(batch))))
                await until(lambda: not exporter._lines and not exporter._sending)
            await heard(exporter, lambda e: e.trouble)
            return resident_kb(exporter.pid)

        when_full = await put(QUEUED + 1_000)
        at_the_end = await put(requests - QUEUED - 1_000)
        counts = exporter.counts
        assert counts.dropped["queue_full"] + counts.pending == 2 * requests
        assert QUEUED * 2 <= counts.pending <= (QUEUED + BATCH) * 2
        assert exporter.trouble == "traces: Connection refused"
        assert at_the_end - when_full < 5_000
        assert at_the_end < 150_000
    counts = exporter.counts
    assert counts.dropped["queue_full"] + counts.dropped["unsent"] == 2 * requests
    assert (counts.exported, counts.pending) == (0, 0)


def resident_kb(pid: int | None) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


async def test_a_collector_that_comes_back_gets_what_waited(free_port):
    async with open_exporter(start(f"http://127.0.0.1:{free_port}", signals=("traces",)), ENVIRONMENT, QUICK) as exporter:
        exporter.put(lines("a", "b"))
        await heard(exporter, lambda e: e.trouble == "traces: Connection refused")
        with otlp_receiver(port=free_port) as receiver:
            await heard(exporter, lambda e: e.counts.exported == 4)
            assert exporter.trouble == ""
            assert len(receiver.spans) == 4
    assert sum(exporter.counts.dropped.values()) == 0


async def test_retry_after_is_kept_and_what_is_refused_for_good_is_counted():
    with otlp_receiver() as receiver:
        receiver.answers = [(429, {"retry-after": "2"}, b""), (400, {}, b"")]
        async with open_exporter(start(receiver.url, signals=("traces",)), ENVIRONMENT, QUICK) as exporter:
            exporter.put(lines("a"))
            await until(lambda: len(receiver.requests) == 1)
            began = trio.current_time()
            await heard(exporter, lambda e: e.counts.dropped["rejected"] == 2)
            assert trio.current_time() - began > 1.5
            assert exporter.trouble == "traces: the collector answered 400"
            exporter.put(lines("b"))
            await heard(exporter, lambda e: e.counts.exported == 2)
            assert exporter.trouble == ""


async def test_a_killed_process_is_started_again_and_what_it_had_is_counted(free_port):
    async with open_exporter(start(f"http://127.0.0.1:{free_port}", signals=("traces",)), ENVIRONMENT, QUICK) as exporter:
        exporter.put(lines("a", "b"))
        await heard(exporter, lambda e: e.counts.pending == 4 and e.pid)
        first = exporter.pid
        os.kill(first, signal.SIGKILL)
        await heard(exporter, lambda e: e.counts.dropped["process_ended"] == 4)
        with otlp_receiver(port=free_port) as receiver:
            exporter.put(lines("c"))
            await heard(exporter, lambda e: e.counts.exported == 2)
            assert exporter.pid != first
            assert len(receiver.spans) == 2


def test_what_could_not_be_sent_after_the_gateway_was_killed_is_in_its_log(free_port):
    command, pipe = [sys.executable, "-c", exporter_module._PROGRAM], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT)
    begin = start(f"http://127.0.0.1:{free_port}", signals=("traces",))
    _, said = process.communicate(framed(begin) + framed(ExportBatch(lines("a", "b"))), 30)  # its input ends, as by kill -9
    line = json.loads(said)
    assert (line["event"], line["unsent"], line["why"]) == ("otlp_spans_dropped", 4, "traces: Connection refused")
    assert line["timestamp"].endswith("Z")


def test_lines_that_the_process_does_not_take_are_bounded_and_counted():
    async def main() -> OtlpExporter:
        exporter = OtlpExporter(start("http://127.0.0.1:1"), ENVIRONMENT, Pace())
        for at in range(0, exporter_module.QUEUED + 4_000, 1_000):
            exporter.put(lines(*(f"{at + n}" for n in range(1_000))))
        return exporter

    exporter = trio.run(main)
    assert exporter.counts.dropped["queue_full"] == 2 * 4_000
    assert exporter.counts.pending == 2 * exporter_module.QUEUED


@pytest.mark.parametrize(("delay", "seconds"), [("200", 0.2), ("", Pace().gather_s), ("0", Pace().gather_s), ("²", Pace().gather_s)])
def test_the_delay_of_the_standard_variable(delay, seconds):
    assert pace_in({"OTEL_BSP_SCHEDULE_DELAY": delay}).gather_s == seconds


def test_the_process_gets_no_secret_of_the_gateway():
    async def main() -> OtlpExporter:
        secrets = {"OPENAI_API_KEY": "sk-canary", "GW_SECRET": "canary"}
        return OtlpExporter(start(""), {**secrets, "OTEL_EXPORTER_OTLP_HEADERS": "a=b", "PATH": "/bin"}, Pace())

    exporter = trio.run(main)
    assert exporter._environment == {"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "PATH": "/bin"}
