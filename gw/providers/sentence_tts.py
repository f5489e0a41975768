"""Live speech from a provider that speaks whole texts only: a sentence at a time. Not itself a provider.

Text is held until a sentence is complete, or a flush or the end asks for the rest. Everything is done by whoever receives: a
sentence is asked for when the one before it has been passed on. So an interruption leaves nothing behind but what is being
made, and that is given up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, TypeAlias

import trio

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.providers.spec import Account, SpeakCall, SpeakSession, SpeakStream
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire.convert import CannotConvert, Converter, converter
from gw.wire.sentences import sentences

ORDERS: Final = 64
"""Sentences not yet spoken: minutes of speech. Then the sender waits."""
_FLUSH: Literal[0] = 0
_Order: TypeAlias = tuple[int, str | Literal[0]]
"""How often was interrupted before it, and what to do."""


@asynccontextmanager
async def by_sentence(call: SpeakCall, request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`request.format` is of raw samples; whatever rate the provider has is converted to it."""
    session = _BySentence(call, request, account)
    try:
        yield session
    finally:
        await session.close()


class _BySentence:
    def __init__(self, call: SpeakCall, request: SpeakLiveRequest, account: Account) -> None:
        self.format = request.format
        self._call = call
        self._request = request
        self._account = account
        self._text = ""
        """Not yet a sentence."""
        self._orders, self._taking = trio.open_memory_channel[_Order](ORDERS)
        self._opening: AbstractAsyncContextManager[SpeakStream] | None = None
        self._stream: SpeakStream | None = None
        self._converter: Converter | None = None
        self._decided = False
        self._interrupted = 0
        self._begun_at = 0
        """`_interrupted` when the sentence at hand was begun."""
        self._waiting = trio.CancelScope()
        """Around what is waited for on behalf of that sentence."""

    # ------------------------------------------------------------------ the sender's task

    async def send_text(self, text: str) -> None:
        *whole, self._text = sentences(self._text + text)
        for sentence in whole:
            await self._order(sentence)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def flush(self) -> None:
        await self._order_rest()
        await self._order(_FLUSH)

    async def clear(self) -> None:
        self._text = ""
        self._interrupted += 1
        self._waiting.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def send_frame(self, frame: str) -> None:
        raise AssertionError("there is no dialect of live speech that a caller could speak")

    async def finish(self) -> None:
        await self._order_rest()
        self._orders.close()

    async def _order_rest(self) -> None:
        rest, self._text = self._text, ""
        await self._order(rest)

    async def _order(self, what: str | Literal[0]) -> None:
        if what == _FLUSH or (isinstance(what, str) and what.strip()):
            try:
                await self._orders.send((self._interrupted, what))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise UpstreamCut(provider=self._account.provider_id, detail="the session has ended") from None

    # ------------------------------------------------------------------ the receiver's task

    async def receive(self) -> list[SpeakEvent]:
        """Raises what the provider raises."""
        while True:
            if self._opening is not None and self._begun_at != self._interrupted:
                await self.close()
            if self._opening is None:
                try:
                    at, what = await self._taking.receive()
                except trio.EndOfChannel:
                    self._taking.close()
                    return [SpeakEnd()]
                except trio.ClosedResourceError:
                    detail = "read past the end of the session"
                    raise UpstreamCut(provider=self._account.provider_id, detail=detail) from None
                if at != self._interrupted:
                    continue
                if what == _FLUSH:
                    return [Flushed()]
                assert isinstance(what, str)
                self._begin(what)
            self._waiting = trio.CancelScope()
            with self._waiting:
                if events := await self._next():
                    return events

    def _begin(self, text: str) -> None:
        asked = self._request
        request = SpeakRequest(
            model=asked.model,
            text=text,
            voice=asked.voice,
            format=self.format,
            speed=asked.speed,
            language=asked.language,
            dialect=asked.dialect,
        )
        self._opening = self._call(request, self._account)
        self._begun_at = self._interrupted
        self._converter, self._decided = None, False

    async def _next(self) -> list[SpeakEvent]:
        """Sound of the sentence at hand; empty where there is none in this piece, or the sentence has ended."""
        if self._stream is None:
            assert self._opening is not None
            try:
                self._stream = await self._opening.__aenter__()
            except BaseException:
                self._opening = None
                raise
        made: list[SpeakEvent] = []
        for event in await self._stream.receive():
            data = b""
            if isinstance(event, AudioChunk):
                data = self._converted(event.data)
            elif isinstance(event, SpeakEnd):
                data = self._converter.end() if self._converter is not None else b""
                await self.close()
            if data:
                made.append(AudioChunk(data=data))
        return made

    def _converted(self, data: bytes) -> bytes:
        if not self._decided:
            assert self._stream is not None
            self._decided = True
            try:
                self._converter = converter(self._stream.format, self.format)
            except CannotConvert as error:
                raise UpstreamProtocolError(provider=self._account.provider_id, detail=str(error)) from None
        return self._converter.feed(data) if self._converter is not None else data

    async def close(self) -> None:
        """Give up the sentence at hand."""
        opening, self._opening = self._opening, None
        stream, self._stream = self._stream, None
        if opening is not None and stream is not None:
            await opening.__aexit__(None, None, None)
