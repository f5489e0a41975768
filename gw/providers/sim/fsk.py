"""The tone voice: text as a multi-tone FSK signal, and back without loss.

Theory of operation. A symbol is 20 ms of one of 16 sine tones (700, 850 … 2950 Hz) and carries four bits, so a byte of
UTF-8 takes 40 ms. Everything lies in the telephone band. An utterance is

    A A A B | length, CRC-8 | text | CRC-16 | 20 ms silence

where the tones A (3100 Hz) and B (550 Hz) mark the start and are used nowhere else. All tones are multiples of 50 Hz, so
each completes a whole number of periods in one symbol: symbols join without clicks, the encoder needs one table per rate,
and over a symbol the tones are orthogonal.

The decoder reduces every supported rate to 8 kHz by dropping samples. The signal has no content above 4 kHz, and noise that
aliases is spread over 80 bins. It looks for A every 20 ms, finds the change from A to B to the sample, and then takes the
strongest tone of each symbol. The strength of a tone is its share of the window's energy, so loudness does not matter. A text
is returned only if both checksums agree. If the signal stops in the middle, the decoder notices after three symbols without
a tone, and looks for the next start.

The energies of the 16 tones are bins of a 160-point DFT. Folding the window twice (first half plus and minus second half,
then each about its own middle) leaves 40-point sums, a quarter of the work.
"""

from __future__ import annotations

import codecs
import math
import re
from array import array
from binascii import crc_hqx
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from operator import add, mul, sub
from sys import byteorder
from typing import TypeAlias

import msgspec

from gw.wire.containers.flac import crc8

SAMPLE_RATES_HZ = (8_000, 16_000, 24_000, 32_000, 48_000)
SYMBOL_S = 0.02
MAX_BYTES = 65_535  # longest text in UTF-8

_RATE_HZ = 8_000
_N = 160  # samples of one symbol at 8 kHz; also the DFT length, so bin k is 50·k Hz
_DATA_BINS = tuple(range(14, 60, 3))
_A_BIN, _B_BIN = 62, 11
_A_SYMBOLS = 3
_PREAMBLE_SYMBOLS = _A_SYMBOLS + 1
_HEADER_BYTES = 3
_TRAILER_BYTES = 2
_TAIL_SYMBOLS = 1
_AMPLITUDE = 9_000

_SYNC_SHARE = 0.35
"""Least share of A (or B) in a window's energy for a preamble. White noise reaches it once in 10^15 windows."""
_TONE_SHARE = 0.2  # least share of the strongest tone in the energy of a symbol
_LOST_SYMBOLS = 3
_LOOK_BACK = 8 * _N  # samples searched again after an utterance was lost: the next preamble may have started within it
_RUN = re.compile(r"\s+|\S+")
_PARTIAL_CHARACTERS = 12  # a Partial comes after this many characters even without a space


class Started(msgspec.Struct, frozen=True):
    """A preamble that starts at `at_s` (seconds since the first sample)."""

    at_s: float


class Partial(msgspec.Struct, frozen=True):
    """Complete words of the text so far, not yet verified by the checksum."""

    text: str
    start_s: float
    end_s: float


class Done(msgspec.Struct, frozen=True):
    """A complete utterance whose checksum agrees."""

    text: str
    start_s: float
    end_s: float


class ToneLost(msgspec.Struct, frozen=True):
    """The current utterance broke off or was damaged; its text is dropped."""

    at_s: float


ToneEvent: TypeAlias = Started | Partial | Done | ToneLost


def duration_s(text: str) -> float:
    """Return the length of the audio of `text`, final silence included. Raises ValueError beyond MAX_BYTES of UTF-8."""
    size = len(_payload(text))
    symbols = _PREAMBLE_SYMBOLS + 2 * (_HEADER_BYTES + size + _TRAILER_BYTES) + _TAIL_SYMBOLS if size else 0
    return symbols * SYMBOL_S


def encode(text: str, sample_rate_hz: int) -> Iterator[bytes]:
    """Return the utterance as mono s16le PCM, in pieces of 20 to 80 ms; nothing for the empty text.

    Each piece is made when it is taken. Raises ValueError for a rate not in SAMPLE_RATES_HZ or a text beyond
    MAX_BYTES.
    """
    table = _symbol_table(check_rate(sample_rate_hz))
    payload = _payload(text)
    return _pieces(payload, table) if payload else iter(())


def word_spans(text: str) -> list[tuple[str, float, float]]:
    """Return the words of `text` with the seconds at which each starts and ends, from the start of the utterance."""
    spans = []
    at = _PREAMBLE_SYMBOLS + 2 * _HEADER_BYTES
    for piece in _RUN.findall(text):
        width = 2 * len(_payload(piece))
        if not piece[0].isspace():
            spans.append((piece, at * SYMBOL_S, (at + width) * SYMBOL_S))
        at += width
    return spans


def check_rate(sample_rate_hz: int) -> int:
    """Return the rate. Raises ValueError naming the supported ones."""
    if sample_rate_hz not in SAMPLE_RATES_HZ:
        known = ", ".join(map(str, SAMPLE_RATES_HZ))
        raise ValueError(f"sample rate {sample_rate_hz} Hz is not supported; choose one of {known}")
    return sample_rate_hz


def _payload(text: str) -> bytes:
    payload = text.encode("utf-8", "replace")   # a lone surrogate is spoken as "?"
    if len(payload) > MAX_BYTES:
        raise ValueError(f"text of {len(payload)} bytes is too long for one utterance; {MAX_BYTES} is the most")
    return payload


def _pieces(payload: bytes, table: tuple[bytes, ...]) -> Iterator[bytes]:
    a, b, silence = table[16:]
    head = len(payload).to_bytes(2, "big")
    yield a * _A_SYMBOLS + b
    for byte in (*head, crc8(head), *payload, *crc_hqx(head + payload, 0xFFFF).to_bytes(2, "big")):
        yield table[byte >> 4] + table[byte & 15]
    yield silence


@lru_cache(maxsize=len(SAMPLE_RATES_HZ))
def _symbol_table(rate_hz: int) -> tuple[bytes, ...]:
    """Return the PCM of the 16 data symbols, A, B and silence."""
    count = rate_hz // 50
    period = [_AMPLITUDE * math.sin(2 * math.pi * i / count) for i in range(count)]
    table = []
    for k in (*_DATA_BINS, _A_BIN, _B_BIN):
        samples = array("h", [round(period[k * i % count]) for i in range(count)])
        if byteorder == "big":
            samples.byteswap()
        table.append(samples.tobytes())
    return (*table, bytes(2 * count))


def _wave(function: str, k: int, indexes: Iterable[int]) -> list[float]:
    wave = math.cos if function == "cos" else math.sin
    return [wave(2 * math.pi * k * n / _N) for n in indexes]


_TONES = tuple(
    # (is odd, weights of the folded cosine part, weights of the folded sine part); see `_strongest`
    (k % 2, _wave("cos", k, range(40 if k % 2 else 41)), _wave("sin", k, range(1, 41 if k % 2 else 40)))
    for k in _DATA_BINS
)
_REGION = range(5 * _N)
_A_COS, _A_SIN = _wave("cos", _A_BIN, _REGION), _wave("sin", _A_BIN, _REGION)
_B_COS, _B_SIN = _wave("cos", _B_BIN, _REGION), _wave("sin", _B_BIN, _REGION)
_A_COS_N, _A_SIN_N = _A_COS[:_N], _A_SIN[:_N]


def _dot(x: list[int], y: Iterable[float]) -> float:
    total: float = sum(map(mul, x, y))
    return total


def _strongest(x: list[int]) -> tuple[int, float]:
    """Return the data tone with the most energy in one symbol of 160 samples, and its share of the window's energy.

    With N = 160, u[n] = x[n] + x[n+80] keeps the even bins and v[n] = x[n] - x[n+80] the odd ones. About n = 40 the
    even bins' cosines are symmetric and their sines antisymmetric; for the odd bins it is the other way round.
    """
    energy = _dot(x, x)
    if not energy:
        return 0, 0.0
    first, second = x[:80], x[80:]
    u, v = list(map(add, first, second)), list(map(sub, first, second))
    u_low, u_high, v_low, v_high = u[1:40], u[:40:-1], v[1:40], v[:40:-1]
    cosines = ([u[0], *map(add, u_low, u_high), u[40]], [v[0], *map(sub, v_low, v_high)])
    sines = (list(map(sub, u_low, u_high)), [*map(add, v_low, v_high), v[40]])
    best, strongest = -1.0, 0
    for tone, (odd, cos, sin) in enumerate(_TONES):
        i, q = sum(map(mul, cosines[odd], cos)), sum(map(mul, sines[odd], sin))
        power = i * i + q * q
        if power > best:
            best, strongest = power, tone
    return strongest, 2 * best / (_N * energy)


def _a_share(x: list[int]) -> float:
    energy = _dot(x, x)
    return 2 * (_dot(x, _A_COS_N) ** 2 + _dot(x, _A_SIN_N) ** 2) / (_N * energy) if energy else 0.0


def _boundary(x: list[int]) -> int | None:
    """Return the sample at which A changes to B within 5 symbols that start with A, or None.

    Running sums of the signal times each carrier give the energy of every window at once.
    """
    running = [[0.0, *accumulate(map(mul, x, wave))] for wave in (_A_COS, _A_SIN, _B_COS, _B_SIN)]
    squares = [0, *accumulate(map(mul, x, x))]
    a_cos, a_sin, b_cos, b_sin = ([*map(sub, r[_N:], r)] for r in running)
    energy = [*map(sub, squares[_N:], squares)]
    last = len(energy)
    a = [i * i + q * q for i, q in zip(a_cos, a_sin, strict=True)]
    b = [i * i + q * q for i, q in zip(b_cos, b_sin, strict=True)]
    best = max(range(_N, last), key=lambda d: a[d - _N] + b[d])
    threshold = _SYNC_SHARE * _N / 2
    if a[best - _N] <= threshold * energy[best - _N] or b[best] <= threshold * energy[best]:
        return None
    return best


class _Frame:
    """The utterance being read: header, text, checksum."""

    def __init__(self, start: int) -> None:
        self.start = start  # 8 kHz sample at which its preamble starts
        self.nibble = -1
        self.data = bytearray()
        self.size = -1
        self.text = ""
        self.reported = 0
        self.bad = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def take(self, nibble: int) -> bool:
        """Add four bits. Return False for a wrong header or invalid UTF-8."""
        if self.nibble < 0:
            self.nibble = nibble
            return True
        byte, self.nibble = self.nibble << 4 | nibble, -1
        self.data.append(byte)
        count = len(self.data)
        if count == _HEADER_BYTES:
            self.size = int.from_bytes(self.data[:2], "big")
            return self.size > 0 and crc8(bytes(self.data[:2])) == byte
        if _HEADER_BYTES < count <= _HEADER_BYTES + self.size:
            try:
                self.text += self._utf8.decode(bytes((byte,)), count == _HEADER_BYTES + self.size)
            except UnicodeDecodeError:
                return False
        return True

    @property
    def complete(self) -> bool:
        return self.size >= 0 and len(self.data) == _HEADER_BYTES + self.size + _TRAILER_BYTES

    @property
    def valid(self) -> bool:
        """Return whether the checksum of header and text agrees."""
        body = bytes(self.data[:2] + self.data[_HEADER_BYTES:-_TRAILER_BYTES])
        return crc_hqx(body, 0xFFFF) == int.from_bytes(self.data[-_TRAILER_BYTES:], "big")

    def partial(self) -> str:
        """Return the text up to the last complete word if that is more than was reported; else ""."""
        text = self.text
        cut = max((i for i in range(len(text) - 1, self.reported, -1) if text[i].isspace()), default=0)
        if not cut and len(text) - self.reported >= _PARTIAL_CHARACTERS:
            cut = len(text)
        if not cut:
            return ""
        fresh, self.reported = text[self.reported : cut], cut
        return text[:cut] if fresh.strip() else ""


class ToneDecoder:
    """Audio in, cut anywhere; events out. Costs about 6 ms of CPU per second of speech, 1.5 ms per second of noise.

        looking for A A ──boundary found──▶ reading symbols
               ▲                                 │
               └──── complete (Done) or lost ────┘
    """

    def __init__(self, sample_rate_hz: int) -> None:
        self._step = check_rate(sample_rate_hz) // _RATE_HZ
        self._half_sample = b""
        self._skip = 0
        self._samples: list[int] = []
        self._base = 0  # 8 kHz index of `_samples[0]`
        self._at = 0  # 8 kHz index of the next window
        self._last_had_a = False
        self._frame: _Frame | None = None

    def feed(self, pcm: bytes) -> list[ToneEvent]:
        """Decode the next mono s16le samples, any number of bytes."""
        self._add(pcm)
        events: list[ToneEvent] = []
        while (self._read_symbol if self._frame else self._find_preamble)(events):
            pass
        self._drop_old_samples()
        return events

    def _add(self, pcm: bytes) -> None:
        data = self._half_sample + pcm
        size = len(data) & ~1
        self._half_sample = data[size:]
        samples = array("h", data[:size])
        if byteorder == "big":
            samples.byteswap()
        self._samples.extend(samples[self._skip :: self._step])
        self._skip = (self._skip - len(samples)) % self._step

    def _window(self, at: int, size: int) -> list[int] | None:
        """Return `size` samples from 8 kHz index `at`, or None until all have arrived."""
        start = at - self._base
        return self._samples[start : start + size] if start + size <= len(self._samples) else None

    def _find_preamble(self, events: list[ToneEvent]) -> bool:
        """Look for a preamble in the next window. Return False when more audio is needed."""
        if (window := self._window(self._at, _N)) is None:
            return False
        if not (any(window) and _a_share(window) >= _SYNC_SHARE):
            self._last_had_a = False
        elif not self._last_had_a:
            self._last_had_a = True
        else:
            begin = self._at - _N
            if (region := self._window(begin, len(_REGION))) is None:
                return False
            if (boundary := _boundary(region)) is not None:
                self._at = begin + boundary + _N
                self._frame = _Frame(self._at - _PREAMBLE_SYMBOLS * _N)
                self._last_had_a = False
                events.append(Started(self._frame.start / _RATE_HZ))
                return True
        self._at += _N
        return True

    def _read_symbol(self, events: list[ToneEvent]) -> bool:
        """Read the next symbol of the utterance. Return False when more audio is needed."""
        frame = self._frame
        window = self._window(self._at, _N)
        if frame is None or window is None:
            return False
        self._at += _N
        nibble, share = _strongest(window)
        frame.bad = frame.bad + 1 if share < _TONE_SHARE else 0
        if not frame.take(nibble) or frame.bad >= _LOST_SYMBOLS or (frame.complete and not frame.valid):
            self._frame = None
            events.append(ToneLost(self._at / _RATE_HZ))
            self._at = max(frame.start + _PREAMBLE_SYMBOLS * _N, self._at - _LOOK_BACK)
            return True
        times = frame.start / _RATE_HZ, self._at / _RATE_HZ
        if frame.complete:
            self._frame = None
            events.append(Done(frame.text, *times))
        elif frame.nibble < 0 and (text := frame.partial()):
            if events and isinstance(events[-1], Partial):   # only the latest guess per piece of audio
                events.pop()
            events.append(Partial(text, *times))
        return True

    def _drop_old_samples(self) -> None:
        """Drop the samples that will not be looked at again."""
        done = self._at - _LOOK_BACK - 2 * _N - self._base
        if done > len(self._samples) // 2:
            del self._samples[:done]
            self._base += done


def decode(pcm: bytes, sample_rate_hz: int) -> list[Done]:
    """Return every complete utterance in a recording."""
    return [event for event in ToneDecoder(sample_rate_hz).feed(pcm) if isinstance(event, Done)]
