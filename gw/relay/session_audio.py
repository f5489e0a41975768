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

import math

import trio

from gw.codecs.live_decoder import LiveDecoder, require
from gw.errors import PluginMissing, RequestError, UpstreamSlow
from gw.providers.spec import ProviderSpec
from gw.types.audio import PCM_16K, AudioFormat
from gw.wire.convert import CannotConvert
from gw.wire.ear import Ear


class ReplayBuffer:
    """The latest `max_s` seconds of raw audio, or `max_bytes` of a container. Offsets count the session's bytes."""

    __slots__ = ("_audio", "_block", "_max_bytes", "end", "rate", "start")

    def __init__(self, fmt: AudioFormat, *, max_s: float, max_bytes: int) -> None:
        self.rate = rate = fmt.bytes_per_second  # 0 for containers
        self._block = max(1, rate // (fmt.sample_rate_hz or 1))
        """Bytes of one sample of every channel: audio is cut between blocks only."""
        self._max_bytes = int(max_s * rate) or max_bytes
        self._audio = bytearray()
        """In one piece: a final transcript covers a second of frames, and all of them are dropped by one step."""
        self.start = 0  # offset of the first byte in the buffer
        self.end = 0  # offset after the last byte received

    def seconds(self, offset: int) -> float:
        """Return the time at an offset; 0.0 for containers."""
        return offset / self.rate if self.rate else 0.0

    def offset(self, at_s: float) -> int:
        """Return the offset of the block at a time."""
        offset = int(at_s * self.rate)
        return offset - offset % self._block

    def append(self, data: bytes) -> int:
        """Return how many bytes from the beginning of the buffer had to go for it."""
        self._audio += data
        self.end = end = self.end + len(data)
        if end - self.start <= self._max_bytes:
            return 0
        start, offset = self.start, end - self._max_bytes
        self._drop(offset + -offset % self._block)
        return self.start - start

    def final_until(self, at_s: float) -> None:
        """Drop the audio before `at_s`, which a final transcript covers."""
        if self.rate:  # a container can only be sent from its beginning
            self._drop(min(self.offset(at_s), self.end))

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes, less what is no whole block, from `offset` on (from `start`, if that is later); b"" when all were read."""
        at = max(0, offset - self.start)
        return bytes(self._audio[at : at + max(self._block, size - size % self._block)])

    def _drop(self, offset: int) -> None:
        if self.start < offset:
            del self._audio[: offset - self.start]
            self.start = offset


MARGIN_S = 0.3  # silence that stays around what is sent to the next provider
LEAST_LEFT_OUT_S = 0.5
LAST_SILENCE_S = 2.0  # silence after the last speech that is sent again, since it ends an utterance
MAX_S = 120.0  # audio buffered for another provider: longer than anybody speaks without a final transcript
MAX_BYTES = 4 * 2**20  # the same for a container: a quarter of an hour of Opus, two minutes of WAV at 16 kHz
SMALL_BYTES = 2_048  # decoded at once: less than a second of compressed speech, 1 to 2 ms
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})


class SessionAudio:
    __slots__ = (
        "_decoder", "_ended", "_format", "_lock", "_lost_s", "_pieces", "_size", "ear", "final_s", "is_container", "noticed_s",
        "replay", "samples",
    )  # fmt: skip

    def __init__(self, fmt: AudioFormat) -> None:
        self.is_container = fmt.encoding not in _RAW
        self.samples = PCM_16K if self.is_container else fmt  # format of the audio in `replay`
        self.replay = ReplayBuffer(self.samples, max_s=MAX_S, max_bytes=MAX_BYTES)
        self.ear = Ear(self.samples)
        self.final_s = 0.0  # end of the audio that a final transcript covers
        self._lost_s = 0.0  # speech that left the buffer before a transcript covered it
        self._format = fmt
        self._pieces: list[bytes] | None = []
        """A container's pieces from its beginning, while it is passed on as it came."""
        self._size = 0
        self.noticed_s = 0.0
        """Speech noticed in decoded samples; whoever uses it sets it back to zero."""
        self._decoder: LiveDecoder | None = None
        self._ended = False
        self._lock: trio.Lock | None = None

    def _decoding(self) -> trio.Lock:
        """Return the lock that the task which decodes holds: the sender, or an attempt that begins."""
        if self._lock is None:
            self._lock = trio.Lock()
        return self._lock

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
        async with self._decoding():
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

    def keep(self, samples: bytes) -> float:
        """Add samples to the buffer, and listen to them. Return the seconds of speech noticed with them."""
        replay = self.replay
        if dropped := replay.append(samples):  # that is nearly never
            from_s, until_s = replay.seconds(replay.start - dropped), replay.seconds(replay.start)
            self._lost_s += self.ear.speech_between(from_s, until_s)
            self.ear.forget(until_s)
        return self.ear.feed(samples)

    def take_lost(self) -> float:
        """Return the speech in seconds that the next provider cannot hear any more although no transcript covers it."""
        lost_s, self._lost_s = self._lost_s, 0.0
        return lost_s

    async def end(self) -> bytes:
        """Note that no more audio will come, and return the samples that the decoder still holds."""
        async with self._decoding():
            self._ended = True
            return await self._decode_for_caller([])

    async def decode(self) -> None:
        """Keep samples from now on. Raise CannotConvert."""
        async with self._decoding():
            await self._begin_decoding()

    def final_until(self, at_s: float) -> None:
        self.final_s = max(self.final_s, at_s)
        if not self.is_container or self._decoder is not None:
            self._forget_final(at_s)

    def _forget_final(self, at_s: float) -> None:
        self.replay.final_until(at_s)
        self.ear.forget(min(at_s, self.ear.at_s))
        self._lost_s = 0.0  # a transcript covers all audio before its end

    def to_replay(self) -> list[tuple[int, float]]:
        """Return the buffered audio to send to the next provider: stretches of bytes, the last one without an end.

        Long silences are left out, since they would be paid for again and answered by nothing.
        """
        replay = self.replay
        until_s = replay.seconds(replay.end)
        from_s = replay.seconds(replay.start)
        stretches: list[tuple[float, float]] = []
        for sound in self.ear.sounds if self.ear.is_complete else ():
            start_s, end_s = max(from_s, sound.start_s - MARGIN_S), min(until_s, sound.end_s + MARGIN_S)
            if stretches and start_s - stretches[-1][1] < LEAST_LEFT_OUT_S:
                stretches[-1] = (stretches[-1][0], end_s)
            elif end_s > from_s:
                stretches.append((start_s, end_s))
        if not self.ear.is_complete:
            stretches = [(from_s, math.inf)]
        elif stretches and until_s - stretches[-1][1] < LAST_SILENCE_S:
            stretches[-1] = (stretches[-1][0], math.inf)
        else:
            stretches.append((max(from_s, until_s - MARGIN_S), math.inf))
        if stretches[0][0] - from_s < LEAST_LEFT_OUT_S:
            stretches[0] = (from_s, stretches[0][1])
        return [
            (max(replay.start, replay.offset(start_s)), end_s if end_s == math.inf else replay.offset(end_s))
            for start_s, end_s in stretches
        ]

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
        self._forget_final(self.final_s)

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
            self.noticed_s += self.keep(samples)
        return samples


def _run(decoder: LiveDecoder, pieces: list[bytes], ended: bool) -> bytes:
    samples = b"".join(map(decoder.feed, pieces))
    return samples + decoder.end() if ended else samples
