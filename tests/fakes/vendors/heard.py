"""What fake vendors hear in a recording: words with times, speakers and redaction where they were asked for."""

from __future__ import annotations

from msgspec.structs import replace

from gw.errors import ClientProtocolError
from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Transcript, Word
from gw.wire import wav
from gw.wire.convert import converter

WORD_S = 0.2
REDACTED = "[REDACTED]"
_HEARD = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)


def heard(
    text: str, length_s: float, *, words: bool = True, speakers: tuple[str, ...] = (), private: str = "", redact: bool = False
) -> Transcript:
    """Return a transcript. With `speakers` each says every second word; `private` is removed where redaction was asked for."""
    if redact and private:
        text = text.replace(private, REDACTED)
    timed = tuple(
        Word(
            text=word, start_s=n * WORD_S, end_s=(n + 1) * WORD_S, confidence=0.9,
            speaker=speakers[n % len(speakers)] if speakers else None,
        )
        for n, word in enumerate(text.split())
    )  # fmt: skip
    return Transcript(text=text, duration_s=length_s, words=timed if words else ())


def tone_text(recording: bytes) -> str:
    """Return what the tone voice says in a WAV file; nothing for other sounds and other files."""
    info = wav.parse(recording)
    if info is None:
        return ""
    pcm, to_heard = recording[info.data_offset :], converter(info.format, _HEARD)
    events = fsk.ToneDecoder(_HEARD.sample_rate_hz or 0).feed(pcm if to_heard is None else to_heard.feed(pcm))
    return " ".join(event.text for event in events if isinstance(event, fsk.Done))


def by_speaker(transcript: Transcript) -> Transcript:
    """Return the transcript with a segment for each word, whose speaker it has."""
    segments = [Final(text=w.text, start_s=w.start_s, end_s=w.end_s, speaker=w.speaker, words=(w,)) for w in transcript.words]
    return replace(transcript, segments=tuple(segments))


def refused(what: str, param: str) -> ClientProtocolError:
    """Return the error of a request that the vendor refuses."""
    return ClientProtocolError(what=what, param=param)
