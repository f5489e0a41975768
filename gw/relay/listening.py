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

import attrs
import structlog
import trio

from gw.errors import ProviderError, UpstreamCut
from gw.policy.answer_times import AnswerTimes
from gw.policy.turn_finder import TurnFinder
from gw.providers.spec import Account, CallbackListenSession, ListenSession, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.candidates import CandidatePlanner, offered
from gw.relay.held_end import HeldEnd
from gw.relay.in_flight import InFlight
from gw.relay.joined_words import WordJoin
from gw.relay.listening_attempt import NOTED_S, ListeningAttempt, format_for, note_ignored, skipped, wait_for_provider
from gw.relay.live_session import LiveSession
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.session_audio import SessionAudio
from gw.relay.silence_watch import SilenceWatch
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending, awaited, pending_error
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest
from gw.types.usage import Usage, UsageSource
from gw.wire import convert
from gw.wire.durations import USUAL_BYTES_PER_S
from gw.wire.json_frames import type_or

MAX_FRAMES = 64  # control frames kept for the next provider
LOOK_AGAIN_S = 0.02  # a silent provider may have answered while this process was busy
GIVE_UP_S = 3.0  # speech that the last provider to be dialled must leave unanswered: if it is given up, the session has failed

Deliver = Callable[[list[ListenEvent]], Pending]

_log = structlog.get_logger("gw.relay")


@mypyc_attr(allow_interpreted_subclasses=True)
class ListeningSession(LiveSession[ListenSession, ListenEvent, ListeningAttempt]):
    last_event = ListenEnd

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, turns: TurnFinder, times: AnswerTimes, request: ListenRequest
    ) -> None:
        super().__init__(planner, in_flight, "stt", request)
        self.request = request
        self.audio = SessionAudio(request.format)
        self.replay = self.audio.replay
        self._turns, self._times = turns, times
        self._silence_s = planner.routing.silence_ms / 1000
        self._wants_interims = request.interim_results
        self._deliver: Deliver | None = None
        self._flush_offset = 0  # end of the audio that was to be final at once
        self._frames: list[str] = []  # the caller's control frames, for a provider that follows
        self._doubtful = ""  # the last final transcript, if it may cover audio that is sent again
        self._held = HeldEnd()
        self._caller_is_slow = False  # delivering events takes long: then the provider's silence is not its fault

    # ------------------------------------------------------------------ the caller's side

    def serve(self, deliver: Deliver) -> Awaitable[None]:
        """Serve to the end of the session, in the caller's task, and call `deliver` with each list of events where the provider is read.

        In place of `receive`, for a session that was not driven. Raise the last failure when no candidate is left.
        """
        self._deliver = deliver
        return self._drive(served=True)

    def _emit(self, events: list[ListenEvent]) -> Pending:
        if self._deliver is None:
            return self._events.put(events)
        self._before_delivery(events)
        deliver = self._deliver
        pending = deliver(events)
        return None if pending is None else self._wait_for_caller(pending)

    async def _wait_for_caller(self, pending: Awaitable[None]) -> None:
        self._caller_is_slow = True
        try:
            await pending
        finally:
            self._caller_is_slow = False
            if self._current is not None and self._current.live:
                self._current.clock.resume(trio.current_time())

    @property
    def loud_until_s(self) -> float:
        """End of the last loud audio, in seconds of the session; 0.0 if there was none."""
        return self.audio.ear.loud_until_s

    def owes_transcript(self) -> bool:
        """Return whether speech was heard, or the end announced, and the answer to it has not come."""
        if (attempt := self._current) is not None and attempt.live:
            return self._finishing or attempt.clock.owes or self._held.end is not None
        return self._finishing or self.audio.ear.speech_until_s > self.audio.final_s

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
        meter = self.meter
        if meter.capture is not None:
            meter.capture.sound(data, self.request.format)
        if meter.shadow is not None:
            meter.shadow.sound(data)
        if self.audio.is_container:
            return self._send_container(data)
        speech_s, attempt = self.audio.keep(data), self._current
        return None if attempt is None or not attempt.live else self._send(attempt, data, speech_s)

    async def _send_container(self, data: bytes) -> None:
        await self._send_form(data, await self.audio.add(data))

    async def _send_form(self, data: bytes, samples: bytes) -> None:
        """Send a live provider the form of a container that it gets."""
        speech_s, self.audio.noticed_s, attempt = self.audio.noticed_s, 0.0, self._current
        form = data if attempt is not None and attempt.as_container else samples
        if attempt is not None and attempt.live and (pending := self._send(attempt, form, speech_s)) is not None:
            await pending

    def _send(self, attempt: ListeningAttempt, data: bytes, speech_s: float) -> Pending:
        """Send a live provider audio in the form it gets."""
        attempt.sent_offset = self.replay.end
        if speech_s:
            attempt.hear(speech_s)
        if not data:
            return None
        attempt.fed = fed = attempt.fed + len(data)
        if fed > attempt.noted:
            self._note_audio(attempt)
        send = attempt.send
        try:
            pending = send(data)
        except ProviderError as error:
            attempt.stop_sending(error)
            return None
        return None if pending is None else wait_for_provider(attempt, pending)

    def _note_audio(self, attempt: ListeningAttempt) -> None:
        if (sent_s := self._usage(attempt)[0].audio_seconds) > 0:
            attempt.noted = attempt.fed + attempt.note_bytes
            self.note_input(attempt, Usage(audio_seconds=sent_s + NOTED_S, source="estimated"))

    async def flush(self) -> None:
        """Make all audio until now final at once; before a provider is live, as soon as one has it."""
        self._flush_offset = self.replay.end
        await self._pass_on_held_end()
        if self._current is not None and self._current.live:
            self._current.flush()
        await self._forward(lambda session: session.flush())

    async def send_frame(self, frame: str) -> None:
        """Send a control frame to a provider of the caller's protocol. One that follows gets earlier frames too."""
        attempt = self._current
        if (kind := type_or(frame, "control frame")) != "KeepAlive":
            if len(self._frames) == MAX_FRAMES:
                _log.warning("control_frame_not_kept", request_id=self.meter.id, frame=self._frames.pop(0)[:64], latest=kind)
            self._frames.append(frame)
        if attempt is None or not attempt.live:
            await trio.lowlevel.checkpoint()
        elif attempt.call.takes_own:
            await self._forward(lambda session: session.send_frame(frame))
        else:
            note_ignored(attempt.attempt, [frame])

    async def finish(self) -> None:
        """Announce that no more audio will come."""
        if self.audio.is_container:
            await self._send_form(b"", await self.audio.end())
        self._finishing = True
        if (attempt := self._current) is not None and attempt.live:
            attempt.finish()
        await self._forward(lambda session: session.finish())

    # ------------------------------------------------------------------ the providers' side

    def _can_move(self) -> bool:
        return self.audio.can_move and not self.left

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[ListenSession]:
        call, language = offered(spec.listen, account), self.request.language or model.default_language
        try:
            fmt = format_for(source := self.audio.source_for(spec), spec)
            convert.converter(source, fmt)
        except convert.CannotConvert as error:
            raise skipped(error, account.provider_id) from None
        request = attrs.evolve(self.request, format=fmt, language=language)
        return lambda: call(request, account)

    def _session_attempt(self, call: PreparedCall[ListenSession], attempt: Attempt) -> ListeningAttempt:
        self.note_billed_options(call, self.request, attempt)
        return ListeningAttempt(call, attempt, self.audio)

    async def _use(self, attempt: ListeningAttempt, session: ListenSession) -> None:
        if attempt.as_container:
            attempt.final_s = self.audio.final_s
        elif self.audio.is_container:
            try:
                await self.audio.decode()
            except convert.CannotConvert as error:
                raise skipped(error, attempt.call.provider.id) from None
        if not attempt.as_container:
            attempt.start(self.audio, again=len(self.attempts) > 1)
            attempt.join = WordJoin(self._doubtful) if self._doubtful else None
            if lost_s := attempt.attempt.lost_s:
                _log.warning("replay_lost_speech", request_id=self.meter.id, model=attempt.call.model.id, seconds=lost_s)
        attempt.connected(session, self._times.of(attempt.call.model.id), self._silence_s)
        watch = self.in_flight.silence
        if not watch.running:  # where only parts of a gateway run
            self.start_for(attempt, (watch := SilenceWatch()).watch_sessions)
        attempt.begin_watch(watch, self)
        try:
            self.start_for(attempt, self._replay, attempt, session)
            if isinstance(session, CallbackListenSession):
                await session.for_each_batch(self._pass_on)
            while not attempt.ended:
                if (pending := self._pass_on(await session.receive())) is not None:
                    await pending
        finally:
            attempt.end_watch()

    def _pass_on(self, events: list[ListenEvent]) -> Pending:
        """Pass on events of the current attempt."""
        attempt = self._current
        assert attempt is not None
        now = attempt.now
        if not events:
            attempt.clock.alive(now())
            return None
        attempt.last_event_at, flushed = now(), attempt.clock.probed_at < math.inf
        events = attempt.note_events(events, self.audio, attempt.last_event_at)
        self._note_answered(attempt)
        if attempt.began_later:
            events = attempt.in_session_times(events)
        if not self._wants_interims:  # the clock needs them, whoever wants them
            events = [event for event in events if not isinstance(event, Interim) or event.raw is not None]
        if attempt.join is not None:
            events = attempt.join.joined(events)
        for event in events:
            if not isinstance(event, Interim):  # as nearly every event is
                self._note_event(attempt, event)
        if flushed or self._held.end is not None:
            end_s = attempt.clock.pace.utterance_end_s
            events = self._held.passed_on(events, flushed=flushed, quiet_s=self._quiet_s, after_s=end_s)
        if attempt.ended and not self._finishing:
            raise UpstreamCut(provider=attempt.call.provider.id, detail="ended the session by itself")
        return self._emit(events) if events else None

    def _note_event(self, attempt: ListeningAttempt, event: ListenEvent) -> None:
        """Note what is final."""
        if isinstance(event, Final):
            covered_s = attempt.covered_s(event.end_s, self.audio)
            self.audio.final_until(covered_s)
            self._doubtful = event.text if covered_s < event.end_s else ""
            part = attempt.heard_speech(event, self.meter, self.replay)
            self._turns.transcript(self.meter.place, event.text, part.final_at, part)
            if self.meter.shadow is not None:
                self.meter.shadow.final(event)
        elif isinstance(event, ListenEnd):
            attempt.ended = True
            attempt.reported = event.usage

    async def _replay(self, attempt: ListeningAttempt, session: ListenSession) -> None:
        """Send the provider all buffered audio; from then on the sender sends to it directly."""
        await attempt.replay(self.audio)
        attempt.live = True
        self._note_audio(attempt)
        if attempt.call.takes_own:
            for frame in self._frames:
                await session.send_frame(frame)
        else:
            note_ignored(attempt.attempt, self._frames)
        if self._finishing:
            attempt.finish()
            await session.finish()
        elif self._flush_offset > self.replay.start:  # and that audio is not final yet
            attempt.flush()
            await session.flush()

    def look(self, attempt: ListeningAttempt, now: float) -> None:
        """Look what is overdue, and say when something may be next. What has to be awaited is for a task of the attempt."""
        try:
            if not attempt.is_watched:  # it owes nothing: most looks at thousands of idle sessions
                self._keep_alive(attempt)
                return attempt.look_again(math.inf, now + LOOK_AGAIN_S)
            quiet_s = self._quiet_s
            if (error := attempt.error or self._overdue(attempt, now)) is not None:
                attempt.fail(error)
                return
            if not attempt.suspected and attempt.clock.should_flush(now, quiet_s):
                attempt.clock.probe(now)
                self.start_for(attempt, self._forward, lambda session: session.flush())
            if not (held_s := self._held.wait_s(quiet_s)) and not self._caller_is_slow:
                self.start_for(attempt, self._pass_on_held_end)
            self._keep_alive(attempt)
            soonest = now + LOOK_AGAIN_S
            attempt.look_again(soonest if attempt.suspected else self._look_again_at(attempt, now, quiet_s, held_s), soonest)
        except Exception as error:  # it is the session's, not the watch's
            self.start_for(attempt, pending_error, error)

    def _keep_alive(self, attempt: ListeningAttempt) -> None:
        if (pending := attempt.keep_alive()) is not None:
            self.start_for(attempt, awaited, pending)

    def _overdue(self, attempt: ListeningAttempt, now: float) -> ProviderError | None:
        """Return the failure of a provider that was silent for too long at this look and at the one before."""
        error, suspected = self._silent_failure(attempt, now), attempt.suspected
        if error is not None and suspected and not self._is_noise(attempt, now):
            attempt.was_silent = True
            return error
        attempt.suspected = error is not None and not suspected
        return None

    def _look_again_at(self, attempt: ListeningAttempt, now: float, quiet_s: float, held_s: float) -> float:
        if self._caller_is_slow:
            return now + self._silence_s
        at = min(attempt.clock.look_again_at(now, quiet_s), now + held_s)
        return max(now + LOOK_AGAIN_S, min(at, attempt.sending_since + self._silence_s))

    async def _pass_on_held_end(self) -> None:
        if (end := self._held.taken()) and (pending := self._emit(end)) is not None:
            await pending

    @property
    def _quiet_s(self) -> float:
        """Silence heard since the last speech."""
        return self.audio.ear.at_s - self.audio.ear.speech_until_s

    def _silent_failure(self, attempt: ListeningAttempt, now: float) -> ProviderError | None:
        if self._caller_is_slow or self.left or attempt.session is None:
            return None
        clock = attempt.clock
        if (stuck_s := now - attempt.sending_since) >= self._silence_s:
            return self._slow(attempt, stuck_s, "takes no more audio")
        if (owed := clock.overdue(now, self._quiet_s)) is None or attempt.has_unread():
            return None
        return self._slow(attempt, now - clock.event_at, owed)

    def _is_noise(self, attempt: ListeningAttempt, now: float) -> bool:
        """Return whether an unanswered sound is to be taken for noise: the provider before did not answer it either.

        The last provider that can be dialled must leave more unanswered before it is given up.
        """
        if self._finishing or now - attempt.sending_since >= self._silence_s:
            return False
        before = self.attempts[-2] if len(self.attempts) > 1 else None
        unanswered_s = attempt.forgiven_s + attempt.clock.speech_s
        agreed = before is not None and before.was_silent and not attempt.has_text and not attempt.forgiven_s
        last = not self.order.can_follow(attempt.call.model, self._served_s(attempt))
        if not (agreed or (last and unanswered_s < GIVE_UP_S)):
            return False
        if agreed and before is not None:
            before.call.gate.withdraw_failure()
        attempt.forgiven_s = unanswered_s
        attempt.clock.forgive(now)
        self.audio.ear.disregard()
        _log.info("sound_taken_for_noise", request_id=self.meter.id, seconds=unanswered_s)
        return True

    def _usage(self, attempt: ListeningAttempt) -> tuple[Usage, Usage]:
        """Audio is of use if no other provider had to hear it again and, in a failed session, if it became final."""
        replay, length = self.replay, attempt.length
        sent_s = replay.seconds(attempt.sent_bytes()) if length is None else length.seconds
        source: UsageSource = "measured"
        if length is not None and not sent_s:
            source, sent_s = "estimated", length.fed / USUAL_BYTES_PER_S
        later = self.attempts[self.attempts.index(attempt) + 1 :]
        reached_s = sent_s
        if later or self._failure is not None:
            until = min([other.start_offset for other in later], default=replay.start)
            reached_s = replay.seconds(attempt.sent_bytes(until)) if length is None else 0.0
        padding_s = attempt.padding_s
        return Usage(audio_seconds=sent_s + padding_s, source=source), Usage(audio_seconds=reached_s + padding_s if reached_s else 0.0)
