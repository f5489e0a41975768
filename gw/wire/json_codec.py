"""JSON decoding for every codec: what counts as bad JSON, and which error each side of a connection raises for it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError

T = TypeVar("T")

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Everything msgspec raises for input that is not the expected JSON: wrong syntax or types, wrong UTF-8, too deep."""


def decode_upstream(decoder: msgspec.json.Decoder[T], data: str | bytes, provider: str) -> T:
    """Decode a frame or body that `provider` sent. Raises UpstreamProtocolError."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="a frame is not the JSON expected") from None


def decode_client(decoder: msgspec.json.Decoder[T], data: str | bytes) -> T:
    """Decode a frame or body that the client sent. Raises ClientProtocolError."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        raise ClientProtocolError(what="a message is not the JSON expected") from None


def decode_or(decoder: msgspec.json.Decoder[T], data: str | bytes, default: T) -> T:
    """Decode `data`; return `default` for input that is not the expected JSON."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        return default
