"""Live speech from a provider that speaks complete texts only: a sentence at a time. Not itself a provider.

Text is collected until a sentence is complete, or a flush or the end asks for the remainder. The receiving task does all the
work: it requests a sentence after it has returned the one before. So an interruption leaves nothing behind but the sentence
being made, and that is abandoned.

    idle ──sentence from the queue──▶ opening ──▶ speaking ──SpeakEnd──▶ idle
                                         └──── interruption ────┴──▶ closing ──▶ idle
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final, Literal, TypeAlias

import trio

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.providers.spec import Account, SpeakCall, SpeakLiveCall, SpeakSession, SpeakStream
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage, total_usage
from gw.wire.convert import CannotConvert, Converter, converter
from gw.wire.sentences import sentences

QUEUE: Final = 64
"""Sentences not yet spoken: minutes of speech. When full, the sender waits."""
_FLUSH: Literal[0] = 0
_Item: TypeAlias = str | Literal[0]
"""A sentence to speak, or `_FLUSH`."""


def by_sentence(call: SpeakCall, characters_of: Callable[[SpeakRequest], int] | None = None) -> SpeakLiveCall:
    """Make a `speak_live` of `call`. Its request is for raw samples; another rate of the provider is converted.

    `characters_of`: returns the characters that the vendor bills for a sentence, where they are not those of its text.
    """

    @asynccontextmanager
    async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
        async with aclosing(_SentenceSession(call, request, account, characters_of)) as session:
            yield session

    return speak_live


class _SentenceSession:
    """A `SpeakSession`."""

    def __init__(
        self, call: SpeakCall, request: SpeakLiveRequest, account: Account, characters_of: Callable[[SpeakRequest], int] | None
    ) -> None:
        self.format = request.format
        self._call = call
        self._characters_of = characters_of
        self._billed_characters = 0
        self._reported: list[Usage] | None = []
        """Tokens that the vendor reports, by sentence; None once they are not known of one that began."""
        self._request = request
        self._account = account
        self._text = ""  # incomplete sentence
        self._interruptions = 0
        self._to_queue, self._queued = trio.open_memory_channel[tuple[int, _Item]](QUEUE)
        """Each item with the number of interruptions before it."""
        self._opening: AbstractAsyncContextManager[SpeakStream] | None = None  # call of the current sentence
        self._stream: SpeakStream | None = None
        self._started_at = 0  # interruptions before the current sentence
        self._converter: Converter | None = None
        self._format_known = False
        self._waiting = trio.CancelScope()  # scope around every wait for the current sentence

    # ---- the sending task

    async def send_text(self, text: str) -> None:
        *complete, self._text = sentences(self._text + text)
        for sentence in complete:
            await self._enqueue(sentence)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def flush(self) -> None:
        await self._enqueue_remainder()
        await self._enqueue(_FLUSH)

    async def clear(self) -> None:
        self._text = ""
        self._interruptions += 1
        self._waiting.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def finish(self) -> None:
        await self._enqueue_remainder()
        self._to_queue.close()

    async def _enqueue_remainder(self) -> None:
        text, self._text = self._text, ""
        await self._enqueue(text)

    async def _enqueue(self, item: _Item) -> None:
        if item == _FLUSH or (isinstance(item, str) and item.strip()):
            try:
                await self._to_queue.send((self._interruptions, item))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise self._cut("the session has ended") from None

    # ---- the receiving task

    async def receive(self) -> list[SpeakEvent]:
        """Raises what the provider raises."""
        while True:
            if self._opening is not None and self._started_at != self._interruptions:
                self._note(None)
                await self.aclose()
            if self._opening is None:
                try:
                    interruptions, item = await self._queued.receive()
                except trio.EndOfChannel:
                    self._queued.close()
                    return [SpeakEnd(usage=self._usage())]
                except trio.ClosedResourceError:
                    raise self._cut("read past the end of the session") from None
                if interruptions != self._interruptions:
                    continue
                if item == _FLUSH:
                    return [Flushed()]
                assert isinstance(item, str)
                self._start(item)
            self._waiting = trio.CancelScope()
            with self._waiting:
                if events := await self._next():
                    return events

    def _usage(self) -> Usage | None:
        if self._reported:
            return total_usage(self._reported, "vendor")
        return None if self._characters_of is None else Usage(characters=self._billed_characters, source="measured")

    def _note(self, usage: Usage | None) -> None:
        """Note what the vendor reports of a sentence, None of one that did not come to its end. Characters are counted anyway."""
        if self._reported is not None:
            self._reported = [*self._reported, usage] if usage is not None and usage.output_tokens else None

    def _start(self, text: str) -> None:
        live = self._request
        request = SpeakRequest(
            model=live.model, text=text, voice=live.voice, format=self.format,
            speed=live.speed, language=live.language, dialect=live.dialect,
        )
        self._opening = self._call(request, self._account)
        if self._characters_of is not None:
            self._billed_characters += self._characters_of(request)
        self._started_at = self._interruptions
        self._converter, self._format_known = None, False

    async def _next(self) -> list[SpeakEvent]:
        """Return audio of the current sentence; [] for a piece without audio, or at the end of the sentence."""
        if self._stream is None:
            assert self._opening is not None
            try:
                self._stream = await self._opening.__aenter__()
            except BaseException:
                self._opening = None
                raise
        events: list[SpeakEvent] = []
        for event in await self._stream.receive():
            data = b""
            if isinstance(event, AudioChunk):
                data = self._convert(event.data)
            elif isinstance(event, SpeakEnd):
                data = self._converter.end() if self._converter is not None else b""
                self._note(event.usage)
                await self.aclose()
            if data:
                events.append(AudioChunk(data=data))
        return events

    def _convert(self, data: bytes) -> bytes:
        if not self._format_known:
            assert self._stream is not None
            self._format_known = True
            try:
                self._converter = converter(self._stream.format, self.format)
            except CannotConvert as error:
                raise UpstreamProtocolError(provider=self._account.provider_id, detail=str(error)) from None
        return self._converter.feed(data) if self._converter is not None else data

    def _cut(self, detail: str) -> UpstreamCut:
        return UpstreamCut(provider=self._account.provider_id, detail=detail)

    async def aclose(self) -> None:
        """Abandon the current sentence."""
        opening, self._opening = self._opening, None
        stream, self._stream = self._stream, None
        if opening is not None and stream is not None:
            await opening.__aexit__(None, None, None)
