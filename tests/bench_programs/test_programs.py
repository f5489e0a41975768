"""Each program of `bench` that measures on a busy machine, run for a moment: it finishes and prints its figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gw.relay.relay import Relay
from gw.types.compiled import edition_of

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.process, pytest.mark.needs_program("gcc")]
STEPS = r" +\d+ bytecodes from 'send' to 'wait to read'" if edition_of(Relay) == "python" else "compiled functions are not traced"


@pytest.mark.parametrize(
    ("program", "options", "lines", "codes"),
    [
        ("tails.py", "--seconds 2 --rates 20", [r"\| 20 \| 40 \| [-\d.]+ \| [-\d.]+ \| [-\d.]+ \| [-\d.]+ \| [-\d.]+, [-\d.]+ \|"], [0]),
        ("idle_memory.py", "--connections 30 stream", [r"\| stream \| [-\d.]+( \(missed\))? \| ≤ 12 \|"], [0, 1]),
        ("start.py", "--rounds 2", [r"first answer after [\d.]+ s \(median; at least [\d.]+\), memory [\d.]+ MB"], [0]),
        (
            "growth.py", "--pairs 2 --rounds 3 --requests 16 keys",
            [r"\| keys \| \d+ \| \d+ \| [+-][\d.]+% \| [+-][\d.]+, [+-][\d.]+ \| ≤ \+5% \|"], [0, 1],
        ),
        ("frame_cost.py", "--sessions 2 --rounds 4", [r"[\d.]+"], [0]),
        (
            "duplex.py", "--sessions 8 --seconds 4 --workers 2",
            [
                r"added +p50 [\d.]+ ms  p99 [\d.]+ ms  p99.9 [\d.]+ ms  max [\d.]+ ms", r"late +p50 [\d.]+ ms  p99 [\d.]+ ms",
                r"gateway +p50 [\d.]+ ms  p99 [\d.]+ ms",
                r"frames +(\d+) sent, \1 answered, 0 lost, 0 out of order", r"sessions  worker 1 \d+, worker 2 \d+",
                r"CPU       callers and vendor [\d.]+ %, keeper [\d.]+ %, worker 1 [\d.]+ %",
            ],
            [0],
        ),
        ("resampling.py", "--rounds 1 --frames 2", [r"\| 24000 to 8000 \| \d+ \| \d+ \| convolution \|"], [0]),
        ("speech_delays.py", "-k test_it_is_all_in_the_report", [r"\| stopped after \| 3 \| [-\d.]+ ms \| .* \| 100 ms \|"], [0, 1]),
        pytest.param(
            "cache_lines.py", "--connections 2 --seconds 3 --level-2 256", [r"\| python \| all \| [\d,]{7,} \| [\d,]+ \| [\d,]+ \|"], [0],
            marks=pytest.mark.needs_program("valgrind"),
        ),
        (
            "bytecodes.py", "--requests 3 --top 5 --steps",
            [r" +\d+ bytecodes +[\d.]+ calls a request in gw", STEPS],
            [0],
        ),
    ],
)  # fmt: skip
def test_the_program_prints_its_figures(program, options, lines, codes, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / program, *options.split()], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode in codes, done.stderr + done.stdout
    for line in lines:
        assert re.search(line, done.stdout), done.stdout
