"""Recordings over HTTP, for every dialect: sent in a form, with one transcript as the answer. Not itself a provider."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial

from gw.net.http1 import Headers, HttpResponse
from gw.providers.http_call import Classify, HttpCall
from gw.providers.spec import Account
from gw.types.audio import PCM_16K
from gw.types.stt import AudioSource, TranscribeEvent
from gw.wire import multipart, wav

TRANSCRIPT_LIMIT = 25 * 1024 * 1024  # bytes of an answer with a transcript


class WavRecording:
    """16 kHz mono samples as an `AudioSource`: a WAV in memory."""

    content_type = "audio/wav"

    def __init__(self, samples: bytes, filename: str = "audio.wav") -> None:
        self._data = wav.header(PCM_16K, len(samples)) + samples
        self.size = len(self._data)
        self.filename = filename

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._data


def closing_chunks(pieces: AsyncIterator[bytes]) -> AbstractAsyncContextManager[object]:
    """Return a context that closes the chunks of an `AudioSource` if they are generated."""
    return aclosing(pieces) if isinstance(pieces, AsyncGenerator) else nullcontext()


class FormBody:
    """A multipart form around an audio source: read in pieces, its length known beforehand."""

    def __init__(self, head: bytes, audio: AudioSource, tail: bytes) -> None:
        self._head = head
        self._audio = audio
        self._tail = tail
        self.size = len(head) + audio.size + len(tail)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._head
        pieces = self._audio.chunks()
        async with closing_chunks(pieces):   # sending may stop early
            async for piece in pieces:
                yield piece  # noqa: ASYNC119  the pool closes this generator
        yield self._tail


def form(
    fields: Iterable[tuple[str, str]], audio: AudioSource | None, defaults: tuple[str, str] = ("", ""), *, file_field: str = "file"
) -> tuple[tuple[bytes, bytes], FormBody | bytes]:
    """Return the `Content-Type` header and the body of a multipart form with `fields` and the recording, if there is one.

    `defaults`: file name and content type of a recording that has none.
    """
    boundary = b"gw-" + secrets.token_hex(16).encode()
    if audio is None:
        body = multipart.encode_fields(fields, boundary=boundary)
        return (b"content-type", b"multipart/form-data; boundary=" + boundary), body
    name, content_type = audio.filename or defaults[0], audio.content_type or defaults[1]
    head, tail = multipart.encode_form(fields, file_name=name, file_content_type=content_type, boundary=boundary, file_field=file_field)
    return (b"content-type", b"multipart/form-data; boundary=" + boundary), FormBody(head, audio, tail)


class WholeTranscript:
    """A `TranscribeStream` of one event: the body, decoded by `decode`."""

    def __init__(self, response: HttpResponse, decode: Callable[[bytes], TranscribeEvent]) -> None:
        self._response = response
        self._decode = decode

    async def receive(self) -> list[TranscribeEvent]:
        return [self._decode(await self._response.read(TRANSCRIPT_LIMIT))]


def form_call(
    account: Account, path: bytes, headers: Headers, fields: Iterable[tuple[str, str]], audio: AudioSource | None,
    classify: Classify, decode: Callable[[bytes], TranscribeEvent], defaults: tuple[str, str] = ("", ""),
    *, file_field: str = "file",
) -> HttpCall[WholeTranscript]:  # fmt: skip
    """Send a form, with the recording if there is one; the answer is one transcript."""
    content_type, body = form(fields, audio, defaults, file_field=file_field)
    return HttpCall(account, path, [content_type, *headers], body, classify, partial(WholeTranscript, decode=decode))
