from gw.wire.containers.flac import crc8


def test_check_values_of_the_crc_catalogue():
    # https://reveng.sourceforge.io/crc-catalogue: CRC-8/SMBUS is 0xF4 from 0x00;
    # from 0xFF the same polynomial gives 0xFB (computed bit by bit).
    assert crc8(b"123456789") == 0xFB


def test_a_flipped_bit_shows():
    data = bytes(range(40))
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert crc8(bytes(damaged)) != crc8(data)
