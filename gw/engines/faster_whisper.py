"""`python -m gw.engines.faster_whisper --model_path=…`: faster-whisper, controlled over pipes (`gw.engines.engine_server`).

Source: faster-whisper 1.2.1 (`WhisperModel.transcribe`). Silence is cut out before the model hears it, because models invent
text for it. The model is a folder in CTranslate2's form; nothing is downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from gw.engines.engine_server import BadRequest, Job, Work, options, serve
from gw.types.audio import PCM_16K
from gw.wire import wav, wyoming
from gw.wire.wyoming import Message

MODULE = "gw.engines.faster_whisper"
NEEDS: tuple[str, ...] = ("faster_whisper",)
EXTRA = "whisper"
OPTIONS: tuple[str, ...] = ("model_path", "device", "compute_type")


def load(model_path: str, device: str = "auto", compute_type: str = "default") -> tuple[Work, wyoming.Info]:
    """Load the model. Raises what the library raises for an invalid one."""
    library = import_module("faster_whisper")
    model = library.WhisperModel(model_path, device=device, compute_type=compute_type, local_files_only=True)
    return lambda job: transcribe(model, job), wyoming.Info.named(models=(Path(model_path).name,))


def transcribe(model: Any, job: Job) -> Iterator[Message]:
    """Yield pieces as they are transcribed, then the complete transcript with its times. Raises BadRequest."""
    request = job.request
    if not isinstance(request, wyoming.Transcribe):
        raise BadRequest("request")
    if len(job.audio) < 2:
        yield wyoming.FinalTranscript(text="", duration=0.0)
        return
    recording = BytesIO(wav.header(PCM_16K, len(job.audio)) + job.audio)
    language = (request.language or "").partition("-")[0].lower() or "multi"
    if language != "multi" and language not in model.supported_languages:
        raise BadRequest("language")
    settings: dict[str, object] = {} if request.temperature is None else {"temperature": request.temperature}
    settings |= {"initial_prompt": request.prompt, "word_timestamps": request.words, "vad_filter": True}
    results, info = model.transcribe(recording, language=None if language == "multi" else language, task=request.task, **settings)
    segments: list[wyoming.TranscriptSegment] = []
    for segment in results:
        text = segment.text if segments else segment.text.lstrip()
        segments.append(_segment(segment))
        yield wyoming.TranscriptPiece(text=text)
    yield wyoming.FinalTranscript(
        text="".join(segment.text for segment in segments).strip(),
        language=info.language,
        duration=float(info.duration),
        segments=tuple(segments),
    )


def _segment(segment: Any) -> wyoming.TranscriptSegment:
    words = tuple(
        wyoming.TimedWord(
            word=word.word, start=float(word.start), end=float(word.end), probability=float(word.probability)
        )
        for word in segment.words or ()
    )
    return wyoming.TranscriptSegment(text=segment.text, start=float(segment.start), end=float(segment.end), words=words)


if __name__ == "__main__":
    serve(lambda: load(**options(sys.argv[1:])))
