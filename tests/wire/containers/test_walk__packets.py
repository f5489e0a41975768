from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire.containers.matroska import MatroskaPackets
from gw.wire.containers.ogg import OggPackets
from gw.wire.containers.walk import NoPackets
from tests.fakes.containers import element, ogg_opus, ogg_page, ogg_vorbis

PACKETS = [bytes([0x78, n]) * (1 + 40 * n) for n in range(8)]
OPUS_HEAD = b"OpusHead\1\1" + bytes(9)


def ogg(packets=PACKETS):
    """One page of the first half, and a packet that goes on in the next page."""
    long = b"\x78" * (255 * 2)
    head = [ogg_page(7, 0, [OPUS_HEAD], first=True), ogg_page(7, 0, [b"OpusTags" + bytes(8)])]
    other = [ogg_page(9, 0, [b"\x80theora"], first=True), ogg_page(9, 0, [b"picture"])]
    lacing = bytes([255, 255])
    opened = ogg_page(7, 0, packets[:4])
    going_on = b"OggS" + opened[4:26] + bytes([2]) + lacing + long
    closing = b"OggS" + opened[4:26] + bytes([1, 0])
    return b"".join([*head[:1], *other, head[1], opened, going_on, closing, ogg_page(7, 5, packets[4:])]), [
        *packets[:4], long, *packets[4:],
    ]  # fmt: skip


def flac_in_ogg():
    info = bytes(range(34))
    first = b"\x7fFLAC\1\0\0\1fLaC\0\0\0\x22" + info
    tags = b"\x84\0\0\4vend"
    frames = [b"\xff\xf8one", b"\xff\xf8two"]
    pages = [ogg_page(1, 0, [first], first=True), ogg_page(1, 0, [tags]), ogg_page(1, 9, frames)]
    return b"".join(pages), frames, info


def block(track, data, flags=0x80):
    return bytes([0x80 | track]) + b"\0\1" + bytes([flags]) + data


def track(number, codec, private=b""):
    entry = element(0xD7, bytes([number])) + element(0x86, codec)
    return element(0xAE, entry + (element(0x63A2, private) if private else b""))


UNKNOWN = b"\x01" + b"\xff" * 7
EBML = element(0x1A45DFA3, b"\x42\x82\x84webm")


def webm(packets=PACKETS, tracks=None, blocks=None):
    """As a browser's recorder writes it: sizes of segment and clusters are not told."""
    tracks = element(0x1654AE6B, tracks or track(1, b"V_VP8") + track(2, b"A_OPUS", OPUS_HEAD))
    blocks = blocks or element(0xA3, block(1, b"picture")) + b"".join(element(0xA3, block(2, data)) for data in packets[:4])
    group = element(0xA0, element(0xA1, block(2, packets[4], 0)) + element(0x9B, b"\5"))
    more = b"".join(element(0xA3, block(2, data)) for data in packets[5:])
    cluster = b"\x1f\x43\xb6\x75" + UNKNOWN
    info = element(0x1549A966, bytes(20))
    return b"".join([
        EBML, b"\x18\x53\x80\x67", UNKNOWN, info, tracks, cluster, element(0xE7, b"\0"), blocks, group, cluster, more,
    ])  # fmt: skip


def read(packets, data, step):
    result = []
    for at in range(0, len(data), step):
        result += packets.feed(data[at : at + step])
    return result


@pytest.mark.parametrize("step", [1, 2, 7, 1_000, 10_000])
def test_ogg_cut_anywhere(step):
    data, expected = ogg()
    packets = OggPackets()
    assert read(packets, data, step) == expected
    assert (packets.codec, packets.head) == ("opus", OPUS_HEAD)


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_flac_in_ogg(step):
    data, expected, info = flac_in_ogg()
    packets = OggPackets()
    assert read(packets, data, step) == expected
    assert (packets.codec, packets.head) == ("flac", info)


@pytest.mark.parametrize("step", [1, 2, 7, 1_000, 10_000])
def test_webm_cut_anywhere(step):
    packets = MatroskaPackets()
    assert read(packets, webm(), step) == PACKETS
    assert (packets.codec, packets.head) == ("opus", OPUS_HEAD)


def test_a_chain_goes_on():
    packets = OggPackets()
    assert len(read(packets, ogg_opus(1) + ogg_opus(0.5, serial=8), 100)) == (3 + 2) * 25   # packets of a page


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (OggPackets, b"RIFF" + bytes(40)),
        (OggPackets, ogg_vorbis(1)),
        (OggPackets, ogg()[0][:60] + b"no page" + bytes(40)),
        (MatroskaPackets, b"OggS" + bytes(40)),
        (MatroskaPackets, bytes(40)),
        (MatroskaPackets, webm(tracks=track(1, b"A_VORBIS"))),
        (MatroskaPackets, webm(blocks=element(0xA3, block(2, b"\2ab", 0x82)))),
        (MatroskaPackets, webm(blocks=element(0xA3, b"\x82"))),
        (MatroskaPackets, EBML + b"\xec" + UNKNOWN),
        (MatroskaPackets, EBML + b"\xa3\x10\x20\x00\x00\x01"),
    ],
)
def test_unreadable_containers(make, data):
    with pytest.raises(NoPackets):
        read(make(), data, 50)


@given(st.binary(max_size=2_000), st.sampled_from([OggPackets, MatroskaPackets]), st.booleans(), st.integers(1, 300))
def test_any_bytes_are_read_or_refused(data, make, started, step):
    head = (ogg()[0] if make is OggPackets else webm())[: len(data)] if started else b""
    with suppress(NoPackets):
        assert all(isinstance(packet, bytes) for packet in read(make(), head + data, step))
