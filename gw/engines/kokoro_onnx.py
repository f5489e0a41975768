"""`python -m gw.engines.kokoro_onnx --model_path=… --voices_path=…`: kokoro-onnx, controlled over pipes (`gw.engines.engine_server`).

Source: kokoro-onnx 0.6.1 (`Kokoro.create`): 24 kHz, speed 0.5 to 2, the first letter of a voice is its language.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from gw.engines.engine_server import BadRequest, Job, Work, options, serve
from gw.types.audio import AudioFormat
from gw.wire import wyoming
from gw.wire.convert import converter
from gw.wire.sentences import sentences
from gw.wire.wyoming import Message

MODULE = "gw.engines.kokoro_onnx"
NEEDS: tuple[str, ...] = ("kokoro_onnx",)
EXTRA = "kokoro"
OPTIONS: tuple[str, ...] = ("model_path", "voices_path", "device")
_LANGUAGES = {
    "a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "cmn",
}  # fmt: skip
_SLOWEST, _FASTEST = 0.5, 2.0
_PIECE_SAMPLES = 24_000


def load(model_path: str, voices_path: str = "", device: str = "") -> tuple[Work, wyoming.Info]:
    """Load model and voices. Raises what the library raises for invalid files."""
    if device:
        os.environ.setdefault("ONNX_PROVIDER", f"{device.upper()}ExecutionProvider")
    library = import_module("kokoro_onnx")
    kokoro = library.Kokoro(model_path, voices_path)
    return lambda job: speak(kokoro, job), wyoming.Info.named(voices=tuple(sorted(kokoro.voices)))


def speak(kokoro: Any, job: Job) -> Iterator[Message]:
    """Yield the audio a sentence at a time. Raises BadRequest."""
    request = job.request
    if not isinstance(request, wyoming.Synthesize):
        raise BadRequest("request")
    voice = request.voice.name if request.voice is not None else None
    if not voice or voice not in kokoro.voices:
        raise BadRequest("voice")
    speed = min(max(request.speed or 1.0, _SLOWEST), _FASTEST)
    language = _LANGUAGES.get(voice[:1], "en-us")
    rate = 0
    for text in sentences(request.text):
        if job.aborted:
            return
        if not text.strip():
            continue
        samples, rate_hz = kokoro.create(text.strip(), voice=voice, speed=speed, lang=language)
        if not rate:
            rate = int(rate_hz)
            yield wyoming.AudioStart(rate=rate)
        audio = _as_samples(samples.astype("<f4").tobytes(), rate)
        for at in range(0, len(audio), 2 * _PIECE_SAMPLES):
            yield wyoming.AudioPiece(rate=rate, audio=audio[at : at + 2 * _PIECE_SAMPLES])
    yield wyoming.AudioStop()


def _as_samples(floats: bytes, rate: int) -> bytes:
    source = AudioFormat(encoding="pcm_f32le", sample_rate_hz=rate)
    to_s16 = converter(source, AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate))
    assert to_s16 is not None
    return to_s16.feed(floats) + to_s16.end()


if __name__ == "__main__":
    serve(lambda: load(**options(sys.argv[1:])))
