"""ElevenLabs' live speech: `multi-stream-input`, many contexts over a socket, and `stream-input`, one; the server's side.

Source: elevenlabs 2.78.0 (November 2026), and what LiveKit and Pipecat read. Times of an alignment count from the chunk's own
audio. A flush is not answered. `isFinal` ends a context.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, TypeAlias

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire.elevenlabs_speak import parse_format, query_of, settings_of, spread
from gw.wire.elevenlabs_tts_client import OF_FRAME

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Asked(msgspec.Struct, gc=False):
    text: str | None = None
    context_id: str | None = None
    flush: bool = False
    close_context: bool = False
    close_socket: bool = False


_ASKED = msgspec.json.Decoder(_Asked)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = ("xi-api-key", "xi_api_key", "authorization")
_NOT_SETTINGS = frozenset({*_Asked.__struct_fields__, "try_trigger_generation", *_KEYS})


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` are those that a frame sets for its context, as options of a request. `ends`: its text is complete."""

    context: str
    text: str
    flush: bool
    ends: bool
    settings: tuple[tuple[str, str], ...] = ()


class CloseSocket(msgspec.Struct, frozen=True, kw_only=True):
    pass


ClientFrame: TypeAlias = Say | CloseSocket


def parse_query(voice: str, query: bytes) -> SpeakLiveRequest:
    """Raises ClientProtocolError, with `param`."""
    fields = query_of(query)
    return SpeakLiveRequest(
        model=fields.get("model_id", ""),
        voice=voice,
        format=parse_format(fields.get("output_format", "mp3_44100_128")),
        language=fields.get("language_code") or None,
        want_timings=True,
        dialect="elevenlabs",
        options=settings_of(query),
    )


def parse_frame(frame: str | bytes, *, many: bool) -> ClientFrame:
    """`many`: of `multi-stream-input`, where an empty text keeps the socket alive; else it ends the text.

    Raises ClientProtocolError.
    """
    try:
        asked = _ASKED.decode(frame)
    except _BAD_JSON as error:
        raise ClientProtocolError(what=f"a frame is not the JSON expected: {error}") from None
    if asked.close_socket:
        return CloseSocket()
    ends = asked.close_context if many else asked.text == ""
    return Say(
        context=asked.context_id or "",
        text=asked.text or "",
        flush=asked.flush,
        ends=ends,
        settings=_settings_of(frame),
    )


def _settings_of(frame: str | bytes) -> tuple[tuple[str, str], ...]:
    """Every member that is not part of the protocol's own: an upstream of this dialect is told them at the first frame."""
    found = ((name, raw) for name, raw in _MEMBERS.decode(frame).items() if name not in _NOT_SETTINGS)
    return tuple((OF_FRAME + name, bytes(raw).decode("utf-8", "replace")) for name, raw in found)


def key_in(frame: str | bytes) -> bytes | None:
    """The credential in a first frame."""
    try:
        told = _MEMBERS.decode(frame)
        named = next((told[name] for name in _KEYS if name in told), None)
        key = msgspec.json.decode(named, type=str) if named is not None else ""
    except _BAD_JSON:
        return None
    scheme, _, rest = key.strip().partition(" ")
    return (rest.strip() if scheme.lower() == "bearer" else key.strip()).encode() or None


class SpeakServer:
    """One context: events in, frames out. `context` is None on a socket that has only one."""

    def __init__(self, context: str | None, fmt: AudioFormat) -> None:
        self._context = context
        self._format = fmt
        self._audio_s = 0.0

    def encode(self, events: list[SpeakEvent]) -> list[str]:
        """Where the upstream speaks this dialect, its own frames go out, under the name of our context."""
        if passed := [event.raw for event in events if isinstance(event, AudioChunk) and event.raw is not None]:
            end = [self._frame(audio=None, isFinal=True)] if isinstance(events[-1], SpeakEnd) else []
            return [*(self._renamed(raw) for raw in passed), *end]
        audio = b"".join(event.data for event in events if isinstance(event, AudioChunk))
        timings = [event for event in events if isinstance(event, WordTiming)]
        frames: list[str] = []
        if audio:
            alignment = self._alignment(timings)
            told = {"audio": b64encode(audio).decode(), "isFinal": None, "alignment": alignment}
            frames.append(self._frame(**told, normalizedAlignment=alignment))
            self._audio_s += self._format.seconds(len(audio))
        if events and isinstance(events[-1], SpeakEnd):
            frames.append(self._frame(audio=None, isFinal=True))
        return frames

    def _alignment(self, timings: list[WordTiming]) -> dict[str, Any] | None:
        told = [one for timing in timings for one in spread(timing)]
        if not told:
            return None
        return {
            "chars": [c for c, _, _ in told],
            "charStartTimesMs": [round(1000 * max(0.0, start - self._audio_s)) for _, start, _ in told],
            "charDurationsMs": [round(1000 * (end - start)) for _, start, end in told],
            "charsStartTimesMs": [round(1000 * max(0.0, start - self._audio_s)) for _, start, _ in told],
            "charsDurationsMs": [round(1000 * (end - start)) for _, start, end in told],
        }

    def _renamed(self, raw: str) -> str:
        members: dict[str, Any] = dict(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
        for name in ("contextId", "context_id"):
            members.pop(name, None)
        return self._frame(**{**members, "isFinal": None})

    def _frame(self, **members: Any) -> str:
        if self._context is not None:
            members |= {"contextId": self._context, "context_id": self._context}
        return msgspec.json.encode(members).decode()


def error_frame(code: str, message: str, close_code: int, context: str | None = None) -> str:
    told: dict[str, Any] = {"message": message, "error": code, "code": close_code}
    if context is not None:
        told |= {"contextId": context, "context_id": context}
    return msgspec.json.encode(told).decode()
