"""The log's queue and its thread, over pipes and devices that take no lines."""

from __future__ import annotations

import contextlib
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
    deadline = time.monotonic() + 30
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


def fill(pipe: int) -> None:
    """Write until the pipe takes no more."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(pipe, b"\n"):
            pass
    os.set_blocking(pipe, True)


def test_a_pipe_that_nobody_reads_costs_lines_and_never_waits():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        fill(writing)
        lines = LogLines(stream)
        for _ in range(30_000):
            lines.write("x" * 99 + "\n")
        assert lines.trouble == "nobody reads the log"
        dropped = lines.dropped
        assert 30_000 - log_lines.MAX_LINES - 256 <= dropped <= 30_000 - log_lines.MAX_LINES  # the thread holds 256 at most
        lines.close(0.05)  # returns, although nobody reads
        thread = threading.Thread(target=lambda: seen.append(reader.read()))
        seen: list[bytes] = []
        thread.start()  # somebody begins to read
        until(lambda: not lines.trouble)
        lines._thread.join(30)
        stream.close()
        thread.join(30)
    assert sum(map(int, re.findall(rb'"event":"log_lines_dropped","lines":(\d+)}', seen[0]))) == dropped


def test_a_write_that_ends_after_lines_were_dropped_does_not_end_the_trouble():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        fill(writing)
        lines = LogLines(stream)
        lines.write("first\n")
        until(lambda: lines._bytes_taken)  # the thread is in its write
        for _ in range(log_lines.MAX_LINES + 1):
            lines.write("x" * 99 + "\n")
        assert (lines.dropped, lines.trouble) == (1, "nobody reads the log")
        os.read(reading, 4_096)  # room for the first line, and no more than a part of those that wait
        until(lambda: lines._bytes_taken > len("first\n"))  # the first line was written, and the next write began
        assert lines.trouble == "nobody reads the log"
        thread = threading.Thread(target=reader.read)
        thread.start()
        lines.close(30)
        assert (lines.dropped, lines.trouble) == (1, "")
        stream.close()
        thread.join(30)


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
    until(lambda: (lines.dropped, lines.trouble) == (5, why))
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
