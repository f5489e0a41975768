"""How soon a gateway that was killed under load is ready again: `python bench/restart.py [--kills 20] [--clients 24]`.

Each time the gateway serves streamed chats of the built-in provider, is killed (`kill -9`), and started anew on the same database, whose
journal it replays. Measured is the time from the kill until `/ready` is 200, of which most is Python's start. Prints a table; the exit code
is 1 if the target is missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run import CACHED, free_port

TARGET_S = 1.5
LOAD_S = 0.5
CONFIG = """
providers: {sim: {latency_ms: 20, token_ms: 10}}
models: {llm: [sim/echo]}
"""
BODY = json.dumps({"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": "one two three four five six"}]})


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start(folder: Path, port: int) -> tuple[subprocess.Popen[bytes], float]:
    """Return the gateway, once it is ready, and the seconds that it took."""
    env = CACHED | {"GW_CONFIG": str(folder / "gw.yaml"), "GW_DB_PATH": str(folder / "gw.db"), "GW_LOG_LEVEL": "warning"}
    env["PYTHONPATH"] = str(Path(__file__).parents[1])
    began = time.monotonic()
    command = [sys.executable, "-m", "gw", "serve", "--port", str(port)]
    with (folder / "gw.log").open("ab") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    while not is_ready(port):
        if process.poll() is not None:
            raise RuntimeError((folder / "gw.log").read_text())
        time.sleep(0.005)
    return process, time.monotonic() - began


def call(port: int, answered: list[int]) -> None:
    """Ask until the gateway is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        while True:
            connection.request("POST", "/v1/chat/completions", BODY, {"content-type": "application/json"})
            connection.getresponse().read()
            answered.append(1)
    except (OSError, http.client.HTTPException):
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=24)
    options = parser.parse_args()
    taken: list[float] = []
    answered: list[int] = []
    with tempfile.TemporaryDirectory(prefix="gw-restart-") as temporary:
        folder = Path(temporary)
        (folder / "gw.yaml").write_text(CONFIG)
        port = free_port()
        process, first_s = start(folder, port)
        try:
            for _ in range(options.kills):
                callers = [threading.Thread(target=call, args=(port, answered)) for _ in range(options.clients)]
                for caller in callers:
                    caller.start()
                time.sleep(LOAD_S)
                process.kill()
                process.wait()
                for caller in callers:
                    caller.join()
                process, took_s = start(folder, port)
                taken.append(took_s)
        finally:
            process.kill()
            process.wait()
    p95 = statistics.quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0]
    print(f"{options.kills} kills with {len(answered)} answered requests, on {os.cpu_count()} cores\n")
    print("| ready again | value | target |\n|---|---|---|")
    print(f"| first start, empty database | {first_s:.2f} s | |")
    print(f"| after a kill, p50 | {statistics.median(taken):.2f} s | |")
    print(f"| after a kill, p95 | {p95:.2f} s{'' if p95 <= TARGET_S else ' (missed)'} | ≤ {TARGET_S} s |")
    print(f"| after a kill, longest | {max(taken):.2f} s | |")
    return 0 if p95 <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
