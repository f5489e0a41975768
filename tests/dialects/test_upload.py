from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gw.dialects.upload import FormReader, Upload
from gw.errors import ClientProtocolError, StoreUnavailable
from gw.relay.in_flight import UploadMemory
from gw.types.audio import PCM_16K, AudioFormat
from gw.wire import wav
from gw.wire.multipart import encode_form

BOUNDARY = b"x-boundary"


def form(fields, audio: bytes, *, file_first: bool = False) -> bytes:
    head, tail = encode_form(fields, file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY)
    if not file_first:
        return head + audio + tail
    file_head, _ = encode_form([], file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY)
    fields_head, _ = encode_form(fields, file_name="z", file_content_type="x/y", boundary=BOUNDARY)
    only_fields = fields_head[: fields_head.rindex(b"--" + BOUNDARY)]
    return file_head + audio + b"\r\n" + only_fields + b"--" + BOUNDARY + b"--\r\n"


async def read(reader: FormReader) -> None:
    while await reader.read():
        pass


@asynccontextmanager
async def upload_of(
    body: bytes, *, piece: int = 10_000, content_type: bytes | None = None, memory: UploadMemory | None = None
) -> AsyncIterator[Upload]:
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)] or [b""]

    async def receive():
        data = pieces.pop(0)
        return {"type": "http.request", "body": data, "more_body": bool(pieces)}

    scope = {"headers": [(b"content-type", content_type or b"multipart/form-data; boundary=" + BOUNDARY)]}
    async with Upload(memory) as upload:
        await read(FormReader(scope, receive, upload))
        yield upload


async def complete(upload: Upload) -> bytes:
    return b"".join([piece async for piece in upload.chunks()])


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
@pytest.mark.parametrize("file_first", [False, True])
async def test_the_audio_can_be_read_twice_whatever_its_size_and_place(size, file_first):
    audio = bytes(i % 251 for i in range(size))
    body = form([("model", "sim/tone"), ("language", "en")], audio, file_first=file_first)
    async with upload_of(body, piece=65_536) as upload:
        assert upload.fields == [("model", "sim/tone"), ("language", "en")]
        assert (upload.filename, upload.content_type, upload.size) == ("a.wav", "audio/wav", size)
        assert await complete(upload) == audio
        assert await complete(upload) == audio


@pytest.mark.parametrize("seconds", [0.02, 90])
async def test_the_length_is_measured_while_it_arrives(seconds):
    samples = bytes(int(seconds * 32_000))
    audio = wav.header(PCM_16K, None) + samples
    async with upload_of(form([], audio), piece=65_536) as upload:
        assert upload.format == AudioFormat(encoding="wav", sample_rate_hz=16_000)
        assert upload.audio_seconds == pytest.approx(seconds)


async def test_an_upload_that_does_not_tell_has_no_length():
    async with upload_of(form([], b"what is this")) as upload:
        assert (upload.format, upload.audio_seconds) == (None, 0.0)


async def in_file(upload: Upload) -> int:
    return 0 if upload._file is None else os.fstat(upload._file.fileno()).st_size


async def test_more_than_a_megabyte_goes_to_a_file_in_large_pieces():
    async with upload_of(form([], b"x" * 3_000_000), piece=65_536) as upload:
        assert await in_file(upload) > 2_000_000
        assert [len(piece) async for piece in upload.chunks()][:2] == [1_048_576, 1_048_576]


async def test_uploads_share_memory_while_there_is_some():
    memory = UploadMemory(5_000_000)
    async with upload_of(form([], b"x" * 3_000_000), piece=65_536, memory=memory) as first:
        assert (await in_file(first), memory.taken) == (0, 3_000_000)
        async with upload_of(form([], b"y" * 3_000_000), piece=65_536, memory=memory) as second:
            assert await in_file(second) > 2_000_000  # not even the megabytes that it had taken before
            assert memory.taken == 3_000_000
            assert await complete(second) == b"y" * 3_000_000
        assert await complete(first) == b"x" * 3_000_000
    assert memory.taken == 0


async def test_small_pieces_are_joined_before_they_are_sent_on():
    async with upload_of(form([], bytes(200_000)), piece=1_000) as upload:
        sizes = [len(piece) async for piece in upload.chunks()]
    assert sum(sizes) == 200_000
    assert min(sizes[:-1]) >= 32_768


async def test_a_disk_that_is_full_is_no_fault_of_the_caller(monkeypatch):
    def no_space(*_: object, **__: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    with pytest.raises(StoreUnavailable, match="No space left"):
        async with upload_of(form([], b"x" * 3_000_000), piece=65_536):
            raise AssertionError("it was kept")


@pytest.mark.parametrize(
    ("body", "kw"),
    [
        (b"{}", {"content_type": b"application/json"}),
        (b"no boundary in here", {}),
        (form([("model", "m")], b"abc")[:-10], {}),
    ],
)
async def test_bad_uploads_are_typed_errors(body, kw):
    with pytest.raises(ClientProtocolError):
        async with upload_of(body, **kw):
            raise AssertionError("it was taken")


async def test_a_client_that_leaves_is_an_oserror():
    async def receive():
        return {"type": "http.disconnect"}

    async with Upload() as upload:
        with pytest.raises(OSError, match="left"):
            await read(FormReader({"headers": [(b"content-type", b"multipart/form-data; boundary=x")]}, receive, upload))
