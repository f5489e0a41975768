"""Audio in and out of the `sim` engine: containers and encodings around the tone voice. No I/O."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import attrs

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.types.stt import Final, ListenRequest, TranscribeRequest, Word
from gw.wire import g711, wav
from gw.wire.convert import RATES_HZ
from gw.wire.resampler import resampler

HEADER_BYTES = 64 * 1024  # a WAV whose samples begin later than this is not read
_SLICE_S = 0.25  # audio decoded in one go: at most 2 ms of CPU, so that other tasks get their turn in between
_READABLE = frozenset({"pcm_s16le", "wav", "mulaw", "alaw"})
_DEFAULT_RATE_HZ = 24_000
_PHONE_RATE_HZ = 8_000
_RESAMPLED_HZ = 16_000


@attrs.frozen(kw_only=True)
class Layout:
    """Position of a recording's samples: `n_bytes` from `offset` (None = to the end), in `format`."""

    format: AudioFormat
    offset: int = 0
    n_bytes: int | None = None


def layout(prefix: bytes, declared: AudioFormat | None, *, complete: bool) -> Layout | None:
    """Return the layout of a recording that begins with `prefix`; `declared` is the format of raw samples.

    None = a WAV header goes on beyond `prefix` (never when `complete` or at HEADER_BYTES). A recording of unknown layout
    has encoding `unknown`. A header in the bytes wins over the declared format.
    """
    if prefix.startswith(b"RIFF"[: len(prefix)]) and not (complete and len(prefix) < 4):
        if (info := wav.parse(prefix)) is not None:
            return Layout(format=info.format, offset=info.data_offset, n_bytes=info.data_bytes)
        if not complete and len(prefix) < HEADER_BYTES:
            return None
        declared = None
    if declared is None or declared.encoding == "wav":
        declared = AudioFormat(encoding="unknown")
    return Layout(format=declared)


def why_unreadable(fmt: AudioFormat) -> str:
    """Return why a format cannot be read; "" if it can."""
    if fmt.encoding not in _READABLE:
        return f"the tone voice is read from WAV, 16-bit PCM, µ-law and A-law, not from {fmt.encoding}"
    if fmt.sample_rate_hz not in RATES_HZ:
        return f"the tone voice is read at {RATES_HZ[0]} to {RATES_HZ[-1]} Hz, not at {fmt.sample_rate_hz}"
    return ""


def read_rate_hz(fmt: AudioFormat) -> int:
    """Return the rate of the slices of a `PcmSlicer`: the format's own, or one of the voice that it is resampled to."""
    return fmt.sample_rate_hz if fmt.sample_rate_hz in fsk.SAMPLE_RATES_HZ else _RESAMPLED_HZ


class PcmSlicer:
    """Cuts raw samples of `format` into slices of at most a quarter second, as mono s16le (first channel) at `read_rate_hz`."""

    def __init__(self, fmt: AudioFormat) -> None:
        self._format = fmt
        self._frame = max(1, fmt.bytes_per_second // fmt.sample_rate_hz)
        self._slice = self._frame * int(fmt.sample_rate_hz * _SLICE_S)
        rate_hz = read_rate_hz(fmt)
        self._resampler = resampler(fmt.sample_rate_hz, rate_hz) if rate_hz != fmt.sample_rate_hz else None
        self._partial_frame = b""
        self._frames = 0

    @property
    def seconds(self) -> float:
        return self._frames / self._format.sample_rate_hz

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the slices in `data`, which may be cut anywhere; all must be taken before the next `feed`."""
        data = self._partial_frame + data
        size = len(data) - len(data) % self._frame
        self._partial_frame = data[size:]
        self._frames += size // self._frame
        for start in range(0, size, self._slice):
            yield self._mono(data[start : min(size, start + self._slice)])

    def _mono(self, data: bytes) -> bytes:
        match self._format.encoding:
            case "mulaw":
                data = g711.mulaw_to_pcm16(data)
            case "alaw":
                data = g711.alaw_to_pcm16(data)
        if self._format.channels == 1 and self._resampler is None:
            return data
        samples = array("h", data)[:: self._format.channels]
        return (samples if self._resampler is None else self._resampler.feed(samples)).tobytes()


def spoken_format(requested: AudioFormat, *, live: bool = False) -> AudioFormat:
    """Return the format of the answer to a request for `requested`.

    PCM and WAV keep the requested rate if the voice has it, else get 24 kHz; µ-law and A-law have 8 kHz; anything else
    becomes a WAV. A live session has no containers: it sends PCM instead.
    """
    encoding, rate_hz = requested.encoding, requested.sample_rate_hz
    if encoding in ("mulaw", "alaw"):
        return AudioFormat(encoding=encoding, sample_rate_hz=_PHONE_RATE_HZ)
    if encoding not in ("pcm_s16le", "wav") or rate_hz not in fsk.SAMPLE_RATES_HZ:
        rate_hz = _DEFAULT_RATE_HZ
    return AudioFormat(encoding="pcm_s16le" if live or encoding == "pcm_s16le" else "wav", sample_rate_hz=rate_hz)


def spoken(text: str, fmt: AudioFormat) -> Iterator[bytes]:
    """Return `text` in the voice, in a format of `spoken_format`, in pieces of about 40 ms, each made when it is taken.

    Raises ValueError for a text that is too long.
    """
    pieces = fsk.encode(text, fmt.sample_rate_hz)
    match fmt.encoding:
        case "mulaw":
            return map(g711.pcm16_to_mulaw, pieces)
        case "alaw":
            return map(g711.pcm16_to_alaw, pieces)
        case "wav":
            return _in_wav(pieces, wav.header(fmt, round(fsk.duration_s(text) * fmt.sample_rate_hz) * 2))
        case _:
            return pieces


def _in_wav(pieces: Iterator[bytes], header: bytes) -> Iterator[bytes]:
    yield header + next(pieces)
    yield from pieces


def words(text: str, start_s: float, speaker: str | None = None) -> tuple[Word, ...]:
    """Return the words of an utterance that began at `start_s`, with their times."""
    return tuple(
        Word(text=word, start_s=round(start_s + begin, 3), end_s=round(start_s + end, 3), confidence=1.0, speaker=speaker)
        for word, begin, end in fsk.word_spans(text)
    )


def speaker_of(request: TranscribeRequest | ListenRequest) -> str | None:
    """Return the speaker to name in the transcript: the tone voice is one voice, so all words have the same."""
    return "0" if request.diarize else None


def final(done: fsk.Done, speaker: str | None) -> Final:
    start_s = max(done.start_s, 0.0)  # the decoder places the first tone to the nearest window
    spans = words(done.text, start_s, speaker)
    return Final(text=done.text, start_s=start_s, end_s=done.end_s, words=spans, confidence=1.0, speaker=speaker)
