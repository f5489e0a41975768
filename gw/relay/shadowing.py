"""Shadow calls: a share of transcriptions is made a second time, by a second model, and the two are compared.

A `Shadow` belongs to a call of an app. It copies the audio, which the second model gets in a session or request of its own, of the project
`shadow`, with its own budget. Nothing of it waits for anything: what has no room is left out, and counted.

    the call of the app        its shadow
    ────────────────────────   ─────────────────────────────────────────────────────────────────────────────────────
    first audio, live          begins a session of the second model, unless as many as may be at once are running
    audio, live                is queued for it; if the queue is full, the shadow is given up
    a recording, as it is read is kept in memory, if it is not too long, and sent when the call has ended
    end                        the transcripts are compared, if both calls succeeded and no fallback answered the app
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import attrs
import structlog
import trio

from gw.errors import GwError, StoreUnavailable, is_refusal, one_error
from gw.policy.compared_calls import ComparedCall, Comparisons, LeftOut
from gw.policy.shares import share_of
from gw.policy.word_errors import MOST_WORDS, WordDistance, words_of
from gw.types.entities import Project
from gw.types.ids import Caller
from gw.types.shadow import SHADOW_PROJECT, CallKind, ShadowModel, ShadowSettings
from gw.types.stt import AudioSource, ListenEnd, ListenRequest, TranscribeRequest, Transcript
from gw.types.stt import Final as FinalTranscript
from gw.types.usage import RequestRecord
from gw.wire.convert import CannotConvert

MOST_AT_ONCE: Final = 16
"""Shadows at once: those that run, and those whose recording is being copied. A call beyond them has none."""
QUEUED: Final = 500
"""Pieces of live audio that wait for a second model, 10 s of usual ones. When it is full, the shadow is given up."""
QUEUED_BYTES: Final = 2_000_000
RECORDING_BYTES: Final = 8_000_000
"""Longest recording that is kept for a second model; longer ones have no shadow."""
END_S: Final = 30.0
"""Time for a second model to end a session whose audio is over, or to transcribe a recording."""
AT_A_TIME: Final = 20
"""Words that are compared before audio has its turn again, within a millisecond or so."""
_FINEST: Final = 1_000_000

Listen = Callable[[ListenRequest, Caller], AbstractAsyncContextManager[Any]]
Transcribe = Callable[[TranscribeRequest, Caller], AbstractAsyncContextManager[Any]]
_log = structlog.get_logger("gw.relay")


@attrs.define
class Transcribed:
    """The transcripts of one model in one call, and its times."""

    per_s: int = 0
    """Bytes of a second of the audio; 0 where its length does not follow from its size."""
    texts: list[str] = attrs.field(factory=list)
    times_s: list[float] = attrs.field(factory=list)
    sent: int = 0

    def final(self, event: FinalTranscript) -> None:
        """Note a final transcript, with the audio sent since its last word."""
        self.texts.append(event.text)
        end_s = event.words[-1].end_s if event.words else event.end_s
        if self.per_s and end_s > 0:
            self.times_s.append(max(0.0, self.sent / self.per_s - end_s))

    @property
    def text(self) -> str:
        return " ".join(self.texts)


class Shadow:
    """The copy of one call of an app. Its methods are called by the call itself, and none of them waits or raises."""

    def __init__(
        self, shadows: Shadows, kind: CallKind, model_id: str, second: ShadowModel, request: ListenRequest | TranscribeRequest,
        caller: Caller,
    ) -> None:  # fmt: skip
        fmt = request.format
        per_s = fmt.bytes_per_second if kind == "live" and fmt is not None else 0
        self.kind: CallKind = kind
        self.model_id, self.second, self.caller, self.request = model_id, second, caller, request
        self.first, self.other = Transcribed(per_s), Transcribed(per_s)
        self.record: RequestRecord | None = None
        """Record of the call of the app, when it has ended."""
        self.recording: bytearray | None = bytearray() if kind == "recording" else None
        self.given_up: LeftOut | None = None
        self.has_place = self.is_started = False
        self._shadows = shadows
        self._queued_bytes = 0
        self._send: trio.MemorySendChannel[bytes] | None = None
        self.receive: trio.MemoryReceiveChannel[bytes]

    def sound(self, data: bytes) -> None:
        """Take a piece of live audio."""
        self.first.sent += len(data)
        if self.given_up is not None:
            return
        if self._send is None:
            self._send, self.receive = trio.open_memory_channel[bytes](QUEUED)
            if not self._shadows.start(self):
                return
        try:
            if self._queued_bytes + len(data) > QUEUED_BYTES:
                raise trio.WouldBlock
            self._send.send_nowait(data)
            self._queued_bytes += len(data)
        except (trio.WouldBlock, trio.BrokenResourceError):
            self.give_up("too_slow")

    def took(self, data: bytes) -> None:
        """Note that the second model was sent a piece."""
        self._queued_bytes -= len(data)
        self.other.sent += len(data)

    def final(self, event: FinalTranscript) -> None:
        """Take a final transcript of live audio."""
        self.first.final(event)

    def text(self, text: str) -> None:
        """Take the transcript of a recording."""
        self.first.texts.append(text)

    def copied(self, request: TranscribeRequest) -> TranscribeRequest:
        """Return a request whose recording is kept as it is read."""
        if self.recording is None or not (self.has_place or self._shadows.take_place(self)):
            return request
        self.request = request
        return attrs.evolve(request, audio=_CopiedRecording(request.audio, self))

    def keep(self, data: bytes, at: int) -> None:
        """Keep bytes of a recording that begin at a position."""
        # Another candidate reads the same recording from its beginning: what is kept already is not new.
        if self.recording is not None and (new := data[max(0, len(self.recording) - at) :]):
            self.recording += new
            if len(self.recording) > RECORDING_BYTES:
                self.give_up("too_long")

    def give_up(self, why: LeftOut) -> None:
        """End the copy; it is counted as left out."""
        if self.given_up is None:
            self.given_up, self.recording = why, None
            self._shadows.count(ComparedCall(model_id=self.model_id, second_id=self.second.model, kind=self.kind, left_out=why))
            self._shadows.give_place_back(self)
        if self._send is not None:
            self._send.close()

    def end(self, record: RequestRecord) -> None:
        """Take the record of the call of the app, which has ended."""
        if self.record is not None:
            return
        self.record = record
        if record.status != "success" or record.model_id != self.model_id:
            self.give_up("call_fell_back" if record.fell_back else "call_failed")
        elif self._send is not None:
            self._send.close()
        elif self.recording:
            self._shadows.start(self)
        elif self.has_place:  # the vendor answered without a look at the recording
            self.give_up("failed")


class _CopiedRecording:
    """A recording whose bytes a shadow keeps as they are read."""

    def __init__(self, source: AudioSource, shadow: Shadow) -> None:
        self._source, self._shadow = source, shadow
        self.size, self.filename, self.content_type = source.size, source.filename, source.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning."""
        at = 0
        async for piece in self._source.chunks():
            self._shadow.keep(piece, at)
            at += len(piece)
            yield piece


class _KeptRecording:
    """A recording in memory."""

    def __init__(self, data: bytearray, like: AudioSource) -> None:
        self._data = data
        self.size, self.filename, self.content_type = len(data), like.filename, like.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning."""
        for at in range(0, self.size, 65_536):
            yield bytes(self._data[at : at + 65_536])


class Shadows:
    """Chooses the calls that have a shadow, runs the shadows, and adds up what they show. `run` must run beside."""

    def __init__(self, listen: Listen, transcribe: Transcribe) -> None:
        self._listen, self._transcribe = listen, transcribe
        self.settings: ShadowSettings | None = None
        """In force for calls that begin from now on."""
        self.comparisons = Comparisons()
        self.count: Callable[[ComparedCall], object] = self.comparisons.add
        """Takes each call that is over; in a worker process it sends it to the keeper, which has the figures of all."""
        self.running = 0
        self._work: trio.MemorySendChannel[Shadow]
        self._work, self._waiting = trio.open_memory_channel[Shadow](MOST_AT_ONCE)

    def for_call(
        self, request: ListenRequest | TranscribeRequest, caller: Caller, model_id: str, call_id: str, project: Project
    ) -> Shadow | None:
        """Return the shadow of a call that begins, if it belongs to the share that has one.

        Only audio of projects that allow it is copied, and never where the app asked that nothing is stored, or that something is
        left out of the transcript.
        """
        settings = self.settings
        if settings is None or caller.project not in settings.projects or (second := settings.models.get(model_id)) is None:
            return None
        if request.no_store or request.redact or (isinstance(request, TranscribeRequest) and (request.task != "transcribe" or request.url)):
            return None
        whole = caller.session_id or caller.turn_id or call_id
        if share_of((had := round(second.share * _FINEST), _FINEST - had), f"shadow {model_id}", whole):
            return None
        regions = _regions(project.regions, caller.regions)
        if regions is None:
            return None
        own = Caller(project=SHADOW_PROJECT, session_id=f"shadow-{call_id}", endpoint="shadow", regions=regions, fallback=False)
        kind: CallKind = "live" if isinstance(request, ListenRequest) else "recording"
        return Shadow(self, kind, model_id, second, request, own)

    def start(self, shadow: Shadow) -> bool:
        """Begin the call of a second model; return whether there was room for it."""
        if not (shadow.has_place or self.take_place(shadow)):
            return False
        shadow.is_started = True
        self._work.send_nowait(shadow)
        return True

    def take_place(self, shadow: Shadow) -> bool:
        """Count a shadow among those at once; return False, and have it given up, if there are as many as may be."""
        if self.running >= MOST_AT_ONCE:
            shadow.give_up("busy")
            return False
        self.running += 1
        shadow.has_place = True
        return True

    def give_place_back(self, shadow: Shadow) -> None:
        """Count a shadow no more that was given up before its call began."""
        if shadow.has_place and not shadow.is_started:
            shadow.has_place = False
            self.running -= 1

    async def run(self) -> None:
        """Run shadows until cancelled. What one of them raises is counted, logged and goes no further."""
        async with trio.open_nursery() as nursery:
            async for shadow in self._waiting:
                nursery.start_soon(self._run_one, shadow)

    async def _run_one(self, shadow: Shadow) -> None:
        try:
            with one_error():
                record = await (self._run_live(shadow) if shadow.kind == "live" else self._run_recording(shadow))
        except (GwError, CannotConvert, trio.TooSlowError) as error:
            _log.info("shadow_failed", model=shadow.second.model, why=str(error) or type(error).__name__)
            refused = isinstance(error, GwError) and (is_refusal(error) or isinstance(error, StoreUnavailable))
            shadow.give_up("refused" if refused else "failed")
        except Exception:
            _log.exception("shadow_failed", model=shadow.second.model)
            shadow.give_up("failed")
        else:
            await self._compare(shadow, record)
        finally:
            self.running -= 1

    async def _run_live(self, shadow: Shadow) -> RequestRecord | None:
        """Hold a session of the second model with the audio of the app's."""
        request = shadow.request
        assert isinstance(request, ListenRequest)
        own = ListenRequest(model=shadow.second.model, format=request.format, language=request.language, interim_results=False)
        async with self._listen(own, shadow.caller) as session, trio.open_nursery() as nursery:
            nursery.start_soon(self._read, session, shadow, nursery.cancel_scope)
            async for data in shadow.receive:
                await session.send_audio(data)
                shadow.took(data)
            if shadow.given_up is None:
                await session.finish()
                await trio.sleep(END_S)
            nursery.cancel_scope.cancel()
        record: RequestRecord | None = session.meter.record
        return record

    async def _read(self, session: Any, shadow: Shadow, until: trio.CancelScope) -> None:
        """Read the transcripts of a session to its end."""
        while True:
            for event in await session.receive():
                if isinstance(event, FinalTranscript):
                    shadow.other.final(event)
                elif isinstance(event, ListenEnd):
                    until.cancel()
                    return

    async def _run_recording(self, shadow: Shadow) -> RequestRecord | None:
        """Have the second model transcribe the recording that the app's model has transcribed."""
        request, data, shadow.recording = shadow.request, shadow.recording, None
        assert isinstance(request, TranscribeRequest)
        assert data is not None
        audio = _KeptRecording(data, request.audio)
        own = TranscribeRequest(
            model=shadow.second.model, audio=audio, format=request.format, audio_seconds=request.audio_seconds, language=request.language
        )
        with trio.fail_after(END_S):
            async with self._transcribe(own, shadow.caller) as response:
                while not response.done:
                    shadow.other.texts += [event.text for event in await response.receive() if isinstance(event, Transcript)]
        record: RequestRecord | None = response.record
        return record

    async def _compare(self, shadow: Shadow, record: RequestRecord | None) -> None:
        """Add a pair of calls to the figures."""
        first = shadow.record
        if shadow.given_up is not None:
            return
        if record is None or record.status != "success" or first is None:
            shadow.give_up("failed")
            return
        words, others = words_of(shadow.first.text), words_of(shadow.other.text)
        edits = await _edits(words[:MOST_WORDS], others[:MOST_WORDS])
        is_live = shadow.kind == "live"
        self.count(ComparedCall(
            model_id=shadow.model_id, second_id=shadow.second.model, kind=shadow.kind, words=len(words[:MOST_WORDS]), edits=edits,
            cut=max(len(words), len(others)) > MOST_WORDS,
            first=(first.cost_nusd, shadow.first.times_s if is_live else [first.total_latency_ms / 1000]),
            second=(record.cost_nusd, shadow.other.times_s if is_live else [record.total_latency_ms / 1000]),
        ))  # fmt: skip


async def _edits(words: Sequence[str], others: Sequence[str]) -> int:
    """Return the edits between two transcripts, computed a little at a time beside the audio of callers."""
    distance = WordDistance(words)
    for at in range(0, len(others), AT_A_TIME):
        distance.add(others[at : at + AT_A_TIME])
        await trio.lowlevel.checkpoint()
    return distance.edits


def _regions(ours: tuple[str, ...], named: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the regions in which a shadow may be processed, those of its call; empty: any; None: in none."""
    if not ours or not named:
        return ours or named
    wanted = {region.lower() for region in named}
    return tuple(region for region in ours if region.lower() in wanted) or None
