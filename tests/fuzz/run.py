"""Fuzz decoders, guided by their coverage: `python -m tests.fuzz.run SECONDS [DECODER ...]`. Needs atheris.

Each decoder gets an equal share of the time, in a process of its own, and begins with its inputs in `corpus`. An input that
crashes or hangs is kept there as `crash-…` or `timeout-…`, where the default suite meets it, and fails the run. With `--keep` the
inputs that found new branches are added to the corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.decoders import DECODERS

CORPUS = Path(__file__).resolve().parent / "corpus"
LARGEST = 4_096
"""Bytes of an input."""
HANGS_S = 10
SMALLEST_S = 2
_ONE = """
import atheris, sys
with atheris.instrument_imports(include=["gw"]):
    from tests.fuzz.decoders import DECODERS
atheris.Setup(sys.argv, DECODERS[sys.argv.pop(1)])
atheris.Fuzz()
"""


def fuzz(name: str, seconds: int, keep: bool) -> bool:
    """Return whether the decoder stood it."""
    with tempfile.TemporaryDirectory() as found:
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", f"-timeout={HANGS_S}", f"-artifact_prefix={folder}{os.sep}"]
        folders = [str(folder)] if keep else [found, str(folder)]
        command = [sys.executable, "-c", _ONE, name, *options, "-print_final_stats=1", *folders]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    inputs = [line.rpartition(":")[2].strip() for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    print(f"{name}: {' '.join(inputs) or '?'} inputs in {seconds} s, {'well' if done.returncode == 0 else 'FAILED'}", flush=True)
    if done.returncode:
        print(done.stdout[-3_000:], done.stderr[-6_000:], flush=True)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    keep = "--keep" in arguments
    seconds, *names = [argument for argument in arguments if argument != "--keep"]
    chosen = names or list(DECODERS)
    share = max(SMALLEST_S, int(seconds) // len(chosen))
    failed = [name for name in chosen if not fuzz(name, share, keep)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
