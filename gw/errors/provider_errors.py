"""Errors of one call to a provider."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs

from gw.errors.error_base import GwError, install_extra


class ProviderError(GwError, status=502, code="upstream_failed"):
    """One upstream call failed."""

    outcome: ClassVar[str] = "error"
    """Outcome of the attempt in the record and in metrics."""
    retryable: ClassVar[bool] = True
    """The next candidate may be tried."""
    provider: str
    detail: str = ""
    """A short, filtered explanation; no key, prompt or raw vendor body."""

    @property
    def message(self) -> str:
        return f"{self.provider}: {self.outcome.replace('_', ' ')}" + (f": {self.detail}" if self.detail else "")


class RateLimitError(ProviderError, status=429, code="rate_limited", outcome="rate_limited"):
    """The vendor answered 429, or our own bucket for it is empty (`limit_source`)."""

    limit_source: Literal["upstream", "configured"]
    retry_after_s: float | None = None
    slots_full: bool = False
    """The vendor's account has as many calls at once as it may: `slots` of them, if the vendor names the number."""
    slots: int | None = None


Unreached = Literal["", "name", "address", "refused", "no_route", "tls", "timeout", "lost"]
"""Cause of a missing answer: an unknown name; a forbidden address; nothing listens; no route; failed TLS; no connection in
time; a connection lost before an answer began."""


class ProviderUnreachable(ProviderError, ConnectionError, code="provider_unreachable", outcome="unreachable"):
    """No connection, or it broke before an answer began, for `cause` ("" if unknown)."""

    cause: Unreached = ""


class OutOfDescriptors(ProviderError, status=503, code="overloaded", outcome="overloaded", retryable=False):
    """This process has no file descriptor left for a connection. No other candidate could be called either."""

    detail: str = "the gateway has no file descriptor left for a connection; see docs/operations.md, Limits"
    retry_after_s: float = 1.0

    @property
    def message(self) -> str:
        return self.detail


class StaleConnection(ProviderUnreachable, outcome="stale_connection"):
    """A kept connection was closed after a complete request was written.

    The upstream may have read it, so a second try is a separate attempt.
    """



class ProviderRejected(ProviderError, code="upstream_rejected", outcome="rejected"):
    """The vendor answered 4xx (`upstream_status`) for this request.

    fault "caller": the same request would fail everywhere, so no other candidate is tried.
    fault "request": it does not suit this candidate (context length, an unsupported parameter); another may serve it.
    fault "candidate": this candidate has a wrong key, no such model, no permission; another may serve the request.

    The caller gets the vendor's status, code and param for the first two, and for a model that the vendor does not know; the
    rest of the third is the operator's to mend.
    """

    upstream_status: int
    upstream_code: str = ""
    upstream_param: str = ""
    fault: Literal["caller", "request", "candidate"] = "caller"

    @property
    def retryable(self) -> bool:  # type: ignore[override]  # a fact of the instance here, of the class elsewhere
        return self.fault != "caller"

    @property
    def is_answer(self) -> bool:
        """Return whether the caller can mend it, so that it is an answer for the caller."""
        return self.fault != "candidate" or (self.upstream_status, self.upstream_code) == (404, "model_not_found")


class ProviderFailed(ProviderError, outcome="failed"):
    """The vendor answered 5xx or 408, or its account has no money left (`out_of_credit`)."""

    upstream_status: int
    upstream_code: str = ""
    out_of_credit: bool = False

    @property
    def status(self) -> int:  # type: ignore[override]  # depends on the vendor's
        """503 for an overloaded vendor, 504 for one that was too slow, else 502."""
        return {503: 503, 504: 504, 529: 503}.get(self.upstream_status, 502)


class ProviderRefused(ProviderError, code="upstream_refused", outcome="refused"):
    """A content filter or the model refused before any content was passed on.

    `upstream_status` and `upstream_code` are those of a request that the vendor refused, `events` those of an answer.
    """

    upstream_status: int = 0
    upstream_code: str = ""
    upstream_param: str = ""
    events: tuple[object, ...] = attrs.field(default=(), repr=False)


class KeyDecryptError(ProviderError, status=500, code="key_undecryptable", outcome="key_undecryptable"):
    """A stored key was encrypted with another secret. Nothing has been sent; another candidate may answer."""


    @property
    def message(self) -> str:
        return (
            f"the stored key of provider {self.provider!r} cannot be decrypted; the secret has changed: "
            "set the old GW_SECRET or store the key again"
        )


class UpstreamProtocolError(ProviderError, outcome="malformed"):
    """A malformed or empty answer."""


class EmptyAnswer(UpstreamProtocolError, outcome="malformed"):
    """An answer that is complete and has no content. Another candidate may have some.

    A caller can bring it about (stop sequences, a text without words), so it says nothing about the candidate's health.
    """

    detail: str = "empty answer"


class UpstreamCut(ProviderError, outcome="cut"):
    """The connection ended in the middle of an answer."""


class UpstreamSlow(ProviderError, status=504, code="upstream_too_slow", outcome="too_slow"):
    after_s: float = 0.0


class PluginMissing(ProviderError, ModuleNotFoundError, status=501, code="plugin_missing", outcome="not_configured"):
    """The engine of a local provider is not installed here; another candidate may answer."""

    provider: str = ""
    module: str
    extra: str

    def __attrs_post_init__(self) -> None:
        self.name = self.module
        self.detail = self.message

    @property
    def message(self) -> str:
        return f"No module named {self.module!r}; {install_extra(self.extra)}"


class CandidateSkipped(ProviderError, outcome="skipped"):
    """The candidate was not called at all."""

    reason: Literal["breaker_open", "retry_after", "not_configured", "missing_ability", "busy", "disabled", "unpriced"]
    settings: tuple[str, ...] = ()
    """Settings of the request that the candidate cannot honour, in the words of the caller's dialect."""

    @property
    def passing(self) -> bool:
        """Return whether the candidate may be called again in a moment."""
        return self.reason in ("breaker_open", "busy")

    @property
    def status(self) -> int:  # type: ignore[override]  # depends on the reason
        return 429 if self.reason == "busy" else 503 if self.passing else 502
