"""Deepgram's live transcription (`WS /v1/listen`): the server's side, for an endpoint (or a fake vendor).

Source: deepgram-sdk 7.17.0, `listen/v1` (November 2026), and what its users insist on: LiveKit reads `metadata.request_id`,
`is_final`, `speech_final` and the first alternative; Pipecat `from_finalize`. Nothing is said before audio comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd, Word
from gw.wire.deepgram_listen_client import ENCODINGS

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ENCODINGS: dict[str, Encoding] = {
    "linear16": "pcm_s16le", "linear32": "pcm_f32le", "mulaw": "mulaw", "alaw": "alaw", "flac": "flac", "opus": "opus",
    "ogg-opus": "ogg",
}  # fmt: skip
_NOT_SETTINGS = frozenset({"token", "access_token", "api_key"})
_KEYTERMS = ("keyterm", "keywords")
_RATES_HZ = range(4_000, 192_001)
_MODEL_INFO = {"name": "gw", "version": "1", "arch": "gw"}


class Audio(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Finalize(msgspec.Struct, frozen=True, kw_only=True):
    pass


class CloseStream(msgspec.Struct, frozen=True, kw_only=True):
    pass


class KeepAlive(msgspec.Struct, frozen=True, kw_only=True):
    pass


class OtherFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame that says nothing in common terms."""

    raw: str


ClientFrame: TypeAlias = Audio | Finalize | CloseStream | KeepAlive | OtherFrame


class _Frame(msgspec.Struct, gc=False):
    type: str


_FRAME = msgspec.json.Decoder(_Frame)


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a query asks for, beside the request itself."""

    request: ListenRequest
    vad_events: bool
    utterance_end: bool


def pairs_of(query: bytes) -> list[tuple[str, str]]:
    """The settings of a query string: without credentials and our own fields."""
    found = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return [(name, value) for name, value in found if name not in _NOT_SETTINGS and not name.startswith("gw_")]


def is_true(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "1", "")


def keyterms_of(pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """`keyterm`, and the `keywords` of older models without how much they weigh (`word:2`)."""
    found = [value if name == "keyterm" else value.partition(":")[0] for name, value in pairs if name in _KEYTERMS]
    return tuple(filter(None, found))


def parse_query(query: bytes) -> ListenOptions:
    """Raises ClientProtocolError, with `param`."""
    pairs = pairs_of(query)
    fields = dict(pairs)
    request = ListenRequest(
        model=fields.get("model", ""),
        format=format_of(fields),
        language=fields.get("language") or None,
        interim_results=is_true(fields.get("interim_results")),
        endpointing_ms=_endpointing(fields.get("endpointing")),
        keyterms=keyterms_of(pairs),
        diarize=is_true(fields.get("diarize")),
        dialect="deepgram",
        options=tuple(pairs),
    )
    return ListenOptions(
        request=request,
        vad_events=is_true(fields.get("vad_events")),
        utterance_end="utterance_end_ms" in fields,
    )


def format_of(fields: dict[str, str]) -> AudioFormat:
    """`encoding`, `sample_rate` and `channels`; without an encoding the audio is in a container that tells."""
    told = fields.get("encoding")
    if told is None:
        return AudioFormat(encoding="unknown")
    encoding = _ENCODINGS.get(told)
    if encoding is None:
        raise ClientProtocolError(what=f"encoding must be one of {', '.join(_ENCODINGS)}", param="encoding")
    rate = whole(fields, "sample_rate", 0)
    if encoding in ENCODINGS and rate not in _RATES_HZ:
        raise ClientProtocolError(what="raw audio needs a sample_rate between 4000 and 192000", param="sample_rate")
    channels = whole(fields, "channels", 1)
    if channels not in range(1, 33):
        raise ClientProtocolError(what="channels must be between 1 and 32", param="channels")
    return AudioFormat(encoding=encoding, sample_rate_hz=rate, channels=channels)


def whole(fields: dict[str, str], name: str, missing: int) -> int:
    """A number of the query. Raises ClientProtocolError."""
    value = fields.get(name)
    if value is None:
        return missing
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ClientProtocolError(what=f"{name} must be a whole number", param=name)
    return int(value)


def _endpointing(value: str | None) -> int | None:
    if value is None or not (value.isascii() and value.isdigit() and len(value) < 7):
        return None
    return int(value)


class DeepgramServer:
    """One session. `receive` reads what the client says, `encode` says what was heard."""

    def __init__(self, asked: ListenOptions, *, request_id: str, created: str = "") -> None:
        self._asked = asked
        self._id = request_id
        self._created = created
        self._final_until = 0.0
        self._heard_bytes = 0
        self._finalizing = False

    # ---- in

    def receive(self, frame: str | bytes) -> ClientFrame:
        """Raises ClientProtocolError for what is no frame of this dialect."""
        if isinstance(frame, bytes):
            if not frame:
                return CloseStream()
            self._heard_bytes += len(frame)
            return Audio(data=frame)
        try:
            kind = _FRAME.decode(frame).type
        except _BAD_JSON:
            raise ClientProtocolError(what="a text frame must be a JSON object with a type") from None
        match kind:
            case "KeepAlive":
                return KeepAlive()
            case "Finalize":
                self._finalizing = True
                return Finalize()
            case "CloseStream":
                return CloseStream()
        return OtherFrame(raw=frame)

    # ---- out

    def encode(self, events: list[ListenEvent]) -> list[str | bytes]:
        """What was heard, as frames. Where the upstream speaks this dialect, its own go out as they came."""
        if passed := [event.raw for event in events if event.raw is not None]:
            return list(passed)
        frames: list[str | bytes] = []
        for n, event in enumerate(events):
            ends = n + 1 < len(events) and isinstance(events[n + 1], UtteranceEnd)
            match event:
                case SpeechStarted(at_s=at_s):
                    if self._asked.vad_events:
                        frames.append(_frame("SpeechStarted", channel=[0, 1], timestamp=round(at_s, 3)))
                case Interim():
                    if self._asked.request.interim_results and event.text:
                        frames.append(self._results(event, is_final=False))
                case Final():
                    frames.append(self._results(event, is_final=True, speech_final=ends))
                    self._final_until = event.end_s
                case UtteranceEnd(at_s=at_s):
                    frames += self._utterance_end(at_s, told=n > 0 and isinstance(events[n - 1], Final))
                case ListenEnd():
                    frames.append(self._metadata())
        return frames

    def _utterance_end(self, at_s: float, *, told: bool) -> Iterable[str]:
        """`told`: the final just before has said so already."""
        if not told:
            yield self._results(Final(text="", start_s=self._final_until, end_s=at_s), is_final=True, speech_final=True)
        if self._asked.utterance_end:
            yield _frame("UtteranceEnd", channel=[0, 1], last_word_end=round(at_s, 3))

    def _results(self, said: Interim | Final, *, is_final: bool, speech_final: bool = False) -> str:
        start = min(self._final_until, said.start_s)
        from_finalize, self._finalizing = self._finalizing and is_final, self._finalizing and not is_final
        alternative: dict[str, Any] = {
            "transcript": said.text,
            "confidence": said.confidence if said.confidence is not None else (0.99 if said.text else 0.0),
            "words": [_word(word) for word in said.words],
        }
        if said.language:
            alternative["languages"] = [said.language]
        return _frame(
            "Results",
            channel_index=[0, 1],
            duration=round(max(0.0, said.end_s - start), 3),
            start=round(start, 3),
            is_final=is_final,
            speech_final=speech_final,
            channel={"alternatives": [alternative]},
            metadata={"request_id": self._id, "model_info": _MODEL_INFO, "model_uuid": self._id},
            from_finalize=from_finalize,
        )

    def _metadata(self) -> str:
        return _frame(
            "Metadata",
            transaction_key="deprecated",
            request_id=self._id,
            sha256=sha256(self._id.encode()).hexdigest(),
            created=self._created,
            duration=round(self._asked.request.format.seconds(self._heard_bytes), 3),
            channels=self._asked.request.format.channels,
        )


def _word(word: Word) -> dict[str, Any]:
    told: dict[str, Any] = {
        "word": word.text.strip(".,!?;:").lower(),
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
        "confidence": 0.99 if word.confidence is None else word.confidence,
        "punctuated_word": word.text,
    }
    if word.speaker is not None and word.speaker.isascii() and word.speaker.isdigit():
        told["speaker"] = int(word.speaker)
    return told


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()


def error_frame(code: str, message: str) -> str:
    """Said before the session is closed."""
    return _frame("Error", variant=code, code=code, description=message, message=message)


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    """Of a refused handshake or a failed request: both shapes that Deepgram's readers know, and the facts."""
    told = {"err_code": code, "err_msg": message, "request_id": request_id, "category": code, "message": message}
    return msgspec.json.encode({**facts, **told})
