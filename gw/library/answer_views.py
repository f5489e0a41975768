"""Properties of an answer that another thread reads: the same for plain threads and for coroutines of asyncio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from gw.library import responses
from gw.types.audio import AudioFormat
from gw.types.usage import RequestRecord

A = TypeVar("A", bound=responses.AsyncStream[Any, Any])


class AnswerView(ABC, Generic[A]):
    @property
    @abstractmethod
    def _answer(self) -> A:
        """Return the answer, which lives in the portal's thread."""

    @property
    def model(self) -> str:
        """Id of the model that answers."""
        return self._answer.model

    @property
    def record(self) -> RequestRecord | None:
        """Return the gateway's record; None until the end."""
        return self._answer.record


class ChatView(AnswerView[responses.ChatReply]):
    """`finish_reason` and `tool_calls` are complete at the end."""

    @property
    def finish_reason(self) -> str | None:
        return self._answer.finish_reason

    @property
    def tool_calls(self) -> tuple[responses.ToolCall, ...]:
        return self._answer.tool_calls


def read_here(value: object) -> object:
    """Return an iterator's values, which are made in the calling thread: it may block, and may use the gateway itself."""
    return tuple(value) if isinstance(value, Iterator) else value


def audio_format(view: AnswerView[responses.SpeechReply] | AnswerView[responses.LiveSpeech]) -> AudioFormat:
    """Return the format of the pieces of audio: signed 16-bit samples."""
    return view._answer.format
