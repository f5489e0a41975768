import pytest

from gw.wire.containers.mp4 import Mp4Walk
from tests.fakes import containers as made


def walked(data, size=1_000):
    walk = Mp4Walk()
    for at in range(0, len(data), size):
        walk.feed(data[at : at + size])
    return walk.seconds


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("size", [3, 100_000])
def test_the_movie_header_anywhere(at_end, version, large, size):
    assert walked(made.m4a(12.5, at_end=at_end, version=version, large=large), size) == 12.5


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("size", [3, 100_000])
def test_fragments_of_sound(listed, size):
    assert walked(made.fragmented_m4a(4, listed=listed), size) == pytest.approx(4 * 50 * 1_024 / 44_100)


def test_a_long_table_counts_by_its_default():
    assert walked(made.fragmented_m4a(1, samples=20_000, listed=True)) == pytest.approx(20_000 * 1_024 / 44_100)


def test_a_fragmented_file_may_declare_its_length():
    extends = made.box(b"mvex", made.box(b"mehd", bytes(4) + (2_500).to_bytes(4, "big")))
    assert walked(made._movie(1_000, 0, made._track(8_000), more=extends)) == 2.5


@pytest.mark.parametrize("length", [0, 2**32 - 1])
def test_a_length_that_is_not_known(length):
    assert walked(made._movie(1_000, length, b"")) == 0.0
    assert walked(made._movie(1_000, 2**64 - 1, b"", version=1)) == 0.0


@pytest.mark.parametrize(
    "data",
    [bytes(16), b"\0\0\0\4abcd" + bytes(20), made.box(b"mvhd", b"\0\0"), made.box(b"trun", bytes(4)), made.box(b"hdlr", b"soun"),
     made.box(b"tkhd", b""), b"\0\0\0\1mdat\0\0\0\0\0\0\0\1"],
)  # fmt: skip
def test_content_that_reveals_nothing(data):
    assert walked(data + bytes(40)) == 0.0
