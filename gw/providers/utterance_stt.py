"""Live transcription by a provider that takes complete utterances: each is collected, then sent. Not itself a provider.

`gw.wire.vad` finds where an utterance begins and ends. One at a time is transcribed, in order, while the next is collected.
How one is sent is the provider's own; a provider that takes audio in pieces (Wyoming) gets it while it is spoken.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

import msgspec
import trio

from gw.errors import ProviderError, UpstreamCut, UpstreamSlow
from gw.providers.background import background
from gw.providers.recording_call import WavRecording
from gw.providers.spec import Account, TranscribeCall, TranscribeStream
from gw.types import stt
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import ListenEvent, ListenPace, ListenRequest, TranscribeEvent, TranscribeRequest, Transcript
from gw.wire.vad import MAX_UTTERANCE_S, Began, Cue, Ended, Spoken, Utterances

SILENCE_S: Final = 0.6  # silence that ends an utterance, unless the client configured another
LEAST_SILENCE_S: Final = 0.3  # shorter pauses are between words: a model that gets half a sentence at a time guesses
ANSWER_S: Final = 20.0
"""Deadline for the transcript after an utterance has ended, whatever its length: a server that takes longer has hung."""
USUAL_ANSWER_S: Final = 4.0
"""The same for the relay, which has another provider or another try, until it knows the times of this one."""
WAITING: Final = 4
"""Utterances that wait to be transcribed, at most 28 s each; then the speaker's audio waits, and the relay gives up on us."""
EVENTS: Final = 64  # lists of events that wait for a client that does not read
_NOISE: Final = re.compile(r"(\s*(\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|♪))+\s*")
"""Text that the models write for a noise: `[BLANK_AUDIO]`, `(music)`."""
_WAV: Final = AudioFormat(encoding="wav", sample_rate_hz=16_000)
T = TypeVar("T")


class Utterance:
    """Samples (16 kHz, mono) that grow until the utterance has ended. One task adds, another reads."""

    def __init__(self, from_s: float) -> None:
        self.from_s = from_s
        self.ended: Ended | None = None
        self._samples = bytearray()
        self._changed = trio.Event()
        self._deadline: trio.CancelScope | None = None

    @property
    def until_s(self) -> float:
        """End of the utterance, or of what has been spoken of it."""
        if self.ended is not None:
            return max(self.from_s, self.ended.at_s)
        return self.from_s + PCM_16K.seconds(len(self._samples))

    def add(self, data: bytes) -> None:
        self._samples += data
        self._wake()

    def end(self, ended: Ended) -> None:
        self.ended = ended
        self._wake()
        if self._deadline is not None:
            self._deadline.deadline = trio.current_time() + ANSWER_S

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def limit(self, scope: trio.CancelScope) -> None:
        """Set the deadline of `scope` to ANSWER_S after the end of the utterance, or from now if it has ended."""
        self._deadline = scope
        if self.ended is not None:
            scope.deadline = trio.current_time() + ANSWER_S

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the samples from the beginning, as they are spoken."""
        at = 0
        while True:
            if data := bytes(self._samples[at:]):
                at += len(data)
                yield data
            elif self.ended is not None:
                return
            else:
                await self._changed.wait()

    async def wait_ended(self) -> tuple[bytes, Ended]:
        """Wait for the end, and return all samples with it."""
        while self.ended is None:
            await self._changed.wait()
        return bytes(self._samples), self.ended


TranscribeUtterance = Callable[[Utterance], AbstractAsyncContextManager[TranscribeStream]]
"""Sends an utterance, which may not have ended yet, to a provider."""


class _Silence:
    """The `TranscribeStream` of an utterance without speech."""

    async def receive(self) -> list[TranscribeEvent]:
        return [Transcript(text="")]


def as_recordings(call: TranscribeCall, request: ListenRequest, account: Account) -> TranscribeUtterance:
    """Send each utterance, once it has ended, by a call for recordings."""

    @asynccontextmanager
    async def transcribe(utterance: Utterance) -> AsyncIterator[TranscribeStream]:
        samples, ended = await utterance.wait_ended()
        if not ended.voiced:
            yield _Silence()
            return
        recording = TranscribeRequest(
            model=request.model, language=request.language, keyterms=request.keyterms, prompt=request.prompt, dialect="",
            audio=WavRecording(samples, "utterance.wav"), format=_WAV, audio_seconds=PCM_16K.seconds(len(samples)),
        )
        async with call(recording, account) as stream:
            yield stream

    return transcribe


@asynccontextmanager
async def by_utterance(
    transcribe: TranscribeUtterance, request: ListenRequest, account: Account
) -> AsyncIterator[UtteranceSession]:
    """Open a session. `request.format` must be PCM at 16 kHz. Raises ProviderError."""
    session = UtteranceSession(transcribe, request, account.provider_id)
    async with background(session.transcribe_all):
        yield session


class UtteranceSession:
    """A `ListenSession`."""

    def __init__(self, transcribe: TranscribeUtterance, request: ListenRequest, provider: str) -> None:
        self._transcribe = transcribe
        self._request = request
        self._provider = provider
        silence_s = request.endpointing_ms / 1000 if request.endpointing_ms is not None else SILENCE_S
        silence_s = max(silence_s, LEAST_SILENCE_S)
        self._vad = Utterances(PCM_16K.sample_rate_hz, silence_s=silence_s)
        self.pace = ListenPace(
            pause_s=silence_s, endpoint_s=silence_s, running_s=MAX_UTTERANCE_S + ANSWER_S, answer_s=USUAL_ANSWER_S
        )
        self._utterance: Utterance | None = None
        self._to_transcribe, self._waiting = trio.open_memory_channel[Utterance](WAITING)
        self._to_client, self._events = trio.open_memory_channel[list[ListenEvent]](EVENTS)
        self._fault: ProviderError | None = None

    # ---- the sending task

    async def send_audio(self, data: bytes) -> None:
        await self._apply(self._vad.feed(data))

    async def flush(self) -> None:
        await self._apply(self._vad.end())

    async def send_frame(self, frame: str) -> None:
        """Ignore the frame: the provider has no session to send it to."""
        await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        await self._apply(self._vad.end())
        self._to_transcribe.close()

    async def _apply(self, cues: list[Cue]) -> None:
        for cue in cues:
            match cue:
                case Began():
                    if cue.onset:
                        await self._emit([stt.SpeechStarted(at_s=cue.at_s)])
                    self._utterance = Utterance(cue.from_s)
                    await self._send(self._to_transcribe, self._utterance)
                case Spoken(data=data):
                    assert self._utterance is not None
                    self._utterance.add(data)
                case Ended():
                    assert self._utterance is not None
                    self._utterance.end(cue)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _send(self, channel: trio.MemorySendChannel[T], item: T) -> None:
        try:
            await channel.send(item)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._fault or self._past_the_end() from None

    # ---- the transcribing task

    async def transcribe_all(self) -> None:
        """Transcribe one utterance after the other. A provider's failure ends this task, and `receive` raises it."""
        with self._waiting, self._to_client:
            try:
                async for utterance in self._waiting:
                    await self._transcribe_one(utterance)
                await self._emit([stt.ListenEnd()])
            except ProviderError as error:
                self._fault = error

    async def _transcribe_one(self, utterance: Utterance) -> None:
        text, transcript = "", None
        with trio.CancelScope() as scope:
            utterance.limit(scope)
            async with self._transcribe(utterance) as stream:
                while transcript is None:
                    for event in await stream.receive():
                        if isinstance(event, Transcript):
                            transcript = event
                        elif isinstance(event, stt.TextDelta) and self._request.interim_results:
                            text += event.text
                            start_s, end_s = utterance.from_s, utterance.until_s
                            await self._emit([stt.Interim(text=text.strip(), start_s=start_s, end_s=end_s)])
        if transcript is None:
            raise UpstreamSlow(provider=self._provider, after_s=ANSWER_S, detail="no transcript of an utterance")
        _, ended = await utterance.wait_ended()   # the answer may come before the end
        await self._emit(_events(transcript, utterance.from_s, ended))

    async def _emit(self, events: list[ListenEvent]) -> None:
        if events:
            await self._send(self._to_client, events)

    # ---- the receiving task

    async def receive(self) -> list[ListenEvent]:
        """Raises what the provider raises."""
        try:
            return await self._events.receive()
        except trio.EndOfChannel:
            raise self._fault or self._past_the_end() from None

    def _past_the_end(self) -> UpstreamCut:
        return UpstreamCut(provider=self._provider, detail="read past the end of the session")


def _events(transcript: Transcript, from_s: float, ended: Ended) -> list[ListenEvent]:
    """Return the events of a complete utterance. The times of its words count from its first sample."""
    events: list[ListenEvent] = []
    if (text := transcript.text.strip()) and _NOISE.fullmatch(text) is None and ended.voiced:
        words = tuple(_shifted(word, from_s) for word in transcript.words)
        until_s = max(from_s, ended.at_s)
        events.append(stt.Final(text=text, start_s=from_s, end_s=until_s, words=words, language=transcript.language))
    if ended.pause:
        events.append(stt.UtteranceEnd(at_s=ended.at_s))
    return events


def _shifted(word: stt.Word, by_s: float) -> stt.Word:
    return msgspec.structs.replace(word, start_s=word.start_s + by_s, end_s=word.end_s + by_s)
