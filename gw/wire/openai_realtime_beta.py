"""OpenAI's realtime transcription as it was in its beta, which speaches speaks: the client's side of a socket.

Source: speaches of August 2026 (`realtime/`, `types/realtime.py`); its frames as a fake says them: tests/fakes/vendors/speaches.py.
Theory of operation: audio (PCM, 24 kHz) goes into a buffer; where the server hears an utterance end it commits the buffer,
transcribes it and begins another. Model and language stand in the address. What differs from `openai_realtime`:

- times count from the beginning of a buffer, which is about when the one before it was committed;
- interim results are whole guesses (`input_audio_buffer.partial_transcription`);
- a commit while somebody speaks fails, so a flush is silence long enough to end an utterance;
- an error does not say which frame it is about, and the commit of a buffer that is as good as empty is one: it is how the end
  is known. The commit may overtake the end that the silence before it has brought about; then one buffer is committed twice.
"""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import PCM_24K
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.convert import converter
from gw.wire.openai_audio import bare_language
from gw.wire.vendor_errors import classify

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_USUAL_SILENCE_MS = 350
_LEAST_SILENCE_MS = 100
_OVER_MS = 500
"""Silence beyond what ends an utterance: the server looks at windows."""


class _Fault(msgspec.Struct, gc=False):
    type: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    item_id: str = ""
    transcript: str | None = None
    audio_start_ms: float | None = None
    audio_end_ms: float | None = None
    error: _Fault | None = None


_EVENT = msgspec.json.Decoder(_Event)


class _Item:
    """A buffer somebody speaks in, until its transcript."""

    __slots__ = ("begun_s", "committed", "end_s", "start_s")

    def __init__(self, begun_s: float) -> None:
        self.begun_s = self.start_s = begun_s
        self.end_s: float | None = None
        self.committed = False


def query(request: ListenRequest, model: str) -> str:
    """Of the socket's address."""
    pairs = [("model", model), ("intent", "transcription")]
    if (language := bare_language(request.language)) is not None:
        pairs.append(("language", language))
    return urlencode(pairs)


class BetaListener:
    """One session: frames to send out, frames received in. Knows when all audio has been transcribed."""

    def __init__(self, provider: str, request: ListenRequest, secrets: tuple[str, ...] = ()) -> None:
        """Raises CannotConvert for audio that is not raw."""
        self._provider = provider
        self._request = request
        self._secrets = secrets
        self._converter = converter(request.format, PCM_24K)
        told_ms = request.endpointing_ms
        self._silence_ms = _USUAL_SILENCE_MS if told_ms is None else max(told_ms, _LEAST_SILENCE_MS)
        self._items: dict[str, _Item] = {}
        self._sent_s = self._begun_s = 0.0
        """Audio sent; where the buffer that is being filled begins."""
        self._finishing = self._answered = self.ended = False

    # ---- out

    def opening(self) -> str | None:
        """The first frame; None where the server's own settings are meant."""
        if self._request.endpointing_ms is None:
            return None
        turns = {"turn_detection": {"silence_duration_ms": self._silence_ms}}
        return msgspec.json.encode({"type": "session.update", "session": turns}).decode()

    def audio(self, data: bytes) -> str | None:
        """Audio of the request's format; None while it makes no whole sample."""
        if self._converter is not None:
            data = self._converter.feed(data)
        if not data:
            return None
        self._sent_s += PCM_24K.seconds(len(data))
        return _append(data)

    def flush(self) -> str:
        """Silence, which ends the utterance that is being spoken."""
        return _append(bytes(48 * (self._silence_ms + _OVER_MS)))

    def finish(self) -> tuple[str, str]:
        """No more audio follows. What answers the commit, and the transcripts still due, end the session."""
        self._finishing = True
        return self.flush(), '{"type":"input_audio_buffer.commit"}'

    def passed(self, frame: str) -> None:
        """A frame of the newer revision, which this server does not read."""

    # ---- in

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """What a frame says; often nothing. The list that ends the session ends with `ListenEnd`.

        Raises UpstreamProtocolError, and for an error of the server's the ProviderError it stands for.
        """
        try:
            event = _EVENT.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        told = self._told(event, frame)
        waiting = any(item.committed for item in self._items.values())
        if self._finishing and self._answered and not waiting and not self.ended:
            self.ended = True
            told.append(ListenEnd())
        return told

    def _told(self, event: _Event, frame: str | bytes) -> list[ListenEvent]:
        match event.type:
            case "input_audio_buffer.speech_started":
                item = self._item(event.item_id)
                item.start_s = item.begun_s + (event.audio_start_ms or 0.0) / 1000
                return [SpeechStarted(at_s=item.start_s)]
            case "input_audio_buffer.speech_stopped":
                item = self._item(event.item_id)
                item.end_s = item.begun_s + (event.audio_end_ms or 0.0) / 1000
            case "input_audio_buffer.partial_transcription":
                item = self._item(event.item_id)
                if self._request.interim_results and (text := (event.transcript or "").strip()):
                    return [Interim(text=text, start_s=item.start_s, end_s=max(item.start_s, self._sent_s))]
            case "input_audio_buffer.committed":
                self._commit(event.item_id)
            case "conversation.item.input_audio_transcription.completed":
                return self._completed(event)
            case "conversation.item.input_audio_transcription.failed":
                raise ProviderFailed(
                    provider=self._provider, detail="the transcription of an utterance failed", upstream_status=200
                )
            case "error":
                self._error(event.error or _Fault(), frame)
        return []

    def _item(self, item_id: str) -> _Item:
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = _Item(self._begun_s)
        return item

    def _commit(self, item_id: str) -> None:
        """Ours is of a buffer whose end the server has not told, or comes beside the server's own."""
        item = self._item(item_id)
        if self._finishing and (item.end_s is None or item.committed):
            self._answered = True
        item.committed = True
        self._begun_s = self._sent_s

    def _completed(self, event: _Event) -> list[ListenEvent]:
        item = self._items.pop(event.item_id, None)
        if item is None:
            return []
        end_s = max(item.start_s, min(self._sent_s, self._sent_s if item.end_s is None else item.end_s))
        text = (event.transcript or "").strip()
        final = Final(text=text, start_s=item.start_s, end_s=end_s, language=bare_language(self._request.language))
        return [*([final] if text else []), UtteranceEnd(at_s=end_s)]

    def _error(self, fault: _Fault, frame: str | bytes) -> None:
        """Once we have asked for the end, what the server objects to is the commit of nothing."""
        if self._finishing and fault.type == "invalid_request_error":
            self._answered = True
            return
        raise self._failure(fault, frame)

    def _failure(self, fault: _Fault, frame: str | bytes) -> ProviderError:
        body = frame if isinstance(frame, bytes) else frame.encode()
        error = classify(self._provider, 500 if fault.type == "server_error" else 400, None, body, self._secrets)
        if isinstance(error, ProviderRejected):
            error.fault = "candidate"   # model, language and settings are this candidate's
        return error


def _append(pcm: bytes) -> str:
    return '{"type":"input_audio_buffer.append","audio":"' + b64encode(pcm).decode() + '"}'
