"""Cartesia's transcription: recordings (`/stt`) and live (`/stt/websocket`); both sides.

Source: cartesia 4.2.0, pipecat-ai 1.14.0 and the vendor's pages on its endpoints (November 2026). Live: audio in binary
frames, the words `finalize` and `close` (also `done`) as plain text; the transcripts of successive finals are concatenated as
they are, so each brings its own spaces. ink-whisper makes finals by itself after a silence; the models after it wait for
`finalize` here, and find the end of a turn at another address (`cartesia_turns`). Nothing is reported that is billed: seconds
are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire.bounds import seconds
from gw.wire.cartesia_speak import ENCODINGS, decode, fault

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OURS: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "pcm_mulaw": "mulaw", "pcm_alaw": "alaw"}
BY_TURNS = ("/stt/turns/websocket", "")
"""Among a request's options: its caller speaks the protocol of that path, which has other words and settings."""
_SET = frozenset({"model", "encoding", "sample_rate", BY_TURNS[0]})
_NOT_SETTINGS = frozenset({"api_key", "access_token", "token"})
_RATES_HZ = range(4_000, 192_001)
_MOST_KEYTERMS, _KEYTERM_CHARACTERS = 100, 1_200
"""Of one session; a longer list is refused as a whole."""
_TURN_TIMEOUT_MS = (640, 11_200)
"""The silence that ends a turn for certain; the vendor takes no other."""
_SILENCE = {"mulaw": b"\xff", "alaw": b"\xd5"}


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float = 0.0
    end: float = 0.0


class _Told(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    is_final: bool | None = False
    duration: float | None = None
    language: str | None = None
    words: list[_Word] | None = None


_TOLD = msgspec.json.Decoder(_Told)


def _words(words: list[_Word] | None) -> tuple[Word, ...]:
    return tuple(Word(text=word.word, start_s=word.start, end_s=word.end) for word in words or ())


# ---- recordings


def form_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Fields of the form beside the file."""
    fields = [("model", model)]
    if request.dialect == "cartesia":
        return fields + [(name, value) for name, value in request.fields if name not in _SET]
    if request.language:
        fields.append(("language", request.language))
    if "word" in request.timestamps:
        fields.append(("timestamp_granularities[]", "word"))
    return fields


def path_of(request: TranscribeRequest) -> str:
    """Raw samples are told in the query."""
    fmt = request.format
    raw = ENCODINGS.get(fmt.encoding) if fmt is not None else None
    if fmt is None or raw is None:
        return "/stt"
    return "/stt?" + urlencode({"encoding": raw, "sample_rate": fmt.sample_rate_hz})


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> Transcript:
    """Raises UpstreamProtocolError."""
    try:
        told = _TOLD.decode(body)
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except _BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if "text" not in members:
        raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
    return Transcript(
        text=told.text,
        language=told.language,
        duration_s=seconds(told.duration),
        words=_words(told.words),
        raw=body if keep_raw else None,
    )


def encode_transcript(transcript: Transcript, *, request_id: str, words: bool) -> bytes:
    told: dict[str, Any] = {"type": "transcript", "is_final": True, "request_id": request_id, "text": transcript.text}
    if transcript.duration_s is not None:
        told["duration"] = transcript.duration_s
    if transcript.language:
        told["language"] = transcript.language
    if words:
        told["words"] = [_word(word) for word in transcript.words]
    return msgspec.json.encode(told)


# ---- live, the client's side


def hears_turns(model: str) -> bool:
    """Whether this model finds the end of a turn by itself, at the address of its own."""
    return not model.startswith("ink-whisper")


def asks_by_turns(request: ListenRequest, model: str) -> bool:
    """Whether this model is asked at the address of turns: not for a caller who has the words of the other one."""
    return hears_turns(model) and not _is_same(request, turns=False)


def _is_same(request: ListenRequest, *, turns: bool) -> bool:
    """Whether the caller speaks this dialect, at the address that is asked."""
    return request.dialect == "cartesia" and (BY_TURNS in request.options) == turns


def silence(fmt: AudioFormat, length_s: float) -> bytes:
    """Raw samples."""
    data = bytes(fmt.bytes_per_second // fmt.sample_rate_hz) if fmt.encoding not in _SILENCE else _SILENCE[fmt.encoding]
    return data * int(length_s * fmt.sample_rate_hz)


def live_path(request: ListenRequest, model: str, *, turns: bool = False) -> str:
    """Path and query of a session. A caller who speaks this dialect has its own settings passed on, at the same address."""
    fmt = request.format
    encoding = ENCODINGS.get(fmt.encoding, "pcm_s16le")
    pairs = [("model", model), ("encoding", encoding), ("sample_rate", str(fmt.sample_rate_hz))]
    if _is_same(request, turns=turns):
        pairs += [(name, value) for name, value in request.options if name not in _SET]
    elif hears_turns(model):
        pairs += [("keyterm", term) for term in _taken(request.keyterms)]
        if turns and request.endpointing_ms is not None:
            least, most = _TURN_TIMEOUT_MS
            pairs.append(("turn_end_timeout_ms", str(min(most, max(least, request.endpointing_ms)))))
    else:
        if request.language:
            pairs.append(("language", request.language))
        if request.endpointing_ms is not None:
            pairs.append(("max_silence_duration_secs", f"{request.endpointing_ms / 1000:g}"))
    path = BY_TURNS[0] if turns else "/stt/websocket"
    return f"{path}?{urlencode(pairs, quote_via=quote)}"  # a plus sign is not read as a space


def _taken(keyterms: Iterable[str]) -> list[str]:
    taken: list[str] = []
    room = _KEYTERM_CHARACTERS
    for term in keyterms:
        if len(taken) == _MOST_KEYTERMS or len(term) > room:
            break
        taken.append(term)
        room -= len(term)
    return taken


class CartesiaListener:
    """One session. Finals have no times of their own: they follow each other, up to the audio that was sent."""

    speaking = False
    """Nothing needs an end that only more audio would bring."""

    def __init__(self, provider: str, request: ListenRequest, model: str, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self._provider = provider
        self._format = request.format
        self._interims = request.interim_results
        self._keep_raw = _is_same(request, turns=False)
        self._ends_itself = not hears_turns(model)
        self._secrets = tuple(secrets)
        self._sent_s = self._final_s = 0.0
        self._flushes = 0
        """Flushes not answered yet."""

    def audio(self, data: bytes) -> bytes:
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> str:
        self._flushes += 1
        return "finalize"

    def passed(self, frame: str) -> str:
        return frame

    def finish(self) -> str:
        self.finishing = True
        return "close"

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an `error`, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            told = _TOLD.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = (frame if isinstance(frame, str) else frame.decode()) if self._keep_raw else None
        match told.type:
            case "transcript" if told.text.strip() and (told.is_final or self._interims or self._keep_raw):
                return self._said(told, raw)
            case "done" if self.finishing:
                self.ended = True
                return [ListenEnd(raw=raw)]
            case "flush_done":
                self._flushes = max(0, self._flushes - 1)
                return [UtteranceEnd(at_s=self._final_s, raw=raw)]
            case "error":
                raise fault(decode(frame, self._provider), self._provider, self._secrets)
        return [VendorFrame(raw=raw)] if raw is not None else []

    def _said(self, told: _Told, raw: str | None) -> list[ListenEvent]:
        """A final that nobody asked for follows a silence: the utterance is over."""
        words = _words(told.words)
        start_s = words[0].start_s if words else self._final_s
        length_s = seconds(told.duration)
        end_s = words[-1].end_s if words else self._sent_s if length_s is None else start_s + length_s
        kind = Final if told.is_final else Interim
        said = kind(text=told.text.strip(), start_s=start_s, end_s=end_s, words=words, language=told.language, raw=raw)
        if not told.is_final:
            return [said]
        self._final_s = end_s
        alone = self._ends_itself and not self._flushes and not self.finishing
        return [said, UtteranceEnd(at_s=end_s)] if alone else [said]


# ---- live, the server's side


def parse_query(query: bytes) -> ListenRequest:
    """Raises ClientProtocolError, with `param`."""
    found = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    pairs = [(name, value) for name, value in found if name not in _NOT_SETTINGS and not name.startswith("gw_")]
    fields = dict(pairs)
    encoding = _OURS.get(fields.get("encoding", "pcm_s16le"))
    if encoding is None:
        raise ClientProtocolError(what=f"encoding must be one of {', '.join(_OURS)}", param="encoding")
    rate = fields.get("sample_rate", "16000")
    if not (rate.isascii() and rate.isdigit() and len(rate) < 7 and int(rate) in _RATES_HZ):
        raise ClientProtocolError(what="sample_rate must be between 4000 and 192000", param="sample_rate")
    return ListenRequest(
        model=fields.get("model", ""),
        format=AudioFormat(encoding=encoding, sample_rate_hz=int(rate)),
        language=fields.get("language") or None,
        keyterms=tuple(value for name, value in pairs if name == "keyterm"),
        dialect="cartesia",
        options=tuple(pairs),
    )


class CartesiaServer:
    """One session: events in, frames out."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._said = False
        self._answered = 0
        """Flushes answered by `flushed`, which an upstream of this dialect answers too."""

    def encode(self, events: list[ListenEvent]) -> list[str]:
        """Where the upstream speaks this dialect, its own frames go out as they came."""
        if passed := [event.raw for event in events if event.raw is not None and not self._repeats(event)]:
            return [raw if isinstance(raw, str) else raw.decode("utf-8", "replace") for raw in passed]
        frames: list[str] = []
        for event in events:
            match event:
                case Interim() | Final() if event.text:
                    frames.append(self._transcript(event))
                case ListenEnd():
                    frames.append(self._frame("done"))
        return frames

    def flushed(self) -> str:
        self._answered += 1
        return self._frame("flush_done")

    def _repeats(self, event: ListenEvent) -> bool:
        if not isinstance(event, UtteranceEnd) or not self._answered:
            return False
        self._answered -= 1
        return True

    def _transcript(self, said: Interim | Final) -> str:
        """A final that is not the first begins with a space: clients join them as they are."""
        final = isinstance(said, Final)
        text = (" " if self._said else "") + said.text
        self._said = self._said or final
        members: dict[str, Any] = {"text": text, "is_final": final, "words": [_word(word) for word in said.words]}
        members["duration"] = round(max(0.0, said.end_s - said.start_s), 3)
        if said.language:
            members["language"] = said.language
        return self._frame("transcript", **members)

    def _frame(self, kind: str, **members: Any) -> str:
        return msgspec.json.encode({"type": kind, **members, "request_id": self._id}).decode()


def _word(word: Word) -> dict[str, Any]:
    return {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
