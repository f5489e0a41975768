"""ElevenLabs' live speech (`WS /v1/text-to-speech/{voice}/multi-stream-input`): the client's side.

Source: `WebsocketTtsClientMessageMulti` of elevenlabs 2.78.0, and what LiveKit 1.8.9 and Pipecat 1.14.0 send (November 2026).

The vendor has no word for "all you sent is spoken" and none for "drop it". Counting the characters of its alignments would
tell the first only where it speaks each of them, which it does not (spaces, line ends, emoji, tags). But a context that is
closed speaks what it has and then says `isFinal`. So what stands between two flushes is a context of its own, whose end
answers the flush; `clear` closes the context, and what still comes of it is not heard. One context speaks at a time, as two
would be mixed: text for the next waits here until the one before is final.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from gw.errors import UpstreamProtocolError
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire.bounds import MAX_DURATION_S
from gw.wire.elevenlabs_errors import frame_error
from gw.wire.elevenlabs_speak import Words, language_of, output_format, sent_for, speed_of

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
OF_FRAME = "frame:"
"""Begins the name of an option that stands in the first frame of a context, in JSON; the others stand in the query."""
_SET = frozenset({"model_id", "output_format", "language_code", "inactivity_timeout", "sync_alignment"})
_INACTIVITY_S = 180
"""The longest the vendor allows."""
_SCHEDULE = [50, 120, 160, 250, 290]
"""Characters it waits for before it speaks: its own steps, after a first one as short as it may be."""
_CONTEXTS = 5
"""At once in one socket."""
_LONGEST_WORD = 200
_SLACK_MS = 50.0
"""Times that go on may overlap by so much: they are rounded, and sounds run into each other."""
_BOUNDARY = re.compile(r"[\s\u2e80-\uabff\uf900-\ufaff\uff00-\uffef]")
"""Spaces, and the characters of scripts that are written without them."""


class _Order(Enum):
    FLUSH = auto()
    FINISH = auto()


class _Alignment(msgspec.Struct, gc=False):
    """LiveKit has met both spellings."""

    chars: list[str] = []
    charStartTimesMs: list[float] | None = None
    charsStartTimesMs: list[float] | None = None
    charDurationsMs: list[float] | None = None
    charsDurationsMs: list[float] | None = None


class _Told(msgspec.Struct, gc=False):
    audio: str | None = None
    contextId: str | None = None
    context_id: str | None = None
    isFinal: bool | None = None
    alignment: _Alignment | None = None


_TOLD = msgspec.json.Decoder(_Told)


def is_offered(model: str) -> bool:
    """The third and fourth generation speak live by another protocol only, which makes dialogues."""
    return not model.startswith(("eleven_v3", "eleven_v4"))


def path_of(request: SpeakLiveRequest, model: str) -> str:
    """Path and query of a session. A caller who speaks this dialect has its own settings passed on."""
    own = request.options if request.dialect == "elevenlabs" else ()
    name = output_format(sent_for(request.format), dict(own).get("output_format", ""))
    pairs = [("model_id", model), ("output_format", name)]
    if language := language_of(request.language, model):
        pairs.append(("language_code", language))
    pairs += [("inactivity_timeout", str(_INACTIVITY_S)), ("sync_alignment", "true")]
    pairs += [(name, value) for name, value in own if name not in _SET and not name.startswith(OF_FRAME)]
    return f"/v1/text-to-speech/{quote(request.voice, safe='')}/multi-stream-input?" + urlencode(pairs)


class ElevenSpeaker:
    """One session. An order queues frames, which `next_frame` gives in their order, and events of no frame, in `due`."""

    def __init__(self, provider: str, request: SpeakLiveRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self.due: list[SpeakEvent] = []
        self.format = sent_for(request.format)
        self._provider = provider
        self._secrets = tuple(secrets)
        self._keep_raw = request.dialect == "elevenlabs"
        self._settings = _settings(request)
        self._frames: deque[str] = deque()
        self._waiting: deque[str | _Order] = deque()
        """Not said yet, since another context speaks."""
        self._word = ""
        """Text after the last space: the vendor is given whole words."""
        self._said = False
        """Text has come since the last flush."""
        self._count = 0
        self._current: str | None = None
        """The context that speaks."""
        self._closing: _Order | None = None
        """Why it was closed."""
        self._alive: set[str] = set()
        """Contexts whose end has not been told."""
        self._finishing = False
        self._clock = _Clock()
        self._audio_s = 0.0

    # ---- orders

    def next_frame(self) -> str | None:
        return self._frames.popleft() if self._frames else None

    def text(self, text: str) -> None:
        self._said = True
        text = self._word + text
        cut = _last_boundary(text)
        self._word = text[cut:]
        if cut:
            self._waiting.append(text[:cut])
            self._advance()

    def flush(self) -> None:
        """Answered by `Flushed`, also where there is nothing to speak."""
        if self._said:
            self._end_of_text(_Order.FLUSH)
        elif self._closing is not _Order.FLUSH and not self._waiting:
            self.due.append(Flushed())

    def passed(self, frame: str) -> None:
        """Drop a frame of the client's: it names contexts of the client's own socket."""

    def clear(self) -> None:
        self._waiting.clear()
        self._word, self._said = "", False
        if self._current is not None and self._closing is None:
            self._send(context_id=self._current, close_context=True)
        self._leave_context()

    def finish(self) -> None:
        self._finishing = True
        if self._said:
            self._end_of_text(_Order.FINISH)
        elif self._current is None and not self._waiting:
            self.due.append(self._end())

    def keep_alive(self) -> None:
        """Empty text is not spoken."""
        if self._current is not None and self._closing is None:
            self._send(text="", context_id=self._current)
        else:
            self._send(text="")

    def _end_of_text(self, order: _Order) -> None:
        if self._word:
            self._waiting.append(self._word)
            self._word = ""
        self._said = False
        self._waiting.append(order)
        self._advance()

    def _advance(self) -> None:
        """Say what may be said now."""
        while self._waiting and self._closing is None:
            if self._current is None:
                if len(self._alive) >= _CONTEXTS:
                    return
                self._count += 1
                self._current = f"gw-{self._count}"
                self._alive.add(self._current)
                self._send(text=" ", **self._settings, context_id=self._current)
            piece = self._waiting.popleft()
            if isinstance(piece, str):
                ends = bool(self._waiting) and isinstance(self._waiting[0], _Order) and not piece[-1].isspace()
                self._send(text=piece + " " if ends else piece, context_id=self._current)
            else:
                self._closing = piece
                self._send(context_id=self._current, close_context=True)

    def _send(self, **members: object) -> None:
        self._frames.append(msgspec.json.encode(members).decode())

    def _leave_context(self) -> None:
        self._current = self._closing = None
        self._clock.restart(self._received_s)

    @property
    def _received_s(self) -> float | None:
        """Audio that came; None where its form does not tell."""
        return self._audio_s if self.format.bytes_per_second else None

    def _end(self) -> SpeakEnd:
        self.ended = True
        return SpeakEnd()

    # ---- what the vendor says

    def receive(self, frame: str | bytes) -> list[SpeakEvent]:
        """Frames may wait for `next_frame` afterwards.

        Raises ProviderError for an error, UpstreamProtocolError for what is no frame of this dialect.
        """
        try:
            told = _TOLD.decode(frame)
            audio = b64decode(told.audio or "", validate=True)
        except (*_BAD_JSON, ValueError):
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        error = frame_error(self._provider, frame, self._secrets) if not audio else None
        named = told.contextId or told.context_id
        context = named or self._current
        if error is not None and (named is None or named == self._current):
            raise error
        if context is None or context != self._current:
            if (told.isFinal or error is not None) and context is not None:  # it had been cleared
                self._alive.discard(context)
                self._advance()
            return []
        events: list[SpeakEvent] = []
        if audio:
            events.append(AudioChunk(data=audio, raw=self._raw(frame)))
        if told.alignment is not None:
            events += self._clock.words(told.alignment, self._received_s)
        self._audio_s += self.format.seconds(len(audio))
        return events + self._final(context) if told.isFinal else events

    def _raw(self, frame: str | bytes) -> str | None:
        if not self._keep_raw:
            return None
        return frame if isinstance(frame, str) else frame.decode()

    def _final(self, context: str) -> list[SpeakEvent]:
        self._alive.discard(context)
        events: list[SpeakEvent] = [*self._clock.end()]
        if self._closing is _Order.FLUSH:
            events.append(Flushed())
        self._leave_context()
        if self._finishing and not self._waiting and not self._said:
            events.append(self._end())
        self._advance()
        return events


class _Clock:
    """Words and their place in the session's audio.

    Clients disagree on the origin of an alignment's times: the SDK and Pipecat take them to begin anew with each frame,
    LiveKit to go on. So those that begin before the end of the frame before begin anew, where this frame's audio begins.
    """

    def __init__(self) -> None:
        self._words = Words()
        self._base_s = 0.0
        self._told_ms = 0.0
        """End of the last character, in the vendor's own times."""

    def words(self, told: _Alignment, audio_s: float | None) -> list[WordTiming]:
        """`audio_s`: the audio before this frame, None where its form does not tell."""
        starts = told.charStartTimesMs or told.charsStartTimesMs or []
        lengths = told.charDurationsMs or told.charsDurationsMs or []
        if not starts or not lengths:
            return []
        if starts[0] < self._told_ms - _SLACK_MS:
            self._begin(audio_s)
        self._told_ms = starts[-1] + lengths[-1]
        base_s = self._base_s
        return self._words.feed(
            (text, _bounded(base_s + start / 1000), _bounded(base_s + (start + length) / 1000))
            for text, start, length in zip(told.chars, starts, lengths, strict=False)
        )

    def end(self) -> list[WordTiming]:
        """The word that no space ended."""
        return self._words.end()

    def restart(self, audio_s: float | None) -> None:
        """What follows is other text; a word begun is dropped."""
        self._words.end()
        self._begin(audio_s)

    def _begin(self, audio_s: float | None) -> None:
        self._base_s = self._base_s + self._told_ms / 1000 if audio_s is None else audio_s
        self._told_ms = 0.0


def _bounded(told_s: float) -> float:
    return min(max(told_s, 0.0), MAX_DURATION_S)


def _settings(request: SpeakLiveRequest) -> dict[str, Any]:
    own = request.options if request.dialect == "elevenlabs" else ()
    found = {name[len(OF_FRAME) :]: msgspec.Raw(value.encode()) for name, value in own if name.startswith(OF_FRAME)}
    speed = {} if request.speed is None else {"speed": speed_of(request.speed)}
    return {"voice_settings": speed, "generation_config": {"chunk_length_schedule": _SCHEDULE}} | found


def _last_boundary(text: str) -> int:
    """Where the last whole word ends, with the space after it."""
    for at in range(len(text) - 1, -1, -1):
        if _BOUNDARY.match(text, at):
            return at + 1
    return len(text) if len(text) > _LONGEST_WORD else 0
