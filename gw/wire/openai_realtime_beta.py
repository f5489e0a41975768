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

from gw.errors import ProviderFailed
from gw.types.audio import PCM_24K
from gw.types.stt import Final, Interim, ListenEvent, ListenPace, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.openai_realtime_client import COMMIT, ItemListenClient, RealtimeEvent, append_frame
from gw.wire.query import bare_language, optional_pairs

_DEFAULT_SILENCE_MS = 350
_MIN_SILENCE_MS = 100
_WITHOUT_INTERIMS_S, _ANSWER_S = 10.0, 4.0
_EXTRA_MS = 500  # silence beyond what ends an utterance: the server looks at windows


def query(request: ListenRequest, model: str) -> str:
    """Return the query of the socket's address."""
    return urlencode(optional_pairs(model=model, intent="transcription", language=bare_language(request.language)))


class BetaListenClient(ItemListenClient):
    """One session: audio and commands to frames, frames to events."""

    def __init__(self, provider: str, request: ListenRequest, secrets: tuple[str, ...] = ()) -> None:
        """Raises CannotConvert for audio that is not raw."""
        super().__init__(provider, request, PCM_24K, secrets)
        silence_ms = request.endpointing_ms
        self._silence_ms = _DEFAULT_SILENCE_MS if silence_ms is None else max(silence_ms, _MIN_SILENCE_MS)

    @property
    def pace(self) -> ListenPace:
        """Return when events are due. A server of the user's own may take a while for an utterance."""
        silence_s = (self._silence_ms + _EXTRA_MS) / 1000
        return ListenPace(pause_s=silence_s, endpoint_s=silence_s, running_s=_WITHOUT_INTERIMS_S, answer_s=_ANSWER_S)

    def opening(self) -> str | None:
        """Return the first frame; None to keep the server's own settings."""
        if self._request.endpointing_ms is None:
            return None
        return typed_frame("session.update", session={"turn_detection": {"silence_duration_ms": self._silence_ms}})

    def flush(self) -> str:
        """Return silence, which ends the current utterance and does not count as audio sent."""
        return append_frame(bytes(48 * (self._silence_ms + _EXTRA_MS)))

    def finish(self) -> tuple[str, str]:
        """Commit: its answer, and the transcripts still due, end the session."""
        self._finishing = True
        return self.flush(), COMMIT

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: it is of the newer revision, which this server does not read."""

    def _handle(self, event: RealtimeEvent, frame: Frame) -> list[ListenEvent]:
        match event.type:
            case "input_audio_buffer.speech_started":
                item = self._item(event.item_id)
                item.start_s = item.base_s + (event.audio_start_ms or 0.0) / 1000
                return [SpeechStarted(at_s=item.start_s)]
            case "input_audio_buffer.speech_stopped":
                item = self._item(event.item_id)
                item.end_s = item.base_s + (event.audio_end_ms or 0.0) / 1000
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
                kind = event.error.type if event.error is not None else None
                if not (self._finishing and kind == "invalid_request_error"):
                    raise self._candidate_error(500 if kind == "server_error" else 400, frame)
                self._answered = True  # at the end the server objects to the commit of an empty buffer
        return []

    def _commit(self, item_id: str) -> None:
        """Note a commit. The client's own is of a buffer whose end the server has not reported, or repeats the server's."""
        item = self._item(item_id)
        if self._finishing and (item.end_s is None or item.committed):
            self._answered = True
        item.committed = True
        self._committed_s = self._sent_s

    def _completed(self, event: RealtimeEvent) -> list[ListenEvent]:
        item = self._items.pop(event.item_id, None)
        if item is None:
            return []
        end_s = max(item.start_s, min(self._sent_s, self._sent_s if item.end_s is None else item.end_s))
        text = (event.transcript or "").strip()
        final = Final(text=text, start_s=item.start_s, end_s=end_s, language=bare_language(self._request.language))
        return [*([final] if text else []), UtteranceEnd(at_s=end_s)]
