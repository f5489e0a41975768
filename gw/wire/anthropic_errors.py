"""Error bodies of the Messages dialect: what a vendor's answer means for routing, and the bodies we write.

Sources: anthropic-python 2.11.0, `types/shared` (error objects and their details) and `_exceptions`, November 2026. The
shape is `{"type":"error","error":{"type","message","details"?},"request_id"}`; what OpenAI's reader makes of it is right but
for the cases named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected
from gw.wire import openai_errors

_MONEY = frozenset(
    {
        "contract_spend_limit_reached", "enforced_spend_limit_reached", "ramp_limit_exceeded",
        "linked_organization_spend_limit_reached", "linked_organization_billing_unavailable", "organization_on_hold",
    }
)  # fmt: skip
"""`details.error_code` of a limit that waiting does not lift."""
_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
_OF_THE_CANDIDATE = re.compile(
    r"prompt is too long|context (?:limit|window)|too many tokens|prefill|temperature|top_p|top_k|tool_choice|effort"
    r"|output_config|thinking|not support",
    re.IGNORECASE,
)
"""Words of a 400 that another model need not give."""
_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


class _Details(msgspec.Struct, gc=False):
    error_code: str = ""


class _Fault(msgspec.Struct, gc=False):
    message: str = ""
    details: _Details | None = None


class _Body(msgspec.Struct, gc=False):
    error: _Fault


_BODY = msgspec.json.Decoder(_Body)


def classify(
    provider: str,
    status: int,
    retry_after: bytes | None,
    body: bytes,
    secrets: Iterable[str] = (),
    date: bytes | None = None,
) -> ProviderError:
    """The error that `status` and `body` of an answer stand for; never raises. As `openai_errors.classify`."""
    error = openai_errors.classify(provider, status, retry_after, body, secrets, date)
    try:
        fault = _BODY.decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return error
    code = fault.details.error_code if fault.details is not None else ""
    if status >= 400 and (code in _MONEY or (status == 400 and _NO_CREDIT.search(fault.message))):
        return ProviderFailed(
            provider=provider, detail=error.detail, upstream_status=status, upstream_code=code or "billing_error"
        )
    if status == 400 and isinstance(error, ProviderRejected) and _OF_THE_CANDIDATE.search(fault.message):
        error.fault = "candidate"
    return error


def error_body(*, status: int, message: str, request_id: str, **facts: object) -> bytes:
    """An error as the SDKs read it; its type follows from `status`, the facts of the error stand beside."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return msgspec.json.encode(
        {"type": "error", "error": {**facts, "type": kind, "message": message}, "request_id": request_id}
    )
