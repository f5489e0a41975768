"""JSON decoding for every codec: what counts as bad JSON, and which error each side of a connection raises for it."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError

T = TypeVar("T")
F = TypeVar("F")

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Everything msgspec raises for input that is not the expected JSON: wrong syntax or types, wrong UTF-8, too deep."""
MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Decoder of an object whose members remain JSON."""
_MOST_DIGITS = 19
NO_TYPE = "a text frame must be a JSON object with a type"


def decode_upstream(decoder: msgspec.json.Decoder[T], data: str | bytes, provider: str, what: str = "a frame") -> T:
    """Decode a frame or body that `provider` sent; `what` names it in the error. Raises UpstreamProtocolError."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail=f"{what} is not the JSON expected") from None


def decode_mended(decoder: msgspec.json.Decoder[T], data: str | bytes) -> tuple[T, bytes]:
    """Decode JSON whose numbers may be NaN, infinite or beyond all bounds, and return the JSON with null in their place.

    Some servers write such numbers into the usage of a complete answer. Raises what is in BAD_JSON.
    """
    try:
        value = json.loads(data, parse_constant=lambda name: None, parse_float=_finite, parse_int=_bounded)
    except ValueError:
        raise msgspec.DecodeError("not JSON") from None
    mended = msgspec.json.encode(value)
    return decoder.decode(mended), mended


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _bounded(digits: str) -> int | None:
    return int(digits) if len(digits) < _MOST_DIGITS else None


def decode_answer(
    decoder: msgspec.json.Decoder[T], body: bytes, provider: str, what: str = "the answer"
) -> tuple[T, bytes]:
    """Decode a complete answer, mended if necessary; return also the JSON it was decoded from. Raises UpstreamProtocolError."""
    try:
        return decoder.decode(body), body
    except BAD_JSON:
        try:
            return decode_mended(decoder, body)
        except BAD_JSON:
            raise UpstreamProtocolError(provider=provider, detail=f"{what} is not the JSON expected") from None


def decode_client(
    decoder: msgspec.json.Decoder[T], data: str | bytes | msgspec.Raw, what: str = "a message is not the JSON expected",
    param: str | None = None,
) -> T:  # fmt: skip
    """Decode what the client sent: a frame, a body or a member of one. Raises ClientProtocolError that says `what`."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        raise ClientProtocolError(what=what, param=param) from None


def decode_request(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode the body of an HTTP request. Raises ClientProtocolError, with `param` if a member is at fault."""
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check raw members
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}", param=_member(error)) from None
    except UnicodeDecodeError:
        raise ClientProtocolError(what="the body is not UTF-8") from None
    except RecursionError:
        raise ClientProtocolError(what="the JSON is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ClientProtocolError(what=f"the body is not JSON: {error}") from None


def decode_or(decoder: msgspec.json.Decoder[T], data: str | bytes | msgspec.Raw, default: T) -> T:
    """Decode `data`; return `default` for input that is not the expected JSON."""
    try:
        return decoder.decode(data)
    except BAD_JSON:
        return default


def convert_or_none(value: object, form: type[F]) -> F | None:
    """Convert a decoded value; return None if it is missing or of another form."""
    try:
        return None if value is None else msgspec.convert(value, form)
    except msgspec.ValidationError:
        return None


def present(**members: Any) -> dict[str, Any]:
    """Return the members of a JSON object, without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def _member(error: msgspec.ValidationError) -> str | None:
    """Return the member that a validation error names, at `$.name` or in "missing required field `name`"."""
    text = str(error)
    at = text.rpartition("`$.")[2] if "`$." in text else text.rpartition("field `")[2] if "field `" in text else ""
    return at.partition("`")[0].partition(".")[0].partition("[")[0] or None
