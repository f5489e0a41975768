"""Calls over the Wyoming protocol, to a server on a bare connection or to a local engine. Not itself a provider.

One connection, or one request to an engine, per call. Nothing is billed, so no usage is reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Final, Protocol

import trio

from gw import errors
from gw.codecs.compressed import converter, needs_library
from gw.net.transport import LOST, Transport
from gw.net.unreachable import unreachable
from gw.providers.background import background
from gw.providers.recording_call import closing_chunks
from gw.providers.spec import Account, rejected
from gw.providers.speech_call import headed
from gw.types import stt
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat
from gw.types.stt import AudioSource, TranscribeEvent, TranscribeRequest, Transcript, Word
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import wav, wyoming
from gw.wire.bounds import seconds
from gw.wire.convert import CannotConvert, Converter
from gw.wire.wyoming import Message

CONNECT_S: Final = 5.0
_READ_BYTES: Final = 65_536
_REQUEST_CODES = frozenset({"request", "voice", "language"})
"""Codes of an error that is about the request: another candidate may be able to serve it."""


class Peer(Protocol):
    """The other side: a server, or an engine."""

    async def send(self, *messages: Message) -> None:
        """Raises ProviderError."""

    async def receive(self) -> Message:
        """Raises ProviderError, also past the last message."""


class ServerPeer:
    """A Wyoming server at the other end of a connection."""

    def __init__(self, transport: Transport, provider: str) -> None:
        self._transport = transport
        self._provider = provider
        self._decoder = wyoming.WyomingDecoder(lambda detail: errors.UpstreamProtocolError(provider=provider, detail=detail))
        self._received: list[Message] = []

    async def send(self, *messages: Message) -> None:
        try:
            await self._transport.send_all(b"".join(map(wyoming.encode, messages)))
        except LOST:
            raise errors.UpstreamCut(provider=self._provider, detail="the connection was lost") from None

    async def receive(self) -> Message:
        while not self._received:
            try:
                data = await self._transport.receive_some()
            except LOST:
                data = b""
            if not data:
                raise errors.UpstreamCut(provider=self._provider, detail="the connection ended before the answer did")
            self._received = self._decoder.feed(bytes(data))
        return self._received.pop(0)


@asynccontextmanager
async def server(account: Account) -> AsyncIterator[Peer]:
    """Connect to the server at the account's address; the connection is closed on exit."""
    provider = account.provider_id
    try:
        with trio.move_on_after(CONNECT_S) as scope:
            transport = await account.pool.connect(account.origin)
    except LOST as error:
        raise unreachable(provider, error) from error
    if scope.cancelled_caught:
        raise errors.ProviderUnreachable(provider=provider, detail=f"no connection within {CONNECT_S:g} s", cause="timeout")
    try:
        yield ServerPeer(transport, provider)
    finally:
        transport.abort()


async def describe_peer(account: Account) -> wyoming.Info:
    """Return what the server offers: the health check. Raises ProviderError."""
    async with server(account) as peer:
        await peer.send(wyoming.Describe())
        while True:
            message = await peer.receive()
            if isinstance(message, wyoming.Info):
                return message


# ---- speech to text


@asynccontextmanager
async def transcribe(
    connection: AbstractAsyncContextManager[Peer], request: TranscribeRequest, account: Account, opening: wyoming.Transcribe
) -> AsyncIterator[WyomingTranscript]:
    """Send the recording as 16 kHz samples, then read. Raises ProviderError."""
    async with connection as peer:
        await peer.send(opening, wyoming.AudioStart(rate=PCM_16K.sample_rate_hz))
        async with aclosing(samples_of(request, account)) as pieces:
            async for data in pieces:
                await peer.send(wyoming.AudioPiece(rate=PCM_16K.sample_rate_hz, audio=data))
        await peer.send(wyoming.AudioStop())
        yield WyomingTranscript(peer, account.provider_id, request.stream)


@asynccontextmanager
async def transcribe_pieces(
    connection: AbstractAsyncContextManager[Peer], pieces: AsyncGenerator[bytes, None],
    account: Account, opening: wyoming.Transcribe,
) -> AsyncIterator[WyomingTranscript]:
    """Send 16 kHz samples as they come, and read meanwhile. Raises ProviderError."""
    async with connection as peer:
        await peer.send(opening, wyoming.AudioStart(rate=PCM_16K.sample_rate_hz))
        async with background(_send_pieces, peer, pieces):
            yield WyomingTranscript(peer, account.provider_id, True)


async def _send_pieces(peer: Peer, pieces: AsyncGenerator[bytes, None]) -> None:
    """Send all samples. A lost connection is ignored here: the reading task raises it."""
    with suppress(errors.ProviderError):
        async with aclosing(pieces):
            async for data in pieces:
                for piece in _cut(data):
                    await peer.send(wyoming.AudioPiece(rate=PCM_16K.sample_rate_hz, audio=piece))
        await peer.send(wyoming.AudioStop())


class WyomingTranscript:
    """A `TranscribeStream`."""

    def __init__(self, peer: Peer, provider: str, streamed: bool) -> None:
        self._peer = peer
        self._provider = provider
        self._streamed = streamed

    async def receive(self) -> list[TranscribeEvent]:
        while True:
            match await self._peer.receive():
                case wyoming.TranscriptPiece(text=text):
                    if self._streamed and text:
                        return [stt.TextDelta(text=text)]
                case wyoming.FinalTranscript() as transcript:
                    return [_transcript(transcript)]
                case wyoming.ErrorMessage() as failed:
                    raise _failure(self._provider, failed)


def _transcript(message: wyoming.FinalTranscript) -> Transcript:
    segments = tuple(
        stt.Final(text=s.text, start_s=s.start, end_s=s.end, words=_words(s.words)) for s in message.segments
    )
    return Transcript(
        text=message.text.strip(), language=message.language, duration_s=seconds(message.duration), segments=segments,
        words=tuple(word for segment in segments for word in segment.words),
    )


def _words(words: tuple[wyoming.TimedWord, ...]) -> tuple[Word, ...]:
    return tuple(Word(text=w.word.strip(), start_s=w.start, end_s=w.end, confidence=w.probability) for w in words)


async def samples_of(request: TranscribeRequest, account: Account) -> AsyncGenerator[bytes, None]:
    """Yield the recording as 16-bit samples at 16 kHz, mono. Raises ProviderRejected if it cannot be converted."""
    samples: _Samples | None = None
    chunks = request.audio.chunks()
    async with closing_chunks(chunks):
        async for data in chunks:
            if samples is None:
                samples = _Samples(_format_of(request.audio, request.format, data), account)
            for piece in _cut(await samples.convert(data)):
                yield piece  # noqa: ASYNC119  its caller closes this generator
    if samples is not None:
        for piece in _cut(await samples.convert(None)):
            yield piece


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES))


class _Samples:
    """The samples of one recording. Slow conversions run in a thread, so that other clients' audio does not wait."""

    def __init__(self, source: AudioFormat, account: Account) -> None:
        self._source = source
        self._account = account
        self._in_thread = needs_library(source, PCM_16K) or source.sample_rate_hz != PCM_16K.sample_rate_hz
        self._converter: Converter | None = None

    async def convert(self, data: bytes | None) -> bytes:
        """Return the samples of `data`, or of what is left for None. Raises ProviderRejected."""
        try:
            if self._in_thread:
                return await trio.to_thread.run_sync(self._convert, data)
            return self._convert(data)
        except CannotConvert as error:
            raise rejected(self._account, str(error)) from None

    def _convert(self, data: bytes | None) -> bytes:
        if self._converter is None:
            self._converter = converter(self._source, PCM_16K)
            assert self._converter is not None  # the source is never bare samples
        return self._converter.end() if data is None else self._converter.feed(data)


def _format_of(audio: AudioSource, declared: AudioFormat | None, head: bytes) -> AudioFormat:
    """Return the format by the first bytes, else the declared one.

    Samples without a header are read as a WAV whose header is missing.
    """
    detected, _ = wav.sniff(head[:4_096], audio.size, audio.content_type)
    fmt = detected or declared or AudioFormat(encoding="unknown")
    if fmt.encoding == "pcm_s16le":
        return AudioFormat(encoding="wav", sample_rate_hz=fmt.sample_rate_hz, channels=fmt.channels)
    return fmt


# ---- text to speech


@asynccontextmanager
async def speak(
    connection: AbstractAsyncContextManager[Peer], request: SpeakRequest, account: Account, voice: str, speed: float | None
) -> AsyncIterator[WyomingSpeech]:
    """Raises ProviderError."""
    refuse_empty(request, account)
    async with connection as peer:
        named = wyoming.Voice(name=voice or None, language=request.language if not voice else None)
        await peer.send(wyoming.Synthesize(text=request.text, voice=named, speed=speed))
        yield WyomingSpeech(peer, account.provider_id, request.format)


def refuse_empty(request: SpeakRequest, account: Account) -> None:
    """Raise ProviderRejected for an empty text: an engine does not answer one."""
    if not request.text.strip():
        raise rejected(account, "the text is empty", fault="caller")


class WyomingSpeech:
    """A `SpeakStream` of samples, or of a WAV without a length."""

    def __init__(self, peer: Peer, provider: str, fmt: AudioFormat) -> None:
        self.format = PCM_24K
        self._peer = peer
        self._provider = provider
        self._requested = fmt
        self._started = self._has_audio = False

    async def receive(self) -> list[SpeakEvent]:
        while True:
            match await self._peer.receive():
                case wyoming.AudioStart() as start if not self._started:
                    if header := self._start(start.format):
                        return [AudioChunk(data=header)]
                case wyoming.AudioPiece(audio=data) as piece if data:
                    header = b"" if self._started else self._start(wyoming.AudioStart(rate=piece.rate).format)
                    self._has_audio = True
                    return [AudioChunk(data=header + data)]
                case wyoming.AudioStop():
                    if not self._has_audio:
                        raise errors.UpstreamProtocolError(provider=self._provider, detail="empty answer")
                    return [SpeakEnd()]
                case wyoming.ErrorMessage() as failed:
                    raise _failure(self._provider, failed)

    def _start(self, fmt: AudioFormat) -> bytes:
        """Set the format; return the header if a WAV is wanted."""
        self._started = True
        self.format, header = headed(self._requested, fmt)
        return header


def _failure(provider: str, failed: wyoming.ErrorMessage) -> errors.ProviderRejected | errors.ProviderFailed:
    """Return the error for the server's. Only its code is used: its text may quote the request."""
    code = (failed.code or "")[:64]
    if code in _REQUEST_CODES:
        return errors.ProviderRejected(
            provider=provider, upstream_status=400, upstream_code=code, fault="candidate", detail=f"refused: {code}"
        )
    return errors.ProviderFailed(provider=provider, upstream_status=500, upstream_code=code, detail="the server reported an error")
