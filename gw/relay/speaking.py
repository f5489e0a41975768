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
"""

from __future__ import annotations

import math

import attrs
import trio
from msgspec.structs import replace

from gw.codecs.compressed import converter
from gw.errors import CandidateSkipped, GwError, ProviderError, UpstreamCut
from gw.net.prewarm import PrewarmedSockets
from gw.policy.turns import Turns
from gw.providers.spec import Account, ProviderSpec, SpeakSession
from gw.registry.catalog import Model
from gw.relay.attempts import AttemptScope
from gw.relay.candidates import CandidatePlanner, OpenCall, PreparedCall, offered
from gw.relay.in_flight import InFlight
from gw.relay.live_session import BLOCKED_S, LiveSession, SessionAttempt
from gw.relay.meter import Attempt
from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.transcoding import live_format, slices
from gw.relay.waste import Playback, played_part
from gw.types.audio import AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.types.usage import Usage
from gw.wire.convert import CannotConvert, Converter

ENOUGH = 24  # characters of text at which its turn is looked up first; then again when the text is complete


class SpeakingAttempt(SessionAttempt[SpeakSession]):
    def __init__(
        self, call: PreparedCall[SpeakSession], attempt: Attempt, progress: SpeechProgress, starts_s: float
    ) -> None:
        super().__init__(call, attempt)
        self.progress = progress
        self.starts_s = starts_s  # start of the provider's audio in the session's
        self.characters = 0  # sent to the provider
        self.dropped = 0  # characters of them that an interruption took back unheard
        self.owes_since = math.inf
        """When the provider was asked to speak the text it has; infinite while it owes nothing."""
        self.converter: Converter | None = None
        self.format = AudioFormat(encoding="unknown")

    async def send(self, text: str | None) -> None:
        """Send text, or None to flush. Raise what the provider raises."""
        assert self.session is not None
        self.sending_since = trio.current_time()
        try:
            if text is None:
                self.owes_since = min(self.owes_since, trio.current_time())
                await self.session.flush()
            else:
                self.characters += len(text)
                await self.session.send_text(text)
        finally:
            self.sending_since = math.inf


class SpeakingSession(LiveSession[SpeakSession, SpeakEvent, SpeakingAttempt]):
    """`format` is the caller's."""

    last_event = SpeakEnd

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, turns: Turns, request: SpeakLiveRequest,
        prewarmed: PrewarmedSockets | None,
    ) -> None:  # fmt: skip
        super().__init__(planner, in_flight, "tts", request.model)
        self.request = request
        self.format = request.format
        self.text = SpokenText()
        self.audio_s = 0.0  # passed on to the caller; 0.0 for compressed audio
        self._turns = turns
        self._turn_was_sought = self._turn_is_known = False
        self._prewarmed = prewarmed
        self._playback = Playback()
        self._received_s = 0.0  # audio received by the caller's side, which sends it before it asks for more
        self._playing_since: float | None = None
        self._first_audio_s = planner.routing.first_event_s["tts"]

    # ------------------------------------------------------------------ the caller's side

    async def receive(self) -> list[SpeakEvent]:
        if self._received_s:
            self._playback.send(self._received_s, trio.current_time())
            self._received_s = 0.0
        events = await super().receive()
        for event in events:
            if isinstance(event, AudioChunk):
                self._received_s += self.format.seconds(len(event.data))
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
        """Return the seconds of this provider's audio played; for compressed audio, the time since the first piece."""
        now = trio.current_time()
        if not self.format.bytes_per_second:
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
        attempt = self._current
        if attempt is not None:
            attempt.dropped = max(attempt.dropped, attempt.characters - self._played(attempt)[0])
        self.text.clear()
        if attempt is not None:
            attempt.progress.dropped()
        if attempt is not None and attempt.live:
            attempt.owes_since = math.inf
            await self._forward(lambda session: session.clear())

    async def send_frame(self, frame: str, text: str = "") -> None:
        """Send a frame of the caller's dialect to a provider that speaks it, or the `text` in it to any other."""
        attempt = self._current
        self.text.add(text)
        self._find_turn()
        if attempt is None or not attempt.live:
            await trio.lowlevel.checkpoint()
        elif attempt.call.spec.dialect == self.request.dialect:
            attempt.characters += len(text)
            await self._forward(lambda session: session.send_frame(frame))
        elif text:
            await self._send(text)

    async def finish(self) -> None:
        """Announce that no more text will come."""
        self._finishing = True
        self._find_turn(complete=True)
        attempt = self._current
        if attempt is not None and attempt.live:
            attempt.owes_since = min(attempt.owes_since, trio.current_time())
            await self._forward(lambda session: session.finish())

    def _find_turn(self, *, complete: bool = False) -> None:
        """Look the turn up by the text. `complete`: the text stops here, for a moment or for good."""
        text = self.text.text
        if self._turn_is_known or not text or not (complete or (len(text) >= ENOUGH and not self._turn_was_sought)):
            return
        self._turn_was_sought = True
        self._turn_is_known = self._turns.speech(self.meter.place, text, self.meter.now())

    async def _send(self, text: str | None) -> None:
        attempt = self._current
        if attempt is None or not attempt.live:
            await trio.lowlevel.checkpoint()
            return
        try:
            await attempt.send(text)
        except ProviderError as error:
            attempt.stop_sending(error)

    # ------------------------------------------------------------------ the providers' side

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[SpeakSession]:
        call, request, catalog = offered(spec.speak_live, account), self.request, self.candidates.catalog
        fmt = live_format(request.format, spec.speak_live_formats, spec.speak_rates_hz)
        try:
            converter(fmt, request.format)
        except CannotConvert as error:
            raise CandidateSkipped(provider=account.provider_id, reason="missing_ability", detail=str(error)) from None
        voice = catalog.voice(request.voice, catalog.provider(model.provider)) or model.default_voice or ""
        warm = account if self._prewarmed is None else attrs.evolve(account, prewarmed=self._prewarmed)
        return lambda: call(attrs.evolve(request, format=fmt, voice=voice), warm)

    def _session_attempt(self, call: PreparedCall[SpeakSession], attempt: Attempt) -> SpeakingAttempt:
        if self.attempts:
            self.text.spoken = max(self.text.spoken, self.attempts[-1].progress.spoken())
        return SpeakingAttempt(call, attempt, SpeechProgress(self.text), self.audio_s)

    async def _use(
        self, attempt: SpeakingAttempt, session: SpeakSession, scope: AttemptScope[SpeakSession, SpeakEvent]
    ) -> None:
        attempt.format = session.format
        attempt.converter = converter(session.format, self.request.format)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._replay, attempt, session)
            nursery.start_soon(self._watch, attempt, scope)
            while not attempt.ended:
                events = await session.receive()
                attempt.last_event_at = trio.current_time()
                await self._pass_on(attempt, events)
            nursery.cancel_scope.cancel()

    async def _replay(self, attempt: SpeakingAttempt, session: SpeakSession) -> None:
        """Send the provider all text that was not spoken; from then on the sender sends to it directly."""
        for piece in self.text.remaining():
            await attempt.send(piece)
        attempt.live = True
        if self._finishing:
            attempt.owes_since = min(attempt.owes_since, trio.current_time())
            await session.finish()

    async def _pass_on(self, attempt: SpeakingAttempt, events: list[SpeakEvent]) -> None:
        self._note_answered(attempt)
        out: list[SpeakEvent] = []
        for event in events:
            if not isinstance(event, AudioChunk):
                out += self._noted(attempt, event)
            elif attempt.converter is None:
                out.append(self._audio(attempt, event))
            else:
                for piece in slices(event.data, attempt.format, first=not attempt.progress.audio_s):
                    await self._out.send([*out, self._audio(attempt, AudioChunk(data=piece))])
                    out.clear()
        if attempt.ended and not self._finishing:
            raise UpstreamCut(provider=attempt.call.provider.id, detail="ended the session by itself")
        if out:
            await self._out.send(out)

    def _noted(
        self, attempt: SpeakingAttempt, event: WordTiming | Flushed | SpeakEnd | VendorFrame
    ) -> list[SpeakEvent]:
        """Note the provider's progress, and return the events to pass on."""
        match event:
            case WordTiming():
                attempt.progress.word(event.word, event.end_s)
                if by_s := attempt.starts_s:
                    event = replace(event, start_s=event.start_s + by_s, end_s=event.end_s + by_s, raw=None)
            case Flushed():
                attempt.progress.flushed()
                if not self._finishing:
                    attempt.owes_since = math.inf
            case SpeakEnd():
                attempt.ended = True
                attempt.reported = event.usage
                if attempt.converter is not None and (remaining := attempt.converter.end()):
                    return [AudioChunk(data=remaining), event]
        return [event]

    def _audio(self, attempt: SpeakingAttempt, chunk: AudioChunk) -> AudioChunk:
        attempt.progress.audio_s += attempt.format.seconds(len(chunk.data))
        if attempt.converter is not None:
            chunk = AudioChunk(data=attempt.converter.feed(chunk.data))
        elif attempt.starts_s and chunk.raw is not None:  # its frame has the provider's own times
            chunk = AudioChunk(data=chunk.data)
        self.audio_s += self.format.seconds(len(chunk.data))
        return chunk

    def _silent_failure(self, attempt: SpeakingAttempt, now: float) -> ProviderError | None:
        allowed_s = self.idle_s if attempt.progress.audio_s else self._first_audio_s
        silent_s = now - max(attempt.last_event_at, attempt.owes_since)
        if now - attempt.sending_since > BLOCKED_S:
            return self._slow(attempt, BLOCKED_S, "takes no more text")
        if attempt.owes_since < math.inf and silent_s > allowed_s:
            return self._slow(attempt, silent_s, "no audio for text it was given")
        return None

    def _usage(self, attempt: SpeakingAttempt) -> tuple[Usage, Usage]:
        counted = Usage(characters=attempt.characters, audio_seconds=attempt.progress.audio_s)
        return counted, played_part(attempt.reported or counted, *self._played(attempt))

    def _write_record(self, error: GwError | None, *, cancelled: bool) -> None:
        self._find_turn(complete=True)
        super()._write_record(error, cancelled=cancelled)
