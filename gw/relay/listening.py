"""A live transcription session that survives its provider.

The caller's audio goes straight to the provider that serves the session, and is buffered until a final transcript
covers it. When that provider fails, falls silent or takes no more audio, the next candidate gets the audio that is not
final yet, as fast as it takes it, and goes on with the live audio; its times are shifted to the session's. So no final
is repeated and none lost.

The states are those of `gw.relay.live_session`. The audio buffered, and the audio an attempt is sent first:

    caller's audio       buffered                                sent while replaying
    ──────────────────   ─────────────────────────────────────   ──────────────────────────────────────────────────
    raw samples          from the last final transcript on       the same
    container, no final  from its beginning on                   the container; or samples, decoded from its beginning
    container, a final   decoded, from the last final on         samples
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import attrs
import trio
from msgspec.structs import replace

from gw.errors import CandidateSkipped, PluginMissing, ProviderError, UpstreamCut
from gw.policy.turns import Turns
from gw.providers.spec import Account, CallbackListenSession, ListenSession, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.attempts import AttemptScope
from gw.relay.candidates import CandidatePlanner, OpenCall, PreparedCall, offered
from gw.relay.in_flight import InFlight
from gw.relay.live_session import BLOCKED_S, LiveSession, SessionAttempt
from gw.relay.meter import Attempt
from gw.relay.session_audio import ReplayBuffer, SessionAudio, is_loud
from gw.relay.transcoding import live_format
from gw.types.audio import AudioFormat
from gw.types.pending import Pending
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame
from gw.types.usage import HeardSpeech, Usage, UsageSource
from gw.wire import convert
from gw.wire.convert import CannotConvert
from gw.wire.durations import USUAL_BYTES_PER_S, LengthMeter

REPLAY_BYTES = 65_536
EARLY_FRAMES = 64  # control frames buffered until the first provider is live
UNANSWERED_S = 2.5
"""Speech that brings no event for so long, where interim results are asked for, means that the provider has failed."""
UNANSWERED_WITHOUT_INTERIMS_S = 20.0


class ListeningAttempt(SessionAttempt[ListenSession]):
    def __init__(self, call: PreparedCall[ListenSession], attempt: Attempt, audio: SessionAudio) -> None:
        super().__init__(call, attempt)
        source = audio.source_for(call.spec)
        self.as_container = source != audio.samples
        """The provider gets the caller's container from its beginning on, not samples."""
        self.final_s = 0.0  # the provider gets audio again that is final until here
        self.length = LengthMeter() if self.as_container else None
        self.start_at(audio.replay)
        self.unanswered_bytes = 0  # speech sent to the provider since its last event
        self._converter = convert.converter(source, _format_for(source, call.spec))

    def start_at(self, replay: ReplayBuffer) -> None:
        self.start_offset = self.sent_offset = replay.start
        """Offsets of the first byte sent to the provider, and after the last one."""
        self.starts_s = replay.seconds(replay.start)  # start of the provider's time in the session's

    def connected(self, session: ListenSession) -> None:
        self._send: Callable[[bytes], Pending] = (
            session.send_audio_or_pending if isinstance(session, CallbackListenSession) else session.send_audio
        )

    def send_or_pending(self, data: bytes) -> Pending:
        """Send audio without blocking where that is possible. Raise what the provider raises."""
        if self.length is not None:
            self.length.feed(data)
        pending = self._send(self._converter.feed(data) if self._converter is not None else data)
        return None if pending is None else self._wait(pending)

    async def _wait(self, pending: Awaitable[None]) -> None:
        self.sending_since = trio.current_time()
        try:
            await pending
        finally:
            self.sending_since = math.inf


class ListeningSession(LiveSession[ListenSession, ListenEvent, ListeningAttempt]):
    last_event = ListenEnd

    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, turns: Turns, request: ListenRequest) -> None:
        super().__init__(planner, in_flight, "stt", request)
        self.request = request
        self.audio = SessionAudio(request.format)
        self.replay = self.audio.replay
        self._turns = turns
        self._deliver: Callable[[list[ListenEvent]], Pending] | None = None
        self._flush_offset = 0  # end of the audio that was to be final at once
        self._early_frames: list[str] = []
        self._caller_is_slow = False  # delivering events takes long: then the provider's silence is not its fault
        self._unanswered_s = UNANSWERED_S if request.interim_results else UNANSWERED_WITHOUT_INTERIMS_S

    # ------------------------------------------------------------------ the caller's side

    async def for_each_batch(self, deliver: Callable[[list[ListenEvent]], Pending]) -> None:
        """Call `deliver` with each list of events where the provider is read, until the session has ended.

        In place of `receive`, it saves a hop for every event. An exception of `deliver` ends the session.
        """
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                events = self._events.receive_nowait()
                self._before_delivery(events)
                if (pending := deliver(events)) is not None:
                    await pending
        self._deliver = deliver
        try:
            await self._events.receive()
        except trio.EndOfChannel:
            if self._failure is not None:
                raise self._failure from None

    def _emit(self, events: list[ListenEvent]) -> Pending:
        if self._deliver is None:
            return self._out.send(events)
        self._before_delivery(events)
        pending = self._deliver(events)
        return None if pending is None else self._wait_for_caller(pending)

    async def _wait_for_caller(self, pending: Awaitable[None]) -> None:
        self._caller_is_slow = True
        try:
            await pending
        finally:
            self._caller_is_slow = False

    async def send_audio(self, data: bytes) -> None:
        """Send samples, or pieces of a container. Raise what `SessionAudio.add` raises, but no provider's failure."""
        if (pending := self.send_audio_or_pending(data)) is not None:
            await pending
        elif self._current is None or not self._current.live:
            await trio.lowlevel.checkpoint()

    def send_audio_or_pending(self, data: bytes) -> Pending:
        """Like `send_audio`, as far as that goes without blocking."""
        if not data:
            return None
        if self.audio.is_container:
            return self._send_container(data)
        self.audio.replay.append(data)
        return self._send(data, data)

    async def _send_container(self, data: bytes) -> None:
        samples = await self.audio.add(data)
        if (pending := self._send(data, samples)) is not None:
            await pending

    def _send(self, data: bytes, samples: bytes) -> Pending:
        """Send a live provider the form it gets."""
        attempt = self._current
        if attempt is None or not attempt.live:
            return None
        attempt.sent_offset = self.audio.replay.end
        if is_loud(samples, self.audio.samples.encoding):
            attempt.unanswered_bytes += len(samples)
        form = data if attempt.as_container else samples
        if not form:
            return None
        try:
            pending = attempt.send_or_pending(form)
        except ProviderError as error:
            attempt.stop_sending(error)
            return None
        return None if pending is None else _wait_for_provider(attempt, pending)

    async def flush(self) -> None:
        """Make all audio until now final at once; before a provider is live, as soon as one has it."""
        self._flush_offset = self.replay.end
        await self._forward(lambda session: session.flush())

    async def send_frame(self, frame: str) -> None:
        """Send a control frame to a provider of the caller's dialect. The first provider gets earlier frames too."""
        attempt = self._current
        if attempt is None or not attempt.live:
            if not self.attempts[1:] and len(self._early_frames) < EARLY_FRAMES:
                self._early_frames.append(frame)
            await trio.lowlevel.checkpoint()
        elif attempt.call.spec.dialect == self.request.dialect:
            await self._forward(lambda session: session.send_frame(frame))

    async def finish(self) -> None:
        """Announce that no more audio will come."""
        if self.audio.is_container and (pending := self._send(b"", await self.audio.end())) is not None:
            await pending
        self._finishing = True
        await self._forward(lambda session: session.finish())

    # ------------------------------------------------------------------ the providers' side

    def _can_move(self) -> bool:
        return self.audio.can_move

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[ListenSession]:
        call = offered(spec.listen, account)
        language = self.request.language or model.default_language
        try:
            source = self.audio.source_for(spec)
            fmt = _format_for(source, spec)
            convert.converter(source, fmt)
        except CannotConvert as error:
            raise _skipped(error, account.provider_id) from None
        return lambda: call(attrs.evolve(self.request, format=fmt, language=language), account)

    def _session_attempt(self, call: PreparedCall[ListenSession], attempt: Attempt) -> ListeningAttempt:
        self.note_billed_options(call, self.request)
        return ListeningAttempt(call, attempt, self.audio)

    async def _use(
        self, attempt: ListeningAttempt, session: ListenSession, scope: AttemptScope[ListenSession, ListenEvent]
    ) -> None:
        if attempt.as_container:
            attempt.final_s = self.audio.final_s
        elif self.audio.is_container:
            try:
                await self.audio.decode()
            except CannotConvert as error:
                raise _skipped(error, attempt.call.provider.id) from None
            attempt.start_at(self.replay)
        attempt.connected(session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._replay, attempt, session)
            nursery.start_soon(self._watch, attempt, scope)
            if isinstance(session, CallbackListenSession):
                await session.for_each_batch(partial(self._pass_on, attempt))
            while not attempt.ended:
                if (pending := self._pass_on(attempt, await session.receive())) is not None:
                    await pending
            nursery.cancel_scope.cancel()

    def _pass_on(self, attempt: ListeningAttempt, events: list[ListenEvent]) -> Pending:
        attempt.last_event_at = trio.current_time()
        attempt.unanswered_bytes = 0
        self._note_answered(attempt)
        if attempt.starts_s:
            events = [shifted(event, attempt.starts_s) for event in events]
        if attempt.final_s:
            events = [event for event in events if not is_covered(event, attempt.final_s)]
        for event in events:
            if isinstance(event, Final):
                self.audio.final_until(event.end_s)
                self._track_turn(attempt, event)
            elif isinstance(event, ListenEnd):
                attempt.ended = True
                attempt.reported = event.usage
        if attempt.ended and not self._finishing:
            raise UpstreamCut(provider=attempt.call.provider.id, detail="ended the session by itself")
        return self._emit(events) if events else None

    def _track_turn(self, attempt: ListeningAttempt, final: Final) -> None:
        """Remember a final transcript as a part of its turn.

        The time at which the speaker stopped follows from the audio sent since, so it is right at real time and never
        in the future.
        """
        call, meter, sent_s = attempt.call, self.meter, self.replay.seconds(attempt.sent_offset)
        now = meter.now()
        end_s = final.words[-1].end_s if final.words else final.end_s
        late_s = min(max(0.0, sent_s - end_s), now - meter.timestamp) if end_s > 0 else 0.0
        speech = Usage(audio_seconds=max(0.0, final.end_s - final.start_s)).with_addons(call.addons)
        part = HeardSpeech(
            request_id=meter.id,
            model_id=call.model.id,
            ended_at=now - late_s,
            final_at=now,
            audio_seconds=speech.audio_seconds,
            cost_nusd=meter.cost_of(speech, call.model, call.provider, live=True).nusd,
        )
        self._turns.transcript(meter.place, final.text, now, part)

    async def _replay(self, attempt: ListeningAttempt, session: ListenSession) -> None:
        """Send the provider all buffered audio; from then on the sender sends to it directly."""
        replay = self.replay
        number = 0
        while attempt.as_container and (piece := self.audio.piece(number, attempt.call.provider.id)) is not None:
            number += 1
            if (pending := attempt.send_or_pending(piece)) is not None:
                await pending
        while not attempt.as_container and (data := replay.read(attempt.sent_offset, REPLAY_BYTES)):
            attempt.sent_offset = max(attempt.sent_offset, replay.start) + len(data)
            if (pending := attempt.send_or_pending(data)) is not None:
                await pending
        attempt.live = True
        if attempt.call.spec.dialect == self.request.dialect:
            for frame in self._early_frames:
                await session.send_frame(frame)
        self._early_frames.clear()
        if self._finishing:
            await session.finish()
        elif self._flush_offset > replay.start:  # and that audio is not final yet
            await session.flush()

    def _silent_failure(self, attempt: ListeningAttempt, now: float) -> ProviderError | None:
        if self._caller_is_slow or attempt.session is None:
            return None
        silent_s = now - max(attempt.last_event_at, attempt.session.last_activity_at)
        if now - attempt.sending_since > BLOCKED_S:
            return self._slow(attempt, BLOCKED_S, "takes no more audio")
        if self._finishing and silent_s > self.idle_s:
            return self._slow(attempt, silent_s, "did not end the session")
        speech_s = self.replay.seconds(attempt.unanswered_bytes)
        if speech_s > self._unanswered_s and silent_s > self._unanswered_s:
            return self._slow(attempt, silent_s, f"no event for {speech_s:.1f} s of speech")
        return None

    def _usage(self, attempt: ListeningAttempt) -> tuple[Usage, Usage]:
        """Audio is of use if no other provider had to hear it again and, in a failed session, if it became final."""
        replay, length = self.replay, attempt.length
        source: UsageSource
        if length is None:
            source, sent_s = "measured", replay.seconds(attempt.sent_offset - attempt.start_offset)
        elif sent_s := length.seconds:
            source = "measured"
        else:
            source, sent_s = "estimated", length.fed / USUAL_BYTES_PER_S
        later = self.attempts[self.attempts.index(attempt) + 1 :]
        reached_s = sent_s
        if later or self._failure is not None:
            until = min([other.start_offset for other in later], default=replay.start)
            useful = max(0, min(until, attempt.sent_offset) - attempt.start_offset)
            reached_s = replay.seconds(useful) if length is None else 0.0
        return Usage(audio_seconds=sent_s, source=source), Usage(audio_seconds=reached_s)


def _format_for(source: AudioFormat, spec: ProviderSpec) -> AudioFormat:
    return live_format(source, spec.listen_formats, spec.listen_rates_hz)


def _skipped(error: CannotConvert, provider: str) -> ProviderError:
    if error.extra:  # an extra would make the provider usable
        return PluginMissing(provider=provider, module="av", extra=error.extra)
    return CandidateSkipped(provider=provider, reason="missing_ability", detail=str(error))


async def _wait_for_provider(attempt: ListeningAttempt, pending: Awaitable[None]) -> None:
    try:
        await pending
    except ProviderError as error:
        attempt.stop_sending(error)


def is_covered(event: ListenEvent, until_s: float) -> bool:
    """Return whether the event is about audio that another provider has transcribed before."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return event.at_s <= until_s
        case Interim() | Final():
            return event.end_s <= until_s
    return False


def shifted(event: ListenEvent, by_s: float) -> ListenEvent:
    """Return the event with its times moved; its frame, which has the provider's times, is not passed on."""
    match event:
        case SpeechStarted() | UtteranceEnd():
            return replace(event, at_s=event.at_s + by_s, raw=None)
        case Interim() | Final():
            words = tuple([replace(word, start_s=word.start_s + by_s, end_s=word.end_s + by_s) for word in event.words])
            return replace(event, start_s=event.start_s + by_s, end_s=event.end_s + by_s, words=words, raw=None)
        case ListenEnd():
            return replace(event, raw=None)
        case VendorFrame():
            return event
