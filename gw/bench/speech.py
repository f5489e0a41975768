"""The words and voices of simulated callers: recordings, or questions that the model under test speaks first."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from sys import byteorder

import attrs
import trio

from gw.bench.target import CannotCall, Target
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd
from gw.wire import wav

QUESTIONS = (
    "When do you open tomorrow?",
    "I would like to book a table for two people.",
    "What is on the menu today?",
    "How much is the menu of the day?",
    "Where do I find you?",
    "Thank you, that is all.",
)
"""Said by a caller turn by turn, where the user names nothing else."""
FRAME_S = 0.02
"""Seconds of audio in one frame of a caller's microphone, as telephony and browsers send it."""
_MAKING_S = 30.0  # for the model under test to speak one question
_SILENT = 300  # samples of a lower amplitude, of 32,768, at either end belong to no word
_PUNCTUATION = re.compile(r"[^\w\s']+")


@attrs.frozen(kw_only=True)
class Phrase:
    """`pcm`: mono s16le samples of `format`, without silence at its ends."""

    text: str
    pcm: bytes
    format: AudioFormat

    def frames(self) -> Iterator[bytes]:
        """Yield frames of FRAME_S; the last is filled with silence."""
        size = frame_bytes(self.format)
        for at in range(0, len(self.pcm), size):
            yield self.pcm[at : at + size].ljust(size, b"\0")

    @property
    def seconds(self) -> float:
        return self.format.seconds(len(self.pcm))


def frame_bytes(audio: AudioFormat) -> int:
    return round(audio.sample_rate_hz * FRAME_S) * 2


def from_file(path: Path) -> Phrase:
    """Read a mono WAV file of 16-bit samples, whose words are in the text file of the same name. Raises CannotCall, OSError."""
    data = path.read_bytes()
    info = wav.parse(data)
    if info is None or info.format.encoding != "wav" or info.format.channels != 1:
        raise CannotCall(reason=f"{path}: not a mono WAV file of 16-bit samples; convert it: ffmpeg -i IN -ac 1 -sample_fmt s16 {path}")
    words = path.with_suffix(".txt")
    if not words.exists():
        raise CannotCall(reason=f"{path}: write the words that are said in it to {words}")
    audio = AudioFormat(encoding="pcm_s16le", sample_rate_hz=info.format.sample_rate_hz)
    pcm = without_silence(data[info.data_offset :][: info.data_bytes])
    if not pcm:
        raise CannotCall(reason=f"{path}: nothing can be heard in it")
    return Phrase(text=words.read_text("utf-8").strip(), pcm=pcm, format=audio)


async def spoken_by(target: Target, texts: Sequence[str]) -> list[Phrase]:
    """Have the target's model speak each of `texts`. Raises ProviderError, CannotCall for one without sound."""
    return [await _spoken(target, text) for text in texts]


async def _spoken(target: Target, text: str) -> Phrase:
    pcm = bytearray()
    with trio.move_on_after(_MAKING_S) as scope:
        async with target.speak("", "") as session:
            await session.send_text(text)
            await session.finish()
            over = False
            while not over:
                for event in await session.receive():
                    if isinstance(event, AudioChunk):
                        pcm += event.data
                    over = over or isinstance(event, SpeakEnd)
    if scope.cancelled_caught or not pcm:
        raise CannotCall(reason=f"the text-to-speech model did not speak {text!r} within {_MAKING_S:g} s; give recordings with --speech")
    if session.format.encoding != "pcm_s16le":
        raise CannotCall(reason=f"the text-to-speech model speaks {session.format.encoding}; give recordings with --speech")
    return Phrase(text=text, pcm=without_silence(bytes(pcm)), format=session.format)


def without_silence(pcm: bytes) -> bytes:
    """Return s16le samples from the first to the last that can be heard."""
    samples = array("h", pcm[: len(pcm) & ~1])
    if byteorder == "big":
        samples.byteswap()
    loud = [at for at, sample in enumerate(samples) if abs(sample) >= _SILENT]
    return pcm[2 * loud[0] : 2 * loud[-1] + 2] if loud else b""


def words_of(text: str) -> list[str]:
    """Return the words as they are compared: without punctuation and capital letters."""
    return _PUNCTUATION.sub(" ", text).casefold().split()


def compare(said: str, heard: str) -> tuple[int, int]:
    """Return how many words of `said` are missing from `heard`, and how many are there that were not said."""
    ours, theirs = words_of(said), words_of(heard)
    same = sum(block.size for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks())
    return len(ours) - same, len(theirs) - same
