"""A voice whose audio shows which words were spoken.

Each word of `WORDS` sounds as a square wave of 100 Hz with a loudness of its own, for as long as its letters take at the voice's
pace. Loudness survives µ-law and resampling, and one sample of every 5 ms is enough to read it.
"""

from __future__ import annotations

import struct
from itertools import groupby

import attrs

from gw.relay.voice_pace import letters_of
from gw.types.audio import AudioFormat
from gw.wire.containers.frames import mpeg_frame

WORDS = [
    "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india",
    "juliett", "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo",
    "sierra", "tango", "uniform", "victor", "whiskey", "yankee", "zulu",
]  # fmt: skip
SENTENCE = " ".join(WORDS[:20]) + "."
"""Twenty words, each once."""
_STEP = 450
_BLOCK_S = 0.005
MP3_HZ = (44_100, 48_000, 32_000, 22_050, 24_000, 16_000, 11_025, 12_000, 8_000)
"""Sample rates of MP3, three for each of the versions 1, 2 and 2.5."""
_KBIT = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


@attrs.frozen(kw_only=True)
class WordVoice:
    """`per_s`: letters a second. It pauses after a comma, and longer after a sentence, where that is set."""

    per_s: float = 15.0
    comma_s: float = 0.0
    sentence_s: float = 0.0
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
        for n, (word, level, blocks) in enumerate(words):
            up, down = struct.pack("<h", level) * size, struct.pack("<h", -level) * size
            out.append(((up + down) * blocks)[: 2 * size * blocks] if n % 2 else ((down + up) * blocks)[: 2 * size * blocks])
            out.append(bytes(2 * size) * round(self._pause_s(word) / _BLOCK_S))
        out.append(bytes(2 * size) * round(self.tail_s / _BLOCK_S))
        return b"".join(out)

    def spans(self, text: str) -> list[tuple[str, float, float]]:
        """Return the words with the seconds at which each begins and ends."""
        at, spans = self.lead_in_s, []
        for word, _, blocks in self._levels(text):
            spans.append((word, at, at + blocks * _BLOCK_S))
            at += blocks * _BLOCK_S + self._pause_s(word)
        return spans

    def _pause_s(self, word: str) -> float:
        return self.comma_s if word.endswith(",") else self.sentence_s if word.endswith((".", "?", "!")) else 0.0

    def mp3(self, text: str, fmt: AudioFormat) -> list[bytes]:
        """Return the same as mono frames of mp3, each filled with the number of the word that sounds.

        At 24 kHz and 64 kbit/s unless the format names other rates.
        """
        rate, kbit = fmt.sample_rate_hz or 24_000, fmt.kbit_per_s or 64
        at, is_one = MP3_HZ.index(rate), rate >= 32_000
        head = bytes([0xFF, (0xFB, 0xF3, 0xE3)[at // 3], _KBIT[is_one].index(kbit) << 4 | at % 3 << 2, 0xC0])
        frame = mpeg_frame(head)
        assert frame is not None
        size, samples, _ = frame
        spans = [(WORDS.index(word.strip(".,!?").lower()) + 1, start, end) for word, start, end in self.spans(text)]
        length_s = (spans[-1][2] if spans else 0.0) + self.tail_s
        frames = []
        for n in range(int(length_s * rate / samples)):
            at_s = (n + 0.5) * samples / rate
            number = next((number for number, start, end in spans if start <= at_s < end), 0)
            frames.append(head + bytes([number]) * (size - len(head)))
        return frames

    def heard_mp3(self, data: bytes) -> list[str]:
        """Return the words that are complete in frames of `mp3`, all of the same sample rate."""
        frames = mp3_frames(data)
        assert len({seconds for _, seconds in frames}) <= 1
        words = []
        for number, run in groupby(frames, key=lambda frame: frame[0][4]):
            if number:
                word = WORDS[number - 1]
                words += [word] * int(sum(seconds for _, seconds in run) / (self._blocks(word) * _BLOCK_S) + 0.15)
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


def mp3_frames(data: bytes) -> list[tuple[bytes, float]]:
    """Return the frames of a stream that has nothing else, each with its length in seconds. The last may be cut off."""
    frames, at = [], 0
    while at + 4 <= len(data):
        frame = mpeg_frame(data[at : at + 4])
        assert frame is not None, (at, data[at : at + 4])
        size, samples, rate = frame
        if at + size <= len(data):
            frames.append((data[at : at + size], samples / rate))
        at += size
    return frames


def gaps_of(pieces: list[tuple[float, float]]) -> list[float]:
    """Return the silences that a listener hears who plays audio as it comes: `pieces` are times of arrival and lengths."""
    gaps: list[float] = []
    ends_at = None
    for at, seconds in pieces:
        if ends_at is not None and at > ends_at:
            gaps.append(at - ends_at)
        ends_at = max(at, ends_at if ends_at is not None else at) + seconds
    return gaps
