"""A live speech session that survives its provider.

Text goes to the provider that serves the session. When it fails, the next candidate begins at the first word that was
not heard completely, with its own voice for the caller's alias and in the caller's format.

The states are those of `gw.relay.live_session`. What each input does in them:

    input        connecting, replaying             live
    ──────────   ───────────────────────────────   ─────────────────────────────────────────────────────────────────
    send_text    is buffered                       buffered and sent
    flush        is buffered                       buffered and sent; the provider owes audio until it reports the flush
    clear        drops the buffered text           drops it, at the provider too, which owes nothing any more
    finish       is sent after the buffer          is sent; the provider owes audio until the end

When the audio stays out for half of what the listener has left to play, the connection to the next candidate is made
(`gw.relay.dial_ahead`). A provider that owes audio has failed when the caller has next to nothing left to play and nothing more comes
(`gw.relay.audio_supply`), and when it reports text as spoken without the audio for it (`SpeechProgress.shortness`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

import attrs
import trio
from msgspec.structs import replace

from gw.codecs.compressed import converter
from gw.errors import GwError, ProviderError, UpstreamCut, UpstreamProtocolError
from gw.net.prewarm import PrewarmedSockets
from gw.policy.respelling import RespelledText
from gw.policy.turn_finder import TurnFinder
from gw.providers.spec import Account, ProviderSpec, SpeakSession
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.audio_supply import PATIENCE_S, SLOWER, AudioLength
from gw.relay.candidate_voice import note_voice, voice_for
from gw.relay.candidates import CandidatePlanner, offered
from gw.relay.dial_ahead import FIRST_AUDIO, SocketsAhead, dial_after_s, low_s
from gw.relay.in_flight import InFlight
from gw.relay.live_session import BLOCKED_S, WATCH_S, LiveSession
from gw.relay.playback import Playback
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.respelled_speech import RespelledSession, with_respelling
from gw.relay.speaking_attempt import SpeakingAttempt
from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.transcoding import SPEAK_HZ, live_format, live_formats, skipped, slices
from gw.relay.voice_pace import VoicePaces
from gw.relay.waste import played_part
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, VendorBilled, WordTiming
from gw.types.usage import Usage
from gw.wire.convert import CannotConvert

ENOUGH = 24  # characters of text at which its turn is looked up first; then again when the text is complete
MOST_LOOKS = 8
"""Times that the turn is looked up. Text that is in no answer, or in several, after so many sentences will not be in one after the next."""
END_S: Final = 2.0
"""Longest wait for the report that all is spoken, once there is enough audio for the text."""
TAKEOVER_S: Final = 2.0
"""Longest wait for the first audio of a provider that takes over in mid-speech, if yet another one could."""


class SpeakingSession(LiveSession[SpeakSession, SpeakEvent, SpeakingAttempt]):
    """`format` is the caller's."""

    last_event = SpeakEnd

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, turns: TurnFinder, request: SpeakLiveRequest,
        prewarmed: PrewarmedSockets | None, paces: VoicePaces,
    ) -> None:  # fmt: skip
        super().__init__(planner, in_flight, "tts", request)
        self.request, self.format = request, request.format
        self.text = SpokenText()
        self._turns = turns
        self._turn_is_known = False
        self._turn_looks = 0
        self._prewarmed = prewarmed
        self._paces = paces
        self._made = AudioLength(request.format)  # passed on to the caller's side
        self._sent = AudioLength(request.format)  # received by the caller's side
        self._playback = Playback()
        self._received_s = 0.0  # audio received by the caller's side, which sends it before it asks for more
        self._playing_since: float | None = None
        self._ahead: SocketsAhead
        self._dialled_for = -math.inf  # begin of the silence in which the next candidate was dialled
        self._respelled: RespelledText | None = None  # what the candidate that is prepared is sent
        self._first_audio_s = planner.routing.first_event_s["tts"]

    def _begin(self) -> None:
        self._ahead = SocketsAhead(self._nursery)

    @property
    def audio_s(self) -> float:
        """Return the seconds of audio passed on to the caller; 0.0 for a format whose length cannot be read."""
        return self._made.seconds

    def captured_text(self) -> str:
        return self.text.text

    # ------------------------------------------------------------------ the caller's side

    async def receive(self) -> list[SpeakEvent]:
        if self._received_s:
            self._playback.send(self._received_s, trio.current_time())
            self._received_s = 0.0
            self.attempts[-1].progress.listen()
        events = await super().receive()
        for event in events:
            if isinstance(event, AudioChunk):
                self._received_s += self._sent.add(event.data)
                if self._playing_since is None:
                    self._playing_since = trio.current_time()
        return events

    @property
    def heard_characters(self) -> int:
        """Characters of all the text that the listener heard until now."""
        return sum(self._played(attempt)[0] for attempt in self.attempts)

    def spoken_until(self, audio_s: float) -> int:
        """Return the offset in all the text that the first `audio_s` seconds of the session's audio reach."""
        for n in range(len(self.attempts) - 1, -1, -1):
            attempt, later = self.attempts[n], self.attempts[n + 1 :]
            if attempt.starts_s <= audio_s:
                progress = attempt.progress
                until = later[0].progress.start if later else progress.start + attempt.characters
                complete = attempt.ended or bool(later)
                return min(until, progress.offset_at(audio_s - attempt.starts_s, until, complete=complete))
        return 0

    def _played(self, attempt: SpeakingAttempt) -> tuple[int, float]:
        """Return how many of the characters sent to this provider were played until now, and how many seconds."""
        progress = attempt.progress
        until = progress.start + attempt.characters
        later = self.attempts[self.attempts.index(attempt) + 1 :]
        if later:
            offset, played_s = later[0].progress.start, progress.audio_s
        elif self.done:
            offset, played_s = until, progress.audio_s
        else:
            played_s = self._played_s(attempt)
            offset = progress.offset_at(played_s, until, complete=attempt.ended)
        return max(0, min(offset, until) - progress.start - attempt.dropped), played_s

    def _played_s(self, attempt: SpeakingAttempt) -> float:
        """Return the seconds of this provider's audio played; of unknown length, the time since the first piece."""
        now = trio.current_time()
        if not self.audio_s:
            return now - self._playing_since if self._playing_since is not None else 0.0
        return max(0.0, attempt.progress.audio_s - (self.audio_s - self._playback.played_s(now)))

    async def send_text(self, text: str) -> None:
        """Send text to speak. A provider's failure is not the sender's concern."""
        if text:
            self.text.add(text)
            self._find_turn()
            await self._send(text)

    async def flush(self) -> None:
        self.text.flush()
        self._find_turn(complete=True)
        await self._send(None)

    async def clear(self) -> None:
        """Drop all text that was not spoken: the listener interrupted."""
        if (attempt := self._current) is not None:
            attempt.dropped = max(attempt.dropped, attempt.characters - self._played(attempt)[0])
        self.text.clear()
        if attempt is not None:
            attempt.progress.dropped()
            attempt.flush_sent_until = attempt.progress.flushed_until
        if attempt is not None and attempt.live:
            attempt.owes_since = math.inf
            await self._forward(lambda session: session.clear())

    async def finish(self) -> None:
        """Announce that no more text will come."""
        self._finishing = True
        self._find_turn(complete=True)
        attempt = self._current
        if attempt is not None and attempt.live:
            attempt.owes_since = min(attempt.owes_since, trio.current_time())
            self.note_input(attempt, attempt.to_note(None))
            await self._forward(lambda session: session.finish())

    def _find_turn(self, *, complete: bool = False) -> None:
        """Look the turn up by the text. `complete`: the text stops here, for a moment or for good."""
        text = self.text.text
        if self._turn_is_known or self._turn_looks >= MOST_LOOKS or not text:
            return
        if not complete and (len(text) < ENOUGH or self._turn_looks):
            return
        self._turn_looks += 1
        self._turn_is_known = self._turns.speech(self.meter.place, text, self.meter.now())

    async def _send(self, text: str | None) -> None:
        attempt = self._current
        if attempt is None or not attempt.live:
            await trio.lowlevel.checkpoint()
            return
        self.note_input(attempt, attempt.to_note(text))
        try:
            await attempt.send(text, self.text.end)
        except ProviderError as error:
            attempt.stop_sending(error)

    # ------------------------------------------------------------------ the providers' side

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[SpeakSession]:
        call = offered(spec.speak_live, account)
        request = self._request_for(spec, account, model)
        spares = self._ahead.sockets if self.attempts else self._prewarmed
        warm = account if spares is None else attrs.evolve(account, prewarmed=spares)
        self._respelled = respelled = self.planner.respellings.begin(self.candidates, spec, account, model, request)
        return lambda: with_respelling(call(request, warm), RespelledSession, respelled)

    def _request_for(self, spec: ProviderSpec, account: Account, model: Model) -> SpeakLiveRequest:
        """Return the request in a format and with a voice that the provider has. Raise CandidateSkipped."""
        request = self.request
        fmt = live_format(request.format, live_formats(request.format, spec), spec.speak_rates_hz, SPEAK_HZ)
        try:
            converter(fmt, request.format)
        except CannotConvert as error:
            raise skipped(error, account.provider_id, request.dialect) from None
        return attrs.evolve(request, format=fmt, voice=voice_for(self.candidates, request, model))

    def prepare(self, model: Model, now: float) -> PreparedCall[SpeakSession]:
        call = note_voice(super().prepare(model, now), self.candidates, self.request)
        call.respelled = self._respelled
        return call

    def _session_attempt(self, call: PreparedCall[SpeakSession], attempt: Attempt) -> SpeakingAttempt:
        if self.attempts and not self.attempts[-1].completed:
            self.text.spoken = max(self.text.spoken, self.attempts[-1].progress.spoken())
        pace = self._paces.of(call.model.id, voice_for(self.candidates, self.request, call.model), self.request.speed)
        return SpeakingAttempt(call, attempt, SpeechProgress(self.text, pace), self.audio_s)

    async def _use(self, attempt: SpeakingAttempt, session: SpeakSession) -> None:
        attempt.opened(session.format, trio.current_time())
        attempt.converter = converter(session.format, self.request.format)
        self.start_for(attempt, self._replay, attempt, session)
        self.start_for(attempt, self._watch, attempt)
        if isinstance(session, RespelledSession):
            self.start_for(attempt, session.release_held)
        while not attempt.ended:
            events = await session.receive()
            attempt.last_event_at = trio.current_time()
            await self._pass_on(attempt, events)

    async def _replay(self, attempt: SpeakingAttempt, session: SpeakSession) -> None:
        """Send the provider all text that was not spoken; from then on the sender sends to it directly."""
        at = attempt.progress.start
        for piece in self.text.remaining():
            at = max(at + len(piece or ""), self.text.spoken)
            self.note_input(attempt, attempt.to_note(piece))
            await attempt.send(piece, at)
        attempt.live = True
        if self._finishing:
            attempt.owes_since = min(attempt.owes_since, trio.current_time())
            self.note_input(attempt, attempt.to_note(None))
            await session.finish()

    async def _pass_on(self, attempt: SpeakingAttempt, events: list[SpeakEvent]) -> None:
        out: list[SpeakEvent] = []
        fault: ProviderError | None = None
        for event in events:
            if isinstance(event, AudioChunk):
                self._note_answered(attempt)
                pieces = [event.data] if attempt.converter is None else slices(
                    event.data, attempt.format, first=not attempt.progress.audio_s
                )  # fmt: skip
                for piece in pieces:
                    out.append(self._audio(attempt, event if attempt.converter is None else AudioChunk(data=piece)))
                    if attempt.converter is not None:
                        await self._events.put(out.copy())
                        out.clear()
            elif isinstance(event, (Flushed, SpeakEnd)) and (fault := self._shortness(attempt, event)) is not None:
                break
            elif not isinstance(event, VendorBilled):  # which comes with complete texts only
                out += self._noted(attempt, event)
        if attempt.ended and not self._finishing:
            raise UpstreamCut(provider=attempt.call.provider.id, detail="ended the session by itself")
        if out:
            await self._events.put(out)
        if fault is not None:
            raise fault

    def _shortness(self, attempt: SpeakingAttempt, event: Flushed | SpeakEnd) -> ProviderError | None:
        """Return the failure of a provider that reports text as spoken and left words of it out."""
        progress = attempt.progress
        until = progress.next_flush() if isinstance(event, Flushed) else self.text.end
        if until > attempt.flush_sent_until and not self._finishing:
            return None  # the answer to a flush that was dropped
        loud_end = attempt.ends_loud
        shortness = progress.shortness(until, loud_end=loud_end)
        if shortness == "certainly" or (shortness == "probably" and self._has_next(attempt)):
            detail = "reported text as spoken without the audio for it"
            return UpstreamProtocolError(provider=attempt.call.provider.id, detail=detail)
        if not shortness:
            progress.learn(until, loud_end=loud_end)
        return None

    def _noted(self, attempt: SpeakingAttempt, event: WordTiming | Flushed | SpeakEnd | VendorFrame) -> list[SpeakEvent]:
        """Note the provider's progress, and return the events to pass on."""
        match event:
            case WordTiming():
                attempt.progress.word(event.word, event.end_s)
                if by_s := attempt.starts_s:
                    event = replace(event, start_s=event.start_s + by_s, end_s=event.end_s + by_s, raw=None)
            case Flushed():
                attempt.progress.flushed()
                if attempt.progress.flushed_until >= attempt.flush_sent_until and not self._finishing:
                    attempt.owes_since = math.inf
            case SpeakEnd():
                self._note_answered(attempt)
                attempt.ended = True
                attempt.reported = event.usage
                if attempt.converter is not None and (remaining := attempt.converter.end()):
                    self._made.add(remaining)
                    return [AudioChunk(data=remaining), event]
        return [event]

    def _audio(self, attempt: SpeakingAttempt, chunk: AudioChunk) -> AudioChunk:
        waited_s = attempt.add_audio(chunk.data, attempt.last_event_at)
        if waited_s is not None and attempt.call.cache != "hit":
            self.planner.response_times.add((attempt.call.model.id, "tts", True, FIRST_AUDIO), waited_s)
            self.planner.routes.note_wait(attempt.call.model.id, self.spec, waited_s)
        if attempt.converter is not None:
            chunk = AudioChunk(data=attempt.converter.feed(chunk.data))
        elif attempt.starts_s and chunk.raw is not None:  # its frame has the provider's own times
            chunk = AudioChunk(data=chunk.data)
        self._made.add(chunk.data)
        return chunk

    # ------------------------------------------------------------------ silence

    def _watch_s(self, attempt: SpeakingAttempt) -> float:
        now = trio.current_time()
        return min(WATCH_S, max(0.01, min(self._due_at(attempt, now), self._dial_at(attempt, now)) - now))

    def _silent_failure(self, attempt: SpeakingAttempt, now: float) -> ProviderError | None:
        if now >= self._dial_at(attempt, now):
            self._dial_ahead(attempt)
        if now - attempt.sending_since > BLOCKED_S:
            return self._slow(attempt, BLOCKED_S, "takes no more text")
        if now >= self._due_at(attempt, now):
            return self._slow(attempt, now - max(attempt.supply.since, attempt.owes_since), "no audio for text it was given")
        return None

    def _dial_at(self, attempt: SpeakingAttempt, now: float) -> float:
        """Return the time at which to dial the next candidate ahead unless more audio comes; infinity if not at all."""
        since = max(attempt.supply.since, attempt.owes_since)
        if since == math.inf or since == self._dialled_for or not attempt.progress.audio_s or not self._has_next(attempt):
            return math.inf
        left_s = self.audio_s - self._playback.played_s(now)
        return since + dial_after_s(left_s + now - since)

    def _dial_ahead(self, attempt: SpeakingAttempt) -> None:
        self._dialled_for = max(attempt.supply.since, attempt.owes_since)
        model = self.order.following
        assert model is not None
        with suppress(ProviderError):  # it would be passed over
            _, spec, account = self.planner.endpoint(self.candidates, model)
            self._ahead.dial(spec, account, self._request_for(spec, account, model))

    def _due_at(self, attempt: SpeakingAttempt, now: float) -> float:
        """Return the time at which the provider has failed unless more audio comes; infinity if it owes none."""
        waits_since = max(attempt.supply.since, attempt.owes_since)
        if waits_since == math.inf:
            return math.inf
        if not attempt.progress.audio_s:
            takes_over = self.audio_s > 0 and self._has_next(attempt)
            return waits_since + (min(TAKEOVER_S, self._first_audio_s) if takes_over else self._first_audio_s)
        if attempt.begins and self._made.seconds <= self._sent.seconds and self._playback.ends_at <= attempt.owes_since:
            return waits_since + self._first_audio_s  # the listener was waiting already
        if not self._has_next(attempt):
            return max(attempt.last_event_at, waits_since) + self.idle_s
        patience_s = min(self._first_audio_s, (2 if attempt.begins else 1) * max(PATIENCE_S, SLOWER * attempt.latency_s))
        left_s = self.audio_s - self._playback.played_s(now)
        due_at = max(waits_since + patience_s, now + left_s - low_s(self.planner.response_times, self.order.following))
        if now < due_at:
            return due_at
        until = self.text.end if self._finishing else attempt.flush_sent_until
        complete = attempt.progress.seems_complete(until, loud_end=attempt.ends_loud)
        return max(due_at, waits_since + END_S) if complete else due_at

    def _usage(self, attempt: SpeakingAttempt) -> tuple[Usage, Usage]:
        counted = Usage(characters=attempt.characters + attempt.respelled_by, audio_seconds=attempt.progress.audio_s)
        heard, played_s = self._played(attempt)
        respelled = attempt.call.respelled
        heard = heard if respelled is None else respelled.sent_for(heard)
        return counted, played_part(attempt.reported or counted, heard, played_s)

    def _write_record(self, error: GwError | None, *, cancelled: bool) -> None:
        self._find_turn(complete=True)
        super()._write_record(error, cancelled=cancelled)
