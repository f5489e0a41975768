"""ElevenLabs' names for forms of audio: `pcm_24000`, `ulaw_8000`, `mp3_44100_128`, `opus_48000_64`.

Source: elevenlabs 2.78.0, `output_format` of speech and `audio_format` of live transcription (November 2026). `pcm` is signed
16-bit little-endian, mono; `opus` comes in Ogg pages.
"""

from __future__ import annotations

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat, Encoding

SPOKEN_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000})
"""Samples of 44.1 kHz and above are refused to smaller plans: what asks for those is converted."""
HEARD_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_SERVED_HZ = SPOKEN_HZ | HEARD_HZ
_COMPRESSED: dict[str, str] = {"mp3": "mp3_44100_128", "opus": "opus_48000_64", "ogg": "opus_48000_64"}
_TELEPHONE: dict[str, str] = {"mulaw": "ulaw_8000", "alaw": "alaw_8000"}
_KINDS: dict[str, Encoding] = {
    "pcm": "pcm_s16le", "wav": "wav", "ulaw": "mulaw", "alaw": "alaw", "mp3": "mp3", "opus": "opus"
}  # fmt: skip
DEFAULT = "mp3_44100_128"


def sent_for(asked: AudioFormat) -> AudioFormat:
    """What the vendor sends for what is asked: that, or the nearest it makes. `wav`: samples, which we put the header before."""
    match asked.encoding:
        case "mp3" | "opus" | "ogg":
            return asked
        case "mulaw" | "alaw" if asked.sample_rate_hz == 8_000:
            return asked
        case "pcm_s16le" | "wav" | "mulaw" | "alaw" | "pcm_f32le":
            encoding: Encoding = "wav" if asked.encoding == "wav" else "pcm_s16le"
            return AudioFormat(encoding=encoding, sample_rate_hz=_rate(asked.sample_rate_hz))
    return AudioFormat(encoding="mp3")


def _rate(wanted_hz: int) -> int:
    """The lowest that loses nothing, else the highest."""
    return min((rate for rate in SPOKEN_HZ if rate >= (wanted_hz or 24_000)), default=max(SPOKEN_HZ))


def name_of(fmt: AudioFormat, told: str = "") -> str:
    """The vendor's name of a form that `sent_for` gave. `told`: the caller's own word, kept where it names that form."""
    if fmt.encoding in _COMPRESSED:
        default = _COMPRESSED[fmt.encoding]
        return told if told.partition("_")[0] == default.partition("_")[0] else default
    return _TELEPHONE.get(fmt.encoding) or f"pcm_{fmt.sample_rate_hz}"


def format_of(name: str, param: str = "output_format") -> AudioFormat:
    """The form a client's word names. Raises ClientProtocolError."""
    kind, _, rest = name.partition("_")
    encoding = _KINDS.get(kind)
    rate = rest.partition("_")[0]
    if encoding is None or not (rate.isascii() and rate.isdigit() and len(rate) < 7):
        raise ClientProtocolError(what=f"{param} is not one of {', '.join(_KINDS)} with a rate", param=param)
    if encoding in ("mp3", "opus"):
        return AudioFormat(encoding=encoding)
    if int(rate) not in _SERVED_HZ or (encoding in ("mulaw", "alaw") and rate != "8000"):
        raise ClientProtocolError(what=f"{param} names a rate that is not offered", param=param)
    return AudioFormat(encoding=encoding, sample_rate_hz=int(rate))


def heard_name(fmt: AudioFormat) -> str:
    return "ulaw_8000" if fmt.encoding == "mulaw" else f"pcm_{fmt.sample_rate_hz}"


def as_samples(fmt: AudioFormat) -> AudioFormat:
    """The samples inside a WAV; any other form as it is."""
    return msgspec.structs.replace(fmt, encoding="pcm_s16le") if fmt.encoding == "wav" else fmt
