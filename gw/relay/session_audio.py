"""The caller's audio of a live session in the form a provider gets: as it came, or decoded where one cannot take that.

form        buffered                               becomes
─────────   ────────────────────────────────────   ─────────────────────────────────────────────────────────────
raw         until a final transcript covers it     stays raw
container   from its beginning, while it is at     decoded, for the first provider that cannot take it or follows a
            most MAX_BYTES                         final transcript, or when it grows larger
decoded     samples, as raw audio is               stays decoded
lost        nothing                                (a container that grew too large and cannot be decoded)
"""

from __future__ import annotations

from array import array
from collections import deque
from sys import byteorder

import trio

from gw.codecs.live_decoder import LiveDecoder, require
from gw.errors import PluginMissing, RequestError, UpstreamSlow
from gw.providers.spec import ProviderSpec
from gw.types.audio import PCM_16K, AudioFormat, Encoding
from gw.wire import g711
from gw.wire.convert import CannotConvert


class ReplayBuffer:
    """The latest `max_s` seconds of raw audio, or `max_bytes` of a container. Offsets count the session's bytes."""

    def __init__(self, fmt: AudioFormat, *, max_s: float, max_bytes: int) -> None:
        self._format = fmt
        self._block = max(1, fmt.bytes_per_second // (fmt.sample_rate_hz or 1))
        """Bytes of one sample of every channel: audio is cut between blocks only."""
        self._max_bytes = int(max_s * fmt.bytes_per_second) or max_bytes
        self._pieces: deque[bytes] = deque()
        self.start = 0  # offset of the first byte in the buffer
        self.end = 0  # offset after the last byte received

    def seconds(self, offset: int) -> float:
        """Return the time at an offset; 0.0 for containers."""
        return self._format.seconds(offset)

    def append(self, data: bytes) -> None:
        self._pieces.append(data)
        self.end += len(data)
        if self.end - self.start > self._max_bytes:
            offset = self.end - self._max_bytes
            self._drop(offset + -offset % self._block)

    def final_until(self, at_s: float) -> None:
        """Drop the audio before `at_s`, which a final transcript covers."""
        if self._format.bytes_per_second:  # a container can only be sent from its beginning
            offset = int(at_s * self._format.bytes_per_second)
            self._drop(min(offset - offset % self._block, self.end))

    def read(self, offset: int, size: int) -> bytes:
        """Return about `size` bytes from `offset` on (from `start`, if that is later); b"" when all were read."""
        at = self.start
        parts: list[bytes] = []
        read = 0
        for piece in self._pieces:
            if offset < at + len(piece):
                part = piece[max(0, offset - at) :]
                parts.append(part)
                read += len(part)
                if read >= size:
                    break
            at += len(piece)
        return b"".join(parts)

    def _drop(self, offset: int) -> None:
        while self._pieces and self.start < offset:
            piece = self._pieces[0]
            surplus = offset - self.start
            if surplus < len(piece):
                self._pieces[0] = piece[surplus:]
                self.start = offset
                return
            self._pieces.popleft()
            self.start += len(piece)


MAX_S = 120.0  # audio buffered for another provider: longer than anybody speaks without a final transcript
MAX_BYTES = 4 * 2**20  # the same for a container: a quarter of an hour of Opus, two minutes of WAV at 16 kHz
SMALL_BYTES = 2_048  # decoded at once: less than a second of compressed speech, 1 to 2 ms
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})


class SessionAudio:
    def __init__(self, fmt: AudioFormat) -> None:
        self.is_container = fmt.encoding not in _RAW
        self.samples = PCM_16K if self.is_container else fmt  # format of the audio in `replay`
        self.replay = ReplayBuffer(self.samples, max_s=MAX_S, max_bytes=MAX_BYTES)
        self.final_s = 0.0  # end of the audio that a final transcript covers
        self._format = fmt
        self._pieces: list[bytes] | None = []
        """A container's pieces from its beginning, while it is passed on as it came."""
        self._size = 0
        self._decoder: LiveDecoder | None = None
        self._ended = False
        self._lock = trio.Lock()  # held by the task that decodes: the sender, or an attempt that begins

    def source_for(self, spec: ProviderSpec) -> AudioFormat:
        """Return the format that a provider of this type would get if it began now. Raise CannotConvert."""
        if not self.is_container:
            return self._format
        accepts = self._pieces is not None and self._format.encoding in spec.listen_formats
        if accepts and not self.final_s:
            return self._format
        try:
            require(self._format)
        except CannotConvert:
            if accepts:
                return self._format
            raise
        return self.samples

    @property
    def can_move(self) -> bool:
        """Another provider can get the audio that is not final yet."""
        return not self.is_container or self._pieces is not None or self._decoder is not None

    async def add(self, data: bytes) -> bytes:
        """Keep audio of the caller. Return the samples for providers that get samples; b"" where none does.

        Raise PluginMissing, and RequestError for data that is no audio, where it has to be decoded.
        """
        if not self.is_container:
            self.replay.append(data)
            return data
        async with self._lock:
            if self._decoder is None and self._pieces is not None:
                self._size += len(data)
                if self._size <= MAX_BYTES:
                    self._pieces.append(data)
                    return b""
                try:
                    await self._begin_decoding()
                except CannotConvert:  # then no provider can take over any more
                    self._pieces = None
            return await self._decode_for_caller([data])

    async def end(self) -> bytes:
        """Note that no more audio will come, and return the samples that the decoder still holds."""
        async with self._lock:
            self._ended = True
            return await self._decode_for_caller([])

    async def decode(self) -> None:
        """Keep samples from now on. Raise CannotConvert."""
        async with self._lock:
            await self._begin_decoding()

    def final_until(self, at_s: float) -> None:
        self.final_s = max(self.final_s, at_s)
        if not self.is_container or self._decoder is not None:
            self.replay.final_until(at_s)

    def piece(self, number: int, provider: str) -> bytes | None:
        """Return a piece of the container; None after the last. Raise UpstreamSlow if it is dropped already."""
        if self._pieces is None:
            raise UpstreamSlow(provider=provider, detail="takes no more audio")
        return self._pieces[number] if number < len(self._pieces) else None

    async def _begin_decoding(self) -> None:
        if self._decoder is not None:
            return
        self._decoder, pieces = LiveDecoder(self._format), self._pieces or []
        try:
            await self._decode(pieces)
        except BaseException:
            self._decoder = None
            raise
        self._pieces = None
        self.replay.final_until(self.final_s)

    async def _decode_for_caller(self, pieces: list[bytes]) -> bytes:
        """Decode, if decoding has begun. Raise PluginMissing, RequestError."""
        if self._decoder is None:
            return b""
        try:
            return await self._decode(pieces)
        except CannotConvert as error:
            if error.extra:
                raise PluginMissing(module="av", extra=error.extra) from None
            raise RequestError(what=f"the audio cannot be transcribed: {error}", param="audio") from None

    async def _decode(self, pieces: list[bytes]) -> bytes:
        assert self._decoder is not None
        if sum(map(len, pieces)) <= SMALL_BYTES:  # a frame or two: a thread would take longer
            samples = _run(self._decoder, pieces, self._ended)
        else:
            samples = await trio.to_thread.run_sync(_run, self._decoder, pieces, self._ended)
        if samples:
            self.replay.append(samples)
        return samples


def _run(decoder: LiveDecoder, pieces: list[bytes], ended: bool) -> bytes:
    samples = b"".join(map(decoder.feed, pieces))
    return samples + decoder.end() if ended else samples


_LOUD = 600
"""Amplitude, of 32,768: about -35 dBFS. Room noise on a headset is far below, speech far above."""
_EVERY = 8  # one sample in so many is examined


def is_loud(data: bytes, encoding: Encoding) -> bool:
    """Return whether a sample is loud, to tell a failed provider from a silent caller; False for compressed audio."""
    match encoding:
        case "pcm_s16le":
            samples = array("h", data[: len(data) & ~1])
            if byteorder == "big":
                samples.byteswap()
            examined = samples[::_EVERY]
        case "mulaw":
            examined = array("h", g711.mulaw_to_pcm16(data[::_EVERY]))
        case "alaw":
            examined = array("h", g711.alaw_to_pcm16(data[::_EVERY]))
        case _:
            return False
    return bool(examined) and (max(examined) > _LOUD or min(examined) < -_LOUD)
