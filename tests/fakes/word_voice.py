"""A voice whose audio shows which words were spoken.

Each word of `WORDS` sounds as a square wave of 100 Hz with a loudness of its own, for as long as its letters take at the voice's
pace. Loudness survives µ-law and resampling, and one sample of every 5 ms is enough to read it.
"""

from __future__ import annotations

import struct
from itertools import groupby

import attrs

from gw.relay.voice_pace import letters_of

WORDS = [
    "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india",
    "juliett", "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo",
    "sierra", "tango", "uniform", "victor", "whiskey", "yankee", "zulu",
]  # fmt: skip
SENTENCE = " ".join(WORDS[:20]) + "."
"""Twenty words, each once."""
_STEP = 450
_BLOCK_S = 0.005
FRAME_S = 0.024
MP3_HEAD = b"\xff\xf3\x84\xc0"
MP3_BYTES = 192


@attrs.frozen(kw_only=True)
class WordVoice:
    """`per_s`: letters a second."""

    per_s: float = 15.0
    lead_in_s: float = 0.15
    tail_s: float = 0.2

    def _blocks(self, word: str) -> int:
        return round((letters_of(word) + 1) / self.per_s / _BLOCK_S)

    def _levels(self, text: str) -> list[tuple[str, int, int]]:
        """Return each word with its level and its length in blocks."""
        named = ((word, word.strip(".,!?").lower()) for word in text.split())
        return [(word, _STEP * (WORDS.index(name) + 1), self._blocks(name)) for word, name in named]

    def pcm(self, text: str, rate_hz: int) -> bytes:
        words = self._levels(text)
        if not words:
            return b""
        size = int(rate_hz * _BLOCK_S)
        out = [bytes(2 * size) * round(self.lead_in_s / _BLOCK_S)]
        for n, (_, level, blocks) in enumerate(words):
            up, down = struct.pack("<h", level) * size, struct.pack("<h", -level) * size
            out.append(((up + down) * blocks)[: 2 * size * blocks] if n % 2 else ((down + up) * blocks)[: 2 * size * blocks])
        out.append(bytes(2 * size) * round(self.tail_s / _BLOCK_S))
        return b"".join(out)

    def spans(self, text: str) -> list[tuple[str, float, float]]:
        """Return the words with the seconds at which each begins and ends."""
        at, spans = self.lead_in_s, []
        for word, _, blocks in self._levels(text):
            spans.append((word, at, at + blocks * _BLOCK_S))
            at += blocks * _BLOCK_S
        return spans

    def mp3(self, text: str) -> list[bytes]:
        """Return the same as frames of mp3: 24 ms each, 24 kHz, 64 kbit/s, filled with the number of the word that sounds."""
        spans = [(WORDS.index(word.strip(".,!?").lower()) + 1, start, end) for word, start, end in self.spans(text)]
        length_s = (spans[-1][2] if spans else 0.0) + self.tail_s
        frames = []
        for n in range(int(length_s / FRAME_S)):
            at = (n + 0.5) * FRAME_S
            number = next((number for number, start, end in spans if start <= at < end), 0)
            frames.append(MP3_HEAD + bytes([number]) * (MP3_BYTES - len(MP3_HEAD)))
        return frames

    def heard_mp3(self, data: bytes) -> list[str]:
        """Return the words that are complete in frames of `mp3`."""
        numbers = [data[at + len(MP3_HEAD)] for at in range(0, len(data) - MP3_BYTES + 1, MP3_BYTES)]
        assert all(data[at : at + len(MP3_HEAD)] == MP3_HEAD for at in range(0, len(numbers) * MP3_BYTES, MP3_BYTES))
        words = []
        for number, run in groupby(numbers):
            if number:
                word = WORDS[number - 1]
                words += [word] * int(len(list(run)) * FRAME_S / (self._blocks(word) * _BLOCK_S) + 0.15)
        return words

    def heard(self, pcm: bytes, rate_hz: int) -> list[str]:
        """Return the words that are complete in audio of voices with this pace, in order; one that sounds twice is there twice."""
        size = int(rate_hz * _BLOCK_S)
        count = len(pcm) // 2 // size
        samples = [abs(struct.unpack_from("<h", pcm, 2 * (n * size + size // 2))[0]) for n in range(count)]
        words = []
        for index, run in groupby(round(sample / _STEP) for sample in samples):
            if 0 < index <= len(WORDS):
                word = WORDS[index - 1]
                words += [word] * int(len(list(run)) / self._blocks(word) + 0.1)
        return words


def gaps_of(pieces: list[tuple[float, float]]) -> list[float]:
    """Return the silences that a listener hears who plays audio as it comes: `pieces` are times of arrival and lengths."""
    gaps: list[float] = []
    ends_at = None
    for at, seconds in pieces:
        if ends_at is not None and at > ends_at:
            gaps.append(at - ends_at)
        ends_at = max(at, ends_at if ends_at is not None else at) + seconds
    return gaps
