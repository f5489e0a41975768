"""Deepgram's Flux TTS (`/v2/speak`): both sides. What differs from `/v1/speak`, which is `deepgram_speak`.

Source: deepgram-sdk 7.17.0, `speak/v2`, and livekit-plugins-deepgram 1.8.9, `tts_v2` (November 2026). What is said between two
`Flush` is a speech: `SpeechStarted`, audio, `SpeechMetadata` with what is billed, then `Flushed`. `Interrupt` is what `Clear` was,
answered by `SpeechInterrupted`. `POST /v2/speak` takes what `POST /v1/speak` takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage
from gw.wire import deepgram_speak
from gw.wire.bounds import tokens
from gw.wire.deepgram_speak import ClientFrame, DeepgramSpeaker, Speak, SpeakCommand, SpeakServer

INTERRUPT = '{"type":"Interrupt"}'
_FAMILY = "flux"


class _Billed(msgspec.Struct, gc=False):
    billable_character_count: int | None = None


class _Told(msgspec.Struct, gc=False):
    type: str = ""
    billable_character_count: int | None = None
    metadata: _Billed | None = None


_TOLD = msgspec.json.Decoder(_Told)
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def is_flux(model: str) -> bool:
    """Whether a model that speaks is of this family: `flux-alexis-en`."""
    return model.partition("-")[0] == _FAMILY


def voice_model(model: str, voice: str) -> str:
    """A voice is part of the model's name; a bare one is put together with `flux`. Voices of other families are refused."""
    if voice.startswith(_FAMILY + "-"):
        return voice
    return f"{_FAMILY}-{voice}-en" if model == _FAMILY and voice else model


def http_path(request: SpeakRequest, model: str) -> str:
    """Path and query of `POST /v2/speak`."""
    return _second(deepgram_speak.http_path(attrs.evolve(request, voice=""), voice_model(model, request.voice)))


def live_path(request: SpeakLiveRequest, model: str) -> str:
    """Path and query of the socket."""
    return _second(deepgram_speak.live_path(attrs.evolve(request, voice=""), voice_model(model, request.voice)))


def _second(path: str) -> str:
    return path.replace("/v1/", "/v2/", 1)


class FluxSpeaker(DeepgramSpeaker):
    """One session. A caller of this dialect speaks `/v1/speak` to us, so its orders are put into the words of this one."""

    def __init__(self, provider: str, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(provider, keep_raw=False, secrets=secrets)
        self._billed: int | None = None

    def clear(self) -> list[str | bytes]:
        super().clear()
        return [INTERRUPT]

    def receive(self, frame: str | bytes) -> list[SpeakEvent]:
        """Raises as that of `/v1/speak`."""
        if isinstance(frame, str):
            try:
                told = _TOLD.decode(frame)
            except _BAD_JSON:
                return super().receive(frame)
            if told.type == "SpeechMetadata":
                self._note(told.billable_character_count)
            elif told.type == "SpeechInterrupted":
                self._note(told.metadata.billable_character_count if told.metadata is not None else None)
                return self._cleared(None)
        return super().receive(frame)

    def _note(self, billed: int | None) -> None:
        if billed is not None:
            self._billed = (self._billed or 0) + tokens(billed)

    def _end(self) -> list[SpeakEvent]:
        events = super()._end()
        if self._billed is not None:
            events = [SpeakEnd(usage=Usage(characters=self._billed, source="vendor"))]
        return events


# ---- the server's side


class _Settings(msgspec.Struct, gc=False):
    speed: float | None = None


class FluxSpeakServer(SpeakServer):
    """One session: events in, frames out. Characters are billed as they were said."""

    def __init__(self, *, request_id: str, model: str, fmt: AudioFormat) -> None:
        super().__init__(request_id=request_id, model=model)
        self.speed: float | None = None
        """As the client has configured it since; None where it has not."""
        self._format = fmt
        self._said = [0]
        """Characters of the speeches that are not answered yet, and of what follows the last `Flush`."""
        self._characters = self._speeches = 0
        self._sounded = False
        self._bytes = self._speech_bytes = 0

    def opening(self) -> str:
        about = {"model_name": self._model, "model_version": "1", "model_uuids": [self._id]}
        return _frame("Connected", request_id=self._id, **about)

    def hears(self, said: ClientFrame) -> str | None:
        match said:
            case Speak(text=text):
                self._said[-1] += len(text)
                self._characters += len(text)
            case SpeakCommand(type="Flush"):
                self._said.append(0)
            case SpeakCommand(type="Configure", raw=raw):
                return self._configured(raw)
        return None

    def cleared(self) -> str:
        metadata = self._metadata(sum(self._said))
        self._said = [0]
        self._over()
        return _frame("SpeechInterrupted", audio_played_ms=self._ms(self._bytes), metadata=metadata)

    def closing(self) -> list[str]:
        counts = {"total_input_character_count": self._characters, "total_billable_character_count": self._characters}
        return [_frame("SessionMetadata", total_audio_duration_ms=self._ms(self._bytes), **counts)]

    def encode(self, events: list[SpeakEvent]) -> list[str | bytes]:
        frames: list[str | bytes] = []
        for event in events:
            match event:
                case AudioChunk(data=data) if data:
                    if not self._sounded:
                        self._sounded = True
                        frames.append(_frame("SpeechStarted", speech_id=self._speech_id))
                    self._bytes += len(data)
                    self._speech_bytes += len(data)
                    frames.append(data)
                case Flushed():
                    count = self._said.pop(0) if len(self._said) > 1 else 0
                    if self._sounded:
                        frames.append(_frame("SpeechMetadata", **self._metadata(count)))
                    frames.append(_frame("Flushed", speech_id=self._speech_id))
                    self._over()
        return frames

    @property
    def _speech_id(self) -> str:
        return f"dg_sp_{self._speeches:012x}"

    def _over(self) -> None:
        self._speeches += 1
        self._sounded, self._speech_bytes = False, 0

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

    def _configured(self, raw: str) -> str:
        """What is said from now on is spoken at the speed asked for."""
        try:
            speed = msgspec.json.decode(raw, type=_Settings).speed
        except _BAD_JSON:
            speed = None
        if speed is None or not 0.5 <= speed <= 2.0:
            return _frame("ConfigureFailure", code="SPEED_OUT_OF_RANGE", field="speed", description="speed must be between 0.5 and 2")
        self.speed = speed
        return _frame("ConfigureSuccess", applied={"speed": speed})


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()
