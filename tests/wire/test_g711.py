"""G.711 against values of the standard, and the properties that a companding code has."""

import struct

import pytest

from gw.wire import g711

ALL_CODES = bytes(range(256))
ALL_SAMPLES = struct.pack("<65536h", *range(-32768, 32768))


def samples(pcm: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(pcm) // 2}h", pcm)


def test_decoded_values_of_the_standard():
    assert samples(g711.mulaw_to_pcm16(b"\xff\x7f\x80\x00\xfe\x90")) == (0, 0, 32124, -32124, 8, 15996)
    assert samples(g711.alaw_to_pcm16(b"\xd5\x55\xaa\x2a\xd4\x85")) == (8, -8, 32256, -32256, 24, 4224)


def test_encoded_values_of_the_standard():
    pcm = struct.pack("<6h", 0, -1, 32767, -32768, 8, -1000)
    assert g711.pcm16_to_mulaw(pcm) == b"\xff\x7f\x80\x00\xfe\x4e"
    assert g711.pcm16_to_alaw(pcm) == b"\xd5\x55\xaa\x2a\xd5\x7a"


@pytest.mark.parametrize(
    ("encode", "decode"),
    [(g711.pcm16_to_mulaw, g711.mulaw_to_pcm16), (g711.pcm16_to_alaw, g711.alaw_to_pcm16)],
)
class TestBothLaws:
    def test_decoding_then_encoding_gives_the_same_sound(self, encode, decode):
        pcm = decode(ALL_CODES)
        assert decode(encode(pcm)) == pcm

    def test_the_step_is_a_sixteenth_of_the_magnitude(self, encode, decode):
        for sample, received in zip(range(-32768, 32768), samples(decode(encode(ALL_SAMPLES))), strict=True):
            assert abs(sample - received) <= max(16, (abs(sample) + 132) / 16)

    def test_louder_is_never_heard_softer(self, encode, decode):
        received = samples(decode(encode(ALL_SAMPLES)))
        assert list(received) == sorted(received)

    def test_sizes(self, encode, decode):
        assert encode(b"") == b""
        assert decode(b"") == b""
        assert len(decode(b"abc")) == 6
        with pytest.raises(ValueError, match="item size"):
            encode(b"\x00")
