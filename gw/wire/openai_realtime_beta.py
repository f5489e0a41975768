"""OpenAI's realtime transcription as it was in its beta, which speaches serves: the client.

Source: speaches of August 2026 (`realtime/`, `types/realtime.py`); its frames as a fake sends them: tests/fakes/vendors/speaches.py.
Audio (PCM, 24 kHz) goes into a buffer; where the server detects the end of an utterance it commits the buffer, transcribes it
and begins another. Model and language are in the query. Differences from `openai_realtime_client`:

- times count from the beginning of a buffer, which is about when the one before it was committed;
- interim results repeat the whole text (`input_audio_buffer.partial_transcription`);
- a commit during speech fails, so a flush is silence long enough to end an utterance;
- an error does not name its frame, and the commit of a nearly empty buffer is one: that is how the end is known. The commit may
  overtake the end that the silence before it has brought about; then one buffer is committed twice.
"""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderFailed
from gw.types.audio import PCM_24K
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.convert import converter
from gw.wire.json_codec import decode_upstream
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.openai_audio import bare_language
from gw.wire.openai_realtime_client import COMMIT, append_frame, candidate_error

_DEFAULT_SILENCE_MS = 350
_MIN_SILENCE_MS = 100
_EXTRA_MS = 500
"""Silence beyond what ends an utterance: the server looks at windows."""


class _Error(msgspec.Struct, gc=False):
    type: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    item_id: str = ""
    transcript: str | None = None
    audio_start_ms: float | None = None
    audio_end_ms: float | None = None
    error: _Error | None = None


_EVENT = msgspec.json.Decoder(_Event)


class _Item:
    """A buffer with speech, until its transcript."""

    __slots__ = ("buffer_start_s", "committed", "end_s", "start_s")

    def __init__(self, buffer_start_s: float) -> None:
        self.buffer_start_s = self.start_s = buffer_start_s
        self.end_s: float | None = None
        self.committed = False


def query(request: ListenRequest, model: str) -> str:
    """Return the query of the socket's address."""
    pairs = [("model", model), ("intent", "transcription")]
    if (language := bare_language(request.language)) is not None:
        pairs.append(("language", language))
    return urlencode(pairs)


class BetaListenClient:
    """One session: audio and commands to frames, frames to events."""

    def __init__(self, provider: str, request: ListenRequest, secrets: tuple[str, ...] = ()) -> None:
        """Raises CannotConvert for audio that is not raw."""
        self._provider = provider
        self._request = request
        self._secrets = secrets
        self._converter = converter(request.format, PCM_24K)
        silence_ms = request.endpointing_ms
        self._silence_ms = _DEFAULT_SILENCE_MS if silence_ms is None else max(silence_ms, _MIN_SILENCE_MS)
        self._items: dict[str, _Item] = {}
        self._sent_s = self._buffer_start_s = 0.0
        self._finishing = self._answered = self.ended = False

    def opening(self) -> str | None:
        """Return the first frame; None to keep the server's own settings."""
        if self._request.endpointing_ms is None:
            return None
        return typed_frame("session.update", session={"turn_detection": {"silence_duration_ms": self._silence_ms}})

    def audio(self, data: bytes) -> str | None:
        """Return the frame for audio of the request's format; None while it has no complete sample."""
        if self._converter is not None:
            data = self._converter.feed(data)
        if not data:
            return None
        self._sent_s += PCM_24K.seconds(len(data))
        return append_frame(data)

    def flush(self) -> str:
        """Return silence, which ends the current utterance."""
        return append_frame(bytes(48 * (self._silence_ms + _EXTRA_MS)))

    def finish(self) -> tuple[str, str]:
        """Commit: its answer, and the transcripts still due, end the session."""
        self._finishing = True
        return self.flush(), COMMIT

    def passed(self, frame: str) -> None:
        """Drop a caller's frame: it is of the newer revision, which this server does not read."""

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error event, UpstreamProtocolError for a malformed frame.

        The list that ends the session ends with `ListenEnd`.
        """
        event = decode_upstream(_EVENT, frame, self._provider)
        events = self._handle(event, frame)
        if self._answered and not self.ended and not any(item.committed for item in self._items.values()):
            self.ended = True
            events.append(ListenEnd())
        return events

    def _handle(self, event: _Event, frame: Frame) -> list[ListenEvent]:
        match event.type:
            case "input_audio_buffer.speech_started":
                item = self._item(event.item_id)
                item.start_s = item.buffer_start_s + (event.audio_start_ms or 0.0) / 1000
                return [SpeechStarted(at_s=item.start_s)]
            case "input_audio_buffer.speech_stopped":
                item = self._item(event.item_id)
                item.end_s = item.buffer_start_s + (event.audio_end_ms or 0.0) / 1000
            case "input_audio_buffer.partial_transcription":
                item = self._item(event.item_id)
                if self._request.interim_results and (text := (event.transcript or "").strip()):
                    return [Interim(text=text, start_s=item.start_s, end_s=max(item.start_s, self._sent_s))]
            case "input_audio_buffer.committed":
                self._commit(event.item_id)
            case "conversation.item.input_audio_transcription.completed":
                return self._completed(event)
            case "conversation.item.input_audio_transcription.failed":
                detail = "the transcription of an utterance failed"
                raise ProviderFailed(provider=self._provider, detail=detail, upstream_status=200)
            case "error":
                error = event.error or _Error()
                if not (self._finishing and error.type == "invalid_request_error"):
                    status = 500 if error.type == "server_error" else 400
                    raise candidate_error(self._provider, status, frame, self._secrets)
                self._answered = True  # at the end the server objects to the commit of an empty buffer
        return []

    def _item(self, item_id: str) -> _Item:
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = _Item(self._buffer_start_s)
        return item

    def _commit(self, item_id: str) -> None:
        """Note a commit. The client's own is of a buffer whose end the server has not reported, or repeats the server's."""
        item = self._item(item_id)
        if self._finishing and (item.end_s is None or item.committed):
            self._answered = True
        item.committed = True
        self._buffer_start_s = self._sent_s

    def _completed(self, event: _Event) -> list[ListenEvent]:
        item = self._items.pop(event.item_id, None)
        if item is None:
            return []
        end_s = max(item.start_s, min(self._sent_s, self._sent_s if item.end_s is None else item.end_s))
        text = (event.transcript or "").strip()
        final = Final(text=text, start_s=item.start_s, end_s=end_s, language=bare_language(self._request.language))
        return [*([final] if text else []), UtteranceEnd(at_s=end_s)]
