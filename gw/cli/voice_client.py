"""The three requests of a voice app (transcribe, chat, speak), timed as the app would see them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from gw.cli.backend import Backend, DaemonResponse
from gw.cli.main import CommandFailed
from gw.cli.output import aside, can_show, ms, usd
from gw.types.ids import Modality
from gw.types.llm import ChatEnd, Delta, StreamError
from gw.wire import wav
from gw.wire.openai_chat import ChatDecoder

SPEECH_FORMATS = {".wav": "wav", ".mp3": "mp3", ".opus": "opus", ".flac": "flac", ".aac": "aac", ".pcm": "pcm"}
WAV_PREFIX_BYTES = 4_096
WIDTH = 32  # columns of the time line of a turn


@attrs.define(kw_only=True)
class VoiceCall:
    """One request as the client measured it: `start`, first byte and `end` in seconds of the monotonic clock.

    `priced` is False where the gateway did not report a cost; `cost_usd` is None while `priced` where no price is known.
    `attempts` are those of the gateway's record, in order, where it could be read.
    """

    modality: Modality
    model: str
    start: float
    first: float
    end: float
    cost_usd: float | None = None
    priced: bool = False
    attempts: tuple[Mapping[str, Any], ...] = ()
    cache: str = ""
    """`hit` or `miss` where the project keeps such speech."""

    @property
    def ttfb_ms(self) -> float:
        return (self.first - self.start) * 1_000

    @property
    def total_ms(self) -> float:
        return (self.end - self.start) * 1_000

    def summary(self, *facts: str) -> str:
        """Return the failed attempts and the model that answered, then `facts` and the price.

        `a/x failed (503) after 3 ms -> b/y   ttfb 12 ms   $0.00001   fallback 1`
        """
        parts = [_path(self.attempts) or self.model, *facts, usd(self.cost_usd) if self.priced else ""]
        if len(self.attempts) > 1:
            parts.append(f"fallback {len(self.attempts) - 1}")
        return "   ".join(part for part in parts if part)


def _path(attempts: tuple[Mapping[str, Any], ...]) -> str:
    if len(attempts) < 2:
        return ""
    steps = [
        f"{a.get('model_id')} {str(a.get('outcome')).replace('_', ' ')}"
        + (f" ({a['upstream_status']})" if a.get("upstream_status") else "")
        + f" after {ms(float(a.get('duration_ms') or 0))}"
        for a in attempts[:-1]
    ]
    return " -> ".join([*steps, str(attempts[-1].get("model_id"))])


def transcribe(backend: Backend, path: Path, model: str, headers: Mapping[str, str]) -> tuple[str, VoiceCall]:
    """Return the transcript of the recording at `path`."""
    with path.open("rb") as audio:
        upload = {"file": (path.name, audio, "application/octet-stream")}
        form = {"model": model, "response_format": "json"}
        with backend.open("POST", "/v1/audio/transcriptions", headers=headers, data=form, files=upload) as answer:
            first = time.monotonic()
            text = answer.json().get("text", "")
    return str(text), _call(backend, answer, "stt", model, first)


def chat(
    backend: Backend, text: str, model: str, system: str, headers: Mapping[str, str], on_text: Callable[[str], None]
) -> tuple[str, VoiceCall]:
    """Return the complete answer; each piece also goes to `on_text` as it arrives."""
    messages = [{"role": "user", "content": text}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    body = {"model": model, "messages": messages, "stream": True}
    first = 0.0
    pieces: list[str] = []
    with backend.open("POST", "/v1/chat/completions", headers=headers, json=body) as answer:
        for piece in _text_pieces(answer.http.iter_bytes()):
            first = first or time.monotonic()
            pieces.append(piece)
            on_text(piece)
    return "".join(pieces), _call(backend, answer, "llm", model, first or time.monotonic())


def _text_pieces(chunks: Iterable[bytes]) -> Iterable[str]:
    """Yield the text of a chat stream. Raises CommandFailed for an error event and for a missing end marker."""
    decoder = ChatDecoder("gateway")
    ended = False
    for chunk in chunks:  # also after the end marker: a caller that leaves early is recorded as cancelled
        for event in decoder.feed(chunk):
            if isinstance(event, Delta) and (event.text or event.refusal):
                yield event.text or event.refusal
            elif isinstance(event, StreamError):
                raise CommandFailed(f"the answer broke off: {event.message}")
            elif isinstance(event, ChatEnd):
                ended = True
    if not ended:
        raise CommandFailed("the answer was cut off")


def speak(
    backend: Backend, text: str, model: str, voice: str, audio_format: str, headers: Mapping[str, str], out: BinaryIO
) -> VoiceCall:
    """Write speech to `out` as it arrives."""
    body = {"model": model, "input": text, "response_format": audio_format} | ({"voice": voice} if voice else {})
    first = 0.0
    with backend.open("POST", "/v1/audio/speech", headers=headers, json=body) as answer:
        for chunk in answer.http.iter_bytes():
            first = first or time.monotonic()
            out.write(chunk)
    return _call(backend, answer, "tts", model, first or time.monotonic())


def _call(backend: Backend, answer: DaemonResponse, modality: Modality, model: str, first: float) -> VoiceCall:
    end, headers = time.monotonic(), answer.http.headers
    model = headers.get("x-gw-model") or model
    call = VoiceCall(modality=modality, model=model, start=answer.sent_at, first=first, end=end, cache=headers.get("x-gw-cache") or "")
    if cost := headers.get("x-gw-cost-usd"):
        call.cost_usd, call.priced = float(cost), True
        if headers.get("x-gw-attempts") in (None, "1"):
            return call
    record = backend.record(headers.get("x-request-id") or "")
    if record is not None:
        call.model = str(record.get("model_id") or call.model)
        call.cost_usd, call.priced = record.get("cost_usd"), "cost_usd" in record
        attempts = record.get("attempts")
        call.attempts = tuple(attempts) if isinstance(attempts, list) else ()
    return call


def speech_format(path: Path) -> str:
    """Return OpenAI's name of the format that `path`'s extension stands for. Raises CommandFailed for an unknown one."""
    audio_format = SPEECH_FORMATS.get(path.suffix.lower())
    if audio_format is None:
        raise CommandFailed(f"{path.name}: unknown audio format; known extensions: {' '.join(SPEECH_FORMATS)}")
    return audio_format


def fix_wav_sizes(out: BinaryIO) -> None:
    """Write the real sizes into a streamed WAV file, whose header was sent before its length was known."""
    size = out.seek(0, 2)
    out.seek(0)
    info = wav.parse(out.read(WAV_PREFIX_BYTES))
    if info is not None and info.data_bytes is None and info.format.encoding != "unknown":
        header = wav.header(info.format, size - info.data_offset)
        if len(header) == info.data_offset:
            out.seek(0)
            out.write(header)


def audio_seconds(path: Path) -> float | None:
    """Return the length of a WAV file; None where its header does not tell."""
    with path.open("rb") as recording:
        info = wav.parse(recording.read(WAV_PREFIX_BYTES))
    return info.seconds(path.stat().st_size) if info else None


def draw(calls: Sequence[VoiceCall]) -> None:
    """Print a bar for each call on stderr."""
    for line in waterfall(calls, blocks=can_show(sys.stderr, "░█")):
        aside(line)


def waterfall(calls: Sequence[VoiceCall], *, blocks: bool) -> list[str]:
    """Return a bar for each call, on one time line: light up to its first byte, full while it streams."""
    wait, stream = ("░", "█") if blocks else ("-", "#")
    origin = min(call.start for call in calls)
    span = max(call.end for call in calls) - origin or 1e-9
    name_width = max(len(call.model) for call in calls)

    def column(at: float) -> int:
        return round((at - origin) / span * WIDTH)

    lines = []
    for call in calls:
        start, first = min(column(call.start), WIDTH - 1), column(call.first)
        end = max(column(call.end), start + 1)
        bar = " " * start + wait * (first - start) + stream * (end - max(first, start))
        lines.append(f"{call.modality} {call.model:{name_width}}  {bar:{WIDTH}}  {ms(call.total_ms):>8}")
    return lines
