import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.telemetry.histogram import FLOOR_MS, RELATIVE_ERROR, EncodedHistogram, Histogram

latencies = st.floats(FLOOR_MS, 1e9)
samples = st.lists(st.floats(0, 1e7), max_size=50)


def _true_quantile(values, q):
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1]


@given(st.lists(latencies, min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_within_three_percent(values, q):
    truth = _true_quantile(values, q)
    assert abs(Histogram(values).quantile(q) - truth) <= truth * RELATIVE_ERROR * (1 + 1e-9)


@given(st.floats(0, FLOOR_MS, exclude_max=True))
def test_below_the_floor_the_error_is_absolute(value):
    assert abs(Histogram([value]).quantile(0.5) - value) <= FLOOR_MS


@given(samples, samples)
def test_merging_is_counting_all_values_together(a, b):
    merged = Histogram(a)
    merged.merge(Histogram(b))
    together = Histogram(a + b)
    assert merged.count == together.count
    assert merged.sum_ms == pytest.approx(together.sum_ms)
    assert [merged.quantile(q) for q in (0, 0.5, 0.99, 1)] == [together.quantile(q) for q in (0, 0.5, 0.99, 1)]


@given(samples)
def test_the_stored_form_gives_the_histogram_back(values):
    histogram = Histogram(values)
    assert Histogram.decode(histogram.encode()) == histogram


@given(st.lists(samples, max_size=4))
def test_merging_stored_forms_is_merging(parts):
    wide = Histogram([7.0] * 300)  # its counts are two bytes wide
    stored, direct = Histogram([5.0]), Histogram([5.0])
    stored.merge_encoded([wide.encode(), *(Histogram(part).encode() for part in parts)])
    for part in (wide, *map(Histogram, parts)):
        direct.merge(part)
    assert stored == direct


@given(samples, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(values, p, q):
    histogram = Histogram(values)
    low, high = histogram.quantile(min(p, q)), histogram.quantile(max(p, q))
    assert (low is None) == (high is None) == (not values)
    assert low is None or low <= high


@pytest.mark.parametrize("times", [0xFF, 0x100, 0x1_0000, 0x1_0000_0000])
def test_counts_of_every_width_are_stored(times):
    histogram, part = Histogram(), Histogram([5.0])
    while times:  # by doubling, since four billion single values take a while
        if times & 1:
            histogram.merge(part)
        part.merge(Histogram.decode(part.encode()))
        times >>= 1
    assert Histogram.decode(histogram.encode()) == histogram


def test_one_hour_of_one_model_takes_little_room():
    assert len(Histogram(200 + i for i in range(100)).encode()) < 60
    assert Histogram().encode() == b""


def test_empty_has_no_quantile_and_no_mean():
    assert (Histogram().quantile(0.5), Histogram().mean_ms, Histogram().count) == (None, None, 0)


def test_the_mean_is_exact():
    assert Histogram([100, 200, 600]).mean_ms == 300


def test_what_is_no_time_does_not_count():
    assert Histogram([math.nan, math.inf, -math.inf]).count == 0
    assert Histogram([-5.0]).sum_ms == 0


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_outside_0_to_1_is_refused(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram([1.0]).quantile(q)


@given(st.binary(min_size=1, max_size=40))
def test_other_bytes_are_refused_or_read(data):
    dense, width = data[0] & 0x10, data[0] & ~0x10
    head, entry = (11, width) if dense else (9, 2 + width)
    if width in (1, 2, 4, 8) and len(data) > head and (len(data) - head) % entry == 0:
        assert Histogram.decode(data).count >= 0
    else:
        with pytest.raises(ValueError, match="not a stored histogram"):
            Histogram.decode(data)


def test_its_repr_is_short():
    assert repr(Histogram([100.0])).startswith("Histogram(count=1, p50=")


@given(st.lists(st.lists(st.floats(0.05, 5_000), max_size=6), max_size=40))
def test_a_stored_form_that_grows_is_that_of_the_sum(batches):
    together = Histogram()
    stored = EncodedHistogram(Histogram(batches[0] if batches else ()))
    for number, values in enumerate(batches):
        together.record_all(values)
        if number:
            stored.add(Histogram(values))
        assert Histogram.decode(stored.data)._counts == together._counts
    assert stored.data[:1] == together.encode()[:1]
    assert stored.data[9:] == together.encode()[9:], "all but the sum, whose fractions are added up in another order"


def test_a_count_that_outgrows_its_width_is_stored_wider():
    stored, together = EncodedHistogram(Histogram([100.0] * 255)), Histogram([100.0] * 255)
    for _ in range(3):
        stored.add(Histogram([100.0]))
        together.record(100.0)
        assert stored.data == together.encode()
