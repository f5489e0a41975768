"""Deepgram's Flux TTS (`/v2/speak`): client and server, as far as it differs from `/v1/speak` (`deepgram_speak`).

Source: deepgram-sdk 7.17.0, `speak/v2`, and livekit-plugins-deepgram 1.8.9, `tts_v2` (November 2026). The text between two
`Flush` is a speech: `SpeechStarted`, audio, `SpeechMetadata` with the characters billed, then `Flushed`. `Interrupt` replaces
`Clear` and is answered by `SpeechInterrupted`. `POST /v2/speak` accepts the same as `POST /v1/speak`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage
from gw.wire import deepgram_speak
from gw.wire.bounds import tokens
from gw.wire.deepgram_speak import DeepgramSpeakClient, DeepgramSpeakServer
from gw.wire.json_codec import BAD_JSON
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.live_messages import DirectReply, SpeakMessage

INTERRUPT = '{"type":"Interrupt"}'
_FAMILY = "flux"


class _Billed(msgspec.Struct, gc=False):
    billable_character_count: int | None = None


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    billable_character_count: int | None = None
    metadata: _Billed | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def is_flux(model: str) -> bool:
    """Return whether a speech model is of this family: `flux-alexis-en`."""
    return model.partition("-")[0] == _FAMILY


def voice_model(model: str, voice: str) -> str:
    """Return the model's name, of which the voice is a part. A bare voice is combined with `flux`; other families' are ignored."""
    if voice.startswith(_FAMILY + "-"):
        return voice
    return f"{_FAMILY}-{voice}-en" if model == _FAMILY and voice else model


def http_path(request: SpeakRequest, model: str) -> str:
    """Return path and query of `POST /v2/speak`."""
    return _v2(deepgram_speak.http_path(attrs.evolve(request, voice=""), voice_model(model, request.voice)))


def live_path(request: SpeakLiveRequest, model: str) -> str:
    """Return path and query of the socket."""
    return _v2(deepgram_speak.live_path(attrs.evolve(request, voice=""), voice_model(model, request.voice)))


def _v2(path: str) -> str:
    return path.replace("/v1/", "/v2/", 1)


class FluxSpeakClient(DeepgramSpeakClient):
    """One session. Commands of a caller, who speaks `/v1/speak` to the gateway, are translated."""

    _billed: int | None = None

    def clear(self) -> list[str]:
        super().clear()
        return [INTERRUPT]

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame; raises like that of `/v1/speak`."""
        if isinstance(frame, str):
            try:
                message = _MESSAGE.decode(frame)
            except BAD_JSON:
                return super().receive(frame)
            if message.type == "SpeechMetadata":
                self._add_billed(message.billable_character_count)
            elif message.type == "SpeechInterrupted":
                self._add_billed(message.metadata.billable_character_count if message.metadata is not None else None)
                return self._cleared(None)
        return super().receive(frame)

    def _add_billed(self, characters: int | None) -> None:
        if characters is not None:
            self._billed = (self._billed or 0) + tokens(characters)

    def _end(self) -> list[SpeakEvent]:
        events = super()._end()
        return events if self._billed is None else [SpeakEnd(usage=Usage(characters=self._billed, source="vendor"))]


# ---- server


class _Settings(msgspec.Struct, gc=False):
    speed: float | None = None


class FluxSpeakServer(DeepgramSpeakServer):
    """One session of a client. The characters billed are those of the text sent."""

    def __init__(self, *, request_id: str, model: str, fmt: AudioFormat) -> None:
        super().__init__(request_id=request_id, model=model)
        self.speed: float | None = None  # speed the client has configured in the session; None if it has not
        self._format = fmt
        self._pending = [0]  # characters of each speech not answered yet; last those since the last `Flush`
        self._characters = self._speeches = 0
        self._started = False
        self._bytes = self._speech_bytes = 0

    def opening(self) -> str:
        about = {"model_name": self._model, "model_version": "1", "model_uuids": [self._id]}
        return typed_frame("Connected", request_id=self._id, **about)

    def _messages(self, kind: str, text: str, frame: str) -> Sequence[SpeakMessage]:
        match kind:
            case "Speak":
                self._pending[-1] += len(text)
                self._characters += len(text)
            case "Flush":
                self._pending.append(0)
            case "Configure":
                return (DirectReply(self._configured(frame)),)
        return super()._messages(kind, text, frame)

    def cleared(self) -> str:
        metadata = self._metadata(sum(self._pending))
        self._pending = [0]
        self._end_speech()
        return typed_frame("SpeechInterrupted", audio_played_ms=self._ms(self._bytes), metadata=metadata)

    def closing(self) -> Sequence[str]:
        counts = {"total_input_character_count": self._characters, "total_billable_character_count": self._characters}
        return (typed_frame("SessionMetadata", total_audio_duration_ms=self._ms(self._bytes), **counts),)

    def encode(self, events: list[SpeakEvent]) -> list[Frame]:
        frames: list[Frame] = []
        for event in events:
            match event:
                case AudioChunk(data=data) if data:
                    if not self._started:
                        self._started = True
                        frames.append(typed_frame("SpeechStarted", speech_id=self._speech_id))
                    self._bytes += len(data)
                    self._speech_bytes += len(data)
                    frames.append(data)
                case Flushed():
                    count = self._pending.pop(0) if len(self._pending) > 1 else 0
                    if self._started:
                        frames.append(typed_frame("SpeechMetadata", **self._metadata(count)))
                    frames.append(typed_frame("Flushed", speech_id=self._speech_id))
                    self._end_speech()
        return frames

    @property
    def _speech_id(self) -> str:
        return f"dg_sp_{self._speeches:012x}"

    def _end_speech(self) -> None:
        self._speeches += 1
        self._started, self._speech_bytes = False, 0

    def _metadata(self, characters: int) -> dict[str, Any]:
        return {
            "speech_id": self._speech_id,
            "audio_duration_ms": self._ms(self._speech_bytes),
            "input_character_count": characters,
            "billable_character_count": characters,
            "controls_applied": {"pronunciations_applied": 0, "breaks_applied": 0, "pronunciation_warnings": 0},
        }

    def _ms(self, n_bytes: int) -> int:
        return round(self._format.seconds(n_bytes) * 1000)

    def _configured(self, frame: str) -> str:
        """Set the speed of the text to come; return the answer."""
        try:
            speed = msgspec.json.decode(frame, type=_Settings).speed
        except BAD_JSON:
            speed = None
        if speed is None or not 0.5 <= speed <= 2.0:
            refusal = {"code": "SPEED_OUT_OF_RANGE", "field": "speed", "description": "speed must be between 0.5 and 2"}
            return typed_frame("ConfigureFailure", **refusal)
        self.speed = speed
        return typed_frame("ConfigureSuccess", applied={"speed": speed})
