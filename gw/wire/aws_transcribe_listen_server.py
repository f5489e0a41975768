"""Server's side of Amazon Transcribe's live transcription, which `gw.wire.aws_transcribe_listen` describes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEvent, ListenRequest
from gw.wire.aws_event_stream import decode_message, encode_headers, encode_message
from gw.wire.aws_transcribe_listen import LOCALES, LONGEST_CHUNK_S, MODEL
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control
from gw.wire.query import query_pairs

_RATES_HZ = range(8_000, 48_001)
_STABILITIES = ("high", "medium", "low")
_MARK = re.compile(r"(.*\w)([.,?!])")
_EVENT_HEADERS = encode_headers({":content-type": "application/json", ":event-type": "TranscriptEvent", ":message-type": "event"})


def parse_query(query: bytes) -> ListenRequest:
    """Return the request of a session. Raises ClientProtocolError for a setting that the vendor refuses."""
    fields = dict(query_pairs(query))
    language, rate = fields.get("language-code", ""), fields.get("sample-rate", "")
    if f" {language} " not in LOCALES:
        raise ClientProtocolError(what="language-code must be one of the supported languages", param="language-code")
    if fields.get("media-encoding") != "pcm":
        raise ClientProtocolError(what="media-encoding must be pcm, ogg-opus or flac", param="media-encoding")
    if not rate.isdigit() or int(rate) not in _RATES_HZ:
        raise ClientProtocolError(what="sample-rate must be 8000 to 48000", param="sample-rate")
    if fields.get("partial-results-stability", "high") not in _STABILITIES:
        raise ClientProtocolError(what="partial-results-stability must be high, medium or low", param="partial-results-stability")
    return ListenRequest(
        model=MODEL, format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=int(rate)), language=language,
        diarize=fields.get("show-speaker-label") == "true", dialect="aws_transcribe",
    )  # fmt: skip


class AwsTranscribeListenServer(ListenProtocol):
    """One session of a client, after its query."""

    def __init__(self, request: ListenRequest) -> None:
        self._format = request.format
        self._segments = 0

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        try:
            if isinstance(frame, str):
                raise ValueError("text")
            message = decode_message(frame)
        except ValueError:
            raise ClientProtocolError(what="The message is not an event stream message.") from None
        if message.headers.get(":message-type") != "event" or message.headers.get(":event-type") != "AudioEvent":
            raise ClientProtocolError(what="The message is not an AudioEvent.")
        if self._format.seconds(len(message.payload)) > LONGEST_CHUNK_S:
            raise ClientProtocolError(what="The audio chunk is longer than 1 second.")
        return (Audio(message.payload) if message.payload else Control.FINISH,)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, Interim | Final) and event.text:
                frames.append(_transcript(event, self._segments))
                self._segments += isinstance(event, Final)
        return frames


def _transcript(event: Interim | Final, segment: int) -> bytes:
    items = [item for word in _words_of(event) for item in _items(word, isinstance(event, Final))]
    result = {
        "Alternatives": [{"Transcript": event.text, "Items": items}], "StartTime": event.start_s, "EndTime": event.end_s,
        "IsPartial": isinstance(event, Interim), "ResultId": f"{segment:08x}-0000-0000-0000-000000000000",
    }  # fmt: skip
    return encode_message(_EVENT_HEADERS, msgspec.json.encode({"Transcript": {"Results": [result]}}))


def _words_of(event: Interim | Final) -> Sequence[stt.Word]:
    """Return the words; those of an event without any are spread over its time."""
    if event.words:
        return event.words
    texts = event.text.split()
    each_s = (event.end_s - event.start_s) / len(texts)
    return [
        stt.Word(text=text, start_s=event.start_s + n * each_s, end_s=event.start_s + (n + 1) * each_s, confidence=0.9)
        for n, text in enumerate(texts)
    ]


def _items(word: stt.Word, stable: bool) -> list[dict[str, Any]]:
    """Return a word as the vendor writes it, its punctuation apart."""
    marked = _MARK.fullmatch(word.text)
    about = {"VocabularyFilterMatch": False, "Stable": stable, **({"Speaker": word.speaker} if word.speaker is not None else {})}
    items: list[dict[str, Any]] = [{
        "Content": marked[1] if marked else word.text, "Type": "pronunciation", "StartTime": max(0.0, word.start_s), "EndTime": word.end_s,
        "Confidence": word.confidence if word.confidence is not None else 0.9, **about,
    }]  # fmt: skip
    if marked:
        items.append({"Content": marked[2], "Type": "punctuation", "StartTime": word.end_s, "EndTime": word.end_s, **about})
    return items


def exception_frame(name: str, message: str) -> bytes:
    """Return the message of an error, after which the vendor closes the socket."""
    headers = encode_headers({":content-type": "application/json", ":exception-type": name, ":message-type": "exception"})
    return encode_message(headers, msgspec.json.encode({"Message": message}))
