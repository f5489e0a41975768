"""Measure the start of the gateway: from the start of the process to the first answer, and the memory afterwards.

    python bench/start.py [--rounds 11] [--compare FOLDER] [--python PATH]

Starts a gateway with one provider and a database of its own on core 0, asks `/health` every 2 ms until it answers, and reads its memory
1.5 s later, when what is loaded after the start is there. The first start of each, which compiles Python's bytecode, does not count.
`--compare` starts the gateway of another checkout in turn with this one: other programs and the host's other guests disturb both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import free_port, pinned, rss_mb, wait_until_it_answers

ROOT = Path(__file__).parents[1]
CONFIG = """\
providers: {{openai: {{api_key: k, base_url: 'http://127.0.0.1:9/v1'}}}}
models: {{llm: [openai/gpt-4o]}}
cost_tracking: {{db_path: {folder}/gw.db}}
serve: {{port: {port}}}
"""


def start(python: str, checkout: Path, bytecode: Path) -> tuple[float, float]:
    """Start a gateway once; return the seconds to its first answer, and its memory in MB."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        (folder / "gw.yaml").write_text(CONFIG.format(folder=folder, port=port))
        env = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
        command = pinned(0, python, "-m", "gw", "serve", "--config", str(folder / "gw.yaml"))
        with (folder / "gw.log").open("wb") as log:
            began = time.monotonic()
            process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until_it_answers(f"http://127.0.0.1:{port}/health", process=process)
            took_s = time.monotonic() - began
            time.sleep(1.5)
            return took_s, rss_mb(process.pid)
        except OSError:
            raise SystemExit((folder / "gw.log").read_text()) from None
        finally:
            process.terminate()
            process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="a folder with another checkout")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    checkouts = [ROOT, *([options.compare.resolve()] if options.compare else [])]
    with tempfile.TemporaryDirectory() as bytecode:
        results: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
        for _ in range(options.rounds + 1):
            for checkout in checkouts:
                results[checkout].append(start(options.python, checkout, Path(bytecode)))
    for checkout, measured in results.items():
        seconds, megabytes = zip(*measured[1:], strict=True)
        print(
            f"first answer after {statistics.median(seconds):.3f} s (median; at least {min(seconds):.3f}), "
            f"memory {statistics.median(megabytes):.1f} MB  ({checkout})"
        )


if __name__ == "__main__":
    main()
