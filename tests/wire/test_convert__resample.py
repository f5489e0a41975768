import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire.convert import Resampler

RATES = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000]
PAIRS = [(source, target) for source in RATES for target in RATES if source != target]


def sine(rate, hz, seconds=0.1, loud=12_000):
    return array("h", (round(loud * math.sin(2 * math.pi * hz * n / rate)) for n in range(round(rate * seconds))))


def resampled(source_hz, target_hz, samples):
    resampler = Resampler(source_hz, target_hz)
    built = resampler.feed(samples)
    built.extend(resampler.end())
    return built


def power(samples):
    return sum(sample * sample for sample in samples) / len(samples)


@pytest.mark.parametrize(("source_hz", "target_hz"), PAIRS)
@pytest.mark.parametrize("hz", [440, 3_000])
def test_a_tone_stays_what_and_where_it_was(source_hz, target_hz, hz):
    got, wanted = resampled(source_hz, target_hz, sine(source_hz, hz)), sine(target_hz, hz)
    assert len(got) == pytest.approx(len(wanted), abs=1)
    pairs = list(zip(got, wanted, strict=False))[100:-100]
    noise = sum((a - b) ** 2 for a, b in pairs) / len(pairs)
    assert 10 * math.log10(power(wanted) / noise) > 50


@pytest.mark.parametrize(("source_hz", "target_hz"), [(16_000, 8_000), (24_000, 16_000), (48_000, 8_000), (44_100, 24_000)])
def test_frequencies_above_the_lower_rate_are_removed(source_hz, target_hz):
    got = resampled(source_hz, target_hz, sine(source_hz, target_hz * 0.65))[100:-100]
    assert 10 * math.log10(max(power(got), 1e-3) / (12_000**2 / 2)) < -50


@pytest.mark.parametrize(("source_hz", "target_hz"), [(8_000, 24_000), (24_000, 8_000), (8_001, 48_000)])
def test_full_scale_is_cut_and_level_stays_level(source_hz, target_hz):
    square = array("h", ([32_767] * 20 + [-32_768] * 20) * 20)
    assert set(resampled(source_hz, target_hz, square)) >= {32_767, -32_768}
    assert set(resampled(source_hz, target_hz, array("h", [1_000] * 900))[50:-50]) == {1_000}


def test_an_hour_does_not_drift():
    """Positions are whole numbers: after as many samples as there are in an hour the next one falls where it should."""
    resampler = Resampler(44_100, 48_000)
    built = sum(len(resampler.feed(array("h", bytes(2 * 441)))) for _ in range(1_000))
    assert built + len(resampler.end()) == 480_000


@given(st.lists(st.integers(0, 400), max_size=20), st.sampled_from(PAIRS))
def test_how_it_is_cut_makes_no_difference(sizes, pair):
    samples = sine(pair[0], 500, seconds=0.02)
    resampler, built, at = Resampler(*pair), array("h"), 0
    for size in sizes:
        built.extend(resampler.feed(samples[at : at + size]))
        at += size
    built.extend(resampler.feed(samples[at:]))
    built.extend(resampler.end())
    assert built == resampled(*pair, samples)
