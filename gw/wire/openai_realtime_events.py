"""OpenAI's realtime protocol where the vendor's model itself hears and speaks: what a gateway reads of the frames that it passes on.

Source: openai-python 3.52.0, `types/realtime` (November 2026). The older names of the deltas are those of the beta protocol, which
compatible servers still speak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.errors import ProviderError, ProviderRefused
from gw.types.conversation import CallerStep, ConversationEvent
from gw.types.usage import NO_DIMENSIONS, Dimensions, Usage
from gw.wire.bounds import plausible, seconds, tokens
from gw.wire.json_codec import BAD_JSON, decode_client, decode_upstream
from gw.wire.json_frames import Frame, frame_text, typed_frame
from gw.wire.openai_realtime_client import STATUS_OF_ERROR
from gw.wire.vendor_errors import ErrorFacts, error_of

CONTENT = frozenset(
    {
        "response.output_audio.delta", "response.output_text.delta", "response.function_call_arguments.delta",
        "response.audio.delta", "response.text.delta",
    }
)
"""Types of the events that bring the answer itself."""
KEEP_ALIVE = "ping"
"""Type of an event that xAI sends from time to time, whatever the session does."""
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
SPEECH_ENDED = frozenset({"input_audio_buffer.speech_stopped", "input_audio_buffer.committed"})


class _CachedDetails(msgspec.Struct, gc=False):
    audio_tokens: int | None = None
    image_tokens: int | None = None


class _InputDetails(msgspec.Struct, gc=False):
    audio_tokens: int | None = None
    image_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: _CachedDetails | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    audio_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    input_token_details: _InputDetails | None = None
    output_token_details: _OutputDetails | None = None


class _Error(msgspec.Struct, gc=False):
    type: str | None = None
    code: str | None = None
    message: str | None = None


class _StatusDetails(msgspec.Struct, gc=False):
    reason: str | None = None
    error: _Error | None = None


class ModelResponse(msgspec.Struct, gc=False):
    """A response in `response.created` and `response.done`."""

    id: str = ""
    status: str | None = None
    status_details: _StatusDetails | str | None = None
    """xAI has a text there."""
    usage: _Usage | None = None


class _Transcription(msgspec.Struct, gc=False):
    model: str | None = None


class _Input(msgspec.Struct, gc=False):
    transcription: _Transcription | None = None


class _Audio(msgspec.Struct, gc=False):
    input: _Input | None = None


class _Session(msgspec.Struct, gc=False):
    audio: _Audio | None = None
    input_audio_transcription: _Transcription | None = None


class ServerEvent(msgspec.Struct, gc=False):
    """The members of an event that matter here, whatever its type."""

    type: str = ""
    response: ModelResponse | None = None
    response_id: str = ""
    session: _Session | None = None
    usage: _Usage | None = None
    error: _Error | None = None


class _ClientEvent(msgspec.Struct, gc=False):
    type: str
    event_id: str | None = None


_OTHER = ConversationEvent(kind="other")
_ALIVE = ConversationEvent(kind="alive")
_SPEECH_ENDED = ConversationEvent(kind="speech_ended")
_SERVER_EVENT = msgspec.json.Decoder(ServerEvent)
_CLIENT_EVENT = msgspec.json.Decoder(_ClientEvent)


def read_server_event(provider: str, frame: Frame) -> ServerEvent:
    """Raises UpstreamProtocolError."""
    return decode_upstream(_SERVER_EVENT, frame, provider)


def read_client_event(frame: Frame) -> _ClientEvent:
    """Raises ClientProtocolError."""
    return decode_client(_CLIENT_EVENT, frame)


class RealtimeReader:
    """A `ConversationReader` of one session."""

    patience_s = 0.0

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def received(self, frame: Frame) -> Sequence[ConversationEvent]:
        event = read_server_event(self._provider, frame)
        if event.type in CONTENT:
            return (ConversationEvent(kind="content", response_id=event.response_id),)
        if event.type in SPEECH_ENDED:
            return (_SPEECH_ENDED,)
        if event.type == KEEP_ALIVE:
            return (_ALIVE,)
        if event.type == "response.created" and event.response is not None:
            return (ConversationEvent(kind="began", response_id=event.response.id),)
        if event.type == "response.done" and event.response is not None:
            return (self._ended(event, event.response),)
        if event.type == TRANSCRIBED:
            return (ConversationEvent(kind="transcribed", usage=usage_of(event.usage)),)
        if event.type == "error":
            return (ConversationEvent(kind="failed", error=error_of_event(self._provider, event.error)),)
        if (named := transcription_model(event.session)) is not None:
            return (ConversationEvent(kind="settings", transcription_model=named),)
        return (_OTHER,)

    def _ended(self, event: ServerEvent, response: ModelResponse) -> ConversationEvent:
        error: ProviderError | None = None
        if response.status == "failed":
            error = error_of_response(self._provider, response)
        elif is_filtered(response):
            error = ProviderRefused(provider=self._provider, detail="a content filter has stopped the response")
        return ConversationEvent(
            kind="ended", response_id=response.id, usage=usage_of(response.usage) or usage_of(event.usage),
            is_cancelled=response.status == "cancelled", error=error,
        )  # fmt: skip

    def sent(self, frame: Frame) -> CallerStep:
        return "asks" if read_client_event(frame).type == "response.create" else "other"

    def for_vendor(self, frame: Frame, model: str) -> Frame:
        return for_vendor(frame_text(frame), model) if read_client_event(frame).type == "session.update" else frame

    def counted(self, response_id: str) -> Usage | None:
        return None

    def cancel(self, response_id: str) -> str:
        return typed_frame("response.cancel", response_id=response_id)


def for_vendor(frame: str, model: str) -> str:
    """Return a `session.update` with the vendor's name of the model in place of the caller's, which the vendor does not know."""
    try:
        event: dict[str, Any] = msgspec.json.decode(frame)
    except BAD_JSON:
        return frame  # the vendor says what is wrong with it
    session = event.get("session")
    if not isinstance(session, dict) or session.get("model") in (None, model):
        return frame
    return msgspec.json.encode({**event, "session": {**session, "model": model}}).decode()


_WITHIN_AUDIO = {"voice": "output", "turn_detection": "input"}


def with_top_level(frame: str, names: Iterable[str]) -> str:
    """Return a `session.update` with these settings at the top of the session, if the client has written them within `audio`.

    Source: livekit-plugins-xai 1.8.9, `realtime_model.py` (`_wrap_session_update`). Other frames are returned as they are.
    """
    if '"session.update"' not in frame:
        return frame
    try:
        event: dict[str, Any] = msgspec.json.decode(frame)
    except BAD_JSON:
        return frame  # the vendor says what is wrong with it
    session = event.get("session")
    audio = session.get("audio") if isinstance(session, dict) else None
    if event.get("type") != "session.update" or not isinstance(session, dict) or not isinstance(audio, dict):
        return frame
    moved: dict[str, Any] = {}
    for name in names:
        direction = audio.get(_WITHIN_AUDIO[name])
        if name not in session and isinstance(direction, dict) and name in direction:
            moved[name] = direction[name]
            audio = {**audio, _WITHIN_AUDIO[name]: {key: value for key, value in direction.items() if key != name}}
    if not moved:
        return frame
    audio = {direction: settings for direction, settings in audio.items() if settings}
    rest = {key: value for key, value in session.items() if key != "audio"}
    return msgspec.json.encode({**event, "session": {**rest, **({"audio": audio} if audio else {}), **moved}}).decode()


def transcription_model(session: _Session | None) -> str | None:
    """Return the model that transcribes the caller beside the conversation, in a session's settings; None: they do not say."""
    if session is None:
        return None
    if session.audio is not None and session.audio.input is not None:
        transcription = session.audio.input.transcription
        return (transcription.model or "") if transcription is not None else ""
    return session.input_audio_transcription.model if session.input_audio_transcription is not None else None


def usage_of(counted: _Usage | None) -> Usage | None:
    """Return what the vendor counts of a response or of a transcription; None where it counts nothing."""
    if counted is None or (counted.input_tokens is None and counted.output_tokens is None and counted.seconds is None):
        return None
    heard, spoken = counted.input_token_details or _InputDetails(), counted.output_token_details or _OutputDetails()
    cached = heard.cached_tokens_details or _CachedDetails()
    of_audio, of_images, cached_images = map(tokens, (cached.audio_tokens, heard.image_tokens, cached.image_tokens))
    dimensions = NO_DIMENSIONS
    if of_audio or of_images or cached_images:
        dimensions = Dimensions(cached_audio_tokens=of_audio, image_tokens=of_images, cached_image_tokens=cached_images)
    usage = Usage(
        input_tokens=tokens(counted.input_tokens), cached_input_tokens=tokens(heard.cached_tokens),
        output_tokens=tokens(counted.output_tokens), input_audio_tokens=tokens(heard.audio_tokens),
        output_audio_tokens=tokens(spoken.audio_tokens), audio_seconds=seconds(counted.seconds or 0.0) or 0.0, source="vendor",
        dimensions=dimensions,
    )  # fmt: skip
    return plausible(usage)


def error_of_event(provider: str, error: _Error | None, secrets: Iterable[str] = ()) -> ProviderError:
    """Return what an error event, or a failed response, says."""
    error = error or _Error()
    facts = ErrorFacts(code=error.code or "", kind=error.type or "", message=error.message or "")
    status = STATUS_OF_ERROR.get(facts.code) or STATUS_OF_ERROR.get(facts.kind) or (500 if not facts.kind else 400)
    return error_of(provider, status, facts, secrets)


def error_of_response(provider: str, response: ModelResponse) -> ProviderError:
    """Return the error of a response that has failed."""
    details = response.status_details
    return error_of_event(provider, details.error if isinstance(details, _StatusDetails) else None)


def is_filtered(response: ModelResponse) -> bool:
    details = response.status_details
    return response.status == "incomplete" and isinstance(details, _StatusDetails) and details.reason == "content_filter"
