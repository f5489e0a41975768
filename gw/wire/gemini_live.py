"""Gemini Live, Google's `BidiGenerateContent` over a WebSocket: what a gateway reads of the frames that it passes on.

Sources, November 2026:

- google-genai 3.6.1, `live.py`, `_live_converters.py` and `types.py`: the first frame is `{"setup": …}`, answered by
  `{"setupComplete": …}`; members of a client's frames are in camel case or in snake case, as JSON of a protocol buffer may be;
  `interrupted` is followed by `turnComplete`, without `generationComplete`;
  `turnComplete` may wait for the end of the playback.
- The protocol buffer `BidiGenerateContentClientContent` (pub.dev, google_cloud_ai_generativelanguage_v1beta): such a message interrupts the
  generation, and starts one only if it says `turnComplete`. `gemini-3.1` closes the session for it, except for the history with which the
  session begins (livekit/agents#5251). What interrupts that model is the user: speech that it notices by itself, or `activityStart`, which
  a client may send only where automatic detection is disabled (`types.py`, `ActivityStart` and `ActivityHandling`).
- pydantic-ai 2.68.0, `realtime/google.py`, and pydantic/pydantic-ai#7269: `usageMetadata` is that of one turn, not of the session,
  as probed with two models; a tool call has none of its own; it comes with `turnComplete`.
- litellm 1.110.2, `llms/gemini/realtime/transformation.py`: `usageMetadata` may come alone before `turnComplete`; each query of
  `groundingMetadata.webSearchQueries` is billed.

There is no id and no begin of a response: its first content begins it, `turnComplete` ends it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, ProviderRefused, UpstreamCut
from gw.types.conversation import CallerStep, ConversationEvent
from gw.types.usage import Dimensions, Usage
from gw.wire.bounds import MAX_DURATION_S
from gw.wire.gemini_live_functions import version_of
from gw.wire.gemini_live_messages import NO_CONTENT, SERVER_FRAME, Blob, ServerContent, ServerFrame
from gw.wire.gemini_live_usage import LiveUsage, usage_of, usage_sum
from gw.wire.json_codec import MEMBERS, decode_client, decode_upstream
from gw.wire.json_frames import Frame, json_frame
from gw.wire.vendor_errors import ErrorFacts, error_of, filtered

VERSIONS = ("v1", "v1alpha", "v1beta")
"""Versions of the API, in its address."""
_MODEL = re.compile(r"(?:^|-)live(?:-|$)|native-audio")
_TRANSCRIBES = re.compile(r"transcribe")
_PREFIXES = ("models/", "tunedModels/")
_RATE = re.compile(r"rate=(\d{4,6})")
_RATE_HZ = 24_000
_BYTES = 2  # of a sample
_QUOTA = re.compile(r"(?i)quota|exhausted|rate.?limit")
_FAILED_REASONS = frozenset({"MALFORMED_FUNCTION_CALL", "MAX_REGENERATION_REACHED"})
_PLAIN_REASONS = frozenset({"", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"})
"""Values of `turnCompleteReason` of a turn that is complete; all others say that a filter stopped the turn."""


INTERRUPTION = json_frame({"clientContent": {"turnComplete": False}})
"""Interrupts what is being generated, and starts nothing. Not for models that do not take it (`takes_content`)."""
_ACTIVITY = json_frame({"realtimeInput": {"activityStart": {}}})


def takes_content(model: str) -> bool:
    """Return whether a model takes `clientContent` in the conversation, beside the history with which it begins."""
    return version_of(model) != (3, 1)


def path(version: str) -> str:
    """Return the path of the socket at the vendor's root."""
    return f"/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"


def hears_and_speaks(model: str) -> bool:
    """Return whether the vendor's model of this name holds conversations in this protocol, such as `gemini-3.8-live`.

    Models that only transcribe speak it as well, but report no usage (litellm 1.110.2).
    """
    return _MODEL.search(model) is not None and _TRANSCRIBES.search(model) is None


# ---- the client's frames


class _Id(msgspec.Struct, gc=False):
    id: str | None = None


class _ToolResponse(msgspec.Struct, gc=False):
    camel: list[_Id] | None = msgspec.field(name="functionResponses", default=None)
    snake: list[_Id] | None = msgspec.field(name="function_responses", default=None)


class _ClientContent(msgspec.Struct, gc=False):
    camel: bool | None = msgspec.field(name="turnComplete", default=None)
    snake: bool | None = msgspec.field(name="turn_complete", default=None)


class _RealtimeInput(msgspec.Struct, gc=False):
    text: str | None = None
    camel_start: dict[str, msgspec.Raw] | None = msgspec.field(name="activityStart", default=None)
    snake_start: dict[str, msgspec.Raw] | None = msgspec.field(name="activity_start", default=None)
    camel_end: dict[str, msgspec.Raw] | None = msgspec.field(name="activityEnd", default=None)
    snake_end: dict[str, msgspec.Raw] | None = msgspec.field(name="activity_end", default=None)


class _ClientFrame(msgspec.Struct, gc=False):
    setup: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    camel_content: _ClientContent | None = msgspec.field(name="clientContent", default=None)
    snake_content: _ClientContent | None = msgspec.field(name="client_content", default=None)
    camel_input: _RealtimeInput | None = msgspec.field(name="realtimeInput", default=None)
    snake_input: _RealtimeInput | None = msgspec.field(name="realtime_input", default=None)
    camel_response: _ToolResponse | None = msgspec.field(name="toolResponse", default=None)
    snake_response: _ToolResponse | None = msgspec.field(name="tool_response", default=None)


class _History(msgspec.Struct, gc=False):
    camel: bool | None = msgspec.field(name="initialHistoryInClientContent", default=None)
    snake: bool | None = msgspec.field(name="initial_history_in_client_content", default=None)


class _Proactivity(msgspec.Struct, gc=False):
    camel: bool | None = msgspec.field(name="proactiveAudio", default=None)
    snake: bool | None = msgspec.field(name="proactive_audio", default=None)


class _Detection(msgspec.Struct, gc=False):
    disabled: bool | None = None


class _InputConfig(msgspec.Struct, gc=False):
    camel_detection: _Detection | None = msgspec.field(name="automaticActivityDetection", default=None)
    snake_detection: _Detection | None = msgspec.field(name="automatic_activity_detection", default=None)
    camel_handling: str | None = msgspec.field(name="activityHandling", default=None)
    snake_handling: str | None = msgspec.field(name="activity_handling", default=None)


class _Setup(msgspec.Struct, gc=False):
    model: str = ""
    camel_input: _InputConfig | None = msgspec.field(name="realtimeInputConfig", default=None)
    snake_input: _InputConfig | None = msgspec.field(name="realtime_input_config", default=None)
    camel_history: _History | None = msgspec.field(name="historyConfig", default=None)
    snake_history: _History | None = msgspec.field(name="history_config", default=None)
    proactivity: _Proactivity | None = None


class _Opening(msgspec.Struct, gc=False):
    setup: _Setup


_CLIENT_FRAME = msgspec.json.Decoder(_ClientFrame)
_OPENING = msgspec.json.Decoder(_Opening)
_NO_SETUP = "the first frame must be {\"setup\": {\"model\": …}}"
_NOT_JSON = "a frame must be a JSON object with members of the expected types"


def model_of(setup: Frame) -> str:
    """Return the model that the first frame names, without `models/`. Raises ClientProtocolError."""
    model = decode_client(_OPENING, setup, _NO_SETUP, "setup").setup.model
    if not model:
        raise ClientProtocolError(what="setup names no model", param="setup.model")
    return model.removeprefix("models/")


def setup_for_vendor(setup: Frame, model: str) -> str:
    """Return the first frame with the vendor's own name of the model; all other settings stay as the caller wrote them."""
    members = decode_client(MEMBERS, setup, _NO_SETUP, "setup")
    settings = decode_client(MEMBERS, members["setup"], _NO_SETUP, "setup")
    named = model if model.startswith(_PREFIXES) else f"models/{model}"
    settings["model"] = msgspec.Raw(msgspec.json.encode(named))
    return json_frame({**members, "setup": settings})


# ---- the vendor's frames

_NOTHING = (ConversationEvent(kind="other"),)
_SPEECH_ENDED = ConversationEvent(kind="speech_ended")


def _ends_speech(message: ServerFrame, content: ServerContent) -> bool:
    """Return whether a frame says that the caller has finished speaking."""
    activity, transcript = message.voice_activity, content.input_transcription
    ended = activity is not None and "ACTIVITY_END" in (activity.voice_activity_type, activity.type)
    return ended or (transcript is not None and bool(transcript.finished))


def _duration_s(blob: Blob) -> float:
    """Return the duration of audio; 0.0 for other data."""
    kind = blob.mime_type or ""
    if not kind.startswith("audio/"):
        return 0.0
    rate = _RATE.search(kind)
    return len(blob.data or "") * 3 / 4 / _BYTES / (int(rate[1]) if rate is not None else _RATE_HZ)


def error_of_close(provider: str, code: int, reason: str, secrets: Iterable[str] = ()) -> ProviderError:
    """Return the error for a session that the vendor closed with this code before its end; its reason is judged and filtered.

    1007: the settings or a frame are wrong. 1008: no such model, or the account may not use it. 1011: a quota is used up, or the vendor
    has failed (pydantic-ai 2.68.0; livekit-plugins-google 1.8.9; answers quoted in sohzm/cheating-daddy#455).
    """
    detail = f"closed the session with code {code}"
    if code == 1007:
        status = 401 if "api key" in reason.lower() else 400
    elif code == 1008:
        status = 404 if "not found" in reason.lower() else 403
    elif _QUOTA.search(reason):
        status = 429
    elif code == 1011:
        return ProviderFailed(provider=provider, detail=detail, upstream_status=500, upstream_code="1011")
    else:
        return UpstreamCut(provider=provider, detail=detail)
    secrets = tuple(secrets)
    readable = filtered(reason, secrets)
    error = error_of(provider, status, ErrorFacts(code=str(code), message=reason), secrets)
    error.detail = f"{detail}: {readable}" if readable else detail
    return error


def error_of_reason(provider: str, reason: str) -> ProviderError | None:
    """Return the error that the `turnCompleteReason` of a turn says; None for a turn that is complete."""
    if reason in _PLAIN_REASONS:
        return None
    detail = f"the turn ended with {reason[:60]}"
    if reason in _FAILED_REASONS:
        return ProviderFailed(provider=provider, detail=detail, upstream_status=500)
    return ProviderRefused(provider=provider, detail=detail)


class GeminiReader:
    """A `ConversationReader` of one session. A response is named by its number.

    A `clientContent` with `turnComplete` asks for a response, which the vendor then owes, unless the model may choose to say nothing
    (`proactivity`), or the message ends the history that a session begins with (`historyConfig`).
    """

    def __init__(self, provider: str, model: str, setup: Frame) -> None:
        """`model`: the vendor's name. Raise ClientProtocolError for a first frame that cannot be read."""
        self._provider = provider
        self._takes_content = takes_content(model)
        self._number = 0
        self.reopened(setup)

    def reopened(self, setup: Frame) -> None:
        """Read the first frame of a session. What ran in the one before it has ended without a count."""
        settings = decode_client(_OPENING, setup, _NO_SETUP, "setup").setup
        history, proactivity = settings.camel_history or settings.snake_history, settings.proactivity
        self._in_history = history is not None and bool(history.camel or history.snake)
        self._may_say_nothing = proactivity is not None and bool(proactivity.camel or proactivity.snake)
        config = settings.camel_input or settings.snake_input or _InputConfig()
        detection = config.camel_detection or config.snake_detection
        handling = (config.camel_handling or config.snake_handling or "").upper()
        self._activity_interrupts = detection is not None and bool(detection.disabled) and handling != "NO_INTERRUPTION"
        """Whether the caller says when the user speaks, which then interrupts the model."""
        self._in_activity = False
        self._reset()

    def _reset(self) -> None:
        self._runs = self._is_complete = self._was_interrupted = False
        self._pending_calls: set[str] = set()
        """Ids of the function calls of this turn that the caller has not answered."""
        self._usage: Usage | None = None
        self._queries: set[str] = set()
        self._audio_s = 0.0

    @property
    def patience_s(self) -> float:
        """Return the time for which the vendor may be silent beside the usual: while a function runs at the caller, and for playback."""
        if self._runs and self._pending_calls:
            return math.inf
        return self._audio_s if self._is_complete else 0.0

    # ---- the caller

    def sent(self, frame: Frame) -> CallerStep:
        message = decode_client(_CLIENT_FRAME, frame, _NOT_JSON)
        if message.setup is not msgspec.UNSET:
            raise ClientProtocolError(what="setup may be sent once only, in the first frame", param="setup")
        response = message.camel_response or message.snake_response
        if response is not None:
            for answered in response.camel or response.snake or ():
                self._pending_calls.discard(answered.id or "")
        realtime = message.camel_input or message.snake_input
        if realtime is not None:
            ends = realtime.camel_end is not None or realtime.snake_end is not None
            begins = realtime.camel_start is not None or realtime.snake_start is not None
            self._in_activity = not ends and (self._in_activity or begins)
            if ends or realtime.text is not None:
                return "ends_turn"
        content = message.camel_content or message.snake_content
        if content is None or not (content.camel or content.snake):
            return "other"
        was_history, self._in_history = self._in_history, False
        return "other" if was_history else "ends_turn" if self._may_say_nothing else "asks"

    def for_vendor(self, frame: Frame, model: str) -> Frame:
        return frame

    def counted(self, response_id: str) -> Usage | None:
        return self._usage if self._runs and response_id == str(self._number) else None

    def cancel(self, response_id: str) -> str | None:
        """Return a message that interrupts what is being generated and starts nothing; None where the model takes none at this time."""
        if self._takes_content:
            return INTERRUPTION
        return _ACTIVITY if self._activity_interrupts and not self._in_activity else None

    # ---- the vendor

    def received(self, frame: Frame) -> Sequence[ConversationEvent]:
        message = decode_upstream(SERVER_FRAME, frame, self._provider)
        content = message.server_content or NO_CONTENT
        events: list[ConversationEvent] = []
        if _ends_speech(message, content):
            events.append(_SPEECH_ENDED)
        self._note_calls(message)
        says, answers = self._note_content(message, content)
        only_counts = message.usage_metadata is not None and not self._runs and not says
        if (says or only_counts) and not self._runs:
            self._runs = True
            self._number += 1
            events.append(ConversationEvent(kind="began", response_id=str(self._number)))
        if answers:
            events.append(ConversationEvent(kind="content", response_id=str(self._number)))
        self._was_interrupted |= bool(content.interrupted) and self._runs and not self._is_complete
        self._is_complete |= bool(content.generation_complete)
        if content.grounding_metadata is not None:
            self._queries.update(content.grounding_metadata.web_search_queries or ())
        if message.usage_metadata is not None:
            self._count(message.usage_metadata)
        if self._runs and (content.turn_complete or only_counts):
            events.append(self._end(content.turn_complete_reason or ""))
        elif content.turn_complete:
            self._reset()
        return events or _NOTHING

    def _note_calls(self, message: ServerFrame) -> None:
        if message.tool_call is not None:
            self._pending_calls.update(call.id or "" for call in message.tool_call.function_calls or ())
        if message.tool_call_cancellation is not None:
            self._pending_calls.difference_update(message.tool_call_cancellation.ids or ())

    def _note_content(self, message: ServerFrame, content: ServerContent) -> tuple[bool, bool]:
        """Return whether a frame is part of a response, and whether it brings the answer itself."""
        parts = (content.model_turn.parts or ()) if content.model_turn is not None else ()
        calls = message.tool_call is not None and bool(message.tool_call.function_calls)
        for part in parts:
            if part.inline_data is not None:
                self._audio_s = min(self._audio_s + _duration_s(part.inline_data), MAX_DURATION_S)
        answers = calls or any(part.inline_data is not None or (part.text and not part.thought) for part in parts)
        spoken = content.output_transcription is not None and bool(content.output_transcription.text)
        return bool(parts) or calls or spoken, answers

    def _count(self, counted: LiveUsage) -> None:
        """Add a count: each is that of one generation, and a turn with function calls may have several."""
        usage = usage_of(counted)
        if usage is not None:
            self._usage = usage if self._usage is None else usage_sum(self._usage, usage)

    def _end(self, reason: str) -> ConversationEvent:
        usage, was_interrupted = self._usage, self._was_interrupted
        if usage is not None and self._queries:
            more = Dimensions(searches=len(self._queries))
            usage = msgspec.structs.replace(usage, dimensions=usage.dimensions + more)
        self._reset()
        return ConversationEvent(
            kind="ended", response_id=str(self._number), usage=usage, is_cancelled=was_interrupted,
            error=error_of_reason(self._provider, reason),
        )  # fmt: skip
