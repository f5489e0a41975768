"""A live speech session of which the phrase cache speaks what it has, and a vendor the rest.

Each part of the text (`gw.policy.phrase_parts`) is an attempt of its own, one after the other: speech from the cache without a call,
and the other parts like a session of their own, with its failovers. So times, what was heard, and the record, in which each attempt has
its own cost, are those of a session that was served by several candidates.

    part             its attempt ends
    ──────────────   ───────────────────────────────────────────────────────────────────────────────────────────────────
    from the cache   when all its audio was passed on
    for a vendor     when the vendor has spoken all of it: it is finished when the text that follows is from the cache, or is over
    a flush          at once: it comes after text that the cache spoke

What a vendor speaks as one part, to its end and alone, is kept.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import trio

from gw.errors import ProviderError
from gw.net.prewarm import PrewarmedSockets
from gw.net.wakeup import Wakeup
from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take
from gw.policy.phrase_parts import HOLD_S, TextPart, TextParts
from gw.policy.turn_finder import TurnFinder
from gw.providers.spec import SpeakSession
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.cached_speech import TakeRecorder
from gw.relay.candidate_voice import note_voice
from gw.relay.candidates import CandidatePlanner
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.kept_voice import KeptVoice, NotInMemory, kept_voice
from gw.relay.prepared_call import PreparedCall
from gw.relay.speaking import SpeakingSession
from gw.relay.speaking_attempt import SpeakingAttempt
from gw.relay.voice_pace import VoicePaces
from gw.types.audio import AudioFormat
from gw.types.entities import PhraseRules
from gw.types.pending import Pending
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming

T = TypeVar("T")

_PIECE_S = 0.2
_PIECE_BYTES = 16_384  # of audio whose length cannot be read


class _NoVoice:
    """The texts of a candidate that cannot speak."""

    def has(self, text: str) -> bool:
        return False

    def may_have(self, beginning: str) -> bool:
        return False


class CachedSpeakSession:
    """A `SpeakSession` that plays one take, in pieces as a vendor sends it."""

    def __init__(self, take: Take) -> None:
        self.format: AudioFormat = take.format
        self._pieces = _pieces(take)

    async def send_text(self, text: str) -> None:
        """Ignore the text, which the take speaks."""

    async def flush(self) -> None:
        """Do nothing: a flush ends the part."""

    async def finish(self) -> None:
        """Do nothing: the take has an end."""

    async def send_frame(self, frame: str) -> None:
        """Drop a frame of the caller's."""

    async def clear(self) -> None:
        self._pieces = []

    async def receive(self) -> list[SpeakEvent]:
        await trio.lowlevel.checkpoint()
        return self._pieces.pop(0) if self._pieces else [SpeakEnd()]


@asynccontextmanager
async def _opened(take: Take) -> AsyncIterator[SpeakSession]:
    yield CachedSpeakSession(take)


def _pieces(take: Take) -> list[list[SpeakEvent]]:
    """Cut a take into pieces, each with the words that begin in it."""
    fmt, words = take.format, list(take.words)
    frame = max(1, fmt.bytes_per_second // (fmt.sample_rate_hz or 1))
    size = int(_PIECE_S * (fmt.bytes_per_second // frame)) * frame or _PIECE_BYTES
    pieces: list[list[SpeakEvent]] = []
    for at in range(0, len(take.audio), size):
        data = take.audio[at : at + size]
        end_s = fmt.seconds(at + size) if fmt.bytes_per_second and at + size < len(take.audio) else math.inf
        count = next((n for n, word in enumerate(words) if word.start_s >= end_s), len(words))
        pieces.append([*words[:count], AudioChunk(data=data)])
        del words[:count]
    return pieces


class CachedSpeakingSession(SpeakingSession):
    """The session of a project with `phrase_cache`. Enter it with `run`, like any."""

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, turns: TurnFinder, request: SpeakLiveRequest,
        prewarmed: PrewarmedSockets | None, paces: VoicePaces, phrases: PhraseCache, rules: PhraseRules,
    ) -> None:  # fmt: skip
        super().__init__(planner, in_flight, turns, request, prewarmed, paces)
        self._phrases, self._rules = phrases, rules
        self._part: TextPart | None = None  # the part that is served
        self._take: Take | None = None  # its take, if the cache speaks it
        self._recorder: TakeRecorder | None = None
        self._deciding = trio.Lock()
        self._changed = Wakeup()  # wakes the driver, which waits for the next part
        self._held_until = math.inf
        self._holding = Wakeup()  # wakes the task that ends the hold
        self._ended = False  # the vendor's end of its audio was passed on as that of the session
        self._kept: KeptVoice | None = None
        self._parts: TextParts

    def _begin(self) -> None:
        super()._begin()
        self._kept = kept = self._kept_voice(self.candidates.models[0])
        if kept is not None:
            self._phrases.recent.note(kept.voice_key, kept.model.id, kept.voice, self.request, self.meter.caller)
        self._parts = TextParts(self._kept or _NoVoice(), only_whole=not self._rules.sentences)
        self.start_soon(self._end_holds)

    def _kept_voice(self, model: Model) -> KeptVoice | None:
        with suppress(ProviderError):  # the attempt meets it
            return kept_voice(self._phrases, self._rules, self.planner, self.candidates, self.request, model)
        return None

    # ------------------------------------------------------------------ the caller's side

    async def send_text(self, text: str) -> None:
        if text:
            self.text.add(text)
            self._find_turn()
            async with self._deciding:
                self._parts.add(text)
                await self._decided(self._parts.decide)
                await self._release()

    async def flush(self) -> None:
        self.text.flush()
        self._find_turn(complete=True)
        async with self._deciding:
            for_vendor = await self._decided(self._parts.flush)
            await self._release()
            if for_vendor and self._part is not None and self._part is self._parts.open:
                await self._send(None)

    async def finish(self) -> None:
        self._find_turn(complete=True)
        async with self._deciding:
            await self._decided(self._parts.finish)
            await self._release()

    async def clear(self) -> None:
        async with self._deciding:
            self._parts.clear()
            self._recorder = None
            if self._part is not None and self._part is self._parts.open:
                self.text.limit = self._part.end
            await super().clear()
            await self._release()

    async def _decided(self, step: Callable[[], T]) -> T:
        """Return what `step` returns once all phrases that it looks for are in memory."""
        while True:
            try:
                return step()
            except NotInMemory as missing:
                key = missing.key
            await self._phrases.recall(key, self._rules.takes)

    async def _release(self) -> None:
        """Pass on what was decided: text for the vendor that speaks now, or that it gets no more."""
        part = self._part
        if part is not None and not part.cached and not self._finishing:
            before = self.text.end
            self.text.limit = part.end
            if piece := self.text.text[before : part.end]:
                await self._send(piece)
            if part.closed:
                await super().finish()
        self._held_until = trio.current_time() + HOLD_S if self._parts.held else math.inf
        self._holding.wake()
        self._changed.wake()

    async def _end_holds(self) -> None:
        """Wait no longer for text that may be a kept one when no more has come for HOLD_S. Ends with the session."""
        while True:
            with trio.move_on_at(self._held_until):
                await self._holding.wait()
                continue
            async with self._deciding:
                if trio.current_time() >= self._held_until:
                    await self._decided(self._parts.expire)
                    await self._release()

    # ------------------------------------------------------------------ part after part

    async def _serve_all(self) -> None:
        while (part := await self._next_part()) is not None:
            if part.is_flush:
                await self._events.put([Flushed()])
            elif part.cached:
                assert self._kept is not None
                await self._serve(self._kept.model)
            else:
                await try_in_turn(self.order, self._serve, self._can_move)
                assert self._current is not None
                self.order.put_back(self._current.call.model)
            async with self._deciding:
                self.text.spoken = max(self.text.spoken, part.end)
                self._part = None
                if not part.is_flush and self.attempts:
                    self.attempts[-1].completed = True
        if not self._ended:
            await self._events.put([SpeakEnd()])

    async def _next_part(self) -> TextPart | None:
        """Wait for the next part, and make it the one that is served; None after the last."""
        while not self._parts.has_next:
            if self._parts.is_over:
                return None
            await self._changed.wait()
        async with self._deciding:
            self._part = part = self._parts.next()
            self._take = self._find_take(part) if part.cached else None
            part.cached = self._take is not None
            if not part.cached and not part.is_flush:
                self._phrases.note_miss()
            self.text.limit = part.end
            self._finishing = part.closed
            return part

    def _find_take(self, part: TextPart) -> Take | None:
        """Return the take of a part; None if it has left the cache, or another candidate has begun to speak."""
        kept, current, text = self._kept, self._current, self._text_of(part)
        if kept is None or (current is not None and current.call.model is not kept.model):
            return None
        return kept.find(text) if self._phrases.has(kept.key_of(text), self._rules.takes) else None

    def _text_of(self, part: TextPart) -> str:
        return self.text.text[part.start : part.end].strip()

    def _dial(self, model: Model) -> AbstractAsyncContextManager[OpenAttempt[SpeakSession, SpeakEvent]]:
        return AttemptScope(self, model) if self._take is not None else super()._dial(model)

    def prepare(self, model: Model, now: float) -> PreparedCall[SpeakSession]:
        if self._take is None:
            call = super().prepare(model, now)
            call.cache = "miss"
            return call
        provider, spec, _ = self.planner.endpoint(self.candidates, model)
        gate = self.planner.uncalled_gate(self.candidates, model, now)
        call = PreparedCall[SpeakSession](model, provider, spec, gate, partial(_opened, self._take), cache="hit")
        return note_voice(call, self.candidates, self.request)

    def lease_call(self, model: Model, now: float) -> Pending:
        return None if self._take is not None else super().lease_call(model, now)

    def note_speed(self, model: Model, seconds: float) -> None:
        if self._take is None:
            super().note_speed(model, seconds)

    def _silent_failure(self, attempt: SpeakingAttempt, now: float) -> ProviderError | None:
        return None if self._take is not None else super()._silent_failure(attempt, now)

    def _shortness(self, attempt: SpeakingAttempt, event: Flushed | SpeakEnd) -> ProviderError | None:
        return None if self._take is not None else super()._shortness(attempt, event)

    # ------------------------------------------------------------------ what is spoken

    def _session_attempt(self, call: PreparedCall[SpeakSession], attempt: Attempt) -> SpeakingAttempt:
        made = super()._session_attempt(call, attempt)
        part = self._part
        whole = part is not None and self._take is None and made.progress.start <= part.start
        self._recorder = TakeRecorder(self.format) if whole else None
        return made

    def _audio(self, attempt: SpeakingAttempt, chunk: AudioChunk) -> AudioChunk:
        chunk = super()._audio(attempt, chunk)
        self._record(chunk)
        return chunk

    def _noted(self, attempt: SpeakingAttempt, event: WordTiming | Flushed | SpeakEnd | VendorFrame) -> list[SpeakEvent]:
        if isinstance(event, WordTiming):
            self._record(event)
        events = super()._noted(attempt, event)
        if not isinstance(event, SpeakEnd):
            return events
        for later in events:
            if isinstance(later, AudioChunk):
                self._record(later)
        self._keep(attempt)
        if self._finishing and self._parts.is_over:
            self._ended = True
            return events
        return [later for later in events if not isinstance(later, SpeakEnd)]

    def _record(self, event: SpeakEvent) -> None:
        if self._recorder is not None and not self._recorder.add(event):
            self._recorder = None

    def _save(self, attempt: SpeakingAttempt, nusd: int) -> None:
        super()._save(attempt, nusd)
        if self._kept is not None:
            start = attempt.progress.start
            self._phrases.note_saved(self._kept.key_of(self.text.text[start : start + attempt.characters]), nusd)

    def _keep(self, attempt: SpeakingAttempt) -> None:
        """Keep what a vendor has spoken of a part, if it was all of it."""
        recorder, self._recorder = self._recorder, None
        part, rules, model = self._part, self._rules, attempt.call.model
        if recorder is None or part is None or not self._finishing:
            return
        text, voice = self._text_of(part), self._kept_voice(model)
        if voice is not None and len(text) <= rules.longest and (take := recorder.take()) is not None:
            phrase = KeptPhrase(self.candidates.project.id, model.id, voice.voice, text, [take], voice.voice_key)
            self._phrases.add(voice.key_of(text), phrase, rules.takes)


def can_join(fmt: AudioFormat) -> bool:
    """Return whether audio of several sources can follow each other in one stream: samples, and frames of MP3."""
    return bool(fmt.bytes_per_second and fmt.encoding != "wav") or fmt.encoding == "mp3"
