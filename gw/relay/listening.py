"""A live transcription session that survives its provider.

The caller's audio goes straight to the provider that listens now, and is kept until a final transcript covers it. When
that provider fails, falls silent or takes no more audio, the next candidate hears what is not final yet, as fast as it
takes it, and goes on with the live audio; its times are shifted to the session's. So no final is repeated and none lost.

    async with relay.listen(request, caller) as session:
        (one task)      await session.send_audio(frame) …  await session.finish()
        (another task)  while not session.done: for event in await session.receive(): …
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec
import trio

from gw.errors import CandidateSkipped, GwError, ProviderError, UpstreamCut, UpstreamSlow
from gw.providers.spec import CallbackListenSession, ListenSession
from gw.relay.attempts import PreparedCall
from gw.relay.live_session import BLOCKED_S, WATCH_S, LiveSession, SessionAttempt, SessionPlan
from gw.relay.loudness import Loudness
from gw.relay.meter import Attempt
from gw.relay.replay_buffer import ReplayBuffer
from gw.relay.session_audio import SessionAudio, passed_over
from gw.types.pending import Pending
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire.convert import CannotConvert
from gw.wire.durations import LengthMeter

REPLAY_BYTES = 65_536
EARLY_FRAMES = 64
"""Control frames kept until the first provider listens."""
UNANSWERED_S = 2.5
"""Speech that brings no event for so long, where interim results are asked for, and the provider has failed."""
UNANSWERED_WITHOUT_INTERIMS_S = 20.0


class Converter(Protocol):
    def feed(self, data: bytes) -> bytes: ...


class ListenLeg(SessionAttempt[ListenSession]):
    def __init__(
        self, call: PreparedCall[ListenSession], mark: Attempt, replay: ReplayBuffer, converter: Converter | None, *, contained: bool
    ) -> None:
        super().__init__(call, mark)
        self.contained = contained
        """It is given the caller's container from its beginning on, not samples."""
        self.after_s = 0.0
        """It hears again what stands until here."""
        self.length = LengthMeter() if contained else None
        self.begin_at(replay)
        self.speech_bytes = 0
        """Of speech it was given since its last event."""
        self._converter = converter

    def begin_with(self, session: ListenSession) -> None:
        self._hear: Callable[[bytes], Pending] = (
            session.send_audio_or_pending if isinstance(session, CallbackListenSession) else session.send_audio
        )

    def begin_at(self, replay: ReplayBuffer) -> None:
        self.begins = self.sent = replay.start
        """Offsets of the first byte it is given, and after the last one."""
        self.begins_s = replay.seconds(replay.start)
        """Where in the session's time its own time begins."""

    def give(self, data: bytes) -> Pending:
        """Raises what the provider raises."""
        if self.length is not None:
            self.length.feed(data)
        rest = self._hear(self._converter.feed(data) if self._converter is not None else data)
        return None if rest is None else self._waited(rest)

    async def _waited(self, rest: Awaitable[None]) -> None:
        self.sending_since = trio.current_time()
        try:
            await rest
        finally:
            self.sending_since = math.inf


class ListeningSession(LiveSession[ListenSession, ListenEvent, ListenLeg]):
    def __init__(
        self,
        request: ListenRequest,
        settled: SessionPlan[ListenSession],
        convert: Callable[[PreparedCall[ListenSession]], Converter | None],
        finish: Callable[[GwError | None, bool], None],
        told: Callable[[PreparedCall[ListenSession], Final, float], None],
    ) -> None:
        """`told`: of each final transcript, by whom, and with how many seconds of audio given to it until then."""
        super().__init__(settled, finish)
        self.request = request
        self._told = told
        self.hearing = SessionAudio(request.format)
        self._tells: Callable[[list[ListenEvent]], Pending] | None = None
        self._flushed = 0
        """Offset of the audio that was to be final at once."""
        self._early: list[str] = []
        self._telling = False
        """While that takes long it is the caller who is slow, not the provider."""
        self._convert = convert
        self._loudness = Loudness(self.hearing.samples)
        self._unanswered_s = UNANSWERED_S if request.interim_results else UNANSWERED_WITHOUT_INTERIMS_S

    @property
    def replay(self) -> ReplayBuffer:
        return self.hearing.replay

    def seconds_of(self, leg: ListenLeg) -> float:
        """Of the audio it was given."""
        return leg.length.seconds if leg.length is not None else self.replay.seconds(leg.sent - leg.begins)

    def of_use(self, leg: ListenLeg) -> float:
        """Seconds of that which no other provider had to hear again, or which came to something before the session failed."""
        later = self.legs[self.legs.index(leg) + 1 :]
        if not later and self._failure is None:
            return self.seconds_of(leg)
        until = min((other.begins for other in later), default=self.replay.start)
        return 0.0 if leg.length is not None else self.replay.seconds(max(0, min(until, leg.sent) - leg.begins))

    # ------------------------------------------------------------------ the caller's side

    async def tell_all(self, tell: Callable[[list[ListenEvent]], Pending]) -> None:
        """In place of `receive`, until the session has ended: `tell` is called where the provider is read.

        A hop less for every event. What `tell` raises ends the session.
        """
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                events = self._events.receive_nowait()
                self._going_out(events)
                if (rest := tell(events)) is not None:
                    await rest
        self._tells = tell
        try:
            await self._events.receive()
        except trio.EndOfChannel:
            if self._failure is not None:
                raise self._failure from None

    def _emit(self, events: list[ListenEvent]) -> Pending:
        if self._tells is None:
            return self._out.send(events)
        self._going_out(events)
        rest = self._tells(events)
        return None if rest is None else self._wait_for_caller(rest)

    async def _wait_for_caller(self, rest: Awaitable[None]) -> None:
        self._telling = True
        try:
            await rest
        finally:
            self._telling = False

    async def send_audio(self, data: bytes) -> None:
        """Raw samples, or pieces of a container, as announced. A provider's failure is not the sender's business.

        Raises what `SessionAudio.take` raises.
        """
        if (rest := self.hear(data)) is not None:
            await rest
        elif self._leg is None or not self._leg.live:
            await trio.lowlevel.checkpoint()

    def hear(self, data: bytes) -> Pending:
        """As `send_audio`; what of it is left to wait for."""
        if not data:
            return None
        if self.hearing.contained:
            return self._take(data)
        self.hearing.replay.append(data)
        return self._give(data, data)

    async def _take(self, data: bytes) -> None:
        samples = await self.hearing.take(data)
        if (rest := self._give(data, samples)) is not None:
            await rest

    def _give(self, data: bytes, samples: bytes) -> Pending:
        leg = self._leg
        if leg is None or not leg.live:
            return None
        leg.sent = self.hearing.replay.end
        if self._loudness.speaks(samples):
            leg.speech_bytes += len(samples)
        given = data if leg.contained else samples
        if not given:
            return None
        try:
            rest = leg.give(given)
        except ProviderError as error:
            _gone(leg, error)
            return None
        return None if rest is None else _given(leg, rest)

    async def flush(self) -> None:
        """Make what was heard so far final now; where no provider listens yet, as soon as one has heard it."""
        self._flushed = self.replay.end
        await self._tell(lambda session: session.flush())

    async def send_frame(self, frame: str) -> None:
        """A control frame of the caller's dialect, for a provider that speaks it. The first one is given those of before."""
        leg = self._leg
        if leg is None or not leg.live:
            if not self.legs[1:] and len(self._early) < EARLY_FRAMES:
                self._early.append(frame)
            await trio.lowlevel.checkpoint()
        elif leg.call.spec.dialect == self.request.dialect:
            await self._tell(lambda session: session.send_frame(frame))

    async def finish(self) -> None:
        """No more audio will come."""
        if self.hearing.contained and (rest := self._give(b"", await self.hearing.end())) is not None:
            await rest
        self._finishing = True
        await self._tell(lambda session: session.finish())

    async def _tell(self, what: Callable[[ListenSession], Awaitable[None]]) -> None:
        leg = self._leg
        if leg is None or not leg.live or leg.session is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            await what(leg.session)
        except ProviderError as error:
            leg.fault = leg.fault or error

    # ------------------------------------------------------------------ the providers' side

    def _is_last(self, event: ListenEvent) -> bool:
        return isinstance(event, ListenEnd)

    @property
    def _can_move(self) -> bool:
        return self.hearing.can_move

    def _begin(self, call: PreparedCall[ListenSession], mark: Attempt) -> ListenLeg:
        contained = self.hearing.source_for(call.spec) != self.hearing.samples
        return ListenLeg(call, mark, self.replay, self._convert(call), contained=contained)

    async def _use(self, leg: ListenLeg, session: ListenSession, scope: trio.CancelScope) -> None:
        if leg.contained:
            leg.after_s = self.hearing.final_s
        elif self.hearing.contained:
            await self._decode(leg)
        leg.begin_with(session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._replay_to, leg, session)
            nursery.start_soon(self._watch, leg, session, scope)
            if isinstance(session, CallbackListenSession):
                await session.for_each_batch(partial(self._pass_on, leg))
            while not leg.ended:
                if (rest := self._pass_on(leg, await session.receive())) is not None:
                    await rest
            nursery.cancel_scope.cancel()

    async def _decode(self, leg: ListenLeg) -> None:
        """Raises ProviderError where it turns out that nothing can be made of the caller's audio for this provider."""
        provider = leg.call.provider.id
        try:
            await self.hearing.decode()
        except CannotConvert as error:
            skipped = CandidateSkipped(provider=provider, reason="missing_ability", detail=str(error))
            raise passed_over(error, provider) or skipped from None
        leg.begin_at(self.replay)

    def _pass_on(self, leg: ListenLeg, events: list[ListenEvent]) -> Pending:
        leg.last_event_at = trio.current_time()
        leg.speech_bytes = 0
        self._answered(leg)
        if leg.begins_s:
            events = [_later(event, leg.begins_s) for event in events]
        if leg.after_s:
            events = [event for event in events if not _stands(event, leg.after_s)]
        for event in events:
            if isinstance(event, Final):
                self.hearing.final_until(event.end_s)
                self._told(leg.call, event, self.replay.seconds(leg.sent))
            elif isinstance(event, ListenEnd):
                leg.ended = True
                leg.reported = event.usage
        if leg.ended and not self._finishing:
            raise UpstreamCut(provider=leg.call.provider.id, detail="ended the session by itself")
        return self._emit(events) if events else None

    async def _replay_to(self, leg: ListenLeg, session: ListenSession) -> None:
        """Give what is kept, then let the sender give the rest itself."""
        replay = self.replay
        number = 0
        while leg.contained and (piece := self.hearing.piece(number, leg.call.provider.id)) is not None:
            number += 1
            if (rest := leg.give(piece)) is not None:
                await rest
        while not leg.contained and (data := replay.read(leg.sent, REPLAY_BYTES)):
            leg.sent = max(leg.sent, replay.start) + len(data)
            if (rest := leg.give(data)) is not None:
                await rest
        leg.live = True
        if leg.call.spec.dialect == self.request.dialect:
            for frame in self._early:
                await session.send_frame(frame)
        self._early.clear()
        if self._finishing:
            await session.finish()
        elif self._flushed > replay.start:  # and what was asked for is not final yet
            await session.flush()

    async def _watch(self, leg: ListenLeg, session: ListenSession, scope: trio.CancelScope) -> None:
        """Fail a provider that takes no audio, or hears speech and says nothing."""
        provider, idle_s = leg.call.provider.id, self._settled.idle_s
        while leg.fault is None:
            await trio.sleep(WATCH_S)
            if self._telling:
                continue
            now = trio.current_time()
            silent_s = now - max(leg.last_event_at, session.last_activity_at)
            if now - leg.sending_since > BLOCKED_S:
                leg.fault = UpstreamSlow(provider=provider, after_s=BLOCKED_S, detail="takes no more audio")
            elif self._finishing and silent_s > idle_s:
                leg.fault = UpstreamSlow(provider=provider, after_s=silent_s, detail="did not end the session")
            elif (speech_s := self.replay.seconds(leg.speech_bytes)) > self._unanswered_s < silent_s:
                detail = f"no event for {speech_s:.1f} s of speech"
                leg.fault = UpstreamSlow(provider=provider, after_s=silent_s, detail=detail)
        scope.cancel()


async def _given(leg: ListenLeg, rest: Awaitable[None]) -> None:
    try:
        await rest
    except ProviderError as error:
        _gone(leg, error)


def _gone(leg: ListenLeg, error: ProviderError) -> None:
    """It takes no more: its reader tells; what was not heard is kept."""
    leg.fault = leg.fault or error
    leg.live = False


def _stands(event: ListenEvent, until_s: float) -> bool:
    """It is about what another provider has transcribed before."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return event.at_s <= until_s
        case Interim() | Final():
            return event.end_s <= until_s
    return False


def _later(event: ListenEvent, by_s: float) -> ListenEvent:
    """The event in the session's time; its frame, which has the provider's time, is not passed on."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return msgspec.structs.replace(event, at_s=event.at_s + by_s, raw=None)
        case Interim() | Final():
            words = tuple(_word_later(word, by_s) for word in event.words)
            return msgspec.structs.replace(
                event, start_s=event.start_s + by_s, end_s=event.end_s + by_s, words=words, raw=None
            )
        case ListenEnd():
            return msgspec.structs.replace(event, raw=None)
        case VendorFrame():
            return event


def _word_later(word: Word, by_s: float) -> Word:
    return msgspec.structs.replace(word, start_s=word.start_s + by_s, end_s=word.end_s + by_s)
