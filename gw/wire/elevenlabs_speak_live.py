"""ElevenLabs' live speech (`multi-stream-input`, many contexts over a socket, and `stream-input`, one): client and server.

Source: `WebsocketTtsClientMessageMulti` of elevenlabs 2.78.0, and what LiveKit 1.8.9 and Pipecat 1.14.0 send and read (November
2026). Times of an alignment count from the chunk's own audio.

=====================  ===================================================
Client sends           Server answers
=====================  ===================================================
text                   audio with an alignment, when it sees fit
`flush`                the audio of the text so far, and no other answer
`close_context`        the remaining audio, then `isFinal`
`close_socket`         the same for all contexts, then the close
=====================  ===================================================

So the vendor has no answer for "all text so far is spoken", and no command to drop text. Counting the characters of its
alignments would not help, since it does not speak each of them (spaces, line ends, emoji, tags). But a closed context speaks
its text and then sends `isFinal`. So the client uses one context per flush, whose end answers the flush; `clear` closes the
context, and what still arrives for it is ignored. One context speaks at a time, as two would be mixed:

=========  ==================  ===========================================================
Context    Event               Effect
=========  ==================  ===========================================================
none       text                a context is opened (at most _CONTEXTS are not final)
speaking   text                sent in whole words
speaking   flush, finish       the context is closed; later text waits
closing    `isFinal`           `Flushed` or the end of the session; waiting text goes on
speaking,  clear               closed and left; waiting text is dropped
closing
=========  ==================  ===========================================================
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire import elevenlabs_speak
from gw.wire.bounds import MAX_DURATION_S
from gw.wire.elevenlabs_speak import WordBuilder, characters_of, language_of, output_format, parse_format, sent_for
from gw.wire.json_codec import BAD_JSON, MEMBERS
from gw.wire.json_frames import Frame, frame_text, json_frame
from gw.wire.live_messages import ContextText, TtsCommand
from gw.wire.query import query_pairs
from gw.wire.vendor_errors import elevenlabs_frame_error

OF_FRAME = "frame:"
"""Prefix of the name of an option for the first frame of a context, in JSON; the others go in the query."""
_COMMON = frozenset({"model_id", "output_format", "language_code", "inactivity_timeout", "sync_alignment"})
_INACTIVITY_S = 180  # the longest that the vendor allows
_SCHEDULE = [50, 120, 160, 250, 290]
"""Characters the vendor waits for before it speaks: its defaults after a first step as short as allowed."""
_CONTEXTS = 5  # contexts at once in one socket
_LONGEST_WORD = 200
_SLACK_MS = 50.0  # overlap allowed between times that continue: they are rounded, and sounds run into each other
_BOUNDARY = re.compile(r"[\s\u2e80-\uabff\uf900-\ufaff\uff00-\uffef]")
"""Spaces, and the characters of scripts that are written without them."""


# ---- client


class _Closing(Enum):
    FLUSH = auto()
    FINISH = auto()


class _Alignment(msgspec.Struct, gc=False):
    """Times per character; LiveKit has met both spellings."""

    chars: list[str] = []
    charStartTimesMs: list[float] | None = None
    charsStartTimesMs: list[float] | None = None
    charDurationsMs: list[float] | None = None
    charsDurationsMs: list[float] | None = None


class _Message(msgspec.Struct, gc=False):
    audio: str | None = None
    contextId: str | None = None
    context_id: str | None = None
    isFinal: bool | None = None
    alignment: _Alignment | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def is_offered(model: str) -> bool:
    """Return whether a model speaks this protocol: the third and fourth generation have another one, for dialogues."""
    return not model.startswith(("eleven_v3", "eleven_v4"))


def path_of(request: SpeakLiveRequest, model: str) -> str:
    """Return path and query of a session. A caller of this dialect has its own settings passed on."""
    own = request.options if request.dialect == "elevenlabs" else ()
    name = output_format(sent_for(request.format), dict(own).get("output_format", ""))
    pairs = [("model_id", model), ("output_format", name)]
    if language := language_of(request.language, model):
        pairs.append(("language_code", language))
    pairs += [("inactivity_timeout", str(_INACTIVITY_S)), ("sync_alignment", "true")]
    pairs += [(name, value) for name, value in own if name not in _COMMON and not name.startswith(OF_FRAME)]
    return f"/v1/text-to-speech/{quote(request.voice, safe='')}/multi-stream-input?" + urlencode(pairs)


class ElevenSpeakClient:
    """One session. Commands queue frames, which `next_frame` returns in order, and events without a frame, in `due`."""

    def __init__(self, provider: str, request: SpeakLiveRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self.due: list[SpeakEvent] = []
        self.format = sent_for(request.format)
        self._provider = provider
        self._secrets = tuple(secrets)
        self._keep_raw = request.dialect == "elevenlabs"
        self._settings = _settings(request)
        self._frames: deque[str] = deque()
        self._waiting: deque[str | _Closing] = deque()  # text and commands to send when the current context has ended
        self._word = ""  # text after the last space: the vendor gets whole words only
        self._unflushed = False  # whether text has come since the last flush
        self._count = 0
        self._current: str | None = None  # the context that speaks
        self._closing: _Closing | None = None  # why the current context was closed
        self._alive: set[str] = set()  # contexts that are not final yet
        self._finishing = False
        self._clock = _Clock()
        self._audio_s = 0.0

    def next_frame(self) -> str | None:
        return self._frames.popleft() if self._frames else None

    def text(self, text: str) -> None:
        self._unflushed = True
        text = self._word + text
        cut = _last_boundary(text)
        self._word = text[cut:]
        if cut:
            self._waiting.append(text[:cut])
            self._advance()

    def flush(self) -> None:
        """Flush; answered by `Flushed` even if there is nothing to speak."""
        if self._unflushed:
            self._end_text(_Closing.FLUSH)
        elif self._closing is not _Closing.FLUSH and not self._waiting:
            self.due.append(Flushed())

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: it names contexts of the caller's own socket."""

    def clear(self) -> None:
        self._waiting.clear()
        self._word, self._unflushed = "", False
        if self._current is not None and self._closing is None:
            self._send(context_id=self._current, close_context=True)
        self._leave_context()

    def finish(self) -> None:
        self._finishing = True
        if self._unflushed:
            self._end_text(_Closing.FINISH)
        elif self._current is None and not self._waiting:
            self.due.append(self._end())

    def keep_alive(self) -> None:
        """Send empty text, which is not spoken."""
        if self._current is not None and self._closing is None:
            self._send(text="", context_id=self._current)
        else:
            self._send(text="")

    def _end_text(self, closing: _Closing) -> None:
        if self._word:
            self._waiting.append(self._word)
            self._word = ""
        self._unflushed = False
        self._waiting.append(closing)
        self._advance()

    def _advance(self) -> None:
        """Send what may be sent now."""
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
                ends = bool(self._waiting) and isinstance(self._waiting[0], _Closing) and not piece[-1].isspace()
                self._send(text=piece + " " if ends else piece, context_id=self._current)
            else:
                self._closing = piece
                self._send(context_id=self._current, close_context=True)

    def _send(self, **members: object) -> None:
        self._frames.append(json_frame(members))

    def _leave_context(self) -> None:
        self._current = self._closing = None
        self._clock.restart(self._received_s)

    @property
    def _received_s(self) -> float | None:
        """Audio received; None in a format whose length is not known."""
        return self._audio_s if self.format.bytes_per_second else None

    def _end(self) -> SpeakEnd:
        self.ended = True
        return SpeakEnd()

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame; afterwards `next_frame` may have frames to send.

        Raises ProviderError for an error, UpstreamProtocolError for a malformed frame.
        """
        try:
            message = _MESSAGE.decode(frame)
            audio = b64decode(message.audio or "", validate=True)
        except (*BAD_JSON, ValueError):
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        error = elevenlabs_frame_error(self._provider, frame, self._secrets) if not audio else None
        named = message.contextId or message.context_id
        context = named or self._current
        if error is not None and (named is None or named == self._current):
            raise error
        if context is None or context != self._current:
            if (message.isFinal or error is not None) and context is not None:  # it had been cleared
                self._alive.discard(context)
                self._advance()
            return []
        events: list[SpeakEvent] = []
        if audio:
            events.append(AudioChunk(data=audio, raw=frame_text(frame) if self._keep_raw else None))
        if message.alignment is not None:
            events += self._clock.words(message.alignment, self._received_s)
        self._audio_s += self.format.seconds(len(audio))
        return events + self._final(context) if message.isFinal else events

    def _final(self, context: str) -> list[SpeakEvent]:
        self._alive.discard(context)
        events: list[SpeakEvent] = [*self._clock.end()]
        if self._closing is _Closing.FLUSH:
            events.append(Flushed())
        self._leave_context()
        if self._finishing and not self._waiting and not self._unflushed:
            events.append(self._end())
        self._advance()
        return events


class _Clock:
    """Words and their place in the session's audio.

    Clients disagree on the origin of an alignment's times: the SDK and Pipecat take them to begin anew with each frame,
    LiveKit to continue. So times that begin before the end of the previous frame begin anew, where this frame's audio does.
    """

    def __init__(self) -> None:
        self._words = WordBuilder()
        self._base_s = 0.0
        self._end_ms = 0.0  # end of the last character, in the vendor's own times

    def words(self, alignment: _Alignment, audio_s: float | None) -> list[WordTiming]:
        """Return the words of an alignment. `audio_s`: length of the audio before this frame; None if not known."""
        starts = alignment.charStartTimesMs or alignment.charsStartTimesMs or []
        lengths = alignment.charDurationsMs or alignment.charsDurationsMs or []
        if not starts or not lengths:
            return []
        if starts[0] < self._end_ms - _SLACK_MS:
            self._rebase(audio_s)
        self._end_ms = starts[-1] + lengths[-1]
        base_s = self._base_s
        return self._words.feed(
            (text, _bounded(base_s + start / 1000), _bounded(base_s + (start + length) / 1000))
            for text, start, length in zip(alignment.chars, starts, lengths, strict=False)
        )

    def end(self) -> list[WordTiming]:
        """Return the last word, which no space ended."""
        return self._words.end()

    def restart(self, audio_s: float | None) -> None:
        """Start over with other text; an unfinished word is dropped."""
        self._words.end()
        self._rebase(audio_s)

    def _rebase(self, audio_s: float | None) -> None:
        self._base_s = self._base_s + self._end_ms / 1000 if audio_s is None else audio_s
        self._end_ms = 0.0


def _bounded(time_s: float) -> float:
    return min(max(time_s, 0.0), MAX_DURATION_S)


def _settings(request: SpeakLiveRequest) -> dict[str, Any]:
    own = request.options if request.dialect == "elevenlabs" else ()
    speed = {} if request.speed is None else {"speed": elevenlabs_speak.speed_of(request.speed)}
    return {
        "voice_settings": speed,
        "generation_config": {"chunk_length_schedule": _SCHEDULE},
        **{name[len(OF_FRAME) :]: msgspec.Raw(value.encode()) for name, value in own if name.startswith(OF_FRAME)},
    }


def _last_boundary(text: str) -> int:
    """Return where the last complete word ends, including the space after it."""
    for at in range(len(text) - 1, -1, -1):
        if _BOUNDARY.match(text, at):
            return at + 1
    return len(text) if len(text) > _LONGEST_WORD else 0


# ---- server


class _ClientFrame(msgspec.Struct, gc=False):
    text: str | None = None
    context_id: str | None = None
    flush: bool = False
    close_context: bool = False
    close_socket: bool = False


_CLIENT_FRAME = msgspec.json.Decoder(_ClientFrame)
_KEYS = ("xi-api-key", "xi_api_key", "authorization")
_NOT_SETTINGS = frozenset({*_ClientFrame.__struct_fields__, "try_trigger_generation", *_KEYS})


def parse_query(voice: str, query: bytes) -> SpeakLiveRequest:
    """Raises ClientProtocolError, with `param`."""
    fields = dict(query_pairs(query))
    return SpeakLiveRequest(
        model=fields.get("model_id", ""), voice=voice,
        format=parse_format(fields.get("output_format", "mp3_44100_128")),
        language=fields.get("language_code") or None, want_timings=True, dialect="elevenlabs",
        options=elevenlabs_speak.settings_of(query)
    )  # fmt: skip


def parse_frame(frame: Frame, *, many: bool) -> ContextText | TtsCommand:
    """Decode a client's frame. Raises ClientProtocolError.

    Empty text ends a `stream-input`; in a `multi-stream-input` (`many`) it keeps the socket alive. `settings` are all members
    outside the protocol: an upstream of this dialect gets them in a context's first frame.
    """
    try:
        message = _CLIENT_FRAME.decode(frame)
        members = MEMBERS.decode(frame)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"a frame is not the JSON expected: {error}") from None
    if message.close_socket:
        return TtsCommand.CLOSE
    settings = ((name, raw) for name, raw in members.items() if name not in _NOT_SETTINGS)
    return ContextText(
        context=message.context_id or "",
        text=message.text or "",
        flush=message.flush,
        finish=message.close_context if many else message.text == "",
        settings=tuple((OF_FRAME + name, bytes(raw).decode("utf-8", "replace")) for name, raw in settings),
    )


def key_in(frame: Frame) -> bytes | None:
    """Return the credential in a first frame; None if there is none."""
    try:
        members = MEMBERS.decode(frame)
        raw = next((members[name] for name in _KEYS if name in members), None)
        key = msgspec.json.decode(raw, type=str) if raw is not None else ""
    except BAD_JSON:
        return None
    scheme, _, token = key.strip().partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else key.strip()).encode() or None


class ElevenSpeakServer:
    """One context of a client: events to frames. `context` is None on a socket that has only one."""

    def __init__(self, context: str | None, fmt: AudioFormat) -> None:
        self._names = {} if context is None else {"contextId": context, "context_id": context}
        self._format = fmt
        self._audio_s = 0.0

    def encode(self, events: list[SpeakEvent]) -> list[str]:
        """Encode events. Frames of an upstream of this dialect are passed on under the client's name for the context."""
        end = [self._frame(audio=None, isFinal=True)] if events and isinstance(events[-1], SpeakEnd) else []
        chunks = [event for event in events if isinstance(event, AudioChunk)]
        if passed := [chunk.raw for chunk in chunks if chunk.raw is not None]:
            return [*(self._renamed(raw) for raw in passed), *end]
        audio = b"".join(chunk.data for chunk in chunks)
        if not audio:
            return end
        alignment = self._alignment([event for event in events if isinstance(event, WordTiming)])
        self._audio_s += self._format.seconds(len(audio))
        members = {"audio": b64encode(audio).decode(), "isFinal": None, "alignment": alignment}
        return [self._frame(**members, normalizedAlignment=alignment), *end]

    def _alignment(self, timings: list[WordTiming]) -> dict[str, Any] | None:
        characters = characters_of(timings)
        if not characters:
            return None
        starts = [round(1000 * max(0.0, start_s - self._audio_s)) for _, start_s, _ in characters]
        durations = [round(1000 * (end_s - start_s)) for _, start_s, end_s in characters]
        return {
            "chars": [character for character, _, _ in characters], "charStartTimesMs": starts,
            "charDurationsMs": durations, "charsStartTimesMs": starts, "charsDurationsMs": durations
        }  # fmt: skip

    def _renamed(self, raw: str) -> str:
        members: dict[str, Any] = dict(MEMBERS.decode(raw))
        for name in ("contextId", "context_id"):
            members.pop(name, None)
        return self._frame(**{**members, "isFinal": None})

    def _frame(self, **members: Any) -> str:
        return json_frame(members | self._names)


def error_frame(code: str, message: str, close_code: int, context: str | None = None) -> str:
    names = {} if context is None else {"contextId": context, "context_id": context}
    return json_frame({"message": message, "error": code, "code": close_code, **names})
