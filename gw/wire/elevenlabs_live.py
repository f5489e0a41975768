"""ElevenLabs' live speech: `multi-stream-input`, many contexts over a socket, and `stream-input`, one; both sides.

Source: elevenlabs 2.78.0 (November 2026), and what LiveKit and Pipecat read. Times of an alignment count from the chunk's own
audio. Nothing answers a flush; what has been spoken is known by the characters of the alignments. `isFinal` ends a context.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.types.usage import Usage
from gw.wire.elevenlabs_speak import Words, output_format, parse_format, query_of, settings_of, spread
from gw.wire.openai_errors import filtered

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SCHEDULE = [50, 90, 140, 250]
"""Characters before the vendor begins to speak, for each chunk: it waits for 120 unless told."""
_QUIET_END = 2
"""Characters at the end of a flushed text that an alignment may leave out: spaces."""
_MONEY = frozenset({"quota_exceeded", "payment_required"})
_CALLER = frozenset({"invalid_text", "max_character_limit_exceeded", "text_too_long"})


class _Alignment(msgspec.Struct, gc=False, rename="camel"):
    chars: list[str] = []
    char_start_times_ms: list[float] = []
    char_durations_ms: list[float] = []


class _Told(msgspec.Struct, gc=False, rename="camel"):
    audio: str | None = None
    is_final: bool | None = None
    context_id: str | None = None
    alignment: _Alignment | None = None
    message: str | None = None
    error: str | None = None
    code: int | str | None = None


_TOLD = msgspec.json.Decoder(_Told)


# ---- the client's side


def path_of(request: SpeakLiveRequest, model: str) -> str:
    """Of `multi-stream-input`. A caller who speaks this dialect has its own settings passed on."""
    pairs = [("model_id", model), ("output_format", output_format(request.format)), ("sync_alignment", "true")]
    if request.language:
        pairs.append(("language_code", request.language))
    if request.dialect == "elevenlabs":
        taken = {name for name, _ in pairs}
        pairs += [(name, value) for name, value in request.options if name not in taken and name != "voice_settings"]
    pairs.append(("inactivity_timeout", "180")) if "inactivity_timeout" not in dict(pairs) else None
    return f"/v1/text-to-speech/{quote(request.voice, safe='')}/multi-stream-input?" + urlencode(pairs)


class ElevenSpeaker:
    """One session: one context of a socket; a new one after `clear`."""

    def __init__(self, provider: str, request: SpeakLiveRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self._provider = provider
        self._format = request.format
        self._secrets = tuple(secrets)
        self._contexts = 0
        self._open = False
        self._finishing = False
        self._characters = 0
        self._sent = self._spoken = 0
        """Characters of this context."""
        self._flush_at: int | None = None
        self._audio_s = 0.0
        self._words = Words()
        opening: dict[str, Any] = {"text": " ", "generation_config": {"chunk_length_schedule": _SCHEDULE}}
        if request.speed is not None:
            opening["voice_settings"] = {"speed": min(1.2, max(0.7, request.speed))}
        if own := dict(request.options).get("voice_settings"):
            opening["voice_settings"] = msgspec.Raw(own.encode())
        self._opening = opening

    @property
    def _context(self) -> str:
        return f"gw-{self._contexts}"

    def _frame(self, **members: Any) -> str:
        return msgspec.json.encode({**members, "context_id": self._context}).decode()

    def text(self, text: str) -> list[str | bytes]:
        frames: list[str | bytes] = []
        if not self._open:
            self._open = True
            frames.append(self._frame(**self._opening))
        self._sent += len(text)
        self._characters += len(text)
        return [*frames, self._frame(text=text)]

    def flush(self) -> str | None:
        if not self._open or self._spoken >= self._sent - _QUIET_END:
            return None
        self._flush_at = self._sent
        return self._frame(text=" ", flush=True)

    def clear(self) -> str | None:
        if not self._open:
            return None
        frame = self._frame(close_context=True)
        self._contexts += 1
        self._open, self._flush_at = False, None
        self._sent = self._spoken = 0
        self._words = Words()
        return frame

    def passed(self, frame: str) -> None:
        """Frames of a caller name contexts of its own socket: they are not ours to send."""

    def finish(self) -> list[str | bytes]:
        self._finishing = True
        if not self._open:
            return ['{"close_socket":true}']
        return [self._frame(text=" ", flush=True), self._frame(close_context=True)]

    def receive(self, frame: str | bytes) -> list[SpeakEvent]:
        """Raises ProviderError for an error frame, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            told = _TOLD.decode(frame)
            audio = b64decode(told.audio or "", validate=True)
        except (*_BAD_JSON, ValueError):
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        if told.error is not None or (told.message is not None and told.code is not None):
            raise self._fault(told)
        if told.context_id is not None and told.context_id != self._context:
            return []  # late audio of a context that was closed
        events: list[SpeakEvent] = []
        if audio:
            events.append(AudioChunk(data=audio))
        events += self._aligned(told.alignment)
        self._audio_s += self._format.seconds(len(audio))
        if told.is_final:
            events += self._words.end()
            if self._finishing:
                events += self._end()
            elif self._flush_at is not None:
                self._flush_at = None
                events.append(Flushed())
        return events

    def _aligned(self, alignment: _Alignment | None) -> list[SpeakEvent]:
        if alignment is None:
            return []
        at = self._audio_s
        times = (
            (c, at + start / 1000, at + (start + lasts) / 1000)
            for c, start, lasts in zip(
                alignment.chars, alignment.char_start_times_ms, alignment.char_durations_ms, strict=False
            )
        )
        events: list[SpeakEvent] = list(self._words.feed(times))
        self._spoken += len(alignment.chars)
        if self._flush_at is not None and self._spoken >= self._flush_at - _QUIET_END and not self._finishing:
            self._flush_at = None
            events += [*self._words.end(), Flushed()]
        return events

    def closed(self) -> list[SpeakEvent]:
        return self._end() if self._finishing else []

    def _end(self) -> list[SpeakEvent]:
        self.ended = True
        return [SpeakEnd(usage=Usage(characters=self._characters, source="measured"))]

    def _fault(self, told: _Told) -> ProviderError:
        code = told.error or str(told.code or "")
        words = filtered(told.message or "", self._secrets)
        detail = "an error inside the session" + (f" {code}" if code else "") + (f": {words}" if words else "")
        if code in _CALLER:
            return ProviderRejected(
                provider=self._provider, detail=detail, upstream_status=101, upstream_code=code, fault="caller"
            )
        return ProviderFailed(provider=self._provider, detail=detail, upstream_status=101, upstream_code=code)


# ---- the server's side


class _Asked(msgspec.Struct, gc=False):
    text: str | None = None
    context_id: str | None = None
    flush: bool = False
    close_context: bool = False
    close_socket: bool = False
    voice_settings: msgspec.Raw = msgspec.Raw(b"")


_ASKED = msgspec.json.Decoder(_Asked)


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` (JSON, "" = none) come with the first frame of a context. `ends`: its text is complete."""

    context: str
    text: str
    flush: bool
    ends: bool
    settings: str


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
        settings=bytes(asked.voice_settings).decode("utf-8", "replace") if asked.voice_settings else "",
    )


class SpeakServer:
    """One context: events in, frames out. `context` is None on a socket that has only one."""

    def __init__(self, context: str | None, fmt: AudioFormat) -> None:
        self._context = context
        self._format = fmt
        self._audio_s = 0.0

    def encode(self, events: list[SpeakEvent]) -> list[str]:
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

    def _frame(self, **members: Any) -> str:
        if self._context is not None:
            members |= {"contextId": self._context, "context_id": self._context}
        return msgspec.json.encode(members).decode()


def error_frame(code: str, message: str, close_code: int, context: str | None = None) -> str:
    told: dict[str, Any] = {"message": message, "error": code, "code": close_code}
    if context is not None:
        told |= {"contextId": context, "context_id": context}
    return msgspec.json.encode(told).decode()
