"""Deepgram's error bodies: what an answer means for routing.

Source: deepgram-sdk 7.17.0 and the vendor's guide to errors (November 2026). Two shapes: `{err_code, err_msg, request_id}`
and `{category, message, details, request_id}`; sometimes plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError
from gw.wire import openai_errors

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Body(msgspec.Struct, gc=False):
    err_code: str = ""
    err_msg: str = ""
    category: str = ""
    message: str = ""
    details: str = ""


_BODY = msgspec.json.Decoder(_Body)
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def code_of(told: str | None, secrets: Iterable[str] = ()) -> str:
    """A vendor's code, where it looks like one: anything else in its place is text, which may quote what was sent."""
    if told is None or not _CODE.fullmatch(told) or any(secret and secret in told for secret in secrets):
        return ""
    return told


def classify(
    provider: str,
    status: int,
    retry_after: bytes | None,
    body: bytes,
    secrets: Iterable[str] = (),
    date: bytes | None = None,
) -> ProviderError:
    """The error that `status` and `body` of an answer stand for; never raises. As `openai_errors.classify`."""
    try:
        told = _BODY.decode(body)
    except _BAD_JSON:
        told = _Body()
    secrets = tuple(secrets)
    code = code_of(told.err_code or told.category, secrets)
    message = told.err_msg or ": ".join(filter(None, (told.message, told.details)))
    if told.err_code or told.category or message:
        body = msgspec.json.encode({"error": {"code": code, "message": message}})
    return openai_errors.classify(provider, status, retry_after, body, secrets, date)
