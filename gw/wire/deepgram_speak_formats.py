"""Audio formats of Deepgram's speech over HTTP: which containers and sample rates it combines with which encoding.

Sources: developers.deepgram.com/docs/tts-media-output-settings ("Audio Format Combinations") and its page of errors ("Unsupported
Output Audio Format"), read in November 2026. The bit rates of MP3 are those that its refusal of another one names (report of a
user, September 2026); the page has 32 and 48 kbit/s.

==============  ===================  =============================
Encoding        Container            Sample rate
==============  ===================  =============================
linear16        wav (default), none  24 kHz by default
mulaw, alaw     wav (default), none  8 kHz by default
opus            ogg (default)        48 kHz, not to be chosen
flac            not to be chosen     from 8 to 48 kHz
mp3, aac        not to be chosen     22.05 kHz, not to be chosen
==============  ===================  =============================
"""

from __future__ import annotations

from collections.abc import Mapping

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.wire.query import encoding_field, sample_rate

_RAW: dict[str, Encoding] = {"linear16": "pcm_s16le", "mulaw": "mulaw", "alaw": "alaw"}
_COMPRESSED: dict[str, Encoding] = {"mp3": "mp3", "opus": "ogg", "flac": "flac", "aac": "aac"}
_CONTAINERS = {"linear16": ("wav", "none"), "mulaw": ("wav", "none"), "alaw": ("wav", "none"), "opus": ("ogg",)}
"""Encoding → containers, the default first."""
_DEFAULT_HZ = {"linear16": 24_000, "mulaw": 8_000, "alaw": 8_000}
_MP3_HZ, _MP3_KBIT = 22_050, (8, 16, 24, 32, 40, 48)


def http_format(fields: Mapping[str, str]) -> tuple[AudioFormat, bool]:
    """Return the format that the query of a request names, and whether raw samples follow the header of a WAV.

    Raises ClientProtocolError, with `param`.
    """
    encoding = fields.get("encoding", "mp3")
    encoding_field(encoding, {**_RAW, **_COMPRESSED})
    container = _container(encoding, fields.get("container"))
    if encoding in _RAW:
        fmt = raw_format(encoding, fields)
        if container == "wav" and encoding == "linear16":
            return AudioFormat(encoding="wav", sample_rate_hz=fmt.sample_rate_hz), False
        return fmt, container == "wav"
    rate = fields.get("sample_rate")
    if encoding == "flac" and rate is not None:
        return AudioFormat(encoding="flac", sample_rate_hz=sample_rate(rate, 0)), False
    if rate is not None:
        raise ClientProtocolError(what=f"sample_rate is not applicable when encoding={encoding}: leave it out", param="sample_rate")
    if encoding == "mp3" and (bit_rate := fields.get("bit_rate")) is not None:
        return _mp3_format(bit_rate), False
    return AudioFormat(encoding=_COMPRESSED[encoding]), False


def raw_format(encoding: str, fields: Mapping[str, str]) -> AudioFormat:
    """Return the format of samples, also of those on a socket. Raises ClientProtocolError, with `param`."""
    known = encoding_field(encoding, _RAW)
    return AudioFormat(encoding=known, sample_rate_hz=sample_rate(fields.get("sample_rate"), _DEFAULT_HZ[encoding]))


def check_no_container(fields: Mapping[str, str]) -> None:
    """Raise ClientProtocolError if the query of a socket names a container: its audio never has one."""
    if fields.get("container", "none") != "none":
        raise ClientProtocolError(what="container must be none: audio on a socket has no container", param="container")


def _container(encoding: str, name: str | None) -> str:
    known = _CONTAINERS.get(encoding)
    if known is None:
        if name is not None:
            raise ClientProtocolError(what=f"container is not applicable when encoding={encoding}: leave it out", param="container")
        return ""
    if name is not None and name not in known:
        what = f"container must be {' or '.join(known)} when encoding={encoding}"
        raise ClientProtocolError(what=what, param="container")
    return name or known[0]


def _mp3_format(bit_rate: str) -> AudioFormat:
    if bit_rate not in [str(1_000 * kbit) for kbit in _MP3_KBIT]:
        known = ", ".join(str(1_000 * kbit) for kbit in _MP3_KBIT)
        raise ClientProtocolError(what=f"bit_rate must be one of {known} when encoding=mp3", param="bit_rate")
    return AudioFormat(encoding="mp3", sample_rate_hz=_MP3_HZ, kbit_per_s=int(bit_rate) // 1_000)


def makes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate and bit rate."""
    return fmt.channels == 1 and fmt.sample_rate_hz in (0, _MP3_HZ) and (fmt.kbit_per_s or 48) in _MP3_KBIT
