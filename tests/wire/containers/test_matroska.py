import pytest

from gw.wire.containers.matroska import MatroskaWalk
from tests.fakes import containers as made


def walked(data, size=1_000):
    walk = MatroskaWalk()
    for at in range(0, len(data), size):
        walk.feed(data[at : at + size])
    return walk.seconds


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize(("declared", "live"), [(True, False), (False, False), (False, True), (True, True)])
def test_declared_or_shown(declared, live, size):
    assert walked(made.webm(2.52, declared=declared, live=live), size) == pytest.approx(2.52)


def test_the_blocks_outrank_a_false_declaration():
    false = made.element(0x1549A966, made.element(0x4489, b"\x7f\0\0\0"))
    assert walked(false + made.webm(1.0, declared=False)) == pytest.approx(1.0)


def test_only_declared():
    info = made.element(0x1549A966, made.element(0x2AD7B1, (500_000).to_bytes(4, "big")) + made.element(0x4489, b"\x44\x7a\0\0"))
    assert walked(made.element(0x18538067, info)) == pytest.approx(0.5)   # 1000 ticks of half a millisecond


def test_a_block_in_a_group_tells_its_own_length():
    block = made.element(0xA1, b"\x81\x00\x10\x00" + bytes(9))
    group = made.element(0xA0, block + made.element(0x9B, b"\x28"))
    assert walked(made.element(0x1F43B675, made.element(0xE7, b"\x64") + group)) == pytest.approx(0.156)


@pytest.mark.parametrize(
    "data",
    [b"\x00\x00\x00", b"\x07\x81\x00", b"\xe7\x00\x00", b"\xec\xff\x00", made.element(0xA3, b""), made.element(0xA3, b"\0\0\0"),
     made.element(0x9B, b"\1"), made.element(0x4489, b"\xff\xf8\0\0"), made.element(0x4489, b"123")],
)  # fmt: skip
def test_content_that_reveals_nothing(data):
    assert walked(data + bytes(20)) == 0.0
