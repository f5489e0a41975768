"""An error as an answer in OpenAI's shape, which is also the gateway's own."""

from __future__ import annotations

import math

from gw.dialects.request_io import Headers
from gw.errors import (
    AllCandidatesFailed,
    GwError,
    Overloaded,
    ProviderError,
    ProviderRejected,
    RateLimitError,
    RequestError,
)
from gw.wire import openai_chat_server


def status_of(error: GwError) -> int:
    """A request at fault is 400 here (422 in the control plane); what the vendor said of it keeps the vendor's status."""
    if isinstance(error, ProviderRejected):
        return error.upstream_status if error.fault == "caller" else 502
    if isinstance(error, RequestError) and error.status == 422:
        return 400
    return error.status


def code_of(error: GwError) -> str:
    return "rate_limited" if isinstance(error, AllCandidatesFailed) and error.status == 429 else error.code


def attempts_of(error: AllCandidatesFailed) -> list[dict[str, str]]:
    """Whom was asked, and how each failed."""
    return [{"model": f.model_id, "outcome": f.error.outcome, "detail": f.error.detail} for f in error.failures]


def body_of(error: GwError, request_id: str) -> bytes:
    facts = error.facts()
    facts.pop("what", None)
    param = facts.pop("param", None)
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = attempts_of(error)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    return openai_chat_server.error_body(
        type=type(error).__name__,
        code=code_of(error),
        message=error.message,
        param=str(param) if param is not None else None,
        request_id=request_id,
        **facts,
    )


def headers_of(error: GwError) -> Headers:
    retry_after = error.retry_after_s if isinstance(error, (RateLimitError, AllCandidatesFailed, Overloaded)) else None
    headers: Headers = []
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after))))
    elif status_of(error) == 503:
        headers.append((b"retry-after", b"1"))
    if status_of(error) == 402:
        headers.append((b"x-should-retry", b"false"))
    return headers
