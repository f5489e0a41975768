"""The error of a request that no candidate answered, and what the failures of its candidates say."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gw.errors.error_base import GwError
from gw.errors.provider_errors import (
    CandidateSkipped,
    KeyDecryptError,
    PluginMissing,
    ProviderError,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
)
from gw.errors.request_errors import BudgetReserved, NotOffered


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The failure of one candidate."""

    model_id: str
    error: ProviderError


class AllCandidatesFailed(GwError, code="upstream_failed"):
    """Every candidate failed.

    The status is 429 if all were at a limit, 503 if all were that or their breakers open, 504 if all were too slow, else 502.
    """

    model: str
    failures: tuple[Failure, ...]

    @property
    def status(self) -> int:  # type: ignore[override]  # depends on the failures
        errors = [failure.error for failure in self.failures]
        if errors and all(error.status == 429 for error in errors):
            return 429
        if errors and all(error.status == 504 for error in errors):
            return 504
        if errors and all(_passes(error) for error in errors):
            return 503
        return 502

    @property
    def retry_after_s(self) -> float | None:
        limits = [f.error for f in self.failures if isinstance(f.error, RateLimitError)]
        return min((limit.retry_after_s for limit in limits if limit.retry_after_s), default=None)

    @property
    def message(self) -> str:
        tried = "; ".join(
            f"{f.model_id}: {f.error.outcome}" + (f" ({f.error.detail})" if f.error.detail else "")
            for f in self.failures
        )
        return f"no candidate for {self.model!r} answered. Tried {tried or 'nothing'}"


def last_word(failures: Sequence[Failure]) -> ProviderError | None:
    """Return the last failure if it is an answer to the caller (a refusal, a fault of the request), else None.

    Candidates that were not reached, or were at a limit, have said nothing about the request.
    """
    silent = (CandidateSkipped, KeyDecryptError, PluginMissing, ProviderUnreachable, RateLimitError)
    spoken = [failure.error for failure in failures if not isinstance(failure.error, silent)]
    last = spoken[-1] if spoken else None
    is_answer = isinstance(last, ProviderRefused) or (isinstance(last, ProviderRejected) and last.is_answer)
    return last if is_answer else None


def is_refusal(error: GwError) -> bool:
    """Return whether an error says nothing against a provider: a budget or a limit refused, or the request itself is wrong."""
    match error:
        case AllCandidatesFailed():
            return bool(error.failures) and all(is_refusal(failure.error) for failure in error.failures)
        case ProviderRejected():
            return error.fault != "candidate"
        case RateLimitError():
            return error.limit_source == "configured"
        case CandidateSkipped():
            return error.reason in ("missing_ability", "busy", "unpriced")
        case ProviderError():
            return False
        case BudgetReserved() | NotOffered():
            return True
        case _:
            return 400 <= error.status < 500


def _passes(error: ProviderError) -> bool:
    return error.status in (429, 503)
