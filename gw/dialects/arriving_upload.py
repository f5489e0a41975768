"""Requests to transcribe an upload that are answered while it still arrives: the vendor gets its first byte with ours.

    state       begins with                                      ends with
    ─────────   ──────────────────────────────────────────────   ───────────────────────────────────────────────────────
    reading     the request                                      the last byte → complete; the model, the format and the size
                                                                 of the file are known and nothing will follow it → passing on
    passing on  the candidates are called with what has come     the last byte, as expected → complete; a field after the
                                                                 file, another size → complete, and the candidate that got
                                                                 a part of it is called again

What will follow a file is not known from the form itself. Of a body that is the audio nothing can follow. A form is passed on if
what comes before its file makes a request, except for a caller whose last large form did not end with its file: OpenAI's, Groq's
and ElevenLabs' Python SDKs (httpx) write the fields first, while their JavaScript SDKs keep the order in which the program names them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs
import trio

from gw.dialects.exchange import HttpExchange
from gw.dialects.request_io import cancels, header
from gw.dialects.upload import AudioReader, FormReader, Upload, UploadReader
from gw.errors import ClientProtocolError, one_error
from gw.types.stt import TranscribeRequest, WhenReceived
from gw.wire.durations import PREFIX_BYTES

_LEAST_BYTES: Final = 65_536
"""Least rest of a body for which a task of its own is worth its price: smaller ones come with the next read."""
_AGENT_BYTES: Final = 200

Parse = Callable[[], TranscribeRequest]


class ReceivedRequest:
    """The request of an upload; while the upload arrives it changes once, at its end, as then its length is known."""

    def __init__(self, request: TranscribeRequest) -> None:
        self.request = request
        self.as_parsed = request
        """The request as it was parsed when it was first known."""
        self._when_received: list[WhenReceived] = []

    def call_when_received(self, callback: WhenReceived) -> None:
        self._when_received.append(callback)

    def complete(self, request: TranscribeRequest, *, as_expected: bool) -> None:
        self.request = request
        for callback in self._when_received:
            callback(request, as_expected=as_expected)


@asynccontextmanager
async def receive_form(
    exchange: HttpExchange, upload: Upload, parse: Parse, urls: Collection[str] = ()
) -> AsyncIterator[ReceivedRequest]:
    """Fill `upload` from a form with a file, or with one of the fields `urls` instead, but not with both.

    Entering and leaving raise what `parse` raises, ClientProtocolError, TooLarge, or OSError when the client leaves.
    """
    order, caller = exchange.gateway.form_order, _writer_of(exchange)

    def parse_form() -> TranscribeRequest:
        _check(upload, urls)
        return parse()

    reader = FormReader(exchange.scope, exchange.receive, upload)
    note = partial(order.note, caller)
    async with _received(exchange, reader, parse_form, lambda: order.is_file_last(caller), note) as received:
        yield received


@asynccontextmanager
async def receive_audio(exchange: HttpExchange, upload: Upload, parse: Parse) -> AsyncIterator[ReceivedRequest]:
    """Fill `upload` from a body that is the audio itself. Raises like `receive_form`."""

    def parse_audio() -> TranscribeRequest:
        if not upload.size:
            raise ClientProtocolError(what="the body has no audio")
        return parse()

    reader = AudioReader(exchange.scope, exchange.receive, upload)
    async with _received(exchange, reader, parse_audio, lambda: True, lambda *, file_is_last: None) as received:
        yield received


@asynccontextmanager
async def _received(
    exchange: HttpExchange, reader: UploadReader, parse: Parse, nothing_follows: Callable[[], bool], note: Callable[..., None]
) -> AsyncIterator[ReceivedRequest]:
    """Read until the request is known. `note` is called with `file_is_last` at the end of a body that came in several pieces."""
    size: int | None = None
    arriving: ReceivedRequest | None = None
    is_undecided = True
    while arriving is None and await reader.read():
        size = reader.file_size if size is None else size
        if size is not None and is_undecided and not reader.more_arrived and _is_worth_it(exchange, reader):
            is_undecided = False
            arriving = _passed_on(reader.upload, size, parse) if nothing_follows() else None
    if arriving is None:
        if size is not None:
            note(file_is_last=size == reader.upload.received)
        yield ReceivedRequest(parse())
        return
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive_rest, reader, parse, arriving, note)
            yield arriving
            nursery.cancel_scope.cancel()


def _is_worth_it(exchange: HttpExchange, reader: UploadReader) -> bool:
    """Return whether much is still to come, the beginning shows the format, and our own host notices when the client leaves."""
    return reader.bytes_left >= _LEAST_BYTES and reader.upload.received >= PREFIX_BYTES and cancels(exchange.scope)


def _passed_on(upload: Upload, size: int, parse: Parse) -> ReceivedRequest | None:
    """Return the request of an upload that arrives; None where its answer is a stream, which must not begin before its end.

    None also where what came before the file is no request yet, as the model or another field follows it.
    """
    upload.expect(size)
    try:
        request = parse()
    except ClientProtocolError:
        request = None
    if request is None or not request.model or request.stream:
        upload.stop_expecting()
        return None
    received = ReceivedRequest(request)
    received.request = attrs.evolve(request, call_when_received=received.call_when_received)
    return received


async def _receive_rest(reader: UploadReader, parse: Parse, received: ReceivedRequest, note: Callable[..., None]) -> None:
    expected = received.request
    while await reader.read():
        pass
    as_expected = reader.upload.end()
    note(file_is_last=as_expected)
    request = received.as_parsed
    if not as_expected or request.audio_seconds != reader.upload.audio_seconds:
        request = parse()
    if request.model != expected.model:
        raise ClientProtocolError(what="the form names two models: send one", param="model")
    received.complete(request, as_expected=as_expected)


def _writer_of(exchange: HttpExchange) -> Hashable:
    """Return what writes forms in one way: the program behind a key."""
    caller, agent = exchange.caller, header(exchange.scope, b"user-agent") or b""
    return caller.project, caller.key_id, exchange.scope["path"], agent[:_AGENT_BYTES]


def _check(upload: Upload, urls: Collection[str]) -> None:
    """Raise ClientProtocolError unless the form has a file, or an address of one."""
    if named := [name for name, value in upload.fields if name in urls and value not in ("", "null")]:
        if upload.has_file or len(named) > 1:
            what = f"send the recording once: as the part named 'file', or its address as {named[0]}"
            raise ClientProtocolError(what=what, param=named[0])
        return
    if not upload.has_file or not upload.size:
        raise ClientProtocolError(what="the form has no audio: send it as the part named 'file'", param="file")
