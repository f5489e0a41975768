"""Calls over the Wyoming protocol, to a server on a bare connection or to an engine of ours. Not itself a provider.

One connection, or one turn of an engine, per request. Nothing is billed, so nothing is reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Final, Protocol

import trio

from gw.codecs.compressed import converter, is_compressed
from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    ProviderUnreachable,
    UpstreamCut,
    UpstreamProtocolError,
    one_error,
)
from gw.net.tcp import LOST, UpstreamTransport, unreachable
from gw.providers.spec import Account
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat, Encoding
from gw.types.stt import AudioSource, TextDelta, TranscribeEvent, TranscribeRequest, Transcript, Word
from gw.types.stt import Final as FinalText
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import wav, wyoming
from gw.wire.bounds import seconds
from gw.wire.convert import CannotConvert, Converter
from gw.wire.wyoming import Message

CONNECT_S: Final = 5.0
_READ_BYTES: Final = 65_536
_CALLERS = frozenset({"request", "voice", "language"})
"""Codes of an error that is about the request: another candidate may do it."""


class Peer(Protocol):
    """The other side: a server, or an engine."""

    async def send(self, *messages: Message) -> None:
        """Raises ProviderError."""
        ...

    async def receive(self) -> Message:
        """Raises ProviderError, also where nothing more will come."""
        ...


class ServerPeer:
    """A Wyoming server at the other end of a connection."""

    def __init__(self, transport: UpstreamTransport, provider: str) -> None:
        self._transport = transport
        self._provider = provider
        self._decoder = wyoming.Decoder(lambda detail: UpstreamProtocolError(provider=provider, detail=detail))
        self._held: list[Message] = []

    async def send(self, *messages: Message) -> None:
        try:
            await self._transport.send_all(b"".join(map(wyoming.encode, messages)))
        except LOST:
            raise UpstreamCut(provider=self._provider, detail="the connection was lost") from None

    async def receive(self) -> Message:
        while not self._held:
            try:
                data = await self._transport.receive_some()
            except LOST:
                data = b""
            if not data:
                raise UpstreamCut(provider=self._provider, detail="the connection ended before the answer did")
            self._held = self._decoder.feed(bytes(data))
        return self._held.pop(0)


@asynccontextmanager
async def server(account: Account) -> AsyncIterator[Peer]:
    """A connection of its own, closed on the way out."""
    provider = account.provider_id
    try:
        with trio.move_on_after(CONNECT_S) as scope:
            transport = await account.pool.connect(account.origin)
    except LOST as error:
        raise unreachable(provider, error) from error
    if scope.cancelled_caught:
        raise ProviderUnreachable(provider=provider, detail=f"no connection within {CONNECT_S:g} s", cause="timeout")
    try:
        yield ServerPeer(transport, provider)
    finally:
        transport.abort()


async def describe_peer(account: Account) -> wyoming.Info:
    """What the server says it has: the health check. Raises ProviderError."""
    async with server(account) as peer:
        await peer.send(wyoming.Describe())
        while True:
            message = await peer.receive()
            if isinstance(message, wyoming.Info):
                return message


# ---- speech to text


@asynccontextmanager
async def transcribe(
    peering: AbstractAsyncContextManager[Peer], request: TranscribeRequest, account: Account, opening: wyoming.Transcribe
) -> AsyncIterator[TranscribedBy]:
    """Send the recording as 16 kHz samples, then read. Raises ProviderError."""
    provider = account.provider_id
    async with peering as peer:
        await peer.send(opening, wyoming.AudioStart(rate=PCM_16K.sample_rate_hz))
        async with aclosing(samples_of(request, provider)) as pieces:
            async for data in pieces:
                await peer.send(wyoming.AudioPiece(rate=PCM_16K.sample_rate_hz, audio=data))
        await peer.send(wyoming.AudioStop())
        yield TranscribedBy(peer, provider, request.stream)


@asynccontextmanager
async def transcribe_pieces(
    peering: AbstractAsyncContextManager[Peer],
    pieces: AsyncGenerator[bytes, None],
    account: Account,
    opening: wyoming.Transcribe,
) -> AsyncIterator[TranscribedBy]:
    """Send 16 kHz samples as they come, and read meanwhile. Raises ProviderError."""
    with one_error():
        async with peering as peer, trio.open_nursery() as nursery:
            await peer.send(opening, wyoming.AudioStart(rate=PCM_16K.sample_rate_hz))
            nursery.start_soon(_send_pieces, peer, pieces)
            yield TranscribedBy(peer, account.provider_id, True)
            nursery.cancel_scope.cancel()


async def _send_pieces(peer: Peer, pieces: AsyncGenerator[bytes, None]) -> None:
    """A connection that is lost is told by whoever reads."""
    with suppress(ProviderError):
        async with aclosing(pieces):
            async for data in pieces:
                for piece in _cut(data):
                    await peer.send(wyoming.AudioPiece(rate=PCM_16K.sample_rate_hz, audio=piece))
        await peer.send(wyoming.AudioStop())


class TranscribedBy:
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
                        return [TextDelta(text=text)]
                case wyoming.WholeTranscript() as whole:
                    return [_transcript(whole)]
                case wyoming.Failed() as failed:
                    raise _failure(self._provider, failed)


def _transcript(whole: wyoming.WholeTranscript) -> Transcript:
    segments = tuple(
        FinalText(text=s.text, start_s=s.start, end_s=s.end, words=_words(s.words)) for s in whole.segments
    )
    return Transcript(
        text=whole.text.strip(),
        language=whole.language,
        duration_s=seconds(whole.duration),
        segments=segments,
        words=tuple(word for segment in segments for word in segment.words),
    )


def _words(heard: tuple[wyoming.HeardWord, ...]) -> tuple[Word, ...]:
    return tuple(Word(text=w.word.strip(), start_s=w.start, end_s=w.end, confidence=w.probability) for w in heard)


async def samples_of(request: TranscribeRequest, provider: str) -> AsyncGenerator[bytes, None]:
    """The recording as 16-bit samples at 16 kHz, mono. Raises ProviderRejected for what cannot be made into that."""
    made: _Samples | None = None
    reading = request.audio.chunks()
    try:
        async for data in reading:
            if made is None:
                made = _Samples(_format_of(request.audio, request.format, data), provider)
            for piece in _cut(await made.of(data)):
                yield piece
    finally:
        if isinstance(reading, AsyncGenerator):
            await reading.aclose()
    if made is not None:
        for piece in _cut(await made.of(None)):
            yield piece


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES))


class _Samples:
    """Of one recording. What takes longer than others' audio may wait is done in a thread."""

    def __init__(self, source: AudioFormat, provider: str) -> None:
        self._source = source
        self._provider = provider
        self._in_thread = is_compressed(source) or source.sample_rate_hz != PCM_16K.sample_rate_hz
        self._converter: Converter | None = None

    async def of(self, data: bytes | None) -> bytes:
        """What `data` makes; of None, what is left. Raises ProviderRejected."""
        try:
            if self._in_thread:
                return await trio.to_thread.run_sync(self._made_of, data)
            return self._made_of(data)
        except CannotConvert as error:
            detail = str(error)
            raise ProviderRejected(
                provider=self._provider, upstream_status=400, fault="candidate", detail=detail
            ) from None

    def _made_of(self, data: bytes | None) -> bytes:
        if self._converter is None:
            self._converter = converter(self._source, PCM_16K)
            assert self._converter is not None  # the source is never bare samples
        return self._converter.end() if data is None else self._converter.feed(data)


def _format_of(audio: AudioSource, told: AudioFormat | None, head: bytes) -> AudioFormat:
    """By the bytes, else as told. Samples without a header are read as a WAV whose header is missing."""
    found, _ = wav.sniff(head[:4_096], audio.size, audio.content_type)
    fmt = found or told or AudioFormat(encoding="unknown")
    if fmt.encoding == "pcm_s16le":
        return AudioFormat(encoding="wav", sample_rate_hz=fmt.sample_rate_hz, channels=fmt.channels)
    return fmt


# ---- text to speech


@asynccontextmanager
async def speak(
    peering: AbstractAsyncContextManager[Peer], request: SpeakRequest, account: Account, voice: str, speed: float | None
) -> AsyncIterator[SpokenBy]:
    """Raises ProviderError."""
    refuse_empty(request, account.provider_id)
    async with peering as peer:
        named = wyoming.Voice(name=voice or None, language=request.language if not voice else None)
        await peer.send(wyoming.Synthesize(text=request.text, voice=named, speed=speed))
        yield SpokenBy(peer, account.provider_id, request.format)


def refuse_empty(request: SpeakRequest, provider: str) -> None:
    """Raises ProviderRejected: an engine answers nothing to nothing."""
    if not request.text.strip():
        raise ProviderRejected(provider=provider, upstream_status=400, fault="caller", detail="there is no text to speak")


class SpokenBy:
    """A `SpeakStream` of samples, or of a WAV whose length is left open."""

    def __init__(self, peer: Peer, provider: str, asked: AudioFormat) -> None:
        self.format = PCM_24K
        self._peer = peer
        self._provider = provider
        self._as_wav = asked.encoding == "wav"
        self._begun = self._sounded = False

    async def receive(self) -> list[SpeakEvent]:
        while True:
            match await self._peer.receive():
                case wyoming.AudioStart() as start if not self._begun:
                    if header := self._begin(start.format):
                        return [AudioChunk(data=header)]
                case wyoming.AudioPiece(audio=data) as piece if data:
                    header = b"" if self._begun else self._begin(wyoming.AudioStart(rate=piece.rate).format)
                    self._sounded = True
                    return [AudioChunk(data=header + data)]
                case wyoming.AudioStop():
                    if not self._sounded:
                        raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
                    return [SpeakEnd()]
                case wyoming.Failed() as failed:
                    raise _failure(self._provider, failed)

    def _begin(self, fmt: AudioFormat) -> bytes:
        """The format is known; the header of a WAV, where one is wanted."""
        self._begun = True
        encoding: Encoding = "wav" if self._as_wav else "pcm_s16le"
        self.format = AudioFormat(encoding=encoding, sample_rate_hz=fmt.sample_rate_hz, channels=fmt.channels)
        return wav.header(self.format, None) if self._as_wav else b""


def _failure(provider: str, failed: wyoming.Failed) -> ProviderRejected | ProviderFailed:
    """What the server wrote stays out but for its code: it may quote the text."""
    code = (failed.code or "")[:64]
    if code in _CALLERS:
        return ProviderRejected(
            provider=provider, upstream_status=400, upstream_code=code, fault="candidate", detail=f"refused: {code}"
        )
    return ProviderFailed(provider=provider, upstream_status=500, upstream_code=code, detail="the server told an error")
