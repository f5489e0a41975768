"""OpenAI's realtime transcription over a WebSocket: the client's side. The server's: `openai_realtime_serve`.

Source: openai-python 3.52.0, `types/realtime` (November 2026); the order of events from the vendor's guide. Theory of
operation: audio goes into a buffer; committing it, which the server does at the end of speech unless turn detection is off,
makes an item, and each item is transcribed by itself: deltas that append, then `completed`. Items may complete out of
order. An empty commit is answered by an error, so a commit at the end is always answered: that is how the end is known.

`gpt-realtime-whisper` has no turn detection: its finals come when the caller flushes, or at the end.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
)
from gw.types.usage import Usage
from gw.wire.bounds import seconds, tokens
from gw.wire.convert import CannotConvert, converter
from gw.wire.vendor_errors import classify

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_FINISH = "gw-finish"
"""Id of the last commit, which an error about it repeats."""
_EMPTY = "input_audio_buffer_commit_empty"
_TAKES_KEYWORDS = ("gpt-transcribe", "gpt-live-transcribe")
_NO_TURNS = "gpt-realtime-whisper"
_STATUS = {
    "authentication_error": 401, "permission_error": 403, "not_found_error": 404, "rate_limit_error": 429,
    "rate_limit_exceeded": 429, "insufficient_quota": 429, "server_error": 500,
}  # fmt: skip
"""Type of an error event → the HTTP status it would have had; else 400."""


class _Fault(msgspec.Struct, gc=False):
    type: str | None = None
    code: str | None = None
    event_id: str | None = None


class _Language(msgspec.Struct, gc=False):
    code: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    item_id: str = ""
    delta: str | None = None
    transcript: str | None = None
    audio_start_ms: float | None = None
    audio_end_ms: float | None = None
    usage: Any = None
    languages: list[_Language] | None = None
    error: _Fault | None = None


class _InputDetails(msgspec.Struct, gc=False):
    audio_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_token_details: _InputDetails | None = None
    seconds: float | None = None


_EVENT = msgspec.json.Decoder(_Event)


class _Item:
    """A stretch of speech, from its beginning to its transcript."""

    __slots__ = ("committed", "end_s", "start_s", "stopped", "text")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.end_s: float | None = None
        self.stopped = False
        """The server heard its end; so its commit is the server's."""
        self.committed = False
        self.text = ""


class RealtimeListener:
    """One session: frames to send out, frames received in. Knows when all audio has been transcribed.

    For a caller of the same dialect every frame comes as an event that carries it; a `session` among the request's
    options (JSON) is sent as the caller wrote it, but for the model.
    """

    def __init__(self, provider: str, request: ListenRequest, model: str, secrets: tuple[str, ...] = ()) -> None:
        """Raises CannotConvert for audio that is not raw."""
        self._provider = provider
        self._request = request
        self._model = model
        self._secrets = secrets
        self._keep_raw = request.dialect == "openai"
        self._sent_as = _sent_as(request.format)
        self._converter = converter(request.format, self._sent_as)
        self._session = self._opening()
        self._items: dict[str, _Item] = {}
        self._sent_s = self._taken_s = 0.0
        """Audio sent, and how much of it was in committed items."""
        self._fresh = False
        """Audio was sent since the last commit of ours."""
        self._finishing = self._answered = self.ended = False
        self._usage: Usage | None = None

    # ---- out

    def opening(self) -> str:
        """The first frame."""
        return _frame({"type": "session.update", "session": self._session})

    def audio(self, data: bytes) -> str | None:
        """Audio of the request's format; None while it makes no whole sample."""
        if self._converter is not None:
            data = self._converter.feed(data)
        if not data:
            return None
        self._fresh = True
        self._sent_s += self._sent_as.seconds(len(data))
        return '{"type":"input_audio_buffer.append","audio":"' + b64encode(data).decode() + '"}'

    def flush(self) -> str | None:
        """Transcribe what was sent so far; None when nothing came since the last time."""
        if not self._fresh:
            return None
        self._fresh = False
        return '{"type":"input_audio_buffer.commit"}'

    def finish(self) -> str:
        """No more audio follows. Its answer, and the transcripts still due, end the session."""
        self._finishing = True
        return _frame({"type": "input_audio_buffer.commit", "event_id": _FINISH})

    def passed(self, frame: str) -> str:
        """A frame of the caller's own; a model it names is the caller's name for ours."""
        try:
            told = msgspec.json.decode(frame, type=dict[str, Any])
        except _BAD_JSON:
            return frame
        if told.get("type") == "session.update" and isinstance(told.get("session"), dict):
            return _frame({**told, "session": _with_model(told["session"], self._model)})
        if told.get("type") == "input_audio_buffer.commit":
            self._fresh = False
        return frame

    def _opening(self) -> dict[str, Any]:
        request, model = self._request, self._model
        own = dict(request.options).get("session") if self._keep_raw else None
        if own is not None:
            try:
                return _with_model(msgspec.json.decode(own, type=dict[str, Any]), model)
            except _BAD_JSON:
                pass   # the endpoint that wrote it has parsed it before
        transcription: dict[str, Any] = {"model": model}
        if request.language and len(language := request.language.partition("-")[0]) == 2:
            transcription["language"] = language.lower()
        if request.keyterms and model != _NO_TURNS:
            if model.startswith(_TAKES_KEYWORDS):
                transcription["keywords"] = list(request.keyterms)
            else:
                transcription["prompt"] = ", ".join(request.keyterms)
        turns: dict[str, Any] | None = None
        if not model.startswith(_NO_TURNS):
            turns = {"type": "server_vad"}
            if request.endpointing_ms is not None:
                turns["silence_duration_ms"] = request.endpointing_ms
        heard = {"format": _wire_format(self._sent_as), "transcription": transcription, "turn_detection": turns}
        return {"type": "transcription", "audio": {"input": heard}}

    # ---- in

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """What a frame says; often nothing. The list that ends the session ends with `ListenEnd`.

        Raises UpstreamProtocolError, and for an error of the vendor's the ProviderError it stands for.
        """
        try:
            event = _EVENT.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        told = self._told(event, frame)
        if self._keep_raw:
            raw = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
            told = [msgspec.structs.replace(told[0], raw=raw), *told[1:]] if told else [VendorFrame(raw=raw)]
        waiting = any(item.committed for item in self._items.values())
        if self._finishing and self._answered and not waiting and not self.ended:
            self.ended = True
            told.append(ListenEnd(usage=self._usage))
        return told

    def _told(self, event: _Event, frame: str | bytes) -> list[ListenEvent]:
        match event.type.removeprefix("conversation.item.input_audio_transcription."):
            case "input_audio_buffer.speech_started":
                item = self._item(event.item_id)
                item.start_s = (event.audio_start_ms or 0.0) / 1000
                return [SpeechStarted(at_s=item.start_s)]
            case "input_audio_buffer.speech_stopped":
                item = self._item(event.item_id)
                item.stopped = True
                item.end_s = (event.audio_end_ms or 0.0) / 1000
            case "input_audio_buffer.committed":
                self._committed(self._item(event.item_id))
            case "delta":
                return self._delta(event)
            case "completed":
                return self._completed(event)
            case "failed":
                self._items.pop(event.item_id, None)
                raise ProviderFailed(
                    provider=self._provider,
                    detail="the transcription of an item failed",
                    upstream_status=200,
                    upstream_code=(event.error.code or event.error.type or "") if event.error is not None else "",
                )
            case "error":
                self._error(event.error or _Fault(), frame)
        return []

    def _item(self, item_id: str) -> _Item:
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = _Item(self._taken_s)
        return item

    def _committed(self, item: _Item) -> None:
        item.committed = True
        if item.end_s is None:
            item.end_s = self._sent_s
        self._taken_s = max(self._taken_s, item.end_s)
        if self._finishing and not item.stopped:
            self._answered = True

    def _delta(self, event: _Event) -> list[ListenEvent]:
        item = self._item(event.item_id)
        item.text += event.delta or ""
        if not self._request.interim_results or not item.text:
            return []
        end_s = self._sent_s if item.end_s is None else item.end_s
        return [Interim(text=item.text, start_s=item.start_s, end_s=end_s)]

    def _completed(self, event: _Event) -> list[ListenEvent]:
        item = self._items.pop(event.item_id, None) or _Item(self._taken_s)
        end_s = self._sent_s if item.end_s is None else item.end_s
        self._note_usage(event.usage)
        language = next((found.code for found in event.languages or () if found.code), self._request.language)
        text = event.transcript or ""
        final: list[ListenEvent] = []
        if text.strip():
            final.append(Final(text=text, start_s=item.start_s, end_s=max(end_s, item.start_s), language=language))
        return [*final, UtteranceEnd(at_s=end_s)]

    def _note_usage(self, told: object) -> None:
        try:
            found = msgspec.convert(told, _Usage)
        except msgspec.ValidationError:
            return
        before = self._usage or Usage(source="vendor")
        details = found.input_token_details or _InputDetails()
        self._usage = msgspec.structs.replace(
            before,
            input_tokens=before.input_tokens + tokens(found.input_tokens),
            output_tokens=before.output_tokens + tokens(found.output_tokens),
            input_audio_tokens=before.input_audio_tokens + tokens(details.audio_tokens),
            audio_seconds=before.audio_seconds + (seconds(found.seconds) or 0.0),
        )

    def _error(self, fault: _Fault, frame: str | bytes) -> None:
        """An empty commit is no failure; nor is what a caller of this dialect did wrong, for it reads the event itself."""
        if fault.event_id == _FINISH or (fault.code == _EMPTY and self._finishing):
            self._answered = True
        elif fault.code != _EMPTY and not (self._keep_raw and fault.type == "invalid_request_error"):
            raise self._failure(fault, frame)

    def _failure(self, fault: _Fault, frame: str | bytes) -> ProviderError:
        body = frame if isinstance(frame, bytes) else frame.encode()
        error = classify(self._provider, _STATUS.get(fault.type or "", 400), None, body, self._secrets)
        if isinstance(error, ProviderRejected):
            error.fault = "candidate"   # model, language and audio settings are this candidate's
        return error


def _frame(event: dict[str, Any]) -> str:
    return msgspec.json.encode(event).decode()


def _sent_as(fmt: AudioFormat) -> AudioFormat:
    """G.711 at 8 kHz goes as it is; all else becomes what the vendor takes: mono PCM at 24 kHz."""
    if fmt.encoding in ("mulaw", "alaw") and fmt.sample_rate_hz == 8_000 and fmt.channels == 1:
        return fmt
    return PCM_24K


def _wire_format(fmt: AudioFormat) -> dict[str, Any]:
    if fmt.encoding == "pcm_s16le":
        return {"type": "audio/pcm", "rate": fmt.sample_rate_hz}
    return {"type": "audio/pcmu" if fmt.encoding == "mulaw" else "audio/pcma"}


def _with_model(session: dict[str, Any], model: str) -> dict[str, Any]:
    """A session with its transcription model replaced, where it has a transcription."""
    audio = session.get("audio")
    heard = audio.get("input") if isinstance(audio, dict) else None
    transcription = heard.get("transcription") if isinstance(heard, dict) else None
    if not isinstance(audio, dict) or not isinstance(heard, dict) or not isinstance(transcription, dict):
        return session
    told = {**heard, "transcription": {**transcription, "model": model}}
    return {**session, "audio": {**audio, "input": told}}


__all__ = ["CannotConvert", "RealtimeListener"]
