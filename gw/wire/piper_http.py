"""Piper's own HTTP server, both roles: one POST of JSON per piece of text, answered by a complete WAV.

Source: piper-tts 1.8.0, `piper/http_server.py` (November 2026). Newer servers take `/synthesize`, older ones `/`; drop-in
servers any path. The WAV is called text/html (Flask's word for bytes). An unknown voice is spoken by the server's own. There is no usage.
"""

from __future__ import annotations

import re

import msgspec

from gw.errors import ClientProtocolError
from gw.wire.json_codec import BAD_JSON

_VOICE = re.compile(r"[a-z]{2,3}_[A-Z]{2}-\w+")
"""`en_US-lessac-medium`."""


class Synthesis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request's body. `length_scale` is the inverse of speed."""

    text: str
    voice: str | None = None
    speaker: str | None = None
    length_scale: float | None = None


_SYNTHESIS = msgspec.json.Decoder(Synthesis)


def body(text: str, voice: str, speed: float | None) -> bytes:
    return msgspec.json.encode(
        Synthesis(text=text, voice=voice or None, length_scale=round(1 / speed, 3) if speed else None)
    )


def parse(data: bytes) -> Synthesis:
    """Raises ClientProtocolError."""
    try:
        return _SYNTHESIS.decode(data)
    except BAD_JSON:
        raise ClientProtocolError(what="the body is not what was expected") from None


def voice_of(asked: str, model: str) -> str:
    """The voice to ask for: models of this type are named by their voices, and callers may name another vendor's voice."""
    named = [name for name in (asked, model) if _VOICE.match(name)]
    return named[0] if named else asked
