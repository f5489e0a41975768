"""Measure what converting the sample rate of live audio costs, by both ways of doing it, beside each other.

    python bench/resampling.py [--rounds 5] [--frames 50]

Prints the processor time of a frame of 20 ms (medians of rounds), and which way gw takes for these rates. The frames are noise at full
scale, some samples of which are clipped. Other programs on the machine make the figures larger, and both in the same way.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from array import array

from gw.wire.resampler import ConvolvingResampler, Resampler, SampleResampler, resampler

PAIRS = [(24_000, 8_000), (24_000, 16_000), (16_000, 8_000), (8_000, 16_000), (16_000, 24_000), (48_000, 16_000), (44_100, 16_000)]
FRAME_S = 0.02


def frames(rate_hz: int, count: int) -> list[array[int]]:
    noise = random.Random(rate_hz)
    return [array("h", (noise.randrange(-32_768, 32_768) for _ in range(int(rate_hz * FRAME_S)))) for _ in range(count)]


def of_a_frame_us(one: Resampler, pieces: list[array[int]]) -> float:
    began = time.process_time()
    for piece in pieces:
        one.feed(piece)
    return (time.process_time() - began) * 1e6 / len(pieces)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=50, help="of each round")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}\n\n| Hz | each sample, µs | convolution, µs | gw takes |\n|---|---|---|---|")
    for source_hz, target_hz in PAIRS:
        common = math.gcd(source_hz, target_hz)
        up, down = target_hz // common, source_hz // common
        chosen = resampler(source_hz, target_hz)
        pieces = frames(source_hz, options.frames)
        costs: dict[type[Resampler], float] = {}
        for kind in (SampleResampler, ConvolvingResampler):
            if kind is SampleResampler or isinstance(chosen, kind):
                costs[kind] = statistics.median(of_a_frame_us(kind(up, down), pieces) for _ in range(options.rounds))
        convolution = f"{costs[ConvolvingResampler]:.0f}" if ConvolvingResampler in costs else "not offered"
        taken = "convolution" if isinstance(chosen, ConvolvingResampler) else "each sample"
        print(f"| {source_hz} to {target_hz} | {costs[SampleResampler]:.0f} | {convolution} | {taken} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
