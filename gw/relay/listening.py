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

from collections.abc import Awaitable, Callable
from functools import partial

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
from gw.relay.live_session import Fail, LiveSession
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.session_audio import SessionAudio
from gw.relay.session_times import is_covered, shifted
from gw.types.pending import Pending
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest
from gw.types.usage import HeardSpeech, Usage, UsageSource
from gw.wire import convert
from gw.wire.durations import USUAL_BYTES_PER_S
from gw.wire.json_frames import type_or

MAX_FRAMES = 64  # control frames kept for the next provider
LOOK_AGAIN_S = 0.02  # a silent provider may have answered while this process was busy
GIVE_UP_S = 3.0  # speech that the last provider to be dialled must leave unanswered: if it is given up, the session has failed

Deliver = Callable[[list[ListenEvent]], Pending]

_log = structlog.get_logger("gw.relay")


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
        self._deliver: Deliver | None = None
        self._flush_offset = 0  # end of the audio that was to be final at once
        self._frames: list[str] = []  # the caller's control frames, for a provider that follows
        self._doubtful = ""  # the last final transcript, if it may cover audio that is sent again
        self._held = HeldEnd()
        self._caller_is_slow = False  # delivering events takes long: then the provider's silence is not its fault

    # ------------------------------------------------------------------ the caller's side

    async def serve(self, deliver: Deliver, read: Callable[[], Awaitable[None]]) -> None:
        """Run `read`, which sends until the caller leaves, and call `deliver` with each list of events, until the session has ended.

        In place of `receive`: events are delivered where the provider is read. After `read` the session has FAREWELL_S to end.
        """
        while (events := self._events.take_now()) is not None:
            self._before_delivery(events)
            if (pending := deliver(events)) is not None:
                await pending
        self._deliver = deliver
        await self._read_until_ended(read)

    def _emit(self, events: list[ListenEvent]) -> Pending:
        if self._deliver is None:
            return self._events.put(events)
        self._before_delivery(events)
        pending = self._deliver(events)
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

    @property
    def owes_transcript(self) -> bool:
        """Return whether speech was heard, or the end announced, and the answer to it has not come."""
        if (attempt := self._current) is not None and attempt.live:
            return self._finishing or attempt.clock.owes or self._held.is_held
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
        if self.meter.capture is not None:
            self.meter.capture.sound(data, self.request.format)
        if self.meter.shadow is not None:
            self.meter.shadow.sound(data)
        if self.audio.is_container:
            return self._send_container(data)
        return self._send(data, data, self.audio.keep(data))

    async def _send_container(self, data: bytes) -> None:
        samples = await self.audio.add(data)
        if (pending := self._send(data, samples, self._noticed())) is not None:
            await pending

    def _noticed(self) -> float:
        speech_s, self.audio.noticed_s = self.audio.noticed_s, 0.0
        return speech_s

    def _send(self, data: bytes, samples: bytes, speech_s: float) -> Pending:
        """Send a live provider the form it gets."""
        attempt = self._current
        if attempt is None or not attempt.live:
            return None
        attempt.sent_offset = self.audio.replay.end
        if speech_s:
            attempt.hear(speech_s)
        form = data if attempt.as_container else samples
        if not form:
            return None
        attempt.fed = fed = attempt.fed + len(form)
        if fed > attempt.noted:
            self._note_audio(attempt)
        try:
            pending = attempt.send_or_pending(form)
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
            samples = await self.audio.end()
            if (pending := self._send(b"", samples, self._noticed())) is not None:
                await pending
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

    async def _use(self, attempt: ListeningAttempt, session: ListenSession, fail: Fail) -> None:
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
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._replay, attempt, session)
            nursery.start_soon(self._watch_and_probe, attempt, fail, nursery)
            if isinstance(session, CallbackListenSession):
                await session.for_each_batch(partial(self._pass_on, attempt))
            while not attempt.ended:
                if (pending := self._pass_on(attempt, await session.receive())) is not None:
                    await pending
            nursery.cancel_scope.cancel()

    def _pass_on(self, attempt: ListeningAttempt, events: list[ListenEvent]) -> Pending:
        if not events:
            attempt.clock.alive(trio.current_time())
            return None
        attempt.last_event_at, flushed = attempt.now(), attempt.clock.is_probed
        events = attempt.note_events(events, self.audio, attempt.last_event_at)
        self._note_answered(attempt)
        if not attempt.times.is_same:
            events = [shifted(event, attempt.times) for event in events]
        if attempt.final_s:
            events = [event for event in events if not is_covered(event, attempt.final_s)]
        if not self.request.interim_results:  # the clock needs them, whoever wants them
            events = [event for event in events if not isinstance(event, Interim) or event.raw is not None]
        if attempt.join is not None:
            events = attempt.join.joined(events)
        for event in events:
            if isinstance(event, Final):
                covered_s = attempt.covered_s(event.end_s, self.audio)
                self.audio.final_until(covered_s)
                self._doubtful = event.text if covered_s < event.end_s else ""
                self._track_turn(attempt, event)
                if self.meter.shadow is not None:
                    self.meter.shadow.final(event)
            elif isinstance(event, ListenEnd):
                attempt.ended = True
                attempt.reported = event.usage
        if flushed or self._held.is_held:
            end_s = attempt.clock.pace.utterance_end_s
            events = self._held.passed_on(events, flushed=flushed, quiet_s=self._quiet_s, after_s=end_s)
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
        cost = meter.cost_of(speech, call.model, call.provider, live=True)
        part = HeardSpeech(
            request_id=meter.id, model_id=call.model.id, ended_at=now - late_s, final_at=now,
            audio_seconds=speech.audio_seconds, cost_nusd=cost.nusd,
        )  # fmt: skip
        self._turns.transcript(meter.place, final.text, now, part)

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

    async def _watch_and_probe(self, attempt: ListeningAttempt, fail: Fail, nursery: trio.Nursery) -> None:
        """Look when something may be overdue, and keep the session alive; sleep while nothing is owed (`ListeningAttempt.watch`)."""
        suspected = False
        while attempt.error is None:
            now = trio.current_time()
            error = self._silent_failure(attempt, now)
            if error is not None and suspected and not self._is_noise(attempt, now):
                attempt.was_silent = True
                attempt.note(error)
                break
            suspected = error is not None and not suspected
            if not suspected and attempt.clock.should_flush(now, self._quiet_s):
                attempt.clock.probe(now)
                nursery.start_soon(self._forward, lambda session: session.flush())
            if not self._held.wait_s(self._quiet_s) and not self._caller_is_slow:
                await self._pass_on_held_end()
            await attempt.keep_alive()
            soonest = now + LOOK_AGAIN_S
            await attempt.wait_to_look(soonest if suspected else self._look_again_at(attempt, now), soonest)
        assert attempt.error is not None
        fail(attempt.error)

    def _look_again_at(self, attempt: ListeningAttempt, now: float) -> float:
        if self._caller_is_slow:
            return now + self._silence_s
        at = min(attempt.clock.look_again_at(now, self._quiet_s), now + self._held.wait_s(self._quiet_s))
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
        if (owed := clock.overdue(now, self._quiet_s)) is None:
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
        source: UsageSource
        if length is None:
            source, sent_s = "measured", replay.seconds(attempt.sent_bytes())
        elif sent_s := length.seconds:
            source = "measured"
        else:
            source, sent_s = "estimated", length.fed / USUAL_BYTES_PER_S
        later = self.attempts[self.attempts.index(attempt) + 1 :]
        reached_s = sent_s
        if later or self._failure is not None:
            until = min([other.start_offset for other in later], default=replay.start)
            reached_s = replay.seconds(attempt.sent_bytes(until)) if length is None else 0.0
        padding_s = attempt.padding_s
        return Usage(audio_seconds=sent_s + padding_s, source=source), Usage(audio_seconds=reached_s + padding_s if reached_s else 0.0)
