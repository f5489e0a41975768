"""Status, headers and body of a failed request: OpenAI's shape, which is also the gateway's own, and what dialects share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeGuard

from gw import errors
from gw.dialects.request_io import Headers
from gw.errors import GwError
from gw.wire import openai_chat

_SAME: Mapping[str, str] = {}


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
        return error.is_answer
    return isinstance(error, errors.ProviderRefused) and 400 <= error.upstream_status < 500


def code_of(error: GwError) -> str:
    if _is_vendors_answer(error) and error.upstream_code:
        return error.upstream_code
    at_limit = isinstance(error, (errors.AllCandidatesFailed, errors.CandidateSkipped)) and error.status == 429
    return "rate_limited" if at_limit else error.code


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


def body_by(encode: Callable[..., bytes], error: GwError, request_id: str, codes: Mapping[str, str] = _SAME) -> bytes:
    """Return the body that a vendor would send, by its codec; `gw` in it has our class, code and facts.

    `codes`: the vendor's code for each of ours that it has a word for. A code of the vendor that answered stays.
    """
    facts = facts_of(error)
    param = facts.pop("param", None)
    about: dict[str, object] = {"type": type(error).__name__, "code": code_of(error), "request_id": request_id, **facts}
    spoken = spoken_code(error, codes)
    return encode(code=spoken, message=error.message, request_id=request_id, param=param, gw=about)


def bare(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return an encoder for `body_by` of a vendor whose body has a message only: param stands in `gw`."""
    return without_param(lambda message, gw, **_: encode(message=message, gw=gw))


def without_param(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return an encoder for `body_by` of a vendor whose bodies have no param: it stands in `gw`."""

    def encode_without(param: object, gw: dict[str, object], **members: object) -> bytes:
        return encode(gw=gw if param is None else {**gw, "param": param}, **members)

    return encode_without


def spoken_code(error: GwError, codes: Mapping[str, str]) -> str:
    """Return the vendor's word for the error; a code of the vendor that answered stays."""
    code = code_of(error)
    return code if _is_vendors_answer(error) and error.upstream_code else codes.get(code, code)


OPENAI_CODES = {
    "budget_exceeded": "insufficient_quota", "rate_limited": "rate_limit_exceeded", "unauthorized": "invalid_api_key",
    "provider_not_found": "model_not_found", "too_large": "request_too_large", "unsupported_setting": "unsupported_parameter",
    "not_found": "unknown_url", "method_not_allowed": "method_not_supported",
}  # fmt: skip
"""Codes of OpenAI (its guide to error codes, and those that openai-python 3.52.0 and LiteLLM 1.109 compare with) for ours.

No document of OpenAI was seen for the last two, `unknown_url` and `method_not_supported`.
"""
_OPENAI_TYPES = {402: "insufficient_quota", 429: "requests"}


def vendor_body_of(error: GwError, request_id: str) -> bytes:
    """Return the body as OpenAI would send it."""
    status = status_of(error)
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return body_by(partial(_openai_body, kind), error, request_id, OPENAI_CODES)


def _openai_body(kind: str, request_id: str, **members: object) -> bytes:
    code, message = members.pop("code"), members.pop("message")
    return openai_chat.error_body(type=kind, code=str(code), message=str(message), **members)


def body_of(error: GwError, request_id: str) -> bytes:
    """Return the control plane's body: OpenAI's shape, with our class as its type and the facts as members."""
    return openai_chat.error_body(
        type=type(error).__name__, code=code_of(error), message=error.message, request_id=request_id, **facts_of(error)
    )


def headers_of(error: GwError) -> Headers:
    limits = (errors.RateLimitError, errors.AllCandidatesFailed, errors.Overloaded, errors.OutOfDescriptors)
    retry_after = error.retry_after_s if isinstance(error, limits) else None
    status = status_of(error)
    if retry_after is None and (status == 503 or (status == 429 and isinstance(error, errors.CandidateSkipped))):
        retry_after = 1.0
    headers: Headers = [] if retry_after is None else [(b"retry-after", b"%d" % max(1, math.ceil(retry_after)))]
    if status == 402 or (status >= 500 and not _may_pass(error)):
        headers.append((b"x-should-retry", b"false"))
    return headers


def _may_pass(error: GwError) -> bool:
    """Return whether the same request may succeed a moment later: not while an operator must act first."""
    if isinstance(error, errors.AllCandidatesFailed):
        return any(_may_pass(failure.error) for failure in error.failures)
    if isinstance(error, errors.ProviderFailed):
        return not error.out_of_credit
    if isinstance(error, errors.CandidateSkipped):
        return error.passing or error.reason == "retry_after"
    return not isinstance(error, (errors.KeyDecryptError, errors.PluginMissing, errors.ProviderRejected, errors.ProviderRefused))
