"""Gladia's live transcription, `POST /v2/live` and the socket whose address it answers with: both roles.

Source: gladiaio-sdk 2.2.1 (`v2/live`), livekit-plugins-gladia 1.8.9, pipecat-ai 1.14.0, and the vendor's pages "Getting started" and
"Endpointing" of live transcription (November 2026). The bounds of settings are those of its OpenAPI description.

=========================  ==========================================================================================
Client sends               Server answers
=========================  ==========================================================================================
`POST` of the settings     the id of the session, and the address of its socket, which has a token
binary frame: audio        `speech_start`, `speech_end`; `transcript`, `is_final` once the utterance is complete
`audio_chunk` without any  nothing: it keeps the session alive (pipecat-ai)
`stop_recording`           the transcripts of the rest, then `end_session`; the vendor closes the socket with 1000
=========================  ==========================================================================================

An utterance ends after a silence of `endpointing`, or at the latest after `maximum_duration_without_endpointing`. No command makes
a transcript final: a flush is a silence, which the vendor transcribes and bills like other audio. Times of events leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.added_silence import AddedSilence
from gw.wire.convert import converter
from gw.wire.gladia_results import (
    ERRORS,
    ID,
    GladiaLanguages,
    GladiaUtterance,
    GladiaVocabulary,
    encode_utterance,
    language_config,
    language_of,
    vocabulary,
    words_of,
)
from gw.wire.json_codec import NO_TYPE, decode_client, decode_request, decode_upstream
from gw.wire.json_frames import Frame, json_frame, session_failure, typed_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.transcripts import transcribed
from gw.wire.vendor_errors import ErrorFacts, error_of

PATH = "/v2/live"
ENCODINGS: dict[Encoding, tuple[str, int]] = {"pcm_s16le": ("wav/pcm", 16), "mulaw": ("wav/ulaw", 8), "alaw": ("wav/alaw", 8)}
"""Encoding → the vendor's name and its bit depth."""
_SERVED = {name: encoding for encoding, (name, _) in ENCODINGS.items()}
RATES_HZ = frozenset({8_000, 16_000, 32_000, 44_100, 48_000})
_SILENT_BYTE = {"pcm_s16le": b"\0", "mulaw": b"\xff", "alaw": b"\xd5"}
_ENDPOINT_S = (0.01, 10.0)
"""Shortest and longest `endpointing`."""
_USUAL_ENDPOINT_S = 0.3
"""For requests without one. The vendor's own of 0.05 ends an utterance at every breath."""
_LONGEST_S = (5, 60)
"""Shortest and longest `maximum_duration_without_endpointing`; the longest is sent, so that nobody is cut off."""
_FLUSH_MARGIN_S = 0.3
_REFUSED_CLOSES = range(4_400, 4_500)
"""Close codes after which the SDK does not connect again: 4000 and an HTTP status."""
_KEEPALIVE = typed_frame("audio_chunk", data={"chunk": ""})
_STOP = typed_frame("stop_recording")


class _TranscriptData(msgspec.Struct, gc=False):
    utterance: GladiaUtterance | None = None
    is_final: bool = False
    time: float | None = None


class _Error(msgspec.Struct, gc=False):
    message: str = ""


class _Message(msgspec.Struct, gc=False):
    type: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None
    acknowledged: bool = True


class _Created(msgspec.Struct, gc=False):
    id: str
    url: str


_MESSAGE, _CREATED = msgspec.json.Decoder(_Message), msgspec.json.Decoder(_Created)
_DATA = msgspec.json.Decoder(_TranscriptData | None)


# ---- client


def _endpoint_s(request: ListenRequest) -> float:
    shortest_s, longest_s = _ENDPOINT_S
    return _USUAL_ENDPOINT_S if request.endpointing_ms is None else min(longest_s, max(shortest_s, request.endpointing_ms / 1000))


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due. Without partial results, an utterance is answered when it ends."""
    endpoint_s, running_s = _endpoint_s(request), 2.5 if request.interim_results else float(_LONGEST_S[1])
    return ListenPace(endpoint_s=endpoint_s, running_s=running_s, ends_on_flush=True, utterance_end_s=endpoint_s)


def settings(request: ListenRequest, model: str) -> bytes:
    """Return the body that creates a session, of one channel."""
    encoding, bit_depth = ENCODINGS.get(request.format.encoding, ENCODINGS["pcm_s16le"])
    messages = {
        "receive_partial_transcripts": request.interim_results, "receive_final_transcripts": True, "receive_speech_events": True,
        "receive_pre_processing_events": False, "receive_realtime_processing_events": False, "receive_post_processing_events": False,
        "receive_acknowledgments": False, "receive_errors": True, "receive_lifecycle_events": True,
    }  # fmt: skip
    members: dict[str, Any] = {
        "encoding": encoding, "bit_depth": bit_depth, "sample_rate": request.format.sample_rate_hz, "channels": 1, "model": model,
        "endpointing": _endpoint_s(request), "maximum_duration_without_endpointing": _LONGEST_S[1], "messages_config": messages,
        **language_config(request),
    }  # fmt: skip
    if request.keyterms:
        members["realtime_processing"] = vocabulary(request.keyterms)
    return msgspec.json.encode(members)


def session_url(body: bytes, provider: str) -> str:
    """Return the address of a new session's socket. Raises UpstreamProtocolError."""
    created = decode_upstream(_CREATED, body, provider, "the session")
    if not ID.fullmatch(created.id):
        raise UpstreamProtocolError(provider=provider, detail="the session's id is unknown")
    return created.url


def close_error(provider: str, code: int) -> ProviderError | None:
    """Return the error that a close code of the vendor's own stands for; None for any other code."""
    if code not in _REFUSED_CLOSES:
        return None
    return error_of(provider, code - 4_000, ErrorFacts(code=str(code)), dialect=ERRORS)


class GladiaListenClient:
    """One session: audio and commands to frames, frames to events."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = msgspec.structs.replace(request.format, channels=1)
        self._mono = converter(request.format, self._format)
        self.flush_s = _endpoint_s(request) + _FLUSH_MARGIN_S
        """Silence of a flush."""
        self._sent_s = 0.0
        self._times = AddedSilence()

    def audio(self, data: bytes) -> bytes:
        data = data if self._mono is None else self._mono.feed(data)
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> bytes:
        """Return silence that ends the utterance."""
        fmt = self._format
        data = _SILENT_BYTE[fmt.encoding] * (int(self.flush_s * fmt.sample_rate_hz) * (fmt.bytes_per_second // fmt.sample_rate_hz))
        length_s = fmt.seconds(len(data))
        self._times.add(self._sent_s, length_s)
        self._sent_s += length_s
        return data

    def keep_alive(self) -> str:
        return _KEEPALIVE

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> str:
        self.finishing = True
        return _STOP

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        if message.error is not None or not message.acknowledged:
            raise session_failure(self._provider, (message.error or _Error()).message, "", self._secrets)
        match message.type:
            case "speech_start":
                return [SpeechStarted(at_s=self._times.own_s(self._data(message).time))]
            case "transcript":
                data = self._data(message)
                return self._transcript(data.utterance or GladiaUtterance(), final=data.is_final)
            case "end_session" if self.finishing:
                return self.closed()
            case "end_session":
                detail = "ended the session by itself"
                raise ProviderFailed(provider=self._provider, detail=detail, upstream_status=101)
        return []

    def closed(self) -> list[ListenEvent]:
        """Return the last event: the vendor has ended the session, by a message or by closing it normally."""
        if not self.finishing or self.ended:
            return []
        self.ended = True
        return [ListenEnd()]

    def _data(self, message: _Message) -> _TranscriptData:
        return decode_upstream(_DATA, bytes(message.data), self._provider) or _TranscriptData()

    def _transcript(self, utterance: GladiaUtterance, *, final: bool) -> list[ListenEvent]:
        own_s = self._times.own_s
        words = tuple(
            stt.Word(text=word.text, start_s=own_s(word.start_s), end_s=own_s(word.end_s), confidence=word.confidence)
            for word in words_of(utterance)
        )
        start_s = own_s(utterance.start)
        end_s = max(start_s, own_s(utterance.end))
        if final:
            self._times.answered(utterance.end)
        if not (text := utterance.text.strip()):
            return []
        language, confidence = utterance.language, utterance.confidence
        if not final:
            return [transcribed(Interim, text, words, start_s=start_s, end_s=end_s, language=language, confidence=confidence)]
        result = transcribed(Final, text, words, start_s=start_s, end_s=end_s, language=language, confidence=confidence)
        return [result, UtteranceEnd(at_s=result.end_s)]


# ---- server


class _Realtime(msgspec.Struct, gc=False):
    custom_vocabulary_config: GladiaVocabulary | None = None


class _Messages(msgspec.Struct, gc=False):
    receive_partial_transcripts: bool = False
    receive_speech_events: bool = False
    receive_lifecycle_events: bool = False


class _Settings(msgspec.Struct, gc=False):
    encoding: str = "wav/pcm"
    bit_depth: int = 16
    sample_rate: int = 16_000
    channels: int = 1
    model: str = "solaria-1"
    endpointing: float = 0.05
    maximum_duration_without_endpointing: float = 5
    language_config: GladiaLanguages | None = None
    realtime_processing: _Realtime | None = None
    messages_config: _Messages | None = None


_SETTINGS = msgspec.json.Decoder(_Settings)


def parse_settings(body: bytes) -> tuple[ListenRequest, bool]:
    """Decode the body of a new session; the second value says whether lifecycle events are wanted. Raises ClientProtocolError."""
    given = decode_request(_SETTINGS, body)
    encoding = _SERVED.get(given.encoding)
    if encoding is None or given.bit_depth != ENCODINGS[encoding][1] or given.sample_rate not in RATES_HZ:
        raise ClientProtocolError(what="encoding, bit_depth and sample_rate do not go together", param="encoding")
    for name, value, (least, most) in (
        ("endpointing", given.endpointing, _ENDPOINT_S),
        ("maximum_duration_without_endpointing", given.maximum_duration_without_endpointing, _LONGEST_S),
    ):
        if not least <= value <= most:
            raise ClientProtocolError(what=f"{name} must be {least} to {most}", param=name)
    terms = given.realtime_processing.custom_vocabulary_config if given.realtime_processing is not None else None
    messages = given.messages_config or _Messages()
    request = ListenRequest(
        model=given.model, format=AudioFormat(encoding=encoding, sample_rate_hz=given.sample_rate, channels=given.channels),
        language=language_of(given.language_config), keyterms=tuple(terms.vocabulary) if terms is not None else (),
        interim_results=messages.receive_partial_transcripts, endpointing_ms=round(given.endpointing * 1000), dialect="gladia",
    )  # fmt: skip
    return request, messages.receive_lifecycle_events


def encode_created(id_: str, url: str) -> bytes:
    return msgspec.json.encode({"id": id_, "created_at": "2026-11-26T10:00:00.000Z", "url": url})


def message(kind: str, **members: Any) -> str:
    return json_frame({"type": kind, "session_id": "s", "created_at": "2026-11-26T10:00:00.000Z", **members})


class GladiaListenServer(ListenProtocol):
    """One session of a client, after its settings."""

    def __init__(self, request: ListenRequest, *, lifecycle: bool) -> None:
        self._request = request
        self._lifecycle = lifecycle
        self._count = 0
        self._audio_s = 0.0

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            self._audio_s += self._request.format.seconds(len(frame))
            return (Audio(frame),) if frame else ()
        match decode_client(_MESSAGE, frame, NO_TYPE).type:
            case "stop_recording":
                return (Control.FINISH,)
            case "audio_chunk":
                return ()
        return (Forward(frame),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, SpeechStarted):
                frames.append(message("speech_start", data={"time": event.at_s, "channel": 0}))
            elif isinstance(event, Final) or (isinstance(event, Interim) and self._request.interim_results):
                self._count += isinstance(event, Final)
                utterance = encode_utterance(event, self._request.language)
                data = {"id": f"00_{self._count:08}", "is_final": isinstance(event, Final), "utterance": utterance}
                frames.append(message("transcript", data=data))
            elif isinstance(event, UtteranceEnd):
                frames.append(message("speech_end", data={"time": event.at_s, "channel": 0}))
            elif isinstance(event, ListenEnd) and self._lifecycle:
                frames += (message("end_recording", data={"recording_duration": self._audio_s}), message("end_session"))
        return frames


def error_frame(text: str) -> str:
    """Return a message that an action was not accepted."""
    return message("audio_chunk", acknowledged=False, error={"message": text}, data=None)
