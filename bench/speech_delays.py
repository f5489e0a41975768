"""Measure over loopback how long first audio and an interruption take, at every endpoint that speaks.

    python bench/speech_delays.py [PYTEST OPTIONS]

Runs `tests/clients/test_first_audio.py` and `tests/clients/test_barge_in.py`, which print their times, and holds those against the
bounds. It fails when the fastest of several rounds of a first audio, or a single interruption, is above its bound: on a machine that
does other things, run it again. `-k NAME` chooses some of them.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/clients/test_first_audio.py", "tests/clients/test_barge_in.py")
BOUNDS_MS = {"first audio": 5.0, "stopped after": 100.0}


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "clients", *TESTS, *sys.argv[1:]]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    met = done.returncode == 0
    if not met:
        print(done.stdout)
    print("| what | times | fastest | median | slowest | bound |\n|---|---|---|---|---|---|")
    for name, bound_ms in BOUNDS_MS.items():
        took = [float(ms) for ms in re.findall(rf"{name} (-?[\d.]+) ms", done.stdout)]
        if took:
            met = met and max(took) <= bound_ms
            figures = " | ".join(f"{ms:.2f} ms" for ms in (min(took), statistics.median(took), max(took)))
            print(f"| {name} | {len(took)} | {figures} | {bound_ms:g} ms |")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
