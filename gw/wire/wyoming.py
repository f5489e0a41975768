"""Wyoming, both roles: speech to text and text to speech over a stream of framed events (TCP, or a worker's pipes).

A frame is one line of JSON, then `data_length` bytes of JSON (its members join those of `data` in the line), then
`payload_length` raw bytes. Recognition: `transcribe`, `audio-start`, `audio-chunk`…, `audio-stop` are answered by
`transcript`, by newer servers after `transcript-chunk`s. Speech: `synthesize` is answered by `audio-start`,
`audio-chunk`…, `audio-stop`. `describe` is answered by `info`, at any time.

Source: wyoming 1.10.2, wyoming-faster-whisper 3.8.1, wyoming-piper 2.5.2 (November 2026). Our own engines speak it as
well; `speed`, `prompt`, `temperature`, `task`, `words`, `segments` and `duration` are ours: other servers ignore them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, get_args

import msgspec

from gw.types.audio import AudioFormat
from gw.wire.json_codec import BAD_JSON

LINE_BYTES = 65_536
DATA_BYTES = 4 * 2**20  # the `info` of a server with many voices is hundreds of kilobytes
PAYLOAD_BYTES = 4 * 2**20
_VERSION = "1.10.2"


class Voice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str | None = None
    language: str | None = None
    speaker: str | None = None


class _Message(msgspec.Struct, frozen=True, tag_field="type"):
    """A message; its tag is the type of the frame."""


class Transcribe(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="transcribe"):
    """Request to transcribe the audio that follows. `name` is the model's."""

    name: str | None = None
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    task: str = "transcribe"
    words: bool = False
    """Whether word times are requested."""


class _Audio(_Message, frozen=True, kw_only=True):
    rate: int
    width: int = 2
    """Bytes per sample; always 2 here."""
    channels: int = 1

    @property
    def is_supported(self) -> bool:
        return self.width == 2 and 1 <= self.rate <= 192_000 and 1 <= self.channels <= 8


class AudioStart(_Audio, frozen=True, kw_only=True, tag="audio-start"):
    @property
    def format(self) -> AudioFormat:
        return AudioFormat(encoding="pcm_s16le", sample_rate_hz=self.rate, channels=self.channels)


class AudioPiece(_Audio, frozen=True, kw_only=True, tag="audio-chunk"):
    audio: bytes = b""


class AudioStop(_Message, frozen=True, kw_only=True, tag="audio-stop"):
    """End of the audio."""


class TranscriptStart(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="transcript-start"):
    """Announcement of pieces of a transcript."""

    language: str | None = None


class TranscriptPiece(_Message, frozen=True, kw_only=True, tag="transcript-chunk"):
    text: str


class TimedWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    word: str
    start: float
    end: float
    probability: float | None = None


class TranscriptSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    text: str
    start: float
    end: float
    words: tuple[TimedWord, ...] = ()


class FinalTranscript(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="transcript"):
    text: str
    language: str | None = None
    duration: float | None = None
    segments: tuple[TranscriptSegment, ...] = ()


class TranscriptStop(_Message, frozen=True, kw_only=True, tag="transcript-stop"):
    """End of a transcript that was sent in pieces first."""


class Synthesize(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="synthesize"):
    text: str
    voice: Voice | None = None
    speed: float | None = None


class Describe(_Message, frozen=True, kw_only=True, tag="describe"):
    """Request for `Info`."""


class _Attribution(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    url: str = ""


class _Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """Members that clients expect in every description."""

    name: str = ""
    attribution: _Attribution = _Attribution()
    installed: bool = True
    description: str | None = None
    version: str | None = None


class _Model(_Artifact, frozen=True, kw_only=True):
    languages: tuple[str, ...] = ()


class _SpeechToText(_Artifact, frozen=True, kw_only=True):
    models: tuple[_Model, ...] = ()


class _TextToSpeech(_Artifact, frozen=True, kw_only=True):
    voices: tuple[_Model, ...] = ()


class Info(_Message, frozen=True, kw_only=True, tag="info"):
    asr: tuple[_SpeechToText, ...] = ()
    tts: tuple[_TextToSpeech, ...] = ()

    @classmethod
    def named(cls, *, models: tuple[str, ...] = (), voices: tuple[str, ...] = ()) -> Info:
        """Return the description of a server with these models and voices."""
        asr = (_SpeechToText(models=tuple(_Model(name=name) for name in models)),) if models else ()
        tts = (_TextToSpeech(voices=tuple(_Model(name=name) for name in voices)),) if voices else ()
        return cls(asr=asr, tts=tts)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model.name for artifact in self.asr for model in artifact.models)

    @property
    def voices(self) -> tuple[str, ...]:
        return tuple(voice.name for artifact in self.tts for voice in artifact.voices)


class Ping(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="ping"):
    text: str | None = None


class Pong(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="pong"):
    text: str | None = None


class ErrorMessage(_Message, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """`error`: the request failed."""

    text: str = ""
    code: str | None = None


class Abort(_Message, frozen=True, kw_only=True, tag="abort"):
    """Sent only to an engine of ours: the answer is no longer needed. The engine still ends it."""


Message: TypeAlias = (
    Transcribe | AudioStart | AudioPiece | AudioStop | TranscriptStart | TranscriptPiece | FinalTranscript
    | TranscriptStop | Synthesize | Describe | Info | Ping | Pong | ErrorMessage | Abort
)  # fmt: skip
_TYPES: dict[Any, type[Message]] = {kind.__struct_config__.tag: kind for kind in get_args(Message)}


class _Header(msgspec.Struct):
    type: str
    data: dict[str, Any] | None = None
    data_length: int | None = None
    payload_length: int | None = None


_HEADER = msgspec.json.Decoder(_Header)
_DATA = msgspec.json.Decoder(dict[str, Any])


def encode(message: Message) -> bytes:
    """Return the frame of a message."""
    data = msgspec.to_builtins(message, builtin_types=(bytes,))
    header: dict[str, object] = {"type": data.pop("type"), "version": _VERSION}
    payload = data.pop("audio", b"")
    body = msgspec.json.encode(data) if data else b""
    if body:
        header["data_length"] = len(body)
    if payload:
        header["payload_length"] = len(payload)
    return b"".join((msgspec.json.encode(header), b"\n", body, payload))


class WyomingDecoder:
    """Bytes in, messages out. Unknown types and members are ignored. For malformed input, raises `new_error(detail)`."""

    def __init__(self, new_error: Callable[[str], Exception]) -> None:
        self._new_error = new_error
        self._buffer = bytearray()
        self._header: _Header | None = None
        self._searched = 0

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        messages: list[Message] = []
        while True:
            if self._header is None and not self._take_line():
                return messages
            header = self._header
            assert header is not None
            data_end = header.data_length or 0
            end = data_end + (header.payload_length or 0)
            if len(self._buffer) < end:
                return messages
            body, payload = bytes(self._buffer[:data_end]), bytes(self._buffer[data_end:end])
            del self._buffer[:end]
            self._header = None
            if (message := self._message(header, body, payload)) is not None:
                messages.append(message)

    def _take_line(self) -> bool:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched > LINE_BYTES:
                raise self._new_error("an event's line has no end")
            return False
        self._searched = 0
        try:
            header = _HEADER.decode(bytes(self._buffer[:end]))
        except BAD_JSON:
            raise self._new_error("an event is not the JSON expected") from None
        del self._buffer[: end + 1]
        if not 0 <= (header.data_length or 0) <= DATA_BYTES or not 0 <= (header.payload_length or 0) <= PAYLOAD_BYTES:
            raise self._new_error("an event's size is out of range")
        self._header = header
        return True

    def _message(self, header: _Header, body: bytes, payload: bytes) -> Message | None:
        kind = _TYPES.get(header.type)
        if kind is None:
            return None
        try:
            data = {**(header.data or {}), **(_DATA.decode(body) if body else {}), "type": header.type}
            if kind is AudioPiece:
                data["audio"] = payload
            message = msgspec.convert(data, kind, builtin_types=(bytes,))
        except BAD_JSON:
            raise self._new_error(f"an event {header.type!r} is not of the expected form") from None
        if isinstance(message, _Audio) and not message.is_supported:
            raise self._new_error("audio must have 16-bit samples")
        return message

