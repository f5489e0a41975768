"""OpenAI's realtime transcription over a WebSocket: the client.

Source: openai-python 3.52.0, `types/realtime` (November 2026); the order of events from the vendor's guide. Audio goes into a
buffer; a commit makes an item of it, and each item is transcribed by itself: deltas that append, then `completed`. Items may
complete out of order. `gpt-realtime-whisper` has no turn detection: its finals come after the client's commits.

=============  ==================================  ==================================================================
Item           Event                               Next state
=============  ==================================  ==================================================================
(none)         `speech_started`                    speaking
speaking       `speech_stopped`                    stopped
any            `committed`                         committed: by the server if stopped, else by the client
any            `delta`                             the same
any            `completed`                         over: final transcript, end of the utterance
=============  ==================================  ==================================================================

An empty commit is answered with an error, so a commit at the end is always answered. The session has ended once it was and no
committed item is without transcript.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64encode
from typing import Any

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
)
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds, tokens
from gw.wire.convert import converter
from gw.wire.json_codec import BAD_JSON, decode_upstream
from gw.wire.json_frames import Frame, frame_text, json_frame, typed_frame
from gw.wire.vendor_errors import classify

COMMIT = '{"type":"input_audio_buffer.commit"}'
_VAD_SILENCE_S = 0.5  # the vendor's default
_EAGERNESS_S = {"low": 8.0, "medium": 4.0, "high": 2.0}
"""Longest silence before the end of a turn, with `semantic_vad` (vendor's page on voice activity detection)."""
_WITHOUT_INTERIMS_S = 10.0
_FINISH = "gw-finish"  # id of the last commit, which an error about it repeats
_EMPTY = "input_audio_buffer_commit_empty"
_TAKES_KEYWORDS = ("gpt-transcribe", "gpt-live-transcribe")
_NO_TURNS = "gpt-realtime-whisper"
STATUS_OF_ERROR = {
    "authentication_error": 401, "permission_error": 403, "not_found_error": 404, "rate_limit_error": 429,
    "rate_limit_exceeded": 429, "insufficient_quota": 429, "server_error": 500,
}  # fmt: skip
"""Type of an error event → the HTTP status that a request would get; 400 for others."""


class _Error(msgspec.Struct, gc=False):
    type: str | None = None
    code: str | None = None
    event_id: str | None = None


class _Language(msgspec.Struct, gc=False):
    code: str | None = None


class RealtimeEvent(msgspec.Struct, gc=False):
    type: str = ""
    item_id: str = ""
    delta: str | None = None
    transcript: str | None = None
    audio_start_ms: float | None = None
    audio_end_ms: float | None = None
    usage: Any = None
    languages: list[_Language] | None = None
    error: _Error | None = None


class _InputDetails(msgspec.Struct, gc=False):
    audio_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_token_details: _InputDetails | None = None
    seconds: float | None = None


_EVENT = msgspec.json.Decoder(RealtimeEvent)


class _Item:
    """A stretch of speech, from its beginning to its transcript."""

    __slots__ = ("base_s", "committed", "end_s", "start_s", "stopped", "text")

    def __init__(self, start_s: float) -> None:
        self.base_s = self.start_s = start_s  # earliest and actual beginning
        self.end_s: float | None = None
        self.stopped = False  # whether the server has detected its end, and so commits it
        self.committed = False
        self.text = ""


def takes_keyterms(request: ListenRequest, model: str) -> bool:
    """Return whether a model takes key terms: as keywords, or in the prompt, unless that is in use."""
    return model.startswith(_TAKES_KEYWORDS) or (takes_prompt(model) and not request.prompt)


def takes_prompt(model: str) -> bool:
    return not model.startswith(_NO_TURNS)


class ItemListenClient(ABC):
    """Client of either revision of the protocol: sends audio, and keeps the items until their transcripts."""

    def __init__(
        self, provider: str, request: ListenRequest, wire_format: AudioFormat, secrets: tuple[str, ...], *, keep_raw: bool = False
    ) -> None:
        """Raises CannotConvert for audio that is not raw."""
        self._provider = provider
        self._request = request
        self._secrets = secrets
        self._keep_raw = keep_raw
        self._wire_format = wire_format
        self._converter = converter(request.format, wire_format)
        self._items: dict[str, _Item] = {}
        self._sent_s = self._committed_s = 0.0  # audio sent, and how much of it is in committed items
        self._uncommitted = False  # whether audio was sent since the client's last commit
        self._finishing = self._answered = self.ended = False
        self._usage: Usage | None = None

    def audio(self, data: bytes) -> str | None:
        """Return the frame for audio of the request's format; None while it has no complete sample."""
        if self._converter is not None:
            data = self._converter.feed(data)
        if not data:
            return None
        self._uncommitted = True
        self._sent_s += self._wire_format.seconds(len(data))
        return append_frame(data)

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error event, UpstreamProtocolError for a malformed frame.

        The list that ends the session ends with `ListenEnd`.
        """
        events = self._handle(decode_upstream(_EVENT, frame, self._provider), frame)
        if self._keep_raw:
            raw = frame_text(frame)
            events = [msgspec.structs.replace(events[0], raw=raw), *events[1:]] if events else [VendorFrame(raw=raw)]
        if self._answered and not self.ended and not any(item.committed for item in self._items.values()):
            self.ended = True
            events.append(ListenEnd(usage=self._usage))
        return events

    @abstractmethod
    def _handle(self, event: RealtimeEvent, frame: Frame) -> list[ListenEvent]: ...

    def _item(self, item_id: str) -> _Item:
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = _Item(self._committed_s)
        return item

    def _candidate_error(self, status: int, frame: Frame) -> ProviderError:
        """Return the error of an error event. Another candidate may understand what this one refuses."""
        error = classify(self._provider, status, None, frame if isinstance(frame, bytes) else frame.encode(), self._secrets)
        if isinstance(error, ProviderRejected) and error.fault == "caller":
            error.fault = "request"
        return error


def append_frame(pcm: bytes) -> str:
    return '{"type":"input_audio_buffer.append","audio":"' + b64encode(pcm).decode() + '"}'


class RealtimeListenClient(ItemListenClient):
    """One session: audio and commands to frames, frames to events.

    For a caller of this dialect every frame comes as an event that carries it; a `session` among the request's options (JSON)
    is sent as the caller wrote it, except for the model.
    """

    def __init__(self, provider: str, request: ListenRequest, model: str, secrets: tuple[str, ...] = ()) -> None:
        """Raises CannotConvert for audio that is not raw."""
        super().__init__(provider, request, _wire_format(request.format), secrets, keep_raw=request.dialect == "openai")
        self._model = model
        self._session = self._first_session()

    @property
    def pace(self) -> ListenPace:
        """Return when events are due: beside the beginning and end of speech, transcripts come after its end only."""
        turns: Any = self._session
        for name in ("audio", "input", "turn_detection"):
            turns = turns.get(name) if isinstance(turns, dict) else None
        if not isinstance(turns, dict):
            return ListenPace(pause_s=math.inf, endpoint_s=math.inf, running_s=math.inf)
        silence_ms = turns.get("silence_duration_ms")
        silence_s = silence_ms / 1000 if isinstance(silence_ms, (int, float)) else _VAD_SILENCE_S
        if turns.get("type") == "semantic_vad":
            silence_s = _EAGERNESS_S.get(str(turns.get("eagerness")), _EAGERNESS_S["medium"])
        return ListenPace(pause_s=silence_s, endpoint_s=silence_s, running_s=_WITHOUT_INTERIMS_S)

    def opening(self) -> str:
        """Return the first frame."""
        return typed_frame("session.update", session=self._session)

    def flush(self) -> str | None:
        """Commit the audio so far; None if there is none since the last commit."""
        if not self._uncommitted:
            return None
        self._uncommitted = False
        return COMMIT

    def finish(self) -> str:
        """Commit with an id: its answer, and the transcripts still due, end the session."""
        self._finishing = True
        return typed_frame("input_audio_buffer.commit", event_id=_FINISH)

    def forward(self, frame: str) -> str:
        """Return a caller's own frame, with the caller's name for the model replaced."""
        try:
            message = msgspec.json.decode(frame, type=dict[str, Any])
        except BAD_JSON:
            return frame
        if message.get("type") == "session.update" and isinstance(message.get("session"), dict):
            return json_frame({**message, "session": _with_model(message["session"], self._model)})
        if message.get("type") == "input_audio_buffer.commit":
            self._uncommitted = False
        return frame

    def _first_session(self) -> dict[str, Any]:
        request, model = self._request, self._model
        own = dict(request.options).get("session") if self._keep_raw else None
        if own is not None:
            try:
                return _with_model(msgspec.json.decode(own, type=dict[str, Any]), model)
            except BAD_JSON:
                pass  # the endpoint that wrote it has parsed it before
        transcription: dict[str, Any] = {"model": model}
        if request.language and len(language := request.language.partition("-")[0]) == 2:
            transcription["language"] = language.lower()
        prompt = request.prompt
        if request.keyterms and model.startswith(_TAKES_KEYWORDS):
            transcription["keywords"] = list(request.keyterms)
        elif request.keyterms:
            prompt = prompt or ", ".join(request.keyterms)
        if prompt:
            transcription["prompt"] = prompt
        turns: dict[str, Any] | None = None
        if not model.startswith(_NO_TURNS):
            turns = {"type": "server_vad"}
            if request.endpointing_ms is not None:
                turns["silence_duration_ms"] = request.endpointing_ms
        settings = {"format": _format_object(self._wire_format), "transcription": transcription, "turn_detection": turns}
        return {"type": "transcription", "audio": {"input": settings}}

    def _handle(self, event: RealtimeEvent, frame: Frame) -> list[ListenEvent]:
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
                error = event.error or _Error()
                raise ProviderFailed(
                    provider=self._provider, detail="the transcription of an item failed", upstream_status=200,
                    upstream_code=error.code or error.type or ""
                )  # fmt: skip
            case "error":
                self._error(event.error or _Error(), frame)
        return []

    def _committed(self, item: _Item) -> None:
        item.committed = True
        if item.end_s is None:
            item.end_s = self._sent_s
        self._committed_s = max(self._committed_s, item.end_s)
        if self._finishing and not item.stopped:
            self._answered = True

    def _delta(self, event: RealtimeEvent) -> list[ListenEvent]:
        item = self._item(event.item_id)
        item.text += event.delta or ""
        if not self._request.interim_results or not item.text:
            return []
        end_s = self._sent_s if item.end_s is None else item.end_s
        return [Interim(text=item.text, start_s=item.start_s, end_s=end_s)]

    def _completed(self, event: RealtimeEvent) -> list[ListenEvent]:
        item = self._items.pop(event.item_id, None) or _Item(self._committed_s)
        end_s = self._sent_s if item.end_s is None else item.end_s
        self._add_usage(event.usage)
        language = next((entry.code for entry in event.languages or () if entry.code), self._request.language)
        text = event.transcript or ""
        end = UtteranceEnd(at_s=end_s)
        if not text.strip():
            return [end]
        return [Final(text=text, start_s=item.start_s, end_s=max(end_s, item.start_s), language=language), end]

    def _add_usage(self, report: object) -> None:
        try:
            usage = msgspec.convert(report, _Usage)
        except msgspec.ValidationError:
            return
        details = usage.input_token_details or _InputDetails()
        if plausible(Usage(input_tokens=tokens(usage.input_tokens), output_tokens=tokens(usage.output_tokens))) is None:
            return
        total = self._usage or Usage(source="vendor")
        self._usage = msgspec.structs.replace(
            total,
            input_tokens=total.input_tokens + tokens(usage.input_tokens),
            output_tokens=total.output_tokens + tokens(usage.output_tokens),
            input_audio_tokens=total.input_audio_tokens + tokens(details.audio_tokens),
            audio_seconds=total.audio_seconds + (seconds(usage.seconds) or 0.0),
        )

    def _error(self, error: _Error, frame: Frame) -> None:
        """Raise the ProviderError of an error event.

        An empty commit is no failure; nor is a mistake of a caller of this dialect, which reads the event itself.
        """
        if error.event_id == _FINISH or (error.code == _EMPTY and self._finishing):
            self._answered = True
        elif error.code != _EMPTY and not (self._keep_raw and error.type == "invalid_request_error"):
            raise self._candidate_error(STATUS_OF_ERROR.get(error.type or "", 400), frame)


def _wire_format(fmt: AudioFormat) -> AudioFormat:
    """Return the format to send: G.711 at 8 kHz stays, all else becomes mono PCM at 24 kHz, as the vendor requires."""
    if fmt.encoding in ("mulaw", "alaw") and fmt.sample_rate_hz == 8_000 and fmt.channels == 1:
        return fmt
    return PCM_24K


def _format_object(fmt: AudioFormat) -> dict[str, Any]:
    if fmt.encoding == "pcm_s16le":
        return {"type": "audio/pcm", "rate": fmt.sample_rate_hz}
    return {"type": "audio/pcmu" if fmt.encoding == "mulaw" else "audio/pcma"}


def _with_model(session: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a session with its transcription model replaced, if it has a transcription."""
    audio = session.get("audio")
    settings = audio.get("input") if isinstance(audio, dict) else None
    transcription = settings.get("transcription") if isinstance(settings, dict) else None
    if not isinstance(audio, dict) or not isinstance(settings, dict) or not isinstance(transcription, dict):
        return session
    return {**session, "audio": {**audio, "input": {**settings, "transcription": {**transcription, "model": model}}}}
