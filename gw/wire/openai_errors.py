"""Error bodies of OpenAI's dialect: what a vendor's answer means for routing, and the bodies we write.

Sources: openai-python 3.52.0, groq-python 1.7.0, Kokoro-FastAPI (state November 2026). Compatible servers use
several shapes: `{"error":{…}}`, `{"error":"text"}` (Ollama), `{"detail":{…}}` or a list (FastAPI), the bare object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

import msgspec

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)

DETAIL_CHARACTERS = 300
MAX_RETRY_AFTER_S = 86_400.0
"""Limits per day exist; beyond a day a wait says nothing."""
_BODY_BYTES = 65_536

_OUT_OF_MONEY = frozenset(
    {
        "insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active",
        "insufficient_balance", "insufficient_credits", "payment_required",
    }
)
_FILTERED = frozenset({"content_policy_violation", "content_filter", "moderation_blocked"})
_OF_THE_CANDIDATE = frozenset(
    {
        "context_length_exceeded", "model_not_found", "invalid_model", "unsupported_model", "model_decommissioned",
        "model_not_available", "model_terms_required", "tool_use_failed", "unsupported_parameter", "unsupported_value",
        "unsupported_country_region_territory", "invalid_api_key", "max_tokens_exceeded", "request_too_large",
    }
)
"""Codes of a 4xx that another model or account may not give."""
_STATUS_OF_THE_CANDIDATE = frozenset({401, 403, 404, 405, 410, 413, 415})
_STATUS_FAILED = frozenset({402, 408, 409, 424, 425, 498, 499})
"""402 money; 408, 409 as the vendors' SDKs retry; 424, 498 (flex capacity), 499 of Groq."""

_TOKEN = re.compile(
    r"(?i)\bbearer\s+\S+"
    r"|\b(?:sk|gsk|pk|rk|ek|xai|key|api|org|proj)[-_][\w*.-]{6,}"
    r"|\bAIza[\w-]{10,}"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{24,}"   # hyphens end a run: long model names are no keys
)
_QUOTED = re.compile(r"""(?s)'[^']{48,}'|"[^"]{48,}"|`[^`]{48,}`""")
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = re.compile(rb"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def classify(
    provider: str,
    status: int,
    retry_after: bytes | None,
    body: bytes,
    secrets: Iterable[str] = (),
    date: bytes | None = None,
) -> ProviderError:
    """The error that `status` and `body` of an answer stand for; never raises.

    `retry_after` and `date` are the headers' values: a time to come back at is counted from the vendor's own clock.
    `detail` holds the vendor's own message, filtered; `secrets` are taken out of it.
    """
    code, kind, message = _read(body)
    detail = f"HTTP {status}" + (f" {code or kind}" if code or kind else "")
    told = filtered(message, secrets)
    detail = (f"{detail}: {told}" if told else detail)[:DETAIL_CHARACTERS]
    named = {code.lower(), kind.lower()}
    if status < 300:
        return UpstreamProtocolError(provider=provider, detail=detail)
    if named & _FILTERED:
        return ProviderRefused(provider=provider, detail=detail)
    if status == 429 and not named & _OUT_OF_MONEY:
        wait_s = parse_retry_after(retry_after, _unix_time(date)) if retry_after else None
        return RateLimitError(provider=provider, detail=detail, limit_source="upstream", retry_after_s=wait_s)
    if status >= 500 or status in _STATUS_FAILED or named & _OUT_OF_MONEY:
        return ProviderFailed(provider=provider, detail=detail, upstream_status=status, upstream_code=code or kind)
    theirs = status < 400 or status in _STATUS_OF_THE_CANDIDATE or bool(named & _OF_THE_CANDIDATE)
    return ProviderRejected(
        provider=provider, detail=detail, upstream_status=status, upstream_code=code or kind,
        fault="candidate" if theirs else "caller",
    )


def stream_fault(fault: object) -> tuple[str, str]:
    """Code and filtered message of an error that came inside a stream: the decoded JSON value, or the bytes of one."""
    code, kind, message = _read(fault) if isinstance(fault, bytes) else _told(fault)
    return code or kind or "upstream_error", filtered(message)


def failed_within(provider: str, fault: object) -> ProviderFailed:
    """The error that an answer of status 200 turned out to be: its code, without the vendor's words.

    Which secrets those could quote is not known here, as it is in `classify`.
    """
    code, _ = stream_fault(fault)
    return ProviderFailed(
        provider=provider, detail=f"an error inside the answer: {code}", upstream_status=200, upstream_code=code
    )


def parse_retry_after(value: bytes, now_unix: float | None) -> float | None:
    """Seconds of a Retry-After header: a number, or an HTTP date where `now_unix` is given.

    At most a day; None for what cannot be read.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    at = _unix_time(value)
    if now_unix is None or at is None:
        return None
    return min(max(0.0, at - now_unix), MAX_RETRY_AFTER_S)


def _unix_time(value: bytes | None) -> float | None:
    """An HTTP date; None for what is none."""
    if value is None:
        return None
    try:
        return parsedate_to_datetime(value.decode("ascii")).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def filtered(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` on one line, at most 300 characters, without `secrets`, key-looking tokens and long quotations.

    What a vendor quotes at length is the caller's prompt.
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[removed]")
    text = _QUOTED.sub("[…]", _TOKEN.sub("[removed]", text[:8_192]))
    text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())[:DETAIL_CHARACTERS]


def error_body(
    *, type: str, code: str, message: str, param: str | None, request_id: str, **facts: object   # noqa: A002  the wire's name
) -> bytes:
    """`{"error": {…}}` as OpenAI's SDKs read it, with our request id and the facts of the error beside."""
    error = {"message": message, "type": type, "param": param, "code": code, "request_id": request_id}
    return msgspec.json.encode({"error": {**facts, **error}})


def _read(body: bytes) -> tuple[str, str, str]:
    """Code, type and message, whatever the shape; "" for what is missing. A body that is no JSON tells nothing."""
    if len(body) > _BODY_BYTES:
        return "", "", ""
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", "", ""
    return _told(found)


def _told(found: object) -> tuple[str, str, str]:
    for _ in range(4):
        if isinstance(found, list) and found:
            found = found[0]
        elif isinstance(found, dict) and isinstance(found.get("error"), (dict, str)) and "message" not in found:
            found = found["error"]
        elif isinstance(found, dict) and isinstance(found.get("detail"), (dict, list, str)):
            found = found["detail"]
    if isinstance(found, str):
        return "", "", found
    if not isinstance(found, dict):
        return "", "", ""
    message = found.get("message") or found.get("msg")
    code = found.get("code") or (found.get("error") if "message" in found else None)
    return _name(code), _name(found.get("type")), message if isinstance(message, str) else ""


def _name(value: object) -> str:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    return text if _CODE.fullmatch(text) and not _TOKEN.search(text) else ""
