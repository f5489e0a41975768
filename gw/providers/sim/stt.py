"""Speech-to-text: the tone voice read back, from a recording or live."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing

import trio

from gw.providers.recording_call import closing_chunks
from gw.providers.sim import fsk, tone_audio
from gw.providers.sim.call import SimCall, SimSession, start_call
from gw.providers.sim.script import tokens
from gw.providers.spec import Account, ListenSession, TranscribeStream, rejected
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import ListenEvent, ListenRequest, TranscribeEvent, TranscribeRequest, Transcript
from gw.types.usage import Usage

_AUDIO_PIECES = 64  # pieces of live audio not yet decoded, usually of 20 ms each
_Slices = AsyncGenerator[tuple[bytes, float], None]
"""Mono s16le PCM, each piece with the seconds of audio read so far."""


class _Transcription:
    """A `TranscribeStream` that reads the recording piece by piece.

    With `stream`, the words of an utterance come when its checksum has agreed.
    """

    def __init__(self, request: TranscribeRequest, slices: _Slices, rate_hz: int, call: SimCall) -> None:
        self._request = request
        self._slices = slices
        self._decoder = fsk.ToneDecoder(rate_hz)
        self._call = call
        self._seconds = 0.0
        self._finals: list[stt.Final] = []
        self._deltas: deque[str] = deque()
        self._over = False

    async def receive(self) -> list[TranscribeEvent]:
        while not self._deltas and not self._over:
            if (piece := await anext(self._slices, None)) is None:
                await self._call.step()
                self._over = True
                return [self._transcript()]
            pcm, self._seconds = piece
            self._decode(pcm)
        if not self._deltas:
            raise self._call.past_the_end()
        await self._call.step()
        return [stt.TextDelta(text=self._deltas.popleft())]

    def _decode(self, pcm: bytes) -> None:
        for event in self._decoder.feed(pcm):
            if isinstance(event, fsk.Done):
                if self._request.stream:
                    self._deltas.extend(tokens((" " if self._finals else "") + event.text))
                self._finals.append(tone_audio.final(event, tone_audio.speaker_of(self._request)))

    def _transcript(self) -> Transcript:
        finals = tuple(self._finals)
        return Transcript(
            text=" ".join(final.text for final in finals), language=self._request.language,
            duration_s=self._seconds, segments=finals,
            words=tuple(word for final in finals for word in final.words),
            usage=Usage(audio_seconds=self._seconds, source="vendor"),
        )


async def _samples(head: bytes, pieces: AsyncIterator[bytes], layout: tone_audio.Layout) -> _Slices:
    """Yield the recording in short slices, with a checkpoint after each."""
    slicer = tone_audio.PcmSlicer(layout.format)
    bytes_left = layout.n_bytes
    data: bytes | None = head[layout.offset :]
    while data is not None and bytes_left != 0:
        if bytes_left is not None:
            data = data[:bytes_left]
            bytes_left -= len(data)
        for pcm in slicer.feed(data):
            yield pcm, slicer.seconds
            await trio.lowlevel.checkpoint()
        data = await anext(pieces, None)


async def _silence(seconds: float) -> _Slices:
    yield b"", seconds


async def _head(pieces: AsyncIterator[bytes], declared: AudioFormat | None) -> tuple[bytes, tone_audio.Layout]:
    """Read the first bytes of a recording, as many as show its layout."""
    head = b""
    while True:
        piece = await anext(pieces, None)
        head += piece or b""
        if (layout := tone_audio.layout(head, declared, complete=piece is None)) is not None:
            return head, layout


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """Read WAV (16-bit PCM, µ-law, A-law) and, if `request.format` declares them, raw samples; first channel only.

    Audio of other known formats is rejected; bytes of an unknown format give an empty text.
    """
    call = await start_call(account, "stt")
    pieces = request.audio.chunks()
    async with closing_chunks(pieces):
        head, layout = await _head(pieces, request.format)
        rate_hz = tone_audio.read_rate_hz(layout.format)
        if layout.format.encoding == "unknown":
            slices, rate_hz = _silence(request.audio_seconds), fsk.SAMPLE_RATES_HZ[0]
        elif reason := tone_audio.why_unreadable(layout.format):
            raise rejected(account, reason)
        else:
            slices = _samples(head, pieces, layout)
        async with aclosing(slices):
            yield _Transcription(request, slices, rate_hz, call)


class _ListenSession(SimSession[bytes]):
    """A `ListenSession`. `receive` decodes the queued audio, a slice at a time; cancelling it loses nothing."""

    def __init__(self, request: ListenRequest, call: SimCall) -> None:
        super().__init__(call, _AUDIO_PIECES)
        self.pace = stt.ListenPace()
        self._interims = request.interim_results
        self._speaker = tone_audio.speaker_of(request)
        self._slicer = tone_audio.PcmSlicer(request.format)
        self._decoder = fsk.ToneDecoder(tone_audio.read_rate_hz(request.format))
        self._slices: deque[bytes] = deque()
        self._due: deque[list[ListenEvent]] = deque()
        self._over = False

    async def send_audio(self, data: bytes) -> None:
        await self._enqueue(data)

    async def flush(self) -> None:
        """Do nothing: an utterance is final with its last tone."""
        await trio.lowlevel.checkpoint()

    async def receive(self) -> list[ListenEvent]:
        while not self._due:
            if self._slices:
                self._decode(self._slices.popleft())
                if self._slices:
                    await trio.lowlevel.checkpoint()
            elif self._over:
                raise self._call.past_the_end()
            else:
                await self._take()
        await self._step()
        return self._due.popleft()

    async def _take(self) -> None:
        try:
            self._slices.extend(self._slicer.feed(await self._queued.receive()))
        except trio.EndOfChannel:
            self._over = True
            self._due.append([stt.ListenEnd(usage=Usage(audio_seconds=self._slicer.seconds, source="vendor"))])

    def _decode(self, pcm: bytes) -> None:
        events: list[ListenEvent] = []
        for event in self._decoder.feed(pcm):
            match event:
                case fsk.Started():
                    events.append(stt.SpeechStarted(at_s=event.at_s))
                case fsk.Partial() if self._interims:
                    who, start_s = self._speaker, max(event.start_s, 0.0)
                    words = tone_audio.words(event.text, start_s, who)
                    events.append(stt.Interim(text=event.text, start_s=start_s, end_s=event.end_s, words=words, speaker=who))
                case fsk.Done():
                    events += [tone_audio.final(event, self._speaker), stt.UtteranceEnd(at_s=event.end_s)]
                case fsk.ToneLost():
                    events.append(stt.UtteranceEnd(at_s=event.at_s))
        if events:
            self._due.append(events)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """Decode raw samples, cut anywhere; SpeechStarted, Interims (guesses), then Final and UtteranceEnd per utterance."""
    call = await start_call(account, "stt")
    if reason := tone_audio.why_unreadable(request.format):
        raise rejected(account, reason)
    with closing(_ListenSession(request, call)) as session:
        yield session
