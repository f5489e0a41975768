"""Server's side of Azure Speech's live transcription, which `gw.wire.azure_speech_listen` describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted
from gw.wire import wav
from gw.wire.azure_speech_listen import ENCODINGS, RATES_HZ, TICKS, USUAL_LOCALE
from gw.wire.azure_speech_messages import SpeechMessage, parse_message, text_frame
from gw.wire.json_codec import decode_client
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, DirectReply
from gw.wire.query import query_pairs


class _Term(msgspec.Struct, gc=False, rename="pascal"):
    text: str


class _Group(msgspec.Struct, gc=False, rename="pascal"):
    items: list[_Term] = []


class _Grammar(msgspec.Struct, gc=False, rename="pascal"):
    groups: list[_Group] = []


class _Segmentation(msgspec.Struct, gc=False):
    timeout_ms: int | None = msgspec.field(default=None, name="segmentationSilenceTimeoutMs")


class _Conversation(msgspec.Struct, gc=False):
    segmentation: _Segmentation = msgspec.field(default_factory=_Segmentation)


class _Detection(msgspec.Struct, gc=False):
    conversation: _Conversation = msgspec.field(default_factory=_Conversation, name="CONVERSATION")


class _Context(msgspec.Struct, gc=False):
    detection: _Detection = msgspec.field(default_factory=_Detection, name="phraseDetection")
    dgi: _Grammar = msgspec.field(default_factory=_Grammar)


_CONTEXT = msgspec.json.Decoder(_Context)
_QUIET = frozenset({"speech.config", "telemetry"})


class AzureSpeechListenServer(ListenProtocol):
    """One session of a client. `request` is there once the header of the audio has come."""

    def __init__(self, query: bytes) -> None:
        self.request: ListenRequest | None = None
        self._fields = dict(query_pairs(query))
        self._context = _Context()
        self._turn = ""  # id of the turn whose audio comes
        self._from_s = self._audio_s = 0.0
        self._speaking = False

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. FINISH is the end of a turn's audio, after which another turn may begin."""
        message = parse_message(frame)
        if message is None:
            raise ClientProtocolError(what="a frame is not a message with headers")
        if message.path == "speech.context":
            self._context = decode_client(_CONTEXT, message.body, "speech.context is not the JSON expected")
        elif message.path == "audio":
            return self._audio(message)
        elif message.path not in _QUIET:
            raise ClientProtocolError(what=f"{message.path!r} is not a message of the protocol", param="path")
        return ()

    def _audio(self, message: SpeechMessage) -> Sequence[ClientMessage]:
        data, opening = message.body, []
        if message.request_id != self._turn:
            self._turn, self._from_s, self._speaking = message.request_id, self._audio_s, False
            opening.append(DirectReply(self._frame("turn.start", {"context": {"serviceTag": "t"}})))
            if (info := wav.parse(data)) is not None:
                self.request = self._request(info.format)
                data = data[info.data_offset :]
                if not data:
                    return opening
        if self.request is None:
            raise ClientProtocolError(what="the audio must begin with the header of a WAV", param="audio")
        self._audio_s += self.request.format.seconds(len(data))
        return [*opening, Audio(data) if data else Control.FINISH]

    def _request(self, fmt: AudioFormat) -> ListenRequest:
        if fmt.encoding == "wav":
            fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=fmt.sample_rate_hz, channels=fmt.channels)
        if fmt.encoding not in ENCODINGS or fmt.sample_rate_hz not in RATES_HZ:
            raise ClientProtocolError(what="the format of the audio is not one of the vendor's", param="audio")
        return ListenRequest(
            model="standard", format=fmt, dialect="azure_speech", language=self._fields.get("language", USUAL_LOCALE),
            keyterms=tuple(term.text for group in self._context.dgi.groups for term in group.items),
            endpointing_ms=self._context.detection.conversation.segmentation.timeout_ms,
            profanity_filter=self._fields.get("profanity") != "raw",
        )  # fmt: skip

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            match event:
                case SpeechStarted(at_s=at_s) if not self._speaking:
                    self._speaking = True
                    frames.append(self._frame("speech.startDetected", {"Offset": self._ticks(at_s)}))
                case Interim():
                    frames.append(self._frame("speech.hypothesis", {"Id": "i", "Text": event.text, **self._span(event)}))
                case Final():
                    frames.append(self._frame("speech.phrase", self._phrase(event)))
                case ListenEnd():
                    frames.append(self._frame("speech.endDetected", {"Offset": self._ticks(self._audio_s)}))
                    frames.append(self._frame("turn.end", {}))
        return frames

    def error(self, status: str) -> str:
        """Return the phrase that stands for an error, with one of the vendor's names for it."""
        return self._frame("speech.phrase", {"Id": "p", "RecognitionStatus": status, "Offset": 0, "Duration": 0})

    def _phrase(self, final: Final) -> dict[str, Any]:
        members = {"Id": "p", "RecognitionStatus": "Success", "DisplayText": final.text, **self._span(final), "Channel": 0}
        if self._fields.get("format") == "detailed":
            words = final.words or (stt.Word(text=final.text, start_s=final.start_s, end_s=final.end_s),)
            members["NBest"] = [
                {
                    **dict.fromkeys(("Lexical", "ITN", "MaskedITN", "Display"), final.text), "Confidence": 0.9,
                    "Words": [{"Word": word.text, **self._span(word), "Confidence": word.confidence or 0.9} for word in words],
                }
            ]  # fmt: skip
        return members

    def _span(self, timed: Interim | Final | stt.Word) -> dict[str, int]:
        return {"Offset": self._ticks(timed.start_s), "Duration": round((timed.end_s - timed.start_s) * TICKS)}

    def _ticks(self, at_s: float) -> int:
        return round((at_s - self._from_s) * TICKS)

    def _frame(self, path: str, body: Any) -> str:
        return text_frame(path, body, ("X-RequestId", self._turn))
