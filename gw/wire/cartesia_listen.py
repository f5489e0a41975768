"""Cartesia's transcription of recordings (`/stt`), live (`/stt/websocket`) and by turns (`/stt/turns/websocket`): both roles.

Source: cartesia 4.2.0 (`stt/auto_finalize`), pipecat-ai 1.14.0, the vendor's pages on its endpoints (November 2026). Live:

===================  ==========================================================================
Client sends         Server answers
===================  ==========================================================================
binary frame: audio  `transcript` (`is_final`: will not change)
`finalize` (text)    the transcripts of the audio so far, then `flush_done`
`close` or `done`    the remaining transcripts, then `done`
===================  ==========================================================================

Clients join final transcripts without separators, so each brings its own spaces. ink-whisper makes finals by itself after a
silence; later models wait for `finalize` here, and find the end of a turn at the other path. What is billed is not reported:
seconds are counted.

By turns, `connected` comes first; every update repeats the turn so far, and `turn.end` closes it. After `close` come the
remaining events, then the vendor closes the socket: there is no last frame. A turn needs audio to end, if only silence. For a
provider that does not report the end of turns, each final transcript is a turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import (
    AudioSource,
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
)
from gw.wire.bounds import seconds
from gw.wire.cartesia_speak import ENCODINGS, SERVED, VENDOR_MESSAGE
from gw.wire.convert import silence
from gw.wire.json_codec import BAD_JSON, NO_TYPE, decode_client, decode_upstream
from gw.wire.json_frames import Frame, frame_text, typed_frame, vendor_frames
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, DelayedReply, Forward
from gw.wire.query import bare_language, encoding_field, optional_pairs, own_settings, query_pairs, sample_rate
from gw.wire.transcripts import TurnEncoder, joined_text, timed_word, transcribed, unknown

BY_TURNS = ("/stt/turns/websocket", "")
"""Option of a request whose caller speaks the protocol of that path, which has other frames and settings."""
_COMMON = frozenset({"model", "encoding", "sample_rate", BY_TURNS[0]})  # settings that a request has in common terms
_SERVED = _COMMON | {"language", "keyterm", "max_silence_duration_secs", "turn_end_timeout_ms", "cartesia_version"}
"""Settings that a request has in common terms, or that the gateway sets."""
_GRANULARITIES = frozenset({"timestamp_granularities", "timestamp_granularities[]"})
_MAX_KEYTERMS, _MAX_KEYTERM_CHARACTERS = 100, 1_200
"""Limits per session; the vendor refuses a longer list as a whole."""
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml cy sk te fa"
    " lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk"
    " nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue "
)
"""Languages of ink-whisper (`STTTranscribeParams`); the other models know English only (`STTManualFinalize`)."""
_TURN_TIMEOUT_MS = (640, 11_200)
"""Shortest and longest silence that ends a turn at the latest; the vendor accepts no other."""
_SECONDS = re.compile(r"[0-9]{1,3}(?:\.[0-9]*)?")
_MILLISECONDS = re.compile(r"([0-9]{1,5})(?:\.[0-9]*)?")
_USUAL_TIMEOUT_MS = 5_600  # the vendor's default
_MAX_SILENCE_S = 2.0  # of ink-whisper within an utterance, unless the request says another
_WITHOUT_INTERIMS_S = 10.0
_MOST_TIMED = 16  # flushes that are timed at once; others are answered with them
_CERTAIN_END_S = 1.2  # silence after which a turn has probably ended, where nobody has set one
FLUSH_S = 1.0
"""Silence sent to end a turn, for which the vendor has no command; the longest silence is made shorter before."""


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float = 0.0
    end: float = 0.0


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    is_final: bool | None = False
    duration: float | None = None
    language: str | None = None
    words: list[_Word] | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def _words(words: list[_Word] | None) -> tuple[stt.Word, ...]:
    return tuple(stt.Word(text=word.word, start_s=word.start, end_s=word.end) for word in words or ())


# ---- recordings


def form_fields(request: stt.TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the fields of the form besides the file."""
    fields = [("model", model)]
    if request.dialect == "cartesia":
        return fields + [(name, value) for name, value in request.fields if name not in _COMMON]
    fields += optional_pairs(language=bare_language(request.language))
    return [*fields, ("timestamp_granularities[]", "word")] if request.timestamps else fields


def path_of(request: stt.TranscribeRequest) -> str:
    """Return the path; the format of raw samples is in the query."""
    encoding = ENCODINGS.get(request.format.encoding) if request.format is not None else None
    if request.format is None or encoding is None:
        return "/stt"
    return "/stt?" + urlencode({"encoding": encoding, "sample_rate": request.format.sample_rate_hz})


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> stt.Transcript:
    """Raises UpstreamProtocolError."""
    try:
        message = _MESSAGE.decode(body.decode())  # a name that is not UTF-8 is an error too
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if message.text is None:
        raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
    return stt.Transcript(
        text=message.text, language=message.language, duration_s=seconds(message.duration),
        words=_words(message.words), raw=body if keep_raw else None
    )  # fmt: skip


def encode_transcript(transcript: stt.Transcript, *, request_id: str, words: bool) -> bytes:
    members: dict[str, Any] = {"is_final": True, "request_id": request_id, "text": transcript.text}
    if transcript.duration_s is not None:
        members["duration"] = transcript.duration_s
    if transcript.language:
        members["language"] = transcript.language
    if words:
        members["words"] = [timed_word(word) for word in transcript.words]
    return typed_frame("transcript", **members).encode()


def parse_form(fields: list[tuple[str, str]], audio: AudioSource, fmt: AudioFormat | None, length_s: float) -> stt.TranscribeRequest:
    """Build a request from the fields of the form and of the query."""
    named = dict(fields)
    words = frozenset({"word"} if any(name in _GRANULARITIES for name, _ in fields) else ())
    _, ignorable = own_settings(fields, _SERVED | _GRANULARITIES, ())
    return stt.TranscribeRequest(
        model=named.get("model", ""), audio=audio, format=fmt, audio_seconds=length_s, language=named.get("language") or None,
        timestamps=words, timestamps_required=words, fields=tuple(fields), dialect="cartesia", ignorable=ignorable,
    )


# ---- live, client


def finds_turns(model: str) -> bool:
    """Return whether a model finds the end of a turn by itself, at `BY_TURNS`."""
    return not model.startswith("ink-whisper")


def uses_turns(request: ListenRequest, model: str) -> bool:
    """Return whether to call a model at `BY_TURNS`: not for a caller who speaks the protocol of `/stt/websocket`."""
    return finds_turns(model) and not _is_same(request, turns=False)


def _is_same(request: ListenRequest, *, turns: bool) -> bool:
    """Return whether the caller speaks the protocol of the path that is called."""
    return request.dialect == "cartesia" and (BY_TURNS in request.options) == turns


def live_path(request: ListenRequest, model: str, *, turns: bool = False) -> str:
    """Return path and query of a session. A caller who speaks the protocol of that path has its own settings passed on."""
    fmt = request.format
    encoding = ENCODINGS.get(fmt.encoding, "pcm_s16le")
    pairs = [("model", model), ("encoding", encoding), ("sample_rate", str(fmt.sample_rate_hz))]
    if _is_same(request, turns=turns):
        pairs += [(name, value) for name, value in request.options if name not in _COMMON]
    elif finds_turns(model):
        pairs += [("keyterm", term) for term in request.keyterms]
        if turns and request.endpointing_ms is not None:
            shortest, longest = _TURN_TIMEOUT_MS
            pairs.append(("turn_end_timeout_ms", str(min(longest, max(shortest, request.endpointing_ms)))))
    else:
        silence_s = None if request.endpointing_ms is None else f"{request.endpointing_ms / 1000:g}"
        pairs += optional_pairs(language=bare_language(request.language), max_silence_duration_secs=silence_s)
    path = BY_TURNS[0] if turns else "/stt/websocket"
    return f"{path}?{urlencode(pairs, quote_via=quote)}"  # the vendor does not read a plus sign as a space


def takes_keyterms(keyterms: Sequence[str], model: str) -> bool:
    """Return whether a model knows key terms, and accepts this list of them."""
    return finds_turns(model) and len(keyterms) <= _MAX_KEYTERMS and sum(map(len, keyterms)) <= _MAX_KEYTERM_CHARACTERS


def takes_language(language: str | None, model: str) -> bool:
    """Return whether a model transcribes this language."""
    bare = bare_language(language)
    return bare == "en" or (not finds_turns(model) and f"{bare} " in _LANGUAGES)


def pace_of(request: ListenRequest, model: str, *, turns: bool) -> ListenPace:
    """Return when events of a session are due."""
    own = dict(request.options) if _is_same(request, turns=turns) else {}
    wanted_ms = request.endpointing_ms
    if turns:
        timeout_s = _timeout_ms(request) / 1000
        end_s = min(timeout_s, _CERTAIN_END_S) if timeout_s == _USUAL_TIMEOUT_MS / 1000 else timeout_s
        return ListenPace(endpoint_s=timeout_s, has_times=False, ends_on_flush=True, utterance_end_s=end_s)
    if finds_turns(model):  # it waits for `finalize`
        return ListenPace(pause_s=math.inf, endpoint_s=math.inf, running_s=math.inf)
    silence_s = _MAX_SILENCE_S if wanted_ms is None else wanted_ms / 1000
    with suppress(ValueError):
        silence_s = seconds(float(own.get("max_silence_duration_secs", ""))) or silence_s
    return ListenPace(pause_s=silence_s, endpoint_s=silence_s, running_s=_WITHOUT_INTERIMS_S)


def _timeout_ms(request: ListenRequest) -> int:
    """Return the longest silence of a turn."""
    own = dict(request.options) if _is_same(request, turns=True) else {}
    match = _MILLISECONDS.fullmatch(own.get("turn_end_timeout_ms", ""))
    wanted_ms = int(match[1]) if match else request.endpointing_ms
    shortest_ms, longest_ms = _TURN_TIMEOUT_MS
    return _USUAL_TIMEOUT_MS if wanted_ms is None else min(longest_ms, max(shortest_ms, wanted_ms))


def _config(timeout_ms: int) -> str:
    """Return the command that changes the longest silence of a turn (cartesia 4.2.0: `STTAutoFinalizeConfigCommand`)."""
    return typed_frame("config", turn={"end_timeout_ms": timeout_ms})


class CartesiaListenClient:
    """One session: audio and commands to frames, frames to events.

    Finals without word times follow each other, up to the audio that was sent.
    """

    speaking = False
    """Nothing waits for an end that only more audio would bring."""

    def __init__(self, provider: str, request: ListenRequest, model: str, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self._provider = provider
        self._format = request.format
        self._keep_raw = _is_same(request, turns=False)
        self._ends_itself = not finds_turns(model)
        self._secrets = tuple(secrets)
        self._sent_s = self._final_s = 0.0
        self._flushes = 0  # flushes not answered yet

    def audio(self, data: bytes) -> bytes:
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> str:
        self._flushes += 1
        return "finalize"

    def forward(self, frame: str) -> str | None:
        """Pass on a caller's frame; the vendor's other path has other control frames."""
        return frame if self._keep_raw else None

    def finish(self) -> str:
        self.finishing = True
        return "close"

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an `error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        raw = frame_text(frame) if self._keep_raw else None
        match message.type:
            case "transcript" if message.text is not None and message.text.strip():
                return self._transcript(message, message.text.strip(), raw)
            case "done" if self.finishing:
                self.ended = True
                return [ListenEnd(raw=raw)]
            case "flush_done":
                self._flushes = max(0, self._flushes - 1)
                return [UtteranceEnd(at_s=self._final_s, raw=raw)]
            case "error":
                raise decode_upstream(VENDOR_MESSAGE, frame, self._provider).error_for(self._provider, self._secrets)
        return unknown(raw)

    def _transcript(self, message: _Message, text: str, raw: str | None) -> list[ListenEvent]:
        """Return a transcript. A final that no flush asked for follows a silence: the utterance is over."""
        words, length_s = _words(message.words), seconds(message.duration)
        end_s = self._sent_s if length_s is None else self._final_s + length_s
        times = {"start_s": self._final_s, "end_s": end_s}
        if not message.is_final:
            return [transcribed(Interim, text, words, **times, language=message.language, raw=raw)]
        final = transcribed(Final, text, words, **times, language=message.language, raw=raw)
        self._final_s = final.end_s
        alone = self._ends_itself and not self._flushes and not self.finishing
        return [final, UtteranceEnd(at_s=final.end_s)] if alone else [final]


# ---- live, server


def parse_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    encoding = encoding_field(fields.get("encoding", "pcm_s16le"), SERVED)
    silence_s = _SECONDS.fullmatch(fields.get("max_silence_duration_secs", ""))
    _, ignorable = own_settings(pairs, _SERVED, ())
    return ListenRequest(
        model=fields.get("model", ""),
        format=AudioFormat(encoding=encoding, sample_rate_hz=sample_rate(fields.get("sample_rate"), 16_000)),
        language=fields.get("language") or None,
        endpointing_ms=round(float(silence_s[0]) * 1000) if silence_s else None,
        keyterms=tuple(value for name, value in pairs if name == "keyterm"),
        ignorable=ignorable,
        dialect="cartesia",
        options=tuple(pairs),
    )


class CartesiaListenServer(ListenProtocol):
    """One session of a client. A flush is answered once the transcripts of the audio before it have been sent."""

    binary_is_audio = True

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._has_final = False
        self._flushes = 0
        self._unanswered = 0  # flushes not answered yet, the latest ones
        self._answered = 0  # flushes answered here, which an upstream of this dialect answers too

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        if isinstance(frame, bytes):
            return (Audio(frame),) if frame else ()
        match frame.strip():
            case "finalize":
                self._flushes += 1
                self._unanswered += 1
                if self._unanswered > _MOST_TIMED:
                    return (Control.FLUSH,)
                reply = partial(self._answer_flush, self._flushes, with_later=self._unanswered == _MOST_TIMED)
                return (Control.FLUSH, DelayedReply(reply))
            case "close" | "done":
                return (Control.FINISH,)
        raise ClientProtocolError(what="a text frame must be finalize or close")

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        if not self._unanswered:
            return self._encode(events)
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, ListenEnd):
                frames += self._answer_flushes()
            encoded = self._encode([event])
            frames += encoded
            if event.raw is not None:  # an upstream of this dialect answers by itself
                self._unanswered -= bool(encoded) and isinstance(event, UtteranceEnd) and self._unanswered > 0
            elif isinstance(event, (Final, UtteranceEnd)):
                frames += self._answer_flushes()
        return frames

    def flush_done(self) -> str:
        self._answered += 1
        return self._frame("flush_done")

    def _answer_flush(self, number: int, *, with_later: bool) -> Sequence[Frame]:
        """Return the answers to the flushes up to this one, or to all; none if it was answered, whatever was flushed since."""
        count = number - (self._flushes - self._unanswered)
        if count <= 0:
            return ()
        if with_later:
            return self._answer_flushes()
        self._unanswered -= count
        return [self.flush_done() for _ in range(count)]

    def _answer_flushes(self) -> Sequence[Frame]:
        count, self._unanswered = self._unanswered, 0
        return [self.flush_done() for _ in range(count)]

    def _encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        if passed := vendor_frames([event for event in events if not self._repeats(event)]):
            return passed
        frames: list[str] = []
        for event in events:
            match event:
                case Interim() | Final() if event.text:
                    frames.append(self._transcript(event))
                case ListenEnd():
                    frames.append(self._frame("done"))
        return frames

    def _repeats(self, event: ListenEvent) -> bool:
        """Return whether an upstream's frame answers a flush that has been answered here."""
        if event.raw is None or not isinstance(event, UtteranceEnd) or not self._answered:
            return False
        self._answered -= 1
        return True

    def _transcript(self, result: Interim | Final) -> str:
        """Encode a transcript. Unless it is the first it begins with a space, since clients add none."""
        is_final = isinstance(result, Final)
        text = (" " if self._has_final else "") + result.text
        self._has_final = self._has_final or is_final
        members: dict[str, Any] = {"text": text, "is_final": is_final, "words": [timed_word(w) for w in result.words]}
        members["duration"] = round(max(0.0, result.end_s - result.start_s), 3)
        if result.language:
            members["language"] = result.language
        return self._frame("transcript", **members)

    def _frame(self, kind: str, **members: Any) -> str:
        return typed_frame(kind, **members, request_id=self._id)


# ---- by turns, client


class _TurnSettings(msgspec.Struct, gc=False):
    end_timeout_ms: float | None = None


class _TurnMessage(msgspec.Struct, gc=False):
    type: str = ""
    transcript: str | None = None
    turn: _TurnSettings | None = None  # of a client's `config`


_TURN = msgspec.json.Decoder(_TurnMessage)


class CartesiaTurnsClient:
    """One session. The vendor reports no times: a turn begins and ends with the audio sent until then."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self.speaking = False  # whether a turn is open
        self._provider = provider
        self._format = request.format
        self._secrets = tuple(secrets)
        self._sent_s = self._start_s = 0.0
        self._transcript = ""
        self._timeout_ms = _timeout_ms(request)
        self._hurried = False  # whether the longest silence is shorter than wanted, until the turn has ended

    def audio(self, data: bytes) -> bytes | list[str | bytes]:
        self._sent_s += self._format.seconds(len(data))
        if not self._hurried or self.speaking:
            return data
        self._hurried = False
        return [_config(self._timeout_ms), data]

    def flush(self) -> list[str | bytes]:
        """Return frames that end the turn: a command, and silence, which does not count as time of the session."""
        self._hurried = True
        return [_config(_TURN_TIMEOUT_MS[0]), silence(self._format, FLUSH_S)]

    def forward(self, frame: str) -> str:
        """Pass on a caller's `config`, and remember the longest silence that it sets."""
        turn = decode_client(_TURN, frame, NO_TYPE).turn
        if turn is not None and turn.end_timeout_ms is not None:
            shortest_ms, longest_ms = _TURN_TIMEOUT_MS
            self._timeout_ms = round(min(longest_ms, max(shortest_ms, turn.end_timeout_ms)))
        return frame

    def finish(self) -> str:
        self.finishing = True
        return '{"type":"close"}'

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an `error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_TURN, frame, self._provider)
        match message.type:
            case "turn.start":
                return self._start()
            case "turn.update" | "turn.eager_end":
                return self._update((message.transcript or "").strip())
            case "turn.end":
                self._transcript = (message.transcript or "").strip()
                return self._end()
            case "error":
                raise decode_upstream(VENDOR_MESSAGE, frame, self._provider).error_for(self._provider, self._secrets)
        return []

    def closed(self) -> list[ListenEvent]:
        """Return the last events after the vendor closed the socket normally; none if `close` was not sent."""
        if not self.finishing:
            return []
        self.ended = True
        return [*(self._end() if self._transcript else ()), ListenEnd()]

    def _start(self) -> list[ListenEvent]:
        if self.speaking:
            return []
        self.speaking = True
        self._start_s = self._sent_s
        return [SpeechStarted(at_s=self._start_s)]

    def _update(self, text: str) -> list[ListenEvent]:
        events = self._start()
        if text and text != self._transcript:
            self._transcript = text
            events.append(Interim(text=text, start_s=self._start_s, end_s=self._sent_s))
        return events

    def _end(self) -> list[ListenEvent]:
        text, self._transcript, self.speaking = self._transcript, "", False
        end = UtteranceEnd(at_s=self._sent_s)
        return [Final(text=text, start_s=self._start_s, end_s=self._sent_s), end] if text else [end]


# ---- by turns, server


def parse_turns_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`. `turn_end_timeout_ms` is the silence that ends an utterance elsewhere."""
    request = parse_query(query)
    match = _MILLISECONDS.fullmatch(dict(request.options).get("turn_end_timeout_ms", ""))
    endpointing_ms = int(match[1]) if match else request.endpointing_ms
    return attrs.evolve(request, endpointing_ms=endpointing_ms, options=(BY_TURNS, *request.options))


class CartesiaTurnsServer(TurnEncoder):
    binary_is_audio = True

    def __init__(self, request_id: str) -> None:
        super().__init__()
        self._id = request_id
        self._open = False

    def opening(self) -> Sequence[Frame]:
        return (self._frame("connected"),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        if isinstance(frame, bytes):
            return (Audio(frame),) if frame else ()
        kind = decode_client(_TURN, frame, NO_TYPE).type
        return (Control.FINISH,) if kind == "close" else (Forward(frame),)

    def _start_turn(self, at_s: float) -> list[str]:
        if self._open:
            return []
        self._open = True
        return [self._frame("turn.start")]

    def _update(self, results: Sequence[Interim | Final]) -> str:
        return self._frame("turn.update", transcript=joined_text(results))

    def _end_turn(self, at_s: float | None) -> list[str]:
        if not self._finals:
            return []
        frame = self._frame("turn.end", transcript=joined_text(self._finals))
        self._open, self._finals = False, []
        return [frame]

    def _frame(self, kind: str, **members: Any) -> str:
        return typed_frame(kind, **members, request_id=self._id)
