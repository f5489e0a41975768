"""The log's queue and its thread, over pipes and devices that take no lines."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest

from gw.telemetry import log_lines
from gw.telemetry.log_lines import LogLines


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(log_lines, "_PAUSE_S", 0.001)
    monkeypatch.setattr(log_lines.atexit, "register", lambda call: None)


def until(condition) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_lines_come_in_order_and_close_writes_the_last(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        lines = LogLines(stream)
        for n in range(2_000):
            lines.write(f"{n} \ud800é\n")
        lines.close(5)
    text = (tmp_path / "log").read_text()
    assert text == "".join(f"{n} \\ud800é\n" for n in range(2_000))
    assert (lines.dropped, lines.trouble) == (0, "")


def test_a_pipe_that_nobody_reads_costs_lines_and_no_time():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        lines = LogLines(stream)
        began = time.monotonic()
        for _ in range(30_000):
            lines.write("x" * 99 + "\n")
        assert time.monotonic() - began < 2
        until(lambda: lines.dropped)
        assert lines.trouble == "nobody reads the log"
        dropped = lines.dropped
        assert 10_000 < dropped < 30_000 - log_lines.MAX_LINES + 1
        began = time.monotonic()
        lines.close(0.05)
        assert time.monotonic() - began < 1
        thread = threading.Thread(target=lambda: seen.append(reader.read(20_000 * 100)))
        seen: list[bytes] = []
        thread.start()  # somebody begins to read
        until(lambda: not lines.trouble)
        lines._thread.join(5)
        os.close(os.dup(writing))
        stream.close()
        thread.join(5)
    assert sum(map(int, re.findall(rb'"event":"log_lines_dropped","lines":(\d+)}', seen[0]))) == dropped


@pytest.mark.parametrize("broken", ["closed pipe", "full disk"])
def test_what_cannot_be_written_is_counted(broken):
    if broken == "full disk":
        stream = open("/dev/full", "w")  # noqa: SIM115  # closed below
        why = "No space left on device"
    else:
        reading, writing = os.pipe()
        os.close(reading)
        stream = os.fdopen(writing, "w")
        why = "Broken pipe"
    lines = LogLines(stream)
    for _ in range(5):
        lines.write("x\n")
    until(lambda: lines.dropped == 5)
    assert lines.trouble == why
    lines.close(5)
    stream.close()


def test_a_pipe_that_does_not_block_is_waited_for(tmp_path):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        lines = LogLines(stream)
        for _ in range(5_000):
            lines.write("x" * 99 + "\n")
        received = reader.read(500_000)
        lines.close(5)
    assert received == (b"x" * 99 + b"\n") * 5_000
    assert lines.dropped == 0
