"""Measure what an upload costs: CPU of the gateway for a recording of each size, beside nginx `proxy_pass` in the same run.

    python bench/uploads.py [--kilobytes 100 1000 1100 4000 16000] [--rounds 5] [--seconds 1] [--alone] [--compare FOLDER]

Posts `POST /v1/audio/transcriptions` forms, one after the other over one connection, to a fake provider that answers at once. CPU is
the kernel's accounting of all threads; printed are the median and the least of the rounds. `--compare` measures the gateway of another
checkout too, in turn with this one. Needs what `bench/run.py` needs.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import run

BOUNDARY = "9f2c4d1b7e"
ANSWER_S = 20.0


def form(kilobytes: int) -> bytes:
    """Return a form with a WAV file of 16 kHz PCM, as OpenAI's SDK writes it, and the fields after it."""
    samples = os.urandom(kilobytes * 1000)
    size = len(samples).to_bytes(4, "little")
    wav = b"RIFF" + size + b"WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data" + size + samples
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="model"\r\n\r\nup/bench-stt\r\n--{BOUNDARY}\r\n'
    head += 'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    return head.encode() + wav + f"\r\n--{BOUNDARY}--\r\n".encode()


def cpu_per_upload(port: int, pid: int, body: bytes, seconds: float) -> float:
    """Return the CPU milliseconds of process `pid` for each upload, uploading for `seconds`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}", "authorization": "Bearer x"}
    count, before = -1, 0.0
    until = 0.0
    while count < 1 or time.monotonic() < until:
        connection.request("POST", "/v1/audio/transcriptions", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {text[:300]!r}")
        count += 1
        if count == 0:  # the first one warms up
            before, until = run.cpu_s(pid), time.monotonic() + seconds
    connection.close()
    return (run.cpu_s(pid) - before) * 1000 / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[100, 1000, 1100, 4000, 16000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--alone", action="store_true", help="let other programs of this machine wait (needs root)")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="another checkout, to be measured in turn")
    options = parser.parse_args()
    if options.alone:
        run.run_alone()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder, run.Bench(Path(folder), sys.executable, options.seconds) as bench:
        sides = {"nginx": (bench.nginx_port, bench.nginx_pid), "gw": (bench.gw_port, bench.gw_pid)}
        if options.compare is not None:
            environment = run.CACHED | {"PYTHONPATH": str(options.compare.resolve()), "PYTHONSAFEPATH": "1"}
            sides["other gw"] = bench.start_gateway("other", sys.executable, environment)[:2]
        print(f"| kB | {' | '.join(f'{side}, ms' for side in sides)} |\n|---|{'---|' * len(sides)}")
        for kilobytes in options.kilobytes:
            body = form(kilobytes)
            runs: dict[str, list[float]] = {side: [] for side in sides}
            for round_ in range(options.rounds):
                for side in sorted(sides, reverse=bool(round_ % 2)):
                    runs[side].append(cpu_per_upload(*sides[side], body, options.seconds))
            figures = (f"{statistics.median(measured):.2f}, least {min(measured):.2f}" for measured in runs.values())
            print(f"| {kilobytes} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
