"""Status, headers and body of a failed request: OpenAI's shape, which is also the gateway's own, and what dialects share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeGuard

from gw import errors
from gw.dialects.request_io import Headers
from gw.errors import GwError
from gw.wire import openai_chat


def status_of(error: GwError) -> int:
    """Return the HTTP status: 400 for an invalid request (422 in the control plane), the vendor's own if it refused."""
    if _is_vendors_answer(error):
        return error.upstream_status
    if isinstance(error, errors.RequestError) and error.status == 422:
        return 400
    return error.status


def _is_vendors_answer(error: GwError) -> TypeGuard[errors.ProviderRejected | errors.ProviderRefused]:
    """Return whether the vendor's own status, code and param go to the caller: no retry would help."""
    if isinstance(error, errors.ProviderRejected):
        return error.fault != "candidate"
    return isinstance(error, errors.ProviderRefused) and 400 <= error.upstream_status < 500


def code_of(error: GwError) -> str:
    if _is_vendors_answer(error) and error.upstream_code:
        return error.upstream_code
    return "rate_limited" if isinstance(error, errors.AllCandidatesFailed) and error.status == 429 else error.code


def facts_of(error: GwError) -> dict[str, object]:
    """Return the error's fields for a body, with its outcome, or the attempts and how each failed."""
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, errors.ProviderError):
        facts["outcome"] = error.outcome
    if _is_vendors_answer(error) and error.upstream_param:
        facts["param"] = error.upstream_param
    if isinstance(error, errors.AllCandidatesFailed):
        facts["attempts"] = [
            {"model": failure.model_id, "outcome": failure.error.outcome, "detail": failure.error.detail}
            for failure in error.failures
        ]
    return facts


def body_by(encode: Callable[..., bytes], error: GwError, request_id: str) -> bytes:
    """Return the body that a codec builds from code, message, request id and the error's facts."""
    return encode(**facts_of(error), code=code_of(error), message=error.message, request_id=request_id)


def body_of(error: GwError, request_id: str) -> bytes:
    """Return the body in OpenAI's shape."""
    return body_by(partial(openai_chat.error_body, type=type(error).__name__), error, request_id)


def headers_of(error: GwError) -> Headers:
    limits = (errors.RateLimitError, errors.AllCandidatesFailed, errors.Overloaded)
    retry_after = error.retry_after_s if isinstance(error, limits) else None
    status = status_of(error)
    if retry_after is None and status == 503:
        retry_after = 1.0
    headers: Headers = [] if retry_after is None else [(b"retry-after", b"%d" % max(1, math.ceil(retry_after)))]
    if status == 402:
        headers.append((b"x-should-retry", b"false"))
    return headers
