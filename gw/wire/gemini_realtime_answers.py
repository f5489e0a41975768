"""The answers of one of Gemini's Live models, as the responses of OpenAI's realtime API.

The frames are those of `gw.wire.gemini_live_messages`. A turn of the vendor is one response, or several where functions are called: a call
ends a response, as it does at OpenAI, and what the model says with the result is the next one. The vendor counts tokens at the end of its
turn, so a response that ends with a call has no usage.

    none         -- the client requests one, or the model begins -->  open
    open         -- `generationComplete`, `interrupted` -->           spoken: the message has ended, the count is due
    open         -- a function is called -->                          none: completed
    open, spoken -- `turnComplete` -->                                none: completed, cancelled, incomplete or failed
    open         -- the client cancels -->                            muted: what comes until `turnComplete` is left out
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from gw.errors import ProviderRefused
from gw.types.audio import PCM_24K
from gw.types.usage import Usage
from gw.wire.convert import Converter, converter
from gw.wire.gemini_live import error_of_reason
from gw.wire.gemini_live_messages import (
    NO_CONTENT,
    SERVER_FRAME,
    FunctionCall,
    ServerContent,
    ServerFrame,
    VoiceActivity,
)
from gw.wire.gemini_live_usage import usage_of, usage_sum
from gw.wire.gemini_realtime_settings import GeminiRealtimeSession
from gw.wire.gemini_realtime_turns import CallerTurns, Keep
from gw.wire.json_codec import decode_upstream
from gw.wire.json_frames import Frame, json_frame
from gw.wire.openai_realtime_conversation import ResponseSettings
from gw.wire.openai_realtime_output import ResponseOutput
from gw.wire.openai_realtime_settings import Members, invalid


def _offset_s(offset: str | None) -> float | None:
    """Return a duration such as `1.250s` in seconds; None for anything else."""
    try:
        return float((offset or "").removesuffix("s"))
    except ValueError:
        return None


class LiveAnswers:
    """Reads the vendor's frames. `handle` resumes the session; `goes_away` says that the vendor ends it soon."""

    def __init__(self, realtime: GeminiRealtimeSession, turns: CallerTurns, keep: Keep) -> None:
        self._realtime = realtime
        self._turns = turns
        self._keep = keep
        self._response: ResponseOutput | None = None
        self._is_spoken = False
        """Whether the message of the response has ended."""
        self._muted = ""
        """Why the rest of the turn is left out: the reason of the cancellation."""
        self._stale = 0
        """Turns whose response is done and whose end is still to come."""
        self._was_interrupted = False
        self._usage: Usage | None = None
        self._converter: Converter | None = None
        self.turn_runs = False
        self.calls: dict[str, tuple[str | None, str]] = {}
        """Calls that the client has not answered: by the client's id, the vendor's id and the name of the function."""
        self.results: list[tuple[str | None, str, str]] = []
        """Results that the vendor was not sent: its id of the call, the name of the function, the output."""
        self.ignored: tuple[str, ...] = ()
        """Events of the client that came to nothing."""
        self.handle = ""
        self.goes_away = False

    @property
    def is_speaking(self) -> bool:
        """Return whether a response is open whose message may go on."""
        return self._response is not None and not self._is_spoken

    @property
    def is_idle(self) -> bool:
        return self._response is None and not self.turn_runs

    @property
    def response_id(self) -> str | None:
        return self._response.id if self._response is not None else None

    # ---- the client

    def finish(self) -> list[str]:
        """End a response whose message has ended; the count of it goes to the record alone."""
        if self._response is None:
            return []
        frames = self._done("completed", self._usage)
        self._usage = None
        self._stale += self.turn_runs
        return frames

    def request(self, made_of: ResponseSettings) -> list[str]:
        """Open a response that the client has requested."""
        self._muted = ""
        return self._open(made_of)

    def answer(self, call_id: str, output: str) -> None:
        """Add the result of a function. Raises EventRefused for a call that the model does not wait for."""
        if (call := self.calls.pop(call_id, None)) is None:
            what = f"the model waits for no call {call_id!r}: it was answered, or cancelled by an interruption"
            raise invalid("item.call_id", what)
        self.results.append((*call, output))

    def _forget_calls(self, ids: Sequence[str | None]) -> None:
        """Forget calls that the vendor has cancelled, and their results."""
        self.calls = {ours: call for ours, call in self.calls.items() if call[0] not in ids}
        kept = [result for result in self.results if result[0] not in ids]
        if len(kept) < len(self.results):
            self.ignored = ("function_call_output",)
        self.results[:] = kept

    def withdraw(self) -> None:
        """Forget a response that was opened and not announced."""
        self._response = None

    def cancel(self) -> list[str]:
        """Cancel the response. One that the vendor has not begun is done at once."""
        self._muted = "client_cancelled"
        if self.turn_runs:
            return self._end_message("incomplete")
        return [*self._end_message("incomplete"), *self._done("cancelled", None, reason=self._muted)]

    # ---- the vendor

    def received(self, provider: str, frame: Frame) -> list[str]:
        """Return the events of a frame. Raises UpstreamProtocolError."""
        message = decode_upstream(SERVER_FRAME, frame, provider)
        content = message.server_content or NO_CONTENT
        self._note_session(message)
        frames = self._input_events(message.voice_activity, content)
        frames += self._output_events(content)
        if message.tool_call is not None:
            frames += self._call_events(message.tool_call.function_calls or ())
        if message.tool_call_cancellation is not None:
            self._forget_calls(message.tool_call_cancellation.ids or ())
        if message.usage_metadata is not None and (usage := usage_of(message.usage_metadata)) is not None:
            self._usage = usage if self._usage is None else usage_sum(self._usage, usage)
        if content.generation_complete:
            frames += self._end_message("completed")
        if content.interrupted:
            frames += self._interrupted()
        if content.turn_complete:
            frames += self._turn_ended(provider, content.turn_complete_reason or "")
        return frames

    def _note_session(self, message: ServerFrame) -> None:
        if (update := message.session_resumption_update) is not None:
            self.handle = (update.new_handle or "") if update.resumable else ""
        self.goes_away |= message.go_away is not None

    def _input_events(self, voice: VoiceActivity | None, content: ServerContent) -> list[str]:
        frames: list[str] = []
        detects = bool(self._realtime.turns)
        if voice is not None and detects:
            kinds = (voice.voice_activity_type, voice.type)
            if "ACTIVITY_START" in kinds:
                frames += self._turns.started(_offset_s(voice.audio_offset))
            elif "ACTIVITY_END" in kinds:
                frames += self._turns.stopped(_offset_s(voice.audio_offset))
        if (words := content.input_transcription) is not None:
            frames += self._turns.transcript(words.text or "", opens=detects and not self.turn_runs)
            if words.finished:
                frames += [*self._turns.stopped(), *self._turns.complete()]
        return frames

    def _output_events(self, content: ServerContent) -> list[str]:
        parts = (content.model_turn.parts or ()) if content.model_turn is not None else ()
        words = content.output_transcription.text if content.output_transcription is not None else None
        if not parts and not words:
            return []
        frames = self._begin_turn()
        response = self._response
        if response is None or self._muted or self._is_spoken:
            return frames
        for part in parts:
            if part.inline_data is not None and response.made_of.has_audio:
                if data := self._audio(part.inline_data.data or ""):
                    frames += [*response.begin_message(), response.audio_delta(data)]
            elif part.text and not part.thought and not response.made_of.has_audio:
                frames += [*response.begin_message(), response.text_delta(part.text)]
        if words and response.made_of.has_audio:
            frames += [*response.begin_message(), response.text_delta(words if response.text else words.lstrip())]
        return frames

    def _audio(self, data: str) -> str:
        """Return audio in the client's format; the vendor's is 24 kHz."""
        if self._converter is None:
            return data
        return b64encode(self._converter.feed(b64decode(data))).decode()

    def _call_events(self, calls: Sequence[FunctionCall]) -> list[str]:
        frames = self._begin_turn()
        response = self._response
        if response is None or self._muted:
            return frames
        frames += self._end_message("completed")
        for call in calls:
            id_ = call.id or self._realtime.new_id("call")
            self.calls[id_] = call.id, call.name or ""
            frames += response.call(id_, call.name or "", json_frame(call.args or {}))
        return [*frames, *self._done("completed", None)]

    def _begin_turn(self) -> list[str]:
        """Note that the vendor's turn runs; open a response if the client has requested none."""
        begins, self.turn_runs = not self.turn_runs, True
        if self._stale:
            return []
        frames: list[str] = []
        if begins and self._realtime.turns:
            frames = self._turns.answered(on_request=self._response is not None)
        if self._response is None and not self._muted:
            frames += self._open(self._realtime.response_settings(None))
        return frames

    def _interrupted(self) -> list[str]:
        if self._stale or not (self.turn_runs or self._response is not None):
            return []
        self._was_interrupted = not self._is_spoken
        frames = self._turns.started() if self._realtime.turns and not self._muted else []
        return frames + self._end_message("incomplete")

    def _turn_ended(self, provider: str, reason: str) -> list[str]:
        frames = self._turns.complete()
        usage, self._usage = self._usage, None
        interrupted, self._was_interrupted = self._was_interrupted, False
        muted, self._muted = self._muted, ""
        self.turn_runs = False
        if self._stale:
            self._stale -= 1
            return frames
        if self._response is None:
            return frames
        if muted or interrupted:
            self._forget_calls([call[0] for call in self.calls.values()] + [result[0] for result in self.results])
            status, details = "cancelled", {"reason": muted or "turn_detected"}
        else:
            status, details = _outcome(provider, reason)
        frames += self._end_message("completed" if status == "completed" else "incomplete")
        return [*frames, *self._done(status, usage, **details)]

    # ---- the response

    def _open(self, made_of: ResponseSettings) -> list[str]:
        self._response, self._is_spoken = ResponseOutput(self._realtime, made_of, self._keep), False
        self._converter = converter(PCM_24K, made_of.format)
        return [self._response.about("response.created", "in_progress")]

    def _end_message(self, status: str) -> list[str]:
        response = self._response
        if response is None or self._is_spoken:
            return []
        self._is_spoken = True
        if not response.has_begun:
            return []
        rest = self._converter.end() if self._converter is not None else b""
        frames = [response.audio_delta(b64encode(rest).decode())] if rest else []
        return [*frames, *response.end_message(status, response.text)]

    def _done(self, status: str, usage: Usage | None, **details: Any) -> list[str]:
        response, self._response = self._response, None
        return [response.about("response.done", status, usage, **details)] if response is not None else []


def _outcome(provider: str, reason: str) -> tuple[str, Members]:
    error = error_of_reason(provider, reason)
    if error is None:
        return "completed", {}
    if isinstance(error, ProviderRefused):
        return "incomplete", {"reason": "content_filter"}
    return "failed", {"error": {"type": "server_error", "code": reason.lower()[:60], "message": error.message}}
