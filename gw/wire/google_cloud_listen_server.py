"""Server's side of Google Cloud's live transcription, which `gw.wire.google_cloud_listen` describes."""

from __future__ import annotations

from collections.abc import Sequence

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEvent, ListenRequest
from gw.wire import google_cloud_messages as messages
from gw.wire.google_cloud_listen import LONGEST_AUDIO_BYTES
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control

_RATES_HZ = range(8_000, 48_001)
END = b""
"""In place of a message: the client has sent its last."""


def parse_settings(message: Frame) -> messages.RecognizeSettings:
    """Decode the first message of a client. Raises ClientProtocolError for what the vendor refuses."""
    request = _decoded(message)
    if isinstance(request, bytes):
        raise ClientProtocolError(what="the first message must contain a streaming_config", param="streaming_config")
    for param, value in (("recognizer", request.recognizer), ("model", request.model), ("language_codes", request.languages)):
        if not value:
            raise ClientProtocolError(what=f"{param} is empty", param=param)
    if request.sample_rate_hz not in _RATES_HZ:
        raise ClientProtocolError(what="sample_rate_hertz must be 8000 to 48000", param="sample_rate_hertz")
    if not 0 < request.channels <= 8:
        raise ClientProtocolError(what="audio_channel_count must be 1 to 8", param="audio_channel_count")
    return request


def _decoded(message: Frame) -> messages.RecognizeSettings | bytes:
    try:
        if isinstance(message, str):
            raise ValueError("text")
        return messages.decode_request(message)
    except ValueError as error:
        raise ClientProtocolError(what=f"Request is malformed: {error}") from None


def request_of(settings: messages.RecognizeSettings) -> ListenRequest:
    return ListenRequest(
        model=settings.model, language=settings.languages[0], keyterms=settings.terms, profanity_filter=settings.profanity_filter,
        format=AudioFormat(encoding=settings.encoding, sample_rate_hz=settings.sample_rate_hz, channels=settings.channels),
        interim_results=settings.interim_results, dialect="google_cloud",
    )  # fmt: skip


class GoogleCloudListenServer(ListenProtocol):
    """One call of a client, after its settings."""

    def __init__(self, settings: messages.RecognizeSettings, locale: str) -> None:
        self._settings = settings
        self._locale = locale if settings.languages == ("auto",) else settings.languages[0]

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if frame == END:
            return (Control.FINISH,)
        request = _decoded(frame)
        if not isinstance(request, bytes):
            raise ClientProtocolError(what="all messages after the first must only have audio", param="audio")
        if len(request) > LONGEST_AUDIO_BYTES:
            raise ClientProtocolError(what="Audio chunk is longer than 15 KB", param="audio")
        return (Audio(request),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, Final) or (isinstance(event, Interim) and self._settings.interim_results):
                frames.append(messages.encode_answer([self._result(event)]))
        return frames

    def _result(self, event: Interim | Final) -> messages.Result:
        final = isinstance(event, Final)
        words = tuple(map(_word, _words_of(event))) if final and self._settings.word_times else ()
        return messages.Result(
            text=event.text, is_final=final, end_s=event.end_s, confidence=0.9 if final else 0.0, words=words, language=self._locale
        )


def _words_of(event: Interim | Final) -> Sequence[stt.Word]:
    """Return the words; those of an event without any are spread over its time."""
    texts = event.text.split()
    if event.words or not texts:
        return event.words
    each_s = (event.end_s - event.start_s) / len(texts)
    return [
        stt.Word(text=text, start_s=event.start_s + n * each_s, end_s=event.start_s + (n + 1) * each_s) for n, text in enumerate(texts)
    ]


def _word(word: stt.Word) -> messages.RecognizedWord:
    return messages.RecognizedWord(text=word.text, start_s=word.start_s, end_s=word.end_s, confidence=word.confidence or 0.9)
