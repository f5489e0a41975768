"""Live transcription by a provider that takes whole utterances: each is heard out, then asked about. Not itself a provider.

Where an utterance begins and ends is told by `gw.wire.vad`. One at a time is transcribed, in order, while the next is
collected; how one is asked about is the provider's, and where that can take it in pieces (Wyoming) it goes there as it is spoken.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import msgspec
import trio

from gw.errors import ProviderError, UpstreamCut, UpstreamSlow, one_error
from gw.providers.spec import Account, TranscribeCall, TranscribeStream
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final as FinalText
from gw.types.stt import (
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    SpeechStarted,
    TextDelta,
    TranscribeEvent,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    Word,
)
from gw.wire import wav
from gw.wire.vad import Began, Cue, Ended, Spoken, Utterances

SILENCE_S: Final = 0.6
"""That ends an utterance, unless the caller says otherwise."""
LEAST_SILENCE_S: Final = 0.3
"""Shorter pauses are between words: a model that hears half a sentence at a time guesses."""
ANSWER_S: Final = 20.0
"""For the transcript of an utterance that has ended, whatever its length: a server that takes longer has hung."""
WAITING: Final = 4
"""Utterances that wait to be transcribed, at most 28 s each; then the speaker's audio waits, and the relay gives up on us."""
EVENTS: Final = 64
"""Lists of events that wait for a caller who does not read."""
_NOT_SAID: Final = re.compile(r"(\s*(\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|♪))+\s*")
"""What the models write about a noise: `[BLANK_AUDIO]`, `(music)`."""
_WAV: Final = AudioFormat(encoding="wav", sample_rate_hz=16_000)


class Utterance:
    """Samples (16 kHz, mono) that grow until it has ended. One task says, another hears."""

    def __init__(self, from_s: float) -> None:
        self.from_s = from_s
        self.ended: Ended | None = None
        self._samples = bytearray()
        self._more = trio.Event()
        self._patience: trio.CancelScope | None = None

    @property
    def until_s(self) -> float:
        """Where it ends, as far as it is known."""
        if self.ended is not None:
            return max(self.from_s, self.ended.at_s)
        return self.from_s + PCM_16K.seconds(len(self._samples))

    def add(self, data: bytes) -> None:
        self._samples += data
        self._stir()

    def end(self, ended: Ended) -> None:
        self.ended = ended
        self._stir()
        if self._patience is not None:
            self._patience.deadline = trio.current_time() + ANSWER_S

    def _stir(self) -> None:
        self._more.set()
        self._more = trio.Event()

    def bound(self, scope: trio.CancelScope) -> None:
        """From its end on, or from now where it has ended, there are `ANSWER_S` for its transcript."""
        self._patience = scope
        if self.ended is not None:
            scope.deadline = trio.current_time() + ANSWER_S

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """From the beginning, as it is spoken."""
        at = 0
        while True:
            if data := bytes(self._samples[at:]):
                at += len(data)
                yield data
            elif self.ended is not None:
                return
            else:
                await self._more.wait()

    async def whole(self) -> bytes:
        """All of it, once it has ended."""
        while self.ended is None:
            await self._more.wait()
        return bytes(self._samples)


Hearer = Callable[[Utterance], AbstractAsyncContextManager[TranscribeStream]]
"""Asks a provider about an utterance, which may not have ended yet."""


class _Recording:
    """An utterance as a file."""

    filename, content_type = "utterance.wav", "audio/wav"

    def __init__(self, samples: bytes) -> None:
        self._data = wav.header(PCM_16K, len(samples)) + samples
        self.size = len(self._data)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._data


class _Silence:
    async def receive(self) -> list[TranscribeEvent]:
        return [Transcript(text="")]


def whole(call: TranscribeCall, request: ListenRequest, account: Account) -> Hearer:
    """By a call for recordings."""

    @asynccontextmanager
    async def hear(utterance: Utterance) -> AsyncIterator[TranscribeStream]:
        samples = await utterance.whole()
        if utterance.ended is not None and not utterance.ended.voiced:
            yield _Silence()
            return
        asked = TranscribeRequest(
            model=request.model,
            audio=_Recording(samples),
            format=_WAV,
            audio_seconds=PCM_16K.seconds(len(samples)),
            language=request.language,
            keyterms=request.keyterms,
            dialect="",
        )
        async with call(asked, account) as stream:
            yield stream

    return hear


@asynccontextmanager
async def by_utterance(hearer: Hearer, request: ListenRequest, account: Account) -> AsyncIterator[ByUtterance]:
    """`request.format` is PCM of 16 kHz. Raises ProviderError."""
    session = ByUtterance(hearer, request, account.provider_id)
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.transcribe)
            yield session
            nursery.cancel_scope.cancel()


class ByUtterance:
    """A `ListenSession`."""

    def __init__(self, hearer: Hearer, request: ListenRequest, provider: str) -> None:
        self.heard_at = trio.current_time()
        self._hearer = hearer
        self._request = request
        self._provider = provider
        told_s = request.endpointing_ms / 1000 if request.endpointing_ms is not None else SILENCE_S
        self._utterances = Utterances(PCM_16K.sample_rate_hz, silence_s=max(told_s, LEAST_SILENCE_S))
        self._utterance: Utterance | None = None
        self._due, self._taking = trio.open_memory_channel[Utterance](WAITING)
        self._events, self._reading = trio.open_memory_channel[list[ListenEvent]](EVENTS)
        self._fault: ProviderError | None = None

    # ------------------------------------------------------------------ the sender's task

    async def send_audio(self, data: bytes) -> None:
        self.heard_at = trio.current_time()   # it is we who listen; what is owed has a deadline of its own
        await self._take(self._utterances.feed(data))

    async def flush(self) -> None:
        await self._take(self._utterances.end())

    async def send_frame(self, frame: str) -> None:
        """There is no session at the provider that could be told."""
        await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        await self._take(self._utterances.end())
        self._due.close()

    async def _take(self, cues: list[Cue]) -> None:
        for cue in cues:
            match cue:
                case Began():
                    if cue.onset:
                        await self._tell([SpeechStarted(at_s=cue.at_s)])
                    self._utterance = Utterance(cue.from_s)
                    await self._give(self._utterance)
                case Spoken(data=data):
                    assert self._utterance is not None
                    self._utterance.add(data)
                case Ended():
                    assert self._utterance is not None
                    self._utterance.end(cue)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _give(self, utterance: Utterance) -> None:
        try:
            await self._due.send(utterance)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._fault or self._past_the_end() from None

    # ------------------------------------------------------------------ the task that transcribes

    async def transcribe(self) -> None:
        """One utterance after the other. A provider's failure ends it, and `receive` raises that."""
        with self._taking, self._events:
            try:
                async for utterance in self._taking:
                    await self._hear(utterance)
                await self._tell([ListenEnd()])
            except ProviderError as error:
                self._fault = error

    async def _hear(self, utterance: Utterance) -> None:
        text, transcript = "", None
        with trio.CancelScope() as patience:
            utterance.bound(patience)
            async with self._hearer(utterance) as stream:
                while transcript is None:
                    for event in await stream.receive():
                        self.heard_at = trio.current_time()
                        if isinstance(event, Transcript):
                            transcript = event
                        elif isinstance(event, TextDelta) and self._request.interim_results:
                            text += event.text
                            until_s = utterance.until_s
                            await self._tell([Interim(text=text.strip(), start_s=utterance.from_s, end_s=until_s)])
        if transcript is None:
            raise UpstreamSlow(provider=self._provider, after_s=ANSWER_S, detail="no transcript of an utterance")
        await utterance.whole()   # it may have been answered before its end
        assert utterance.ended is not None
        await self._tell(_told(transcript, utterance.from_s, utterance.ended))

    async def _tell(self, events: list[ListenEvent]) -> None:
        if events:
            try:
                await self._events.send(events)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise self._fault or self._past_the_end() from None

    # ------------------------------------------------------------------ the receiver's task

    async def receive(self) -> list[ListenEvent]:
        """Raises what the provider raises."""
        try:
            return await self._reading.receive()
        except trio.EndOfChannel:
            raise self._fault or self._past_the_end() from None

    def _past_the_end(self) -> UpstreamCut:
        return UpstreamCut(provider=self._provider, detail="read past the end of the session")


def _told(heard: Transcript, from_s: float, ended: Ended) -> list[ListenEvent]:
    """The events of a whole utterance. Its words' times count from its first sample."""
    events: list[ListenEvent] = []
    if (text := heard.text.strip()) and _NOT_SAID.fullmatch(text) is None and ended.voiced:
        words = tuple(_later(word, from_s) for word in heard.words)
        until_s = max(from_s, ended.at_s)
        events.append(FinalText(text=text, start_s=from_s, end_s=until_s, words=words, language=heard.language))
    if ended.pause:
        events.append(UtteranceEnd(at_s=ended.at_s))
    return events


def _later(word: Word, by_s: float) -> Word:
    return msgspec.structs.replace(word, start_s=word.start_s + by_s, end_s=word.end_s + by_s)
