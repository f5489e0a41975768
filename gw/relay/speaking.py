"""A live speech session that survives its provider.

Text goes to the provider that speaks now. When it fails, the next candidate begins at the first word that was not heard
whole, with its own voice for the caller's alias and in the caller's format.

    async with relay.speak_live(request, caller) as session:
        (one task)      await session.send_text("Hello ") …  await session.finish()
        (another task)  while not session.done: for event in await session.receive(): …
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import trio

from gw.errors import GwError, ProviderError, UpstreamCut, UpstreamSlow
from gw.providers.spec import SpeakSession
from gw.relay.attempts import PreparedCall
from gw.relay.live_session import BLOCKED_S, WATCH_S, LiveSession, SessionAttempt, SessionPlan
from gw.relay.meter import Attempt
from gw.relay.speech_progress import Progress, SpeechProgress
from gw.relay.transcoding import slices
from gw.relay.turn_tracking import Voice
from gw.relay.waste import Playback
from gw.types.audio import AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire.convert import Converter


class SpeakLeg(SessionAttempt[SpeakSession]):
    def __init__(self, call: PreparedCall[SpeakSession], mark: Attempt, progress: Progress, begins_s: float) -> None:
        super().__init__(call, mark)
        self.progress = progress
        self.begins_s = begins_s
        """Where in the session's audio its own begins."""
        self.characters = 0
        """Sent to it."""
        self.dropped = 0
        """Of them, those that an interruption took back unheard."""
        self.owes_since = math.inf
        """When it was asked to speak what it has; infinite while it owes nothing."""
        self.converter: Converter | None = None
        self.format = AudioFormat(encoding="unknown")

    async def give(self, text: str | None) -> None:
        """Text, or None to flush. Raises what the provider raises."""
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


class SpeakingSession(LiveSession[SpeakSession, SpeakEvent, SpeakLeg]):
    """`format` is what the caller gets."""

    def __init__(
        self,
        request: SpeakLiveRequest,
        settled: SessionPlan[SpeakSession],
        convert: Callable[[AudioFormat], Converter | None],
        finish: Callable[[GwError | None, bool], None],
        *,
        first_audio_s: float,
        turn: Voice,
    ) -> None:
        super().__init__(settled, finish)
        self._turn = turn
        self.request = request
        self.format = request.format
        self.script = SpeechProgress()
        self.audio_s = 0.0
        """Passed on to the caller; 0.0 for compressed audio."""
        self._playback = Playback()
        self._taken_s = 0.0
        """Of the audio, given to the caller's side, which sends it before it asks for more."""
        self._heard_from: float | None = None
        self._convert = convert
        self._first_audio_s = first_audio_s

    # ------------------------------------------------------------------ the caller's side

    async def receive(self) -> list[SpeakEvent]:
        if self._taken_s:
            self._playback.send(self._taken_s, trio.current_time())
            self._taken_s = 0.0
        events = await super().receive()
        for event in events:
            if isinstance(event, AudioChunk):
                self._taken_s += self.format.seconds(len(event.data))
                if self._heard_from is None:
                    self._heard_from = trio.current_time()
        return events

    def heard_of(self, leg: SpeakLeg) -> tuple[int, float]:
        """How many of the characters sent to this provider were heard until now, and how many seconds."""
        progress = leg.progress
        until = progress.begins + leg.characters
        at = self.legs.index(leg) + 1
        if at < len(self.legs):
            heard, heard_s = self.legs[at].progress.begins, progress.audio_s
        elif self.done:
            heard, heard_s = until, progress.audio_s
        else:
            heard_s = self._played_s(leg)
            heard = progress.heard(heard_s, until, whole=leg.ended)
        return max(0, min(heard, until) - progress.begins - leg.dropped), heard_s

    @property
    def heard(self) -> int:
        """Characters of all the text that were heard until now."""
        return sum(self.heard_of(leg)[0] for leg in self.legs)

    def _played_s(self, leg: SpeakLeg) -> float:
        """Seconds of this provider's audio that were played until now. Of compressed audio: since the first of it came."""
        now = trio.current_time()
        if not self.format.bytes_per_second:
            return now - self._heard_from if self._heard_from is not None else 0.0
        return max(0.0, leg.progress.audio_s - (self.audio_s - self._playback.played_s(now)))

    async def send_text(self, text: str) -> None:
        """A provider's failure is not the sender's business."""
        if text:
            self.script.add(text)
            self._turn.read(self.script.text)
            await self._give(text)

    async def flush(self) -> None:
        self.script.flush()
        self._turn.read(self.script.text, whole=True)
        await self._give(None)

    async def clear(self) -> None:
        """The listener interrupted: what was not spoken is dropped."""
        leg = self._leg
        if leg is not None:
            leg.dropped = max(leg.dropped, leg.characters - self.heard_of(leg)[0])
        self.script.clear()
        if leg is not None:
            leg.progress.dropped()
        if leg is not None and leg.live and leg.session is not None:
            leg.owes_since = math.inf
            try:
                await leg.session.clear()
            except ProviderError as error:
                leg.fault = leg.fault or error

    async def send_frame(self, frame: str, text: str = "") -> None:
        """A frame of the caller's dialect, for a provider that speaks it; `text` is what it asks to be spoken."""
        leg = self._leg
        self.script.add(text)
        self._turn.read(self.script.text)
        if leg is None or not leg.live or leg.session is None:
            await trio.lowlevel.checkpoint()
        elif leg.call.spec.dialect == self.request.dialect:
            leg.characters += len(text)
            try:
                await leg.session.send_frame(frame)
            except ProviderError as error:
                leg.fault = leg.fault or error
        elif text:
            await self._give_to(leg, text)

    async def finish(self) -> None:
        """No more text will come."""
        self._finishing = True
        self._turn.read(self.script.text, whole=True)
        leg = self._leg
        if leg is not None and leg.live and leg.session is not None:
            leg.owes_since = min(leg.owes_since, trio.current_time())
            try:
                await leg.session.finish()
            except ProviderError as error:
                leg.fault = leg.fault or error

    async def _give(self, text: str | None) -> None:
        leg = self._leg
        if leg is None or not leg.live:
            await trio.lowlevel.checkpoint()
        else:
            await self._give_to(leg, text)

    @staticmethod
    async def _give_to(leg: SpeakLeg, text: str | None) -> None:
        try:
            await leg.give(text)
        except ProviderError as error:  # its reader tells; the script has the text
            leg.fault = leg.fault or error
            leg.live = False

    # ------------------------------------------------------------------ the providers' side

    def _is_last(self, event: SpeakEvent) -> bool:
        return isinstance(event, SpeakEnd)

    @property
    def _can_move(self) -> bool:
        return True

    def _begin(self, call: PreparedCall[SpeakSession], mark: Attempt) -> SpeakLeg:
        if self.legs:
            self.script.spoken = max(self.script.spoken, self.legs[-1].progress.spoken())
        return SpeakLeg(call, mark, Progress(self.script), self.audio_s)

    async def _use(self, leg: SpeakLeg, session: SpeakSession, scope: trio.CancelScope) -> None:
        leg.format = session.format
        leg.converter = self._convert(session.format)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_rest, leg, session)
            nursery.start_soon(self._watch, leg, scope)
            while not leg.ended:
                events = await session.receive()
                leg.last_event_at = trio.current_time()
                await self._pass_on(leg, events)
            nursery.cancel_scope.cancel()

    async def _say_rest(self, leg: SpeakLeg, session: SpeakSession) -> None:
        """Give what is not spoken yet, then let the sender give the rest itself."""
        given = 0
        rest = self.script.rest()
        while given < len(rest):
            await leg.give(rest[given])
            given += 1
            if given == len(rest):  # more may have come meanwhile
                rest = self._grown(rest)
        leg.live = True
        if self._finishing:
            leg.owes_since = min(leg.owes_since, trio.current_time())
            await session.finish()

    def _grown(self, given: list[str | None]) -> list[str | None]:
        """`given` and what was added to the script since it was made."""
        said = sum(len(piece) for piece in given if piece is not None)
        flushed = sum(piece is None for piece in given)
        script = self.script
        begins = script.spoken + said
        more: list[str | None] = []
        at = begins
        for flush in [f for f in script.flushes if f > script.spoken][flushed:]:
            more += [script.text[at:flush], None]
            at = flush
        more.append(script.text[at:])
        return given + [piece for piece in more if piece != ""]

    async def _pass_on(self, leg: SpeakLeg, events: list[SpeakEvent]) -> None:
        self._answered(leg)
        out: list[SpeakEvent] = []
        for event in events:
            match event:
                case AudioChunk() if leg.converter is not None:
                    for piece in slices(event.data, leg.format, first=not leg.progress.audio_s):
                        await self._out.send([*out, self._audio(leg, AudioChunk(data=piece))])
                        out.clear()
                case AudioChunk():
                    out.append(self._audio(leg, event))
                case WordTiming():
                    leg.progress.word(event.word, event.end_s)
                    out.append(_later(event, leg.begins_s) if leg.begins_s else event)
                case Flushed():
                    leg.progress.flushed()
                    leg.owes_since = math.inf if not self._finishing else leg.owes_since
                    out.append(event)
                case SpeakEnd():
                    leg.ended = True
                    leg.reported = event.usage
                    if leg.converter is not None and (rest := leg.converter.end()):
                        out.append(AudioChunk(data=rest))
                    out.append(event)
                case VendorFrame():
                    out.append(event)
        if leg.ended and not self._finishing:
            raise UpstreamCut(provider=leg.call.provider.id, detail="ended the session by itself")
        if out:
            await self._out.send(out)

    def _audio(self, leg: SpeakLeg, chunk: AudioChunk) -> AudioChunk:
        leg.progress.audio_s += leg.format.seconds(len(chunk.data))
        if leg.converter is not None:
            chunk = AudioChunk(data=leg.converter.feed(chunk.data))
        elif leg.begins_s and chunk.raw is not None:  # its frame has the provider's own times
            chunk = AudioChunk(data=chunk.data)
        self.audio_s += self.format.seconds(len(chunk.data))
        return chunk

    async def _watch(self, leg: SpeakLeg, scope: trio.CancelScope) -> None:
        """Fail a provider that takes no text, or owes speech and gives none."""
        provider = leg.call.provider.id
        while leg.fault is None:
            await trio.sleep(WATCH_S)
            now = trio.current_time()
            patience = self._settled.idle_s if leg.progress.audio_s else self._first_audio_s
            silent_s = now - max(leg.last_event_at, leg.owes_since)
            if now - leg.sending_since > BLOCKED_S:
                leg.fault = UpstreamSlow(provider=provider, after_s=BLOCKED_S, detail="takes no more text")
            elif leg.owes_since < math.inf and silent_s > patience:
                leg.fault = UpstreamSlow(provider=provider, after_s=silent_s, detail="no audio for text it was given")
        scope.cancel()


def _later(timing: WordTiming, by_s: float) -> WordTiming:
    return msgspec.structs.replace(timing, start_s=timing.start_s + by_s, end_s=timing.end_s + by_s, raw=None)
