import math
import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire.resampler import ConvolvingResampler, SampleResampler, resampler

RATES = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000]
RATIOS = [(up, down) for up in range(1, 7) for down in range(1, 7) if math.gcd(up, down) == 1 != up * down]
PAIRS = [(source, target) for source in RATES for target in RATES if source != target]


def sine(rate, hz, seconds=0.1, loud=12_000):
    return array("h", (round(loud * math.sin(2 * math.pi * hz * n / rate)) for n in range(round(rate * seconds))))


def resampled(source_hz, target_hz, samples):
    return all_of(resampler(source_hz, target_hz), samples)


def all_of(one, samples):
    built = one.feed(samples)
    built.extend(one.end())
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


@pytest.mark.parametrize(("up", "down"), [(8, 9), (12, 1), (1, 24), *RATIOS])
def test_products_of_large_numbers_are_the_sums_for_each_sample(up, down):
    noise = random.Random(up * down)
    samples = array("h", (noise.choice([-32_768, 32_767, noise.randrange(-32_768, 32_768)]) for _ in range(1_000 * (down + 1))))
    fast, plain = all_of(ConvolvingResampler(up, down), samples), all_of(SampleResampler(up, down), samples)
    assert len(fast) == len(plain) > 1_000
    differences = [abs(a - b) for a, b in zip(fast, plain, strict=True)]
    assert max(differences) <= 1  # coefficients are rounded to 32 bits, so that a half may be rounded the other way
    assert sum(differences) < len(fast) / 500


def test_rates_of_small_ratios_take_few_steps():
    for pair in PAIRS:
        is_few = not {22_050, 44_100} & {*pair} or sorted(pair) == [22_050, 44_100]
        assert isinstance(resampler(*pair), ConvolvingResampler) == is_few


def test_an_hour_does_not_drift():
    """Positions are whole numbers: after as many samples as there are in an hour the next one falls where it should."""
    for source_hz, target_hz in ((44_100, 48_000), (48_000, 32_000)):
        one = resampler(source_hz, target_hz)
        built = sum(len(one.feed(array("h", bytes(2 * source_hz // 100)))) for _ in range(1_000))
        assert built + len(one.end()) == 10 * target_hz


@given(st.lists(st.integers(0, 400), max_size=20), st.sampled_from(PAIRS))
def test_how_it_is_cut_makes_no_difference(sizes, pair):
    samples = sine(pair[0], 500, seconds=0.02)
    one, built, at = resampler(*pair), array("h"), 0
    for size in sizes:
        built.extend(one.feed(samples[at : at + size]))
        at += size
    built.extend(one.feed(samples[at:]))
    built.extend(one.end())
    assert built == resampled(*pair, samples)
