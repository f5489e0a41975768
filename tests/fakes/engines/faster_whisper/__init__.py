"""Stands where faster-whisper would be: hears the tone voice, and can be told to fail by the name of its model.

Its calls are held to the real library's by tests/clients/test_engines.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

from gw.providers.sim import fsk


@dataclass
class Word:
    start: float
    end: float
    word: str
    probability: float


@dataclass
class Segment:
    text: str
    start: float
    end: float
    words: list[Word] | None = None


@dataclass
class Info:
    language: str
    duration: float


@dataclass
class WhisperModel:
    model_size_or_path: str
    device: str = "auto"
    compute_type: str = "default"
    local_files_only: bool = False
    supported_languages: list[str] = field(default_factory=lambda: ["en", "de", "zh"])

    def __post_init__(self):
        print("a library that prints")
        if not Path(self.model_size_or_path).is_dir():
            raise FileNotFoundError("Unable to open file 'model.bin'")

    def transcribe(
        self, audio, language=None, task="transcribe", initial_prompt=None, word_timestamps=False, vad_filter=False,
        temperature=0.0,
    ):
        data = audio.read()[44:]
        name = Path(self.model_size_or_path).name
        return self._segments(data, name, word_timestamps), Info(language or "en", len(data) / 32_000)

    def _segments(self, data, name, word_timestamps):
        if name == "broken":
            raise RuntimeError("out of memory: 'secret text'")
        if name == "crashing":
            raise SystemExit(3)
        for spoken in fsk.decode(data, 16_000):
            parts = spoken.text.split("|")
            for number, text in enumerate(chain(parts, repeat("more") if name == "slow" and len(parts) > 1 else ())):
                if name == "slow" and number:
                    time.sleep(0.02)  # and it has no end: only a caller that leaves ends it
                words = [Word(float(number), number + 1.0, f" {text}", 0.5)] if word_timestamps else None
                yield Segment(f" {text}", float(number), number + 1.0, words)
