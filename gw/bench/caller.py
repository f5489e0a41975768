"""One simulated caller: says something, waits for the answer, hears it in real time, and perhaps interrupts it.

    speaking ──last frame──▶ waiting ──whole transcript──▶ answering ──end of speech──▶ hearing ──audio over──▶ next turn
                                │                              │                           │
                                └── nothing within timeout_s ──┴── an error: failed        ├── barge-in ──▶ next turn
                                                                                           └── hang-up ──▶ the call's end

The microphone is open as long as the call lasts, as in a voice app: silence while the caller listens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from uuid import uuid4

import attrs
import trio

from gw.bench.faults import Fault, choose
from gw.bench.figures import TurnFigures
from gw.bench.microphone import Microphone
from gw.bench.speech import Phrase, compare
from gw.bench.target import Target
from gw.errors import ProviderError, UpstreamCut
from gw.providers.spec import ListenSession, SpeakSession
from gw.types.audio import AudioFormat
from gw.types.ids import Modality
from gw.types.llm import ChatEnd, Completion, Delta, StreamError
from gw.types.stt import Final, ListenEnd, UtteranceEnd
from gw.types.tts import AudioChunk, SpeakEnd

END_OF_TURN_S = 0.5
"""Silence after which a caller's app asks for the rest of the transcript, where the recogniser has not ended the turn by itself."""
_SETTLE_S = 0.25  # times of words may be this much shorter than the speech
_AFTER_CLEAR_S = 1.0  # for audio that still comes after an interruption
_GOODBYE_S = 3.0  # for the end of a transcription


class _TurnFailed(Exception):
    def __init__(self, stage: Modality, reason: str) -> None:
        super().__init__(reason)
        self.stage: Modality = stage
        self.reason = reason


@contextmanager
def _stage(name: Modality) -> Iterator[None]:
    """Raise _TurnFailed with the stage's name for whatever goes wrong in the block."""
    try:
        yield
    except ProviderError as error:
        raise _TurnFailed(name, str(error)) from error
    except trio.TooSlowError:
        raise _TurnFailed(name, "nothing came within the timeout") from None


@attrs.define(kw_only=True)
class CallPlan:
    """The turns that one caller makes, and what goes wrong in them. `on_turn` is called as each turn ends."""

    number: int
    turns: int
    utterances: Sequence[Phrase]
    script: Sequence[Fault]
    timeout_s: float
    seed: int
    on_turn: Callable[[TurnFigures], None]
    began: float
    """When the test began, on trio's clock."""


@attrs.define
class _Heard:
    """Final transcripts since the caller began to speak. `until_s` counts audio, the other times are trio's."""

    texts: list[str] = attrs.field(factory=list)
    until_s: float = 0.0
    last_at: float = 0.0
    turn_ended_at: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(self.texts)


@attrs.define
class _Playback:
    """The caller's loudspeaker: `until` is when the audio that has arrived is over."""

    audio: AudioFormat
    started: trio.Event = attrs.field(factory=trio.Event)
    until: float = 0.0
    asked_at: float = 0.0
    """When the first text was sent to the speech model, on trio's clock."""
    complete: bool = False
    """All of the answer's audio has arrived."""

    def add(self, data: bytes, turn: TurnFigures) -> None:
        now = trio.current_time()
        if self.started.is_set():
            turn.gaps_ms += max(0.0, now - self.until) * 1_000
        self.started.set()
        seconds = self.audio.seconds(len(data))
        self.until = max(self.until, now) + seconds
        turn.speech_s += seconds


class Call:
    def __init__(self, target: Target, plan: CallPlan) -> None:
        self._target = target
        self._plan = plan
        self._chance = random.Random(f"{plan.seed}/{plan.number}")
        self._heard = _Heard()
        self._changed = trio.Event()
        self._messages: list[dict[str, str]] = []
        self._done = 0
        self._turn: TurnFigures
        self.session_id = uuid4().hex
        self.late_s = 0.0

    async def run(self) -> None:
        """Make the call's turns. A transcription that breaks off fails its turn; the next turn opens a new one."""
        while self._done < self._plan.turns:
            self._begin_turn()
            try:
                await self._session()
            except* (ProviderError, _TurnFailed) as group:
                self._fail(group)

    def _begin_turn(self) -> None:
        plan = self._plan
        utterance = plan.utterances[self._done % len(plan.utterances)]
        started_s = trio.current_time() - plan.began
        self._turn = TurnFigures(
            call=plan.number, number=self._done + 1, turn_id=uuid4().hex, started_s=started_s, said=utterance.text
        )

    def _fail(self, group: BaseExceptionGroup[Exception]) -> None:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        turn, stt = self._turn, not isinstance(error, _TurnFailed)
        turn.stage, turn.error = ("stt", str(error)) if stt else (error.stage, error.reason)  # type: ignore[attr-defined]
        self._end_turn()

    def _end_turn(self) -> None:
        turn, heard = self._turn, self._heard
        turn.heard = heard.text
        if turn.transcript_ms is not None:
            turn.words = len(turn.said.split())
            turn.lost_words, turn.added_words = compare(turn.said, turn.heard)
        self._done += 1
        self._plan.on_turn(turn)

    async def _session(self) -> None:
        """Make turns with one live transcription. Raises what ended it before the last turn."""
        microphone = Microphone(self._plan.utterances[0].format)
        with trio.CancelScope(deadline=trio.current_time() + self._plan.timeout_s) as opening:
            async with self._target.listen(self.session_id, microphone.audio) as session:
                opening.deadline = inf
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(microphone.run, session)
                        nursery.start_soon(self._hear, session)
                        await self._turns(microphone, session)
                        nursery.cancel_scope.cancel()
                finally:
                    self.late_s = max(self.late_s, microphone.late_s)
                await _say_goodbye(session)
        if opening.cancelled_caught:
            raise _TurnFailed("stt", "no session within the timeout")

    async def _turns(self, microphone: Microphone, session: ListenSession) -> None:
        while True:
            fault = choose(self._plan.script, self._turn.number, self._chance)
            self._turn.fault = fault.kind if fault is not None else ""
            try:
                await self._make_turn(microphone, session, fault)
            except* _TurnFailed as group:
                self._fail(group)
            else:
                self._end_turn()
            if self._done >= self._plan.turns:
                return
            self._begin_turn()

    async def _hear(self, session: ListenSession) -> None:
        """Collect transcripts until cancelled. Raises _TurnFailed for a session that ends before the call does."""
        while True:
            for event in await session.receive():
                heard, now = self._heard, trio.current_time()
                if isinstance(event, Final) and event.text.strip():
                    heard.texts.append(event.text.strip())
                    heard.until_s, heard.last_at = event.end_s, now
                elif isinstance(event, UtteranceEnd):
                    heard.turn_ended_at = now
                elif isinstance(event, ListenEnd):
                    raise _TurnFailed("stt", "the session ended before the call")
            self._changed.set()

    async def _make_turn(self, microphone: Microphone, session: ListenSession, fault: Fault | None) -> None:
        self._heard = _Heard()
        kind, seconds = (fault.kind, fault.seconds) if fault is not None else ("", 0.0)
        if kind == "silence":
            await trio.sleep(seconds)
        utterance = self._plan.utterances[(self._turn.number - 1) % len(self._plan.utterances)]
        spoken = microphone.say(utterance)
        if kind == "dropout":
            await trio.sleep(utterance.seconds / 2)
            microphone.outage_s = seconds
        await spoken.wait()
        ended_at = trio.current_time()
        with _stage("stt"), trio.fail_after(self._plan.timeout_s):
            await self._whole_transcript(session, ended_at, microphone.sent_s)
        self._turn.transcript_ms = (trio.current_time() - ended_at) * 1_000
        self._messages.append({"role": "user", "content": self._heard.text})
        await self._answer(ended_at, kind, seconds)

    async def _whole_transcript(self, session: ListenSession, ended_at: float, audio_s: float) -> None:
        """Wait until the recogniser has ended the turn, or its words reach the end of the speech; ask once for the rest."""
        ask_at, asked_at = ended_at + END_OF_TURN_S, inf
        while not self._is_whole(ended_at, audio_s, asked_at):
            with trio.CancelScope(deadline=ask_at) as waiting:
                await self._changed.wait()
                self._changed = trio.Event()
            if waiting.cancelled_caught:
                ask_at, asked_at = inf, trio.current_time()
                await session.flush()

    def _is_whole(self, ended_at: float, audio_s: float, asked_at: float) -> bool:
        heard = self._heard
        if not heard.texts:
            return False
        has_ended = heard.turn_ended_at >= ended_at or heard.last_at >= asked_at
        return has_ended or (heard.until_s >= audio_s - _SETTLE_S if heard.until_s else heard.last_at >= ended_at)

    async def _answer(self, ended_at: float, kind: str, seconds: float) -> None:
        """Have the model answer and hear it to its end, or interrupt it."""
        turn = self._turn
        with _stage("tts"):
            async with self._target.speak(self.session_id, turn.turn_id) as speech:
                playback = _Playback(speech.format)
                with trio.CancelScope() as cut:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._think, speech, playback)
                        if kind in ("barge_in", "hang_up"):
                            nursery.start_soon(_cut_after, seconds, playback, cut)
                        await self._play(speech, playback, ended_at, seconds if kind == "slow_reader" else 0.0)
                        nursery.cancel_scope.cancel()
                if not cut.cancelled_caught:
                    turn.outcome = "answered"
                elif kind == "barge_in":
                    turn.stop_ms = 0.0 if playback.complete else await _stop_speech(speech)
                    turn.outcome = "interrupted"
                else:
                    turn.outcome, self._done = "hung_up", self._plan.turns

    async def _think(self, speech: SpeakSession, playback: _Playback) -> None:
        """Pass the model's answer on to the speech model as it comes."""
        turn, began, pieces = self._turn, trio.current_time(), list[str]()
        with _stage("llm"), trio.fail_after(self._plan.timeout_s):
            async with self._target.chat(self.session_id, turn.turn_id, self._messages) as stream:
                over = False
                while not over:
                    for event in await stream.receive():
                        if isinstance(event, StreamError):
                            raise _TurnFailed("llm", f"the answer broke off: {event.message}")
                        if isinstance(event, (Delta, Completion)) and (text := event.text or event.refusal):
                            if not pieces:
                                playback.asked_at = trio.current_time()
                                turn.first_token_ms = (playback.asked_at - began) * 1_000
                            pieces.append(text)
                            with _stage("tts"):
                                await speech.send_text(text)
                        over = over or isinstance(event, (ChatEnd, Completion))
        self._messages.append({"role": "assistant", "content": "".join(pieces)})
        if not pieces:
            raise _TurnFailed("llm", "the model answered without text")
        with _stage("tts"):
            await speech.finish()

    async def _play(self, speech: SpeakSession, playback: _Playback, ended_at: float, pause_s: float) -> None:
        """Receive the answer's speech to its end, and wait until it has been heard. `pause_s`: stop reading for so long."""
        turn = self._turn
        over = False
        while not over:
            with _stage("tts"), trio.fail_after(self._plan.timeout_s):
                events = await speech.receive()
            for event in events:
                if isinstance(event, AudioChunk) and event.data:
                    if not playback.started.is_set():
                        now = trio.current_time()
                        turn.first_audio_ms = (now - ended_at) * 1_000
                        turn.first_speech_ms = (now - playback.asked_at) * 1_000
                    playback.add(event.data, turn)
                over = playback.complete = over or isinstance(event, SpeakEnd)
            if pause_s and playback.started.is_set():
                await trio.sleep(pause_s)
                playback.until, pause_s = max(playback.until, trio.current_time()), 0.0
        if not playback.started.is_set():
            raise _TurnFailed("tts", "the speech ended without audio")
        await trio.sleep_until(playback.until)


async def _cut_after(seconds: float, playback: _Playback, scope: trio.CancelScope) -> None:
    await playback.started.wait()
    await trio.sleep(seconds)
    scope.cancel()


async def _stop_speech(speech: SpeakSession) -> float:
    """Tell the speech model that the listener speaks; return for how many milliseconds audio still came."""
    began = last = trio.current_time()
    with trio.move_on_after(_AFTER_CLEAR_S), suppress(UpstreamCut):  # a vendor may end the session with what was cleared
        await speech.clear()
        await speech.finish()
        over = False
        while not over:
            for event in await speech.receive():
                if isinstance(event, AudioChunk):
                    last = trio.current_time()
                over = over or isinstance(event, SpeakEnd)
    return (last - began) * 1_000


async def _say_goodbye(session: ListenSession) -> None:
    """End the transcription as an app does, and read what remains."""
    with trio.move_on_after(_GOODBYE_S), suppress(ProviderError):
        await session.finish()
        while not any(isinstance(event, ListenEnd) for event in await session.receive()):
            pass
