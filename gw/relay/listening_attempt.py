"""One provider's part of a live transcription: the audio it gets, its times, and the clock of its silence."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from gw.errors import CandidateSkipped, PluginMissing, ProviderError
from gw.net.wakeup import clock_of_run
from gw.policy.answer_times import ModelTimes
from gw.policy.silence import CATCH_UP, SilenceClock
from gw.providers.spec import (
    CallbackListenSession,
    KeptAliveListenSession,
    ListenSession,
    PaddedListenSession,
    ProviderSpec,
)
from gw.relay.attempt import Attempt
from gw.relay.joined_words import WordJoin
from gw.relay.meter import Meter
from gw.relay.prepared_call import PreparedCall
from gw.relay.session_attempt import SessionAttempt
from gw.relay.session_audio import ReplayBuffer, SessionAudio
from gw.relay.session_times import TimeMap, is_covered, shifted, within
from gw.relay.silence_watch import SilenceWatch
from gw.relay.transcoding import live_format
from gw.types.audio import AudioFormat
from gw.types.pending import Pending
from gw.types.stt import Final, Interim, ListenEvent, UtteranceEnd, VendorFrame
from gw.types.usage import HeardSpeech, Usage
from gw.wire import convert
from gw.wire.bounds import MOST_AUDIO_S
from gw.wire.convert import CannotConvert
from gw.wire.durations import USUAL_BYTES_PER_S, LengthMeter
from gw.wire.json_frames import type_or

REPLAY_BYTES = 65_536
_MAX_IGNORED = 32
AHEAD_S = 60.0
"""A provider's times may lie so far beyond the audio that it was sent: they are rounded, and some count by the clock."""
LOOK_SOON_S = 0.1
"""From speech to the first look at what a provider may owe for it: nothing can be overdue earlier (the least `silence_ms` is as long)."""
NOTED_S = 5.0
"""Audio between two notes in the journal of what was sent; a note covers that of the next seconds too."""


class Looker(Protocol):
    """The session of an attempt, as far as it looks at that."""

    def look(self, attempt: ListeningAttempt, now: float) -> None:
        """Look what the provider owes, and say when to look again (`ListeningAttempt.look_again`). Raises nothing, and does not wait."""


class ListeningAttempt(SessionAttempt[ListenSession]):
    __slots__ = (
        "_converter", "_kept_alive", "_looker", "_padded", "_replay_began_at", "_replayed_s", "_watch", "as_container", "began_later",
        "clock", "fed", "final_s", "forgiven_s", "has_text", "is_watched", "join", "length", "look_at", "note_bytes", "noted", "now",
        "queued_at", "send", "sent_offset", "start_offset", "stretches", "suspected", "times", "was_silent",
    )  # fmt: skip

    clock: SilenceClock
    send: Callable[[bytes], Pending]
    """Sends audio, as far as that needs no waiting; `wait_sent` waits for the rest. Both raise what the provider raises."""
    began_later: bool
    """Whether the times of its events have to be shifted, or audio that is final already is sent to it again."""

    def __init__(self, call: PreparedCall[ListenSession], attempt: Attempt, audio: SessionAudio) -> None:
        super().__init__(call, attempt)
        source = audio.source_for(call.spec)
        self.as_container = source != audio.samples
        """The provider gets the caller's container from its beginning on, not samples."""
        self.final_s = 0.0  # the provider gets audio again that is final until here
        self.length = LengthMeter() if self.as_container else None
        self.stretches: list[tuple[int, float]] = []
        """The bytes of the session that the provider gets; the last stretch is open."""
        self.start_offset = self.sent_offset = audio.replay.start
        """Offsets of the first byte that is the provider's concern, and after the last one sent."""
        self.times = TimeMap([(0.0, math.inf)])
        self.has_text = False
        self.was_silent = False
        """Whether it was given up for its silence."""
        self.join: WordJoin | None = None
        """Drops words that a transcript before may have had."""
        self.is_watched = False
        """There is a time at which it is looked at; else it is when the provider owes something."""
        self.look_at = self.queued_at = math.inf
        self.suspected = False
        """The last look has shown a provider that owes something for too long."""
        self._watch: SilenceWatch | None = None
        self._looker: Looker | None = None
        self._padded: PaddedListenSession | None = None
        self._kept_alive: KeptAliveListenSession | None = None
        self._replay_began_at = -math.inf
        self._replayed_s = 0.0  # end of the audio replayed, in session seconds
        self.forgiven_s = 0.0
        """Loud audio that it did not answer and that was taken for noise."""
        self.fed = self.noted = 0
        """Bytes that it was sent since the replay, and up to which the journal has them as sent."""
        self.note_bytes = int(NOTED_S * (source.bytes_per_second or USUAL_BYTES_PER_S))
        self._converter = convert.converter(source, format_for(source, call.spec))

    def start(self, audio: SessionAudio, *, again: bool) -> None:
        """Choose what the provider gets of the samples in the buffer. `again`: another provider had them before."""
        replay = audio.replay
        self.stretches = audio.to_replay() if again else [(replay.start, math.inf)]
        self.start_offset, self.sent_offset = replay.start, self.stretches[0][0]
        seconds = [
            (replay.seconds(start), math.inf if end == math.inf else replay.seconds(int(end)))
            for start, end in self.stretches
        ]
        self.times = TimeMap(seconds)
        self.attempt.lost_s = audio.take_lost()

    def connected(self, session: ListenSession, times: ModelTimes, silence_s: float) -> None:
        self.send = _sender(session, self.length, self._converter)
        self.began_later = bool(self.final_s) or not self.times.is_same
        self.now = clock_of_run()
        self.clock = SilenceClock(session.pace, times, silence_s, self.now())
        self._padded = session if isinstance(session, PaddedListenSession) else None
        self._kept_alive = session if isinstance(session, KeptAliveListenSession) else None

    @property
    def keep_alive_at(self) -> float:
        """Return when the session must be kept alive, unless audio is sent until then."""
        return math.inf if self._kept_alive is None else self._kept_alive.keep_alive_at

    def keep_alive(self) -> Pending:
        """Keep the session alive, if that is due, as far as that needs no waiting. A failure ends the attempt."""
        if self._kept_alive is None:
            return None
        try:
            pending = self._kept_alive.keep_alive_or_pending()
        except ProviderError as error:
            self.note(error)
            return None
        return None if pending is None else self._wait_kept_alive(pending)

    async def _wait_kept_alive(self, pending: Awaitable[None]) -> None:
        try:
            await pending
        except ProviderError as error:
            self.note(error)

    def begin_watch(self, watch: SilenceWatch, looker: Looker) -> None:
        """Have `looker` look at once, at the times that it says (`look_again`), when the provider may owe something or has failed."""
        self._watch, self._looker = watch, looker
        self._look_now()

    def end_watch(self) -> None:
        self._watch = self._looker = None
        self.look_at = math.inf

    def look(self, now: float) -> None:
        if self._looker is not None:
            self._looker.look(self, now)

    def look_again(self, at: float, soonest: float) -> None:
        """Be looked at again at `at`, when the session must be kept alive, but not before `soonest`. `at` infinite: also at `watch`."""
        if self.error is not None:  # noted while it was looked at: the next look is now
            return
        self.is_watched = at < math.inf
        if self._watch is not None:
            self._watch.set_time(self, min(at, max(self.keep_alive_at, soonest)))

    def watch(self) -> None:
        """Have the provider watched from now on: it may owe something."""
        if not self.is_watched:
            self._look_now()

    def note(self, error: ProviderError) -> None:
        super().note(error)
        self._look_now()

    def _look_now(self) -> None:
        self.is_watched = True
        if self._watch is not None:
            self._watch.set_time(self, trio.current_time())

    def flush(self) -> None:
        self.clock.flush(trio.current_time())
        self.watch()

    def finish(self) -> None:
        self.clock.finish(trio.current_time())
        self.watch()

    def hear(self, speech_s: float) -> None:
        """Note that speech was sent."""
        now = self.now
        self.clock.hear(now(), speech_s)
        if not self.is_watched:
            self.is_watched = True
            if self._watch is not None:
                self._watch.set_time(self, min(self.look_at, now() + LOOK_SOON_S))

    def has_unread(self) -> bool:
        """Return whether the provider has said something that this process, busy with others, has not read yet."""
        session = self.session
        return session is not None and isinstance(session, CallbackListenSession) and session.has_unread()

    @property
    def padding_s(self) -> float:
        """Return the seconds of silence that the provider's call has sent by itself."""
        return 0.0 if self._padded is None else self._padded.padding_s

    async def wait_sent(self, pending: Awaitable[None]) -> None:
        """Wait for what `send` has left to wait for; when that takes long the provider has failed."""
        self.sending_since = trio.current_time()
        self.watch()
        try:
            await pending
        finally:
            self.sending_since = math.inf

    async def replay(self, audio: SessionAudio) -> None:
        """Send all that is buffered. Speech is noted before its audio is sent: the answer may come before all of it has been sent."""
        number, self._replay_began_at = 0, trio.current_time()
        replay = audio.replay
        self._replayed_s = replay.seconds(self.sent_offset)
        if self.as_container:
            self._note_speech(audio, self._replayed_s)
        while self.as_container and (piece := audio.piece(number, self.call.provider.id)) is not None:
            number += 1
            if (pending := self.send(piece)) is not None:
                await self.wait_sent(pending)
        for start, end in self.stretches:
            self.sent_offset = max(self.sent_offset, start)
            while self.sent_offset < end and (data := replay.read(self.sent_offset, REPLAY_BYTES)):
                if end < math.inf:
                    data = data[: int(end) - self.sent_offset]
                offset = max(self.sent_offset, replay.start)
                self.sent_offset = offset + len(data)
                self._replayed_s = replay.seconds(self.sent_offset)
                self._note_speech(audio, replay.seconds(offset), self._replayed_s)
                if (pending := self.send(data)) is not None:
                    await self.wait_sent(pending)

    def _note_speech(self, audio: SessionAudio, from_s: float, until_s: float = math.inf) -> None:
        if speech_s := audio.ear.speech_between(from_s, until_s):
            self.hear(speech_s)

    def note_events(self, events: list[ListenEvent], audio: SessionAudio, now: float) -> list[ListenEvent]:
        """Set the clock back: all speech is answered, except what follows the last word where words have times.

        Return the events, with times that can be.
        """
        if self.as_container:
            sent_s = MOST_AUDIO_S
        else:
            replay = audio.replay
            sent_s = replay.end / replay.rate if self._padded is None else replay.end / replay.rate + self._padded.padding_s
        events = within(events, sent_s + AHEAD_S)
        clock, last = self.clock, events[-1]
        clock.event(now, 0.0 if isinstance(last, Interim) and not last.words else self._uncovered_s(events, audio))
        for event in events:
            if isinstance(event, Interim):  # nearly always
                clock.transcript(final=False)
                self.has_text = True
                if not self.is_watched:
                    self.watch()
            elif isinstance(event, (Final, UtteranceEnd, VendorFrame)):
                clock.transcript(final=True)
                self.has_text = self.has_text or isinstance(event, Final)
        return events

    def _uncovered_s(self, events: list[ListenEvent], audio: SessionAudio) -> float:
        """Return the seconds of speech after the last transcript."""
        for last in reversed(events):
            if isinstance(last, (Interim, Final)):
                if last.words:
                    return audio.ear.speech_between(self.times.end(last.words[-1].end_s))
                if isinstance(last, Final) and not self.clock.pace.has_times:
                    return audio.ear.speech_between(self.covered_s(self.times.end(last.end_s), audio))
                break
        return 0.0

    def covered_s(self, end_s: float, audio: SessionAudio) -> float:
        """Return the session's time until which a final transcript that ends at `end_s` certainly covers the audio.

        One without times seems to cover all audio sent before it came, also what was said while it was on its way.
        """
        if self.clock.pace.has_times or not audio.ear.hears:
            return end_s
        now, late_s = trio.current_time(), self.clock.answer_s
        sure_s = end_s - late_s
        if sure_s < self._replayed_s:  # that was sent at once, and takes a while to be heard
            began_s = audio.replay.seconds(self.start_offset)
            sure_s = min(sure_s, began_s + CATCH_UP * max(0.0, now - self._replay_began_at - late_s))
        return audio.ear.covered_until(end_s, sure_s)

    def in_session_times(self, events: list[ListenEvent]) -> list[ListenEvent]:
        """Return the events in the session's times, without those about audio that another provider has transcribed before."""
        if not self.times.is_same:
            events = [shifted(event, self.times) for event in events]
        return events if not self.final_s else [event for event in events if not is_covered(event, self.final_s)]

    def heard_speech(self, final: Final, meter: Meter, replay: ReplayBuffer) -> HeardSpeech:
        """Return a final transcript as a part of its turn.

        The time at which the speaker stopped follows from the audio sent since, so it is right at real time and never
        in the future.
        """
        call, sent_s, now = self.call, replay.seconds(self.sent_offset), meter.now()
        end_s = final.words[-1].end_s if final.words else final.end_s
        late_s = min(max(0.0, sent_s - end_s), now - meter.timestamp) if end_s > 0 else 0.0
        speech = Usage(audio_seconds=max(0.0, final.end_s - final.start_s)).with_addons(call.addons)
        cost = meter.cost_of(speech, call.model, call.provider, live=True)
        return HeardSpeech(
            request_id=meter.id, model_id=call.model.id, ended_at=now - late_s, final_at=now,
            audio_seconds=speech.audio_seconds, cost_nusd=cost.nusd,
        )  # fmt: skip

    def sent_bytes(self, until: float = math.inf) -> int:
        """Return how many bytes of the session before the offset `until` were sent."""
        limit = min(self.sent_offset, until)
        return int(sum(max(0, min(end, limit) - start) for start, end in self.stretches))


def _sender(session: ListenSession, length: LengthMeter | None, converter: convert.Converter | None) -> Callable[[bytes], Pending]:
    """Return what sends audio in the caller's form. Live audio mostly needs no converting, and then goes to the session directly."""
    send: Callable[[bytes], Pending] = (
        session.send_audio_or_pending if isinstance(session, CallbackListenSession) else session.send_audio
    )
    if length is None and converter is None:
        return send

    return _ConvertingSender(send, length, converter).send


class _ConvertingSender:
    """Measures audio whose length its bytes do not say, and converts it, before it is sent."""

    __slots__ = ("_converter", "_length", "_send")

    def __init__(self, send: Callable[[bytes], Pending], length: LengthMeter | None, converter: convert.Converter | None) -> None:
        self._send = send
        self._length = length
        self._converter = converter

    def send(self, data: bytes) -> Pending:
        if self._length is not None:
            self._length.feed(data)
        send = self._send
        return send(data if self._converter is None else self._converter.feed(data))


def format_for(source: AudioFormat, spec: ProviderSpec) -> AudioFormat:
    return live_format(source, spec.listen_formats, spec.listen_rates_hz)


async def wait_for_provider(attempt: ListeningAttempt, pending: Awaitable[None]) -> None:
    """Wait until the provider has taken what was sent; its failure ends the sending, and is raised where it is read."""
    try:
        await attempt.wait_sent(pending)
    except ProviderError as error:
        attempt.stop_sending(error)


def note_ignored(attempt: Attempt, frames: Sequence[str]) -> None:
    """Note the control frames of another dialect that the provider is not sent, such as a change of settings."""
    names = dict.fromkeys((*attempt.ignored_settings, *(type_or(frame, "control frame") for frame in frames)))
    attempt.ignored_settings = tuple(name for name in names if name != "KeepAlive")[:_MAX_IGNORED]


def skipped(error: CannotConvert, provider: str) -> ProviderError:
    if error.extra:  # an extra would make the provider usable
        return PluginMissing(provider=provider, module="av", extra=error.extra)
    return CandidateSkipped(provider=provider, reason="missing_ability", detail=str(error))
