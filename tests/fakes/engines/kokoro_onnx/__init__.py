"""Stands where kokoro-onnx would be: every sentence is as many hundredths of a second as it has characters."""

from __future__ import annotations

from array import array
from pathlib import Path


class Samples(array):
    def astype(self, kind):
        assert kind == "<f4"
        return self


class Kokoro:
    def __init__(self, model_path, voices_path):
        for path in (model_path, voices_path):
            if not Path(path).exists():
                raise FileNotFoundError(f"Voices file not found at {path}")
        self.voices = {"af_heart": 1, "am_adam": 2, "bf_emma": 3}

    def create(self, text, voice, speed=1.0, lang="en-us"):
        assert lang == {"a": "en-us", "b": "en-gb"}[voice[0]]
        if "unspeakable" in text:
            raise ValueError(f"No phonemes of {text!r}")
        return Samples("f", [0.5] * int(240 * len(text) / speed)), 24_000
