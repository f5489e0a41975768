"""ElevenLabs' live speech (`multi-stream-input`, many contexts over a socket, and `stream-input`, one): client and server.

Source: `WebsocketTtsClientMessageMulti` of elevenlabs 2.78.0, and what LiveKit 1.8.9 and Pipecat 1.14.0 send and read (November
2026). Times of an alignment count from the chunk's own audio.

=====================  ===================================================
Client sends           Server answers
=====================  ===================================================
text                   audio with an alignment, when it sees fit
`flush`                the audio of the text so far, and no other answer
`close_context`        the audio of what was flushed, then `isFinal`
`close_socket`         all contexts are flushed and closed, then the socket
=====================  ===================================================

`close_context` drops text that was not flushed, unless the query has `auto_mode`: users who tried the sequences on the vendor's
endpoint got `isFinal` and no audio (gojargo/jargo#55), and with a flush before it all of the audio and one `isFinal`
(bolna-ai/bolna#790). What was flushed is still spoken (`CloseContext` of the SDK).

A flush has no answer. So the client matches the letters of the alignments with those that it sent: when they have reached a
flush, it is answered. The vendor does not speak every character (spaces, emoji, tags), so letters may be skipped; where they
do not match, the flush is answered when the vendor has been silent for a while (`quiet`), or by the end of the context.

The text of a session is one context, since a voice keeps its intonation only within a context. `clear` closes it, and what still
arrives for it is ignored. One context speaks at a time, as two would be mixed:

=========  ==================  ===========================================================
Context    Event               Effect
=========  ==================  ===========================================================
none       text                a context is opened (at most _CONTEXTS are not final)
speaking   text                sent in whole words
speaking   flush               flushed; answered by `Flushed` once it is spoken
speaking   finish              flushed and closed
closing    `isFinal`           `Flushed` for each flush not answered yet, the end of the session
speaking,  clear               closed and left; waiting text is dropped
closing
=========  ==================  ===========================================================
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire import elevenlabs_speak
from gw.wire.bounds import MAX_DURATION_S
from gw.wire.elevenlabs_errors import frame_error
from gw.wire.elevenlabs_speak import WordBuilder, characters_of, language_of, output_format, parse_format, sent_for
from gw.wire.json_codec import BAD_JSON, MEMBERS
from gw.wire.json_frames import Frame, frame_text, json_frame
from gw.wire.live_messages import ContextText, TtsCommand
from gw.wire.query import own_settings, query_pairs
from gw.wire.whole_words import WholeWords

OF_FRAME = "frame:"
"""Prefix of the name of an option for the first frame of a context, in JSON; the others go in the query."""
_SERVED = frozenset({
    "model_id", "output_format", "language_code", "inactivity_timeout", "sync_alignment", "enable_logging", "auto_mode",
    "optimize_streaming_latency",
})  # fmt: skip
"""Settings that a request has in common terms, or that the gateway obeys."""
_COMMON = frozenset({"model_id", "output_format", "language_code", "inactivity_timeout", "sync_alignment"})
_INACTIVITY_S = 180  # the longest that the vendor allows
_SCHEDULE = [50, 120, 160, 250, 290]
"""Characters the vendor waits for before it speaks: its defaults after a first step as short as allowed."""
_LETTERS_AHEAD = 6  # letters that an alignment may leave out between two others
_LETTERS_LEFT = 24  # letters at the end of a flush that may stay without an alignment
_CONTEXTS = 5  # contexts at once in one socket
_SLACK_MS = 50.0  # overlap allowed between times that continue: they are rounded, and sounds run into each other


# ---- client


class _Command(Enum):
    FLUSH = auto()
    LAST_FLUSH = auto()
    """The flush that `finish` needs: only the end answers it."""
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
    if request.no_store and not own:
        pairs.append(("enable_logging", "false"))
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
        self._waiting: deque[str | _Command] = deque()  # text and commands to send when a context can be opened
        self._text = WholeWords()
        self._unflushed = False  # whether text has come since the last flush
        self._count = 0
        self._current: str | None = None  # the context that speaks
        self._closing = False  # whether the current context was closed
        self._alive: set[str] = set()  # contexts that are not final yet
        self._letters = _Letters()
        self._heard = False  # whether audio came since the last flush was answered
        self._finishing = False
        self._clock = _Clock()
        self._audio_s = 0.0

    @property
    def may_be_spoken(self) -> bool:
        """Return whether a flush waits for an answer that silence may give."""
        return self._heard and self._letters.nearly_flushed

    def quiet(self) -> list[SpeakEvent]:
        """Answer all flushes: the vendor has been silent for a while."""
        return self._answers(self._letters.take_all())

    def next_frame(self) -> str | None:
        return self._frames.popleft() if self._frames else None

    def text(self, text: str) -> None:
        self._unflushed = True
        if words := self._text.add(text):
            self._waiting.append(words)
            self._advance()

    def flush(self) -> None:
        """Flush; answered by `Flushed` even if there is nothing to speak."""
        if self._unflushed:
            self._end_text(_Command.FLUSH)
        elif not self._letters.flushes and not self._waiting:
            self.due.append(Flushed())

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: it names contexts of the caller's own socket."""

    def clear(self) -> None:
        self._waiting.clear()
        self._text.end()
        self._unflushed = False
        if self._current is not None and not self._closing:
            self._send(context_id=self._current, close_context=True)
        self._leave_context()
        if self._finishing and not self.ended:
            self.due.append(self._end())

    def finish(self) -> None:
        self._finishing = True
        if self._unflushed or self._waiting or (self._current is not None and not self._closing):
            self._end_text(_Command.FINISH)
        elif self._current is None:
            self.due.append(self._end())

    def keep_alive(self) -> None:
        """Send empty text, which is not spoken."""
        if self._current is not None and not self._closing:
            self._send(text="", context_id=self._current)
        else:
            self._send(text="")

    def _end_text(self, command: _Command) -> None:
        if last := self._text.end():
            self._waiting.append(last + " ")
        if self._unflushed and command is _Command.FINISH:
            self._waiting.append(_Command.LAST_FLUSH)
        self._unflushed = False
        self._waiting.append(command)
        self._advance()

    def _advance(self) -> None:
        """Send what may be sent now."""
        while self._waiting and not self._closing:
            piece = self._waiting[0]
            if self._current is None and not self._open_context():
                return
            self._waiting.popleft()
            if isinstance(piece, str):
                self._letters.sent(piece)
                self._send(text=piece, context_id=self._current)
            elif piece is _Command.FINISH:
                self._closing = True
                self._send(context_id=self._current, close_context=True)
            else:
                self._send(context_id=self._current, flush=True)
                if piece is _Command.FLUSH:
                    self.due += self._answers(self._letters.flush())

    def _open_context(self) -> bool:
        """Open a context; return whether the vendor allows one more."""
        if len(self._alive) >= _CONTEXTS:
            return False
        self._count += 1
        self._current = f"gw-{self._count}"
        self._alive.add(self._current)
        self._send(text=" ", **self._settings, context_id=self._current)
        return True

    def _send(self, **members: object) -> None:
        self._frames.append(json_frame(members))

    def _leave_context(self) -> None:
        self._current, self._closing = None, False
        self._letters = _Letters()
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
        error = frame_error(self._provider, frame, self._secrets) if not audio else None
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
            self._heard = True
        flushed = 0
        if message.alignment is not None:
            events += self._clock.words(message.alignment, self._received_s)
            flushed = self._letters.spoken(message.alignment.chars)
        self._audio_s += self.format.seconds(len(audio))
        events += self._answers(flushed)
        return events + self._final(context) if message.isFinal else events

    def _answers(self, flushes: int) -> list[SpeakEvent]:
        if not flushes:
            return []
        self._heard = False
        return [*self._clock.end(), *[Flushed()] * flushes]

    def _final(self, context: str) -> list[SpeakEvent]:
        self._alive.discard(context)
        events = [*self._clock.end(), *self._answers(self._letters.take_all())]
        self._leave_context()
        if self._finishing and not self._waiting and not self._unflushed:
            events.append(self._end())
        self._advance()
        return events


class _Letters:
    """The letters and digits sent to a context, and how many of them its alignments have reached."""

    def __init__(self) -> None:
        self.flushes: deque[int] = deque()
        """For each flush not answered yet, the letters sent before it."""
        self._ahead = ""  # letters sent and not reached
        self._reached = 0
        self._aligned = False  # whether there was an alignment

    @property
    def nearly_flushed(self) -> bool:
        """Return whether the next flush has been reached but for a few letters, or there are no alignments."""
        return bool(self.flushes) and (not self._aligned or self.flushes[0] - self._reached <= _LETTERS_LEFT)

    def sent(self, text: str) -> None:
        self._ahead += "".join(filter(str.isalnum, text))

    def flush(self) -> int:
        """Note a flush; return how many flushes are answered: there may be nothing left to speak."""
        self.flushes.append(self._reached + len(self._ahead))
        return self._take_reached()

    def spoken(self, characters: Iterable[str]) -> int:
        """Note the characters of an alignment; return how many flushes are answered with them."""
        self._aligned = True
        for character in characters:
            if character.isalnum() and (at := self._ahead.find(character, 0, _LETTERS_AHEAD)) >= 0:
                self._pass(at + len(character))
        return self._take_reached()

    def take_all(self) -> int:
        """Return the number of flushes not answered yet; they are answered with it."""
        if self.flushes:
            self._pass(max(0, self.flushes[-1] - self._reached))
        return self._take_reached()

    def _pass(self, count: int) -> None:
        self._ahead = self._ahead[count:]
        self._reached += count

    def _take_reached(self) -> int:
        count = 0
        while self.flushes and self.flushes[0] <= self._reached:
            self.flushes.popleft()
            count += 1
        return count


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
        options=elevenlabs_speak.settings_of(query), no_store=elevenlabs_speak.is_no_store(query),
        ignorable=own_settings(fields.items(), _SERVED, ())[1]
    )  # fmt: skip


def ignorable(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a context's own settings, which another vendor does without."""
    return tuple(name.removeprefix(OF_FRAME) for name, value in settings.items() if value not in ("null", "{}", "[]"))


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
