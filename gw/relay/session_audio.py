"""The caller's audio of a live session, as providers are given it: as it came, or decoded where one cannot take that.

Raw audio is kept until a final transcript covers it, and given from any sample on. Audio in a container is passed on as it
came to a provider that takes it, for which all of it is kept from the beginning. The first provider that cannot take it, or
comes after a final transcript, is given samples: then what is kept is decoded, and what comes from then on, and the samples
are kept as raw audio is. So is a container that grows beyond what is kept.
"""

from __future__ import annotations

import trio

from gw.codecs.live import LiveDecoder, require
from gw.errors import GwError, PluginMissing, RequestError, UpstreamSlow
from gw.providers.spec import ProviderSpec
from gw.relay.replay_buffer import ReplayBuffer
from gw.types.audio import PCM_16K, AudioFormat
from gw.wire.convert import CannotConvert

KEPT_S = 120.0
"""Audio kept for another provider: longer than anybody speaks without a final transcript."""
KEPT_BYTES = 4 * 2**20
"""The same for a container: a quarter of an hour of Opus, two minutes of WAV at 16 kHz."""
SMALL_BYTES = 2_048
"""Decoded at once: less than a second of compressed speech, 1 to 2 ms."""
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})


class SessionAudio:
    def __init__(self, fmt: AudioFormat) -> None:
        self.contained = fmt.encoding not in _RAW
        self.samples = PCM_16K if self.contained else fmt
        """What the replay holds."""
        self.replay = ReplayBuffer(self.samples, most_s=KEPT_S, most_bytes=KEPT_BYTES)
        self.final_s = 0.0
        """Until here a final transcript stands."""
        self._format = fmt
        self._whole: list[bytes] | None = []
        """A container's pieces from the beginning, while it is passed on as it came."""
        self._size = 0
        self._decoder: LiveDecoder | None = None
        self._ended = False
        self._turn = trio.Lock()
        """One at a time decodes: the sender, or the leg that begins."""

    def source_for(self, spec: ProviderSpec) -> AudioFormat:
        """What a provider of this type would be given if it began now. Raises CannotConvert."""
        if not self.contained:
            return self._format
        takes = self._whole is not None and self._format.encoding in spec.listen_formats
        if takes and not self.final_s:
            return self._format
        try:
            require(self._format)
        except CannotConvert:
            if takes:
                return self._format
            raise
        return self.samples

    @property
    def can_move(self) -> bool:
        """Whether another provider can be given what is not final yet."""
        return not self.contained or self._whole is not None or self._decoder is not None

    async def take(self, data: bytes) -> bytes:
        """Keep what the caller sends. What of it providers are given as samples; b"" where none needs them.

        Raises PluginMissing, and RequestError for what is no sound, where it has to be decoded.
        """
        if not self.contained:
            self.replay.append(data)
            return data
        async with self._turn:
            if self._decoder is None and self._whole is not None:
                self._size += len(data)
                if self._size <= KEPT_BYTES:
                    self._whole.append(data)
                    return b""
                await self._overflow()
            if self._decoder is None:
                return b""
            try:
                return await self._decoded([data])
            except CannotConvert as error:
                raise _fault(error) from None

    async def end(self) -> bytes:
        """No more audio will come: the samples that the decoder still holds."""
        async with self._turn:
            self._ended = True
            if self._decoder is None:
                return b""
            try:
                return await self._decoded([])
            except CannotConvert as error:
                raise _fault(error) from None

    async def decode(self) -> None:
        """From now on samples are kept. Raises CannotConvert."""
        async with self._turn:
            await self._begin_decoding()

    def final_until(self, at_s: float) -> None:
        self.final_s = max(self.final_s, at_s)
        if not self.contained or self._decoder is not None:
            self.replay.final_until(at_s)

    def piece(self, number: int, provider: str) -> bytes | None:
        """Of the container from its beginning on; None when all were read. Raises UpstreamSlow for who has read too slowly."""
        if self._whole is None:
            raise UpstreamSlow(provider=provider, detail="takes no more audio")
        return self._whole[number] if number < len(self._whole) else None

    async def _overflow(self) -> None:
        """Where it cannot be decoded either, no provider can take over any more."""
        try:
            await self._begin_decoding()
        except CannotConvert:
            self._whole = None

    async def _begin_decoding(self) -> None:
        if self._decoder is not None:
            return
        self._decoder, kept = LiveDecoder(self._format), self._whole or []
        try:
            await self._decoded(kept)
        except BaseException:
            self._decoder = None
            raise
        self._whole = None
        self.replay.final_until(self.final_s)

    async def _decoded(self, pieces: list[bytes]) -> bytes:
        assert self._decoder is not None
        if sum(map(len, pieces)) <= SMALL_BYTES:  # a frame or two: a thread would take longer
            samples = _run(self._decoder, pieces, self._ended)
        else:
            samples = await trio.to_thread.run_sync(_run, self._decoder, pieces, self._ended)
        if samples:
            self.replay.append(samples)
        return samples


def _run(decoder: LiveDecoder, pieces: list[bytes], ended: bool) -> bytes:
    made = b"".join(map(decoder.feed, pieces))
    return made + decoder.end() if ended else made


def _fault(error: CannotConvert) -> GwError:
    if error.extra:
        return PluginMissing(module="av", extra=error.extra)
    return RequestError(what=f"the audio cannot be transcribed: {error}", param="audio")


def passed_over(error: CannotConvert, provider: str) -> PluginMissing | None:
    """As a reason not to ask a provider; None where no extra would help."""
    return PluginMissing(provider=provider, module="av", extra=error.extra) if error.extra else None
