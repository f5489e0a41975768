"""Piper's own HTTP server, both roles: one POST of JSON per piece of text, answered by a complete WAV.

Source: piper-tts 1.8.0, `piper/http_server.py` (November 2026). Newer servers take `/synthesize`, older ones `/`; drop-in
servers any path. The WAV's content type is text/html (Flask's default). For an unknown voice the server uses its own. There is
no usage.
"""

from __future__ import annotations

import re

import msgspec

from gw.wire.json_codec import decode_request

_VOICE = re.compile(r"[a-z]{2,3}_[A-Z]{2}-\w+")  # `en_US-lessac-medium`


class Synthesis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of a request. `length_scale` is the inverse of speed."""

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
    """Decode a request. Raises ClientProtocolError."""
    return decode_request(_SYNTHESIS, data)


def choose_voice(voice: str, model: str) -> str:
    """Return the voice to request: models of this type are named after voices, and `voice` may be another vendor's."""
    return next((name for name in (voice, model) if _VOICE.match(name)), voice)
