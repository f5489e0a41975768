"""The user's side of a realtime conversation: audio in, items of the conversation out.

A live session transcribes the audio. With turn detection, its events begin and end a turn; `semantic_vad` has the words
judged at each pause (`gw.policy.end_of_turn`) and waits as long as they sound unfinished. Without, the client commits turns.

=========  ==================================  ==================================================================
Turn       Event                               Becomes
=========  ==================================  ==================================================================
(none)     speech                              open: an item is started, a running response interrupted
open       interim or final transcript         open: deltas of the transcript
open       a pause                             ending (semantic_vad), or over
ending     speech                              open
ending     silence for as long as the words    over
           ask for
any        the client clears the buffer        (none): what was said until then is dropped
any        the client commits                  committed: the item joins the conversation, without its words
committed  a final transcript of its speech    transcribed: the item has its words
=========  ==================================  ==================================================================

A turn that is over joins the conversation with its words, and a response starts. A response waits for the words of the
turns that were committed before it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import trio
from msgspec.structs import replace

from gw.dialects.websocket import WebSocketSession
from gw.policy.end_of_turn import silence_s
from gw.relay.listening import ListeningSession
from gw.relay.session_times import TimeMap, shifted
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd, Word
from gw.wire.openai_realtime_conversation import RealtimeSession
from gw.wire.openai_realtime_items import user_item
from gw.wire.openai_realtime_server import COMMIT_EMPTY, TRANSCRIPTION, EventRefused
from gw.wire.openai_realtime_settings import Members

LEAST_S = 0.1  # a client cannot commit less audio
TRANSCRIBED_S = 10.0  # longest wait for the words of a turn that the client has committed
MORE_S = 1.5  # and for more of them after some have come
BOUNDARY_S = 0.25  # by so much a transcript may begin before the speech of the last one has ended
CLOSE_S = 0.6  # a final transcript that ends so shortly before the last loud sample covers all of the speech


class Floor(Protocol):
    """The conversation, as far as the user's side needs it."""

    session: WebSocketSession
    realtime: RealtimeSession
    nursery: trio.Nursery

    def caller(self) -> Caller:
        """Return the caller with the id of the conversation as its session."""

    async def send(self, *frames: str) -> None: ...

    def keep(self, item: Members) -> str | None:
        """Add an item, and return the id of the one before it."""

    async def speech_began(self) -> None:
        """Interrupt the answer, if the session's settings say so."""

    async def turn_ended(self) -> None:
        """Answer the turn, if the session's settings say so."""


@attrs.define(eq=False)
class CommittedTurn:
    """A turn that the client has committed, whose words may still come."""

    item: Members
    start_s: float
    until_s: float
    speech_until_s: float
    texts: list[str]
    transcribed: trio.Event = attrs.field(factory=trio.Event)
    limit: trio.CancelScope = attrs.field(
        factory=lambda: trio.CancelScope(deadline=trio.current_time() + TRANSCRIBED_S)
    )
    """The wait for its words is inside this scope."""

    def add(self, final: Final) -> bool:
        """Add a transcript; return whether it covers the end of the speech."""
        self.texts.append(final.text)
        self.limit.deadline = min(self.limit.deadline, trio.current_time() + MORE_S)
        return final.end_s >= self.speech_until_s - CLOSE_S


def said_since(final: Final, at_s: float, quiet_s: float) -> Final | None:
    """Return the words of a transcript whose middle is after `at_s`: vendors' times are a little early or late.

    `quiet_s`: nothing was said from then to `at_s`. A transcript that begins there has no words of before, and vendors let one begin
    where the last has ended. Words without times count as spread evenly over the audio. Times are seconds.
    """
    if final.start_s >= at_s:
        return final
    if not final.words and final.start_s >= quiet_s - BOUNDARY_S:
        return replace(final, start_s=at_s, raw=None)
    texts = final.text.split()
    step_s = (final.end_s - final.start_s) / max(1, len(texts))
    spread = (Word(text=text, start_s=final.start_s + n * step_s, end_s=final.start_s + (n + 1) * step_s) for n, text in enumerate(texts))
    words = tuple(word for word in final.words or spread if (word.start_s + word.end_s) / 2 >= at_s)
    if not words:
        return None
    return replace(final, text=" ".join(word.text for word in words), start_s=max(at_s, words[0].start_s), words=words, raw=None)


class UserTurns:
    def __init__(self, floor: Floor, model: str) -> None:
        self._floor = floor
        self._realtime = floor.realtime
        self._model = model
        self._listening: ListeningSession | None = None
        self._request: ListenRequest | None = None  # of the session that listens
        self._scope = trio.CancelScope()  # of that session
        self._base_s = 0.0  # its start; times count all audio of the conversation
        self.appended_s = 0.0  # end of all audio
        self._buffer_s = self._loud_s = 0.0  # begin of what is not committed; end of the last loud piece
        self._cleared_s = -math.inf  # end of what was cleared
        self._cleared_quiet_s = -math.inf  # end of the last speech in it
        self._item = ""  # id of the item that is being spoken; "" for none
        self._start_s = 0.0
        self._text = ""  # text of the deltas sent since the last final transcript
        self._finals: list[Final] = []
        self._ending: trio.CancelScope | None = None  # of the wait for the end of a turn
        self._committed: list[CommittedTurn] = []

    # ---- the client's events

    async def append(self, data: bytes) -> None:
        idle = not (self._item or self._finals or self._committed)
        if self._listening is None or (self._request is None and idle):
            await self._listen_anew()
        assert self._listening is not None
        self.appended_s += self._listening.request.format.seconds(len(data))
        await self._listening.send_audio(data)
        if heard_s := self._listening.loud_until_s:
            self._loud_s = self._base_s + heard_s

    def settings_changed(self) -> None:
        """Apply the settings of the session. Audio that is being transcribed keeps those that it began with."""
        if self._request is not None and self._request != self.listen_request():
            self._request = None

    async def commit(self) -> None:
        """Make an item of the audio since the last one. Raises EventRefused."""
        realtime, buffered_s = self._realtime, self.appended_s - self._buffer_s
        if self._listening is None or buffered_s < LEAST_S:
            what = (
                f"Error committing input audio buffer: buffer too small. Expected at least {LEAST_S * 1000:.0f}ms of audio, "
                f"but buffer only has {max(0.0, buffered_s) * 1000:.2f}ms of audio."
            )
            raise EventRefused(what=what, event_code=COMMIT_EMPTY)
        item = user_item(self._item or realtime.new_id("item"), None)
        turn = CommittedTurn(
            item, self._buffer_s, self.appended_s, self._loud_s, [final.text for final in self._finals]
        )
        covered_s = self._finals[-1].end_s if self._finals else 0.0
        self._reset(self.appended_s)
        previous = self._floor.keep(item)
        self._committed.append(turn)
        committed = realtime.frame("input_audio_buffer.committed", item_id=item["id"], previous_item_id=previous)
        await self._floor.send(committed, *realtime.item_added(item, previous))
        if self._loud_s <= turn.start_s or covered_s >= self._loud_s - CLOSE_S:
            await self._transcribed(turn)
        elif not turn.transcribed.is_set():
            self._floor.nursery.start_soon(self._limit, turn)
            await self._listening.flush()

    async def clear(self) -> None:
        """Drop the audio since the last item, and what is said in it."""
        self._cleared_s, self._cleared_quiet_s = self.appended_s, min(self._loud_s, self.appended_s)
        self._reset(self.appended_s)
        if self._listening is not None:
            await self._listening.flush()
        await self._floor.send(self._realtime.frame("input_audio_buffer.cleared"))

    def listen_request(self) -> ListenRequest:
        """Return the request of a session with the settings in force."""
        return self._realtime.listen_request((self._realtime.transcription or {}).get("model") or self._model)

    @property
    def is_open(self) -> bool:
        """Return whether the user has said something that is not an item with its words yet."""
        unanswered = self._listening is not None and not self._listening.done and self._listening.owes_transcript()
        return unanswered or bool(self._item or self._finals or self._committed)

    def pending(self) -> Callable[[], Awaitable[None]]:
        """Return a function that waits for the words of the turns committed until now."""
        turns = list(self._committed)

        async def wait() -> None:
            for turn in turns:
                await turn.transcribed.wait()

        return wait

    def _reset(self, buffer_s: float) -> None:
        """End the turn; audio from `buffer_s` on belongs to the next."""
        self._buffer_s = buffer_s
        self._item, self._text, self._finals = "", "", []
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    # ---- transcription

    async def _listen_anew(self) -> None:
        """Begin to transcribe, with the settings in force."""
        self._scope.cancel()
        self._base_s = self.appended_s
        self._request = self.listen_request()
        await self._floor.nursery.start(self._listen, self._request)

    async def _listen(self, request: ListenRequest, task_status: trio.TaskStatus[None]) -> None:
        """Transcribe while the socket is open. A failure ends the conversation."""
        session, times = self._floor.session, TimeMap([(self._base_s, math.inf)])
        with trio.CancelScope() as self._scope:
            async with session.gateway.relay.listen(request, self._floor.caller()) as live:
                self._listening = live
                task_status.started()
                while not live.done:
                    for event in await live.receive():
                        await self._handle(event if times.is_same else shifted(event, times))

    async def _handle(self, event: ListenEvent) -> None:
        match event:
            case SpeechStarted(at_s=at_s):
                await self._speech(at_s)
            case Interim(text=text, start_s=start_s) if text and start_s >= self._cleared_s:
                if not self._committed or start_s >= self._committed[-1].until_s:
                    await self._speech(start_s)
                    await self._delta(text)
            case Final(text=text) if text:
                await self._final(event)
            case UtteranceEnd(at_s=at_s):
                await self._pause(at_s)

    async def _final(self, final: Final) -> None:
        for turn in self._committed:
            if final.start_s < turn.until_s:
                part = self._uncleared(final) if turn.start_s >= self._cleared_s else final
                if part is not None and turn.add(part):
                    await self._transcribed(turn)
                return
        kept = self._uncleared(final)
        if kept is None:
            return
        final = kept
        await self._speech(final.start_s)
        await self._delta(final.text)
        self._finals.append(final)
        self._text = ""

    def _uncleared(self, final: Final) -> Final | None:
        return said_since(final, self._cleared_s, self._cleared_quiet_s)

    # ---- turns

    async def _speech(self, at_s: float) -> None:
        """Note that the user speaks: a turn begins, or one that seemed to end goes on."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._item or not self._realtime.turns or at_s < self._cleared_s:
            return
        self._item, self._start_s = self._realtime.new_id("item"), at_s
        padded_s = max(0.0, at_s - self._realtime.turns.get("prefix_padding_ms", 0) / 1000)
        started = {"item_id": self._item, "audio_start_ms": round(padded_s * 1000)}
        await self._floor.send(self._realtime.frame("input_audio_buffer.speech_started", **started))
        await self._floor.speech_began()

    async def _delta(self, text: str) -> None:
        """Send a delta. Interims are rewritten, deltas append: one is sent only if the interim continues the text before."""
        if (
            not self._item
            or self._realtime.transcription is None
            or text == self._text
            or not text.startswith(self._text)
        ):
            return
        delta, self._text = text[len(self._text) :], text
        members = {"item_id": self._item, "content_index": 0, "delta": delta}
        await self._floor.send(self._realtime.frame(TRANSCRIPTION + "delta", **members))

    async def _pause(self, at_s: float) -> None:
        """Handle a pause of the speaker: the end of the turn, unless its words sound as if more was coming."""
        turns = self._realtime.turns
        if not (turns and self._item and self._finals) or at_s <= self._cleared_s:
            return
        if turns["type"] == "semantic_vad":
            judge = self._floor.session.gateway.end_of_turn
            text = " ".join(final.text for final in self._finals)
            probability = judge.probability(text, self._finals[-1].language)
            wait_s = silence_s(probability, turns["eagerness"]) - max(0.0, self.appended_s - at_s)
            if wait_s > 0:
                self._ending = scope = trio.CancelScope()
                self._floor.nursery.start_soon(self._end_after, wait_s, at_s, scope)
                return
        await self._end_turn(at_s)

    async def _end_after(self, wait_s: float, at_s: float, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(wait_s)
        if not scope.cancelled_caught and self._ending is scope:
            self._ending = None
            await self._end_turn(at_s)

    async def _end_turn(self, at_s: float) -> None:
        realtime, id_, start_s = self._realtime, self._item, self._start_s
        item = user_item(id_, " ".join(final.text for final in self._finals))
        self._reset(at_s)
        previous = self._floor.keep(item)
        await self._floor.send(
            realtime.frame("input_audio_buffer.speech_stopped", item_id=id_, audio_end_ms=round(at_s * 1000)),
            realtime.frame("input_audio_buffer.committed", item_id=id_, previous_item_id=previous),
            *realtime.item_added(item, previous),
        )
        await self._completed(item, at_s - start_s)
        await self._floor.turn_ended()

    async def time_out(self, since_s: float) -> None:
        """End a turn in which the user has said nothing since then."""
        realtime = self._realtime
        if self._item or self._floor.realtime.turns.get("idle_timeout_ms") is None:
            return
        item = user_item(realtime.new_id("item"), "")
        self._reset(self.appended_s)
        previous = self._floor.keep(item)
        times = {"audio_start_ms": round(since_s * 1000), "audio_end_ms": round(self.appended_s * 1000)}
        await self._floor.send(
            realtime.frame("input_audio_buffer.timeout_triggered", item_id=item["id"], **times),
            realtime.frame("input_audio_buffer.committed", item_id=item["id"], previous_item_id=previous),
            *realtime.item_added(item, previous),
        )
        await self._floor.turn_ended()

    # ---- committed turns

    async def _transcribed(self, turn: CommittedTurn) -> None:
        turn.item["content"][0]["transcript"] = " ".join(turn.texts)
        self._committed.remove(turn)
        turn.transcribed.set()
        await self._completed(turn.item, turn.until_s - turn.start_s)

    async def _completed(self, item: Members, seconds: float) -> None:
        if self._realtime.transcription is not None:
            usage = {"type": "duration", "seconds": round(max(0.0, seconds), 3)}
            members = {"item_id": item["id"], "content_index": 0, "transcript": item["content"][0]["transcript"]}
            await self._floor.send(self._realtime.frame(TRANSCRIPTION + "completed", **members, usage=usage))

    async def _limit(self, turn: CommittedTurn) -> None:
        """Give up on the words of a committed turn after a while: it has those that came, or its transcription failed."""
        with turn.limit:
            await turn.transcribed.wait()
        if turn.transcribed.is_set():
            return
        if turn.texts:
            await self._transcribed(turn)
            return
        self._committed.remove(turn)
        turn.transcribed.set()
        message = f"no transcript came within {TRANSCRIBED_S:g} seconds"
        error = {"type": "transcription_error", "code": "no_transcript", "message": message, "param": None}
        failed = {"item_id": turn.item["id"], "content_index": 0, "error": error}
        await self._floor.send(self._realtime.frame(TRANSCRIPTION + "failed", **failed))
