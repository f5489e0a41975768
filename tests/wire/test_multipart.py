"""Forms as clients send them, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, TooLarge
from gw.wire.multipart import (
    Field,
    FileData,
    FileStart,
    MultipartDecoder,
    Part,
    boundary_of,
    encode_form,
)

B = b"----x17"


def read(body: bytes, *cuts: int, boundary: bytes = B, **caps: int) -> list[Part]:
    """All parts, with a file's data joined."""
    decoder = MultipartDecoder(boundary, **caps)
    at = [0, *cuts, len(body)]
    parts: list[Part] = []
    for a, b in pairwise(at):
        for part in decoder.feed(body[a:b]):
            if isinstance(part, FileData) and isinstance(parts[-1], FileData):
                parts[-1] = FileData(data=parts[-1].data + part.data)
            else:
                parts.append(part)
    decoder.end()
    return parts


# As openai-python 3.52.0 sends a transcription: fields first, lists as name[], the file last.
SDK_FORM = (
    b'------x17\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    b'------x17\r\nContent-Disposition: form-data; name="timestamp_granularities[]"\r\n\r\nword\r\n'
    b'------x17\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n\r\n'
    b'------x17\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    b"RIFF\r\n--\r\n-----x17\r\r\n\x00\xff\r\n------x17--\r\n"
)
SDK_PARTS = [
    Field(name="model", value="whisper-1"),
    Field(name="timestamp_granularities[]", value="word"),
    Field(name="prompt", value=""),
    FileStart(name="file", filename="a.wav", content_type="audio/wav"),
    FileData(data=b"RIFF\r\n--\r\n-----x17\r\r\n\x00\xff"),
]


def test_a_piece_of_a_file_is_passed_on_as_it_is_unless_it_ends_like_the_start_of_a_delimiter():
    decoder = MultipartDecoder(B)
    decoder.feed(SDK_FORM[: SDK_FORM.index(b"RIFF")] + b"RIFF")
    plain, ends_in_cr_and_more = b"a" * 40, b"b" * 36 + b"\r\n-x"
    for piece in (plain, ends_in_cr_and_more, plain):
        (part,) = decoder.feed(piece)
        assert isinstance(part, FileData)
        assert part.data is piece
    assert decoder.feed(b"c" * 36 + b"\r\n--") == [FileData(data=b"c" * 36)]
    assert decoder.feed(b"d" * 40) == [FileData(data=b"\r\n--" + b"d" * 40)]
    assert decoder.feed(b"e" * 36 + b"\r\n---") == [FileData(data=b"e" * 36)]
    assert decoder.feed(b"---x17--\r\n" + b" " * 40) == []
    decoder.end()


def test_the_rest_of_a_large_file_and_what_follows_it_come_apart_in_one_piece():
    decoder = MultipartDecoder(B)
    content, field = bytes(range(256)) * 64, b'\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n------x17--\r\n'
    decoder.feed(SDK_FORM[: SDK_FORM.index(b"RIFF")] + b"RIFF")
    assert decoder.feed(content + b"\r\n-") == [FileData(data=content)]
    assert decoder.held_of_file == 3
    parts = decoder.feed(content + b"\r\n------x17" + field)
    assert parts == [FileData(data=b"\r\n-" + content), Field(name="a", value="b")]
    assert decoder.held_of_file is None
    decoder.end()


@given(st.lists(st.sampled_from([b"\r", b"\n", b"-", b"\r\n--", b"\r\n------x1", b"a" * 9]), max_size=12).map(b"".join), st.integers(8, 40))
def test_a_file_of_near_delimiters_in_pieces_of_any_size(content: bytes, size: int):
    head = b'------x17\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    form = head + content + b"\r\n------x17--\r\n"
    got = read(form, *range(len(head), len(form), size))
    assert b"".join(part.data for part in got if isinstance(part, FileData)) == content


def test_a_form_cut_at_every_byte():
    assert read(SDK_FORM) == SDK_PARTS
    for at in range(len(SDK_FORM)):
        assert read(SDK_FORM, at) == SDK_PARTS
    assert read(SDK_FORM, *range(1, len(SDK_FORM))) == SDK_PARTS


def test_preamble_padding_epilogue_and_an_empty_file():
    body = (
        b"hello\r\n------x17 \t\r\nContent-Disposition: form-data; name=file; filename=\"\"\r\n\r\n"
        b"\r\n------x17\r\nCONTENT-DISPOSITION:FORM-DATA; NAME=\"a\"\r\n\r\nb\r\n------x17--\r\nbye\r\n------x17\r\n"
    )
    expected = [FileStart(name="file", filename="", content_type=""), Field(name="a", value="b")]
    assert read(body) == expected
    assert read(body, *range(1, len(body))) == expected


@pytest.mark.parametrize(
    ("disposition", "name", "filename"),
    [
        ('form-data; name="file"; filename="a b;c.wav"', "file", "a b;c.wav"),
        ('form-data; filename="x"; name="file"', "file", "x"),
        ('form-data; name="file"; filename="a\\"b.wav"', "file", 'a"b.wav'),
        ('form-data; name="file"; filename="a%22b.wav"', "file", 'a"b.wav'),
        ('form-data; name="file"; filename="\u00e4.wav"', "file", "\u00e4.wav"),
        ("form-data; name=file; filename=plain.wav", "file", "plain.wav"),
        ("form-data; name=\"file\"; filename*=UTF-8''na%20me.wav", "file", "na%20me.wav"),
        ('form-data; name="file"; filename="; name=evil"', "file", "; name=evil"),
    ],
)
def test_names(disposition, name, filename):
    body = f"------x17\r\nContent-Disposition: {disposition}\r\n\r\nd\r\n------x17--".encode()
    assert read(body)[0] == FileStart(name=name, filename=filename, content_type="")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"no boundary at all", SDK_FORM[:-10], SDK_FORM[:60], b"------x17",
        b"------x17\r\n\r\nno disposition\r\n------x17--",
        b"------x17\r\nContent-Disposition: form-data\r\n\r\nno name\r\n------x17--",
        b"------x17\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n\r\n------x17--",
        b"------x17garbage\r\n\r\n------x17--",
        b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n------x17--',
    ],
)
def test_malformed_forms_are_the_clients_fault(body):
    with pytest.raises(ClientProtocolError):
        read(body)
    with pytest.raises(ClientProtocolError):
        read(body, *range(1, len(body)))


@pytest.mark.parametrize(
    ("body", "caps"),
    [
        (b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"v" * 200, {"max_field_bytes": 50}),
        (b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"v" * 51 + b"\r\n------x17--", {"max_field_bytes": 50}),
        (b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"v" * 200, {"max_header_bytes": 20}),
        (b"x" * 500, {"max_header_bytes": 100}),
        (b"------x17" + b" " * 500, {}),
        (b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\nv\r\n' * 4, {"max_parts": 3}),
        (
            (b'------x17\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"v" * 50 + b"\r\n") * 6,
            {"max_field_bytes": 50},
        ),
    ],
)
def test_caps(body, caps):
    with pytest.raises(TooLarge):
        read(body, **caps)
    with pytest.raises(TooLarge):
        read(body, *range(1, len(body)), **caps)


def test_a_file_is_passed_on_while_it_comes():
    decoder = MultipartDecoder(B)
    head, tail = encode_form([], file_name="a", file_content_type="audio/wav", boundary=B)
    decoder.feed(head)
    for _ in range(100):
        assert decoder.feed(b"z" * 65_536)[0] == FileData(data=b"z" * 65_536)
    assert decoder.feed(tail) == []
    decoder.end()
    assert decoder.feed(b"epilogue") == []


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=abc", b"abc"),
        (b'Multipart/Form-Data;charset=utf-8; BOUNDARY="a b:c"', b"a b:c"),
        (b"multipart/form-data; boundary=abc; x=y", b"abc"),
    ],
)
def test_boundary_of(content_type, boundary):
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type",
    [b"", b"application/json", b"multipart/form-data", b"multipart/mixed; boundary=a", b"multipart/form-data; boundary=" + b"x" * 201],
)
def test_no_boundary(content_type):
    with pytest.raises(ClientProtocolError):
        boundary_of(content_type)


def test_a_header_cannot_be_injected_through_names():
    head, _ = encode_form(
        [('a"\r\nX: y', "v")], file_name='e\\v"il\r\n.wav', file_content_type="audio/wav\r\nX: y", boundary=B
    )
    assert b"\nX:" not in head
    assert b'name="a%22%0D%0AX: y"' in head
    assert b'filename="e_v%22il%0D%0A.wav"' in head


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAME = st.text(st.characters(codec="utf-8", exclude_characters="\\%"), max_size=12)


@given(
    fields=st.lists(st.tuples(NAME, TEXT), max_size=4),
    file_name=NAME,
    data=st.lists(st.sampled_from([b"\r", b"\n", b"-", b"--", b"\r\n--", b"\r\n------x1", b"7", b"abc"]), max_size=20).map(b"".join),
    cuts=st.lists(st.integers(0, 600), max_size=6),
)
def test_encoding_and_decoding_round_trip(fields, file_name, data, cuts):
    boundary = b"q" * 40
    head, tail = encode_form(fields, file_name=file_name, file_content_type="audio/wav", boundary=boundary)
    body = head + data + tail
    parts = read(body, *sorted(min(cut, len(body)) for cut in cuts), boundary=boundary)
    assert parts[: len(fields)] == [Field(name=name, value=value) for name, value in fields]
    start, *content = parts[len(fields) :]
    assert start == FileStart(name="file", filename=file_name, content_type="audio/wav")
    assert content == [*([FileData(data=data)] if data else [])]


@pytest.mark.parametrize("size", [0, 1, 300, 70_000])
def test_what_is_left_of_the_body_says_how_long_a_file_is_that_ends_it(size):
    head, tail = encode_form([("model", "m")], file_name="a.wav", file_content_type="audio/wav", boundary=B)
    body, closing = head + b"x" * size + tail, len(b"\r\n--" + B + b"--\r\n")
    for cut in range(len(head), len(head) + size + 1, max(1, size // 50)):
        decoder = MultipartDecoder(B)
        received = sum(len(part.data) for part in decoder.feed(body[:cut]) if isinstance(part, FileData))
        assert decoder.held_of_file is not None
        assert received + decoder.held_of_file + len(body) - cut - closing == size
    decoder.feed(body[cut:])
    assert decoder.held_of_file is None
