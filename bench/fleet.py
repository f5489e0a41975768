"""One, two and four processes on this machine: requests a second, processor time per request in each process, and how evenly
connections are spread.

    python bench/fleet.py [--seconds 6] [--warm-up 0] [--connections 64] [--workers 1 2 4] [--stream]

Needs Linux and gcc. Load generator, fake provider and gateway share the machine's cores, so requests a second say what this machine
does with all of them at once. Processor time per request, as the kernel accounts it, says what the gateway would do without them. How many
times as much several workers serve as one process is printed three ways:

- measured, with load generator and provider on the same cores,
- by the processor time of all processes of the gateway, keeper and writer included: as many cores for them as there are workers, and one
  core for the one process and its writer,
- by that of the workers alone: a core for each, and one elsewhere for keeper and writer.

Workers report the texts of chat requests to the keeper, which finds turns, until a key has had no speech for ten seconds and 256 requests.
`--warm-up 12` measures what follows.

The accept balance is measured with `--spread` connections that are opened and closed, and over those that the load generator kept open:
how far the worker that is farthest from an even share is from it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CONFIG = """
providers: {{up: {{type: openai, api_key: 0123456789abcdef0, base_url: "http://127.0.0.1:{upstream}/v1"}}}}
models: {{llm: [up/bench]}}
cost_tracking: {{db_path: {folder}/gw.db}}
"""
STARTS_WITHIN_S = 60.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def build(folder: Path, name: str) -> str:
    out = folder / name
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", str(out), str(HERE / f"{name}.c"), "-lpthread"], check=True)
    return str(out)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, all its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def status_of(port: int) -> list[dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/v1/status")
        workers: list[dict[str, object]] = json.loads(connection.getresponse().read())["workers"]
    finally:
        connection.close()
    return workers


def wait_until_it_answers(port: int) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            status_of(port)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def helpers(pid: int) -> dict[int, str]:
    """Return the processes that a gateway has started beside its workers, with what they are for."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            line = Path(f"/proc/{child}/cmdline").read_text()
            if "worker_start" not in line:
                found[int(child)] = "writer" if "commit" in line else "reports"
    return found


def measure(folder: Path, load: str, port: int, gateway: int, count: int, options: argparse.Namespace) -> dict[str, object]:
    """Run the load and return figures of one number of workers."""
    workers = {int(str(w["pid"])): f"worker {w['worker']}" for w in status_of(port)}
    time.sleep(2)  # spares and the like have started, and figures of workers are a second old
    mode = "stream" if options.stream else "chat"
    if options.warm_up:
        subprocess.run([load, str(port), mode, "up/bench", str(options.connections), str(options.warm_up)], capture_output=True, check=True)
        time.sleep(1.5)
    served = requests_of(port)
    accepted = {w["worker"]: int(str(w["accepted"])) for w in status_of(port)}
    processes = {gateway: "keeper" if workers else "gateway", **workers, **helpers(gateway)}
    before = {pid: cpu_s(pid) for pid in processes}
    command = [load, str(port), mode, "up/bench", str(options.connections), str(options.seconds)]
    began = time.monotonic()
    done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    took_s = time.monotonic() - began
    time.sleep(0.5)  # the last records are committed
    used = {pid: cpu_s(pid) - before[pid] for pid in processes if Path(f"/proc/{pid}").exists()}
    requests = requests_of(port) - served
    per_request = {name: 1e6 * used[pid] / requests for pid, name in processes.items() if pid in used}
    result = {"workers": count, "requests": requests, "took_s": took_s, "cpu_us": per_request, "load": done}
    if workers:
        result["kept"] = [int(str(w["accepted"])) - accepted[w["worker"]] for w in status_of(port)]
    return result


def requests_of(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    until = time.monotonic() + 20
    last = -1
    while True:
        connection.request("GET", "/v1/costs?period=today")
        requests = int(json.loads(connection.getresponse().read())["requests"])
        if requests == last or time.monotonic() > until:
            connection.close()
            return requests
        last = requests
        time.sleep(0.5)


def spread(port: int, count: int) -> list[int]:
    """Open and close connections with one request each; return how many each worker has accepted."""
    before = {w["worker"]: int(str(w["accepted"])) for w in status_of(port)}
    body = json.dumps({"model": "up/bench", "messages": [{"role": "user", "content": "hi"}]})
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        connection.getresponse().read()
        connection.close()
    time.sleep(2.5)  # figures of workers are a second old
    return [int(str(w["accepted"])) - before[w["worker"]] for w in status_of(port)]


def run(folder: Path, load: str, upstream: int, count: int, options: argparse.Namespace) -> dict[str, object]:
    place = Path(tempfile.mkdtemp(dir=folder))
    (place / "gw.yaml").write_text(CONFIG.format(upstream=upstream, folder=place))
    port = free_port()
    command = [sys.executable, "-m", "gw", "serve", "--config", str(place / "gw.yaml"), "--port", str(port), "--workers", str(count)]
    with (place / "gw.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as gateway:
        try:
            wait_until_it_answers(port)
            result = measure(place, load, port, gateway.pid, count, options)
            if count > 1:
                result["accepted"] = spread(port, options.spread)
        finally:
            gateway.send_signal(signal.SIGTERM)
    return result


def processor_us(result: dict[str, object], *, workers_only: bool) -> float:
    """Return the processor time of a request: of all the gateway's processes, or of those that serve apps."""
    cpu = result["cpu_us"]
    assert isinstance(cpu, dict)
    return sum(us for name, us in cpu.items() if not workers_only or name.startswith(("worker", "gateway")))


def per_second(result: dict[str, object]) -> float:
    return int(str(result["requests"])) / float(str(result["took_s"]))


def uneven(accepted: list[int]) -> float:
    """Return how far the count that is farthest from the mean is from it, as a part of the mean."""
    mean = sum(accepted) / len(accepted)
    return max(abs(count - mean) for count in accepted) / mean


def compare(one: dict[str, object], several: dict[str, object]) -> None:
    count = int(str(several["workers"]))
    everything, workers = (
        count * processor_us(one, workers_only=only) / processor_us(several, workers_only=only) for only in (False, True)
    )
    print(
        f"{count} workers against one process: {per_second(several) / per_second(one):.2f} times measured, "
        f"{everything:.2f} by the processor time of all processes, {workers:.2f} by that of the workers"
    )
    for name in ("kept", "accepted"):
        counts = several[name]
        assert isinstance(counts, list)
        print(f"connections {name}: {', '.join(map(str, counts))}; at most {100 * uneven(counts):.1f} % from an even share")


def show(results: list[dict[str, object]]) -> None:
    print(f"load average of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("| workers | requests/s | CPU us per request | of that, workers | requests/s of the workers' CPU | accepted |")
    print("|---|---|---|---|---|---|")
    for result in results:
        cpu = result["cpu_us"]
        assert isinstance(cpu, dict)
        serving = processor_us(result, workers_only=True)
        each = ", ".join(f"{name} {us:.0f}" for name, us in cpu.items())
        possible = int(str(result["workers"])) * 1e6 / serving
        rate, accepted = per_second(result), result.get("accepted", "")
        print(f"| {result['workers']} | {rate:.0f} | {each} | {serving:.0f} | {possible:.0f} | {accepted} |")
    one = next((result for result in results if result["workers"] == 1), None)
    for result in results:
        if one is not None and result is not one:
            compare(one, result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=0, help="seconds of the same load before")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--spread", type=int, default=1_000)
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load, upstream = build(folder, "load"), free_port()
        with subprocess.Popen([build(folder, "fake_upstream"), str(upstream)]) as provider:
            try:
                show([run(folder, load, upstream, count, options) for count in options.workers])
            finally:
                provider.terminate()


if __name__ == "__main__":
    main()
