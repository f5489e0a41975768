"""Every error the gateway raises on purpose. Facts are fields; the message is made from them.

    GwError
    ├── ConfigError                 configuration unusable; carries every problem with its position
    ├── RequestError (ValueError)   the caller's request is at fault
    │   ├── ClientProtocolError     bytes that are not what the protocol says
    │   └── TooLarge
    ├── AuthError                   no or wrong credential
    ├── ForbiddenError              a credential without the right
    ├── ReadOnlyError               entry comes from gw.yaml
    ├── ConflictError               it exists already
    ├── UnknownNameError (ValueError)
    │   ├── UnknownModelError
    │   ├── UnknownProviderError
    │   ├── UnknownProjectError
    │   └── UnknownKeyError
    ├── BudgetExceededError
    ├── Overloaded                  too much in flight; shed, not queued
    ├── Stopping                    the drain is over
    ├── StoreError
    │   ├── DatabaseLocked
    │   └── StoreUnavailable
    ├── AllCandidatesFailed         one failure per attempt
    └── ProviderError               one upstream call failed; `retryable` says whether the next candidate may be tried
        ├── RateLimitError
        ├── ProviderUnreachable (ConnectionError)
        │   └── StaleConnection     a kept connection was closed as we wrote on it
        ├── ProviderRejected        4xx about this request
        ├── ProviderFailed          5xx, 408, quota
        ├── ProviderRefused         content filter or model refusal before any content
        ├── KeyDecryptError         its stored key cannot be read
        ├── UpstreamProtocolError   malformed or empty answer
        ├── UpstreamCut             connection ended in the middle of an answer
        ├── UpstreamSlow            first event, or the next one, came too late
        ├── PluginMissing (ModuleNotFoundError)     its engine is not installed here
        └── CandidateSkipped        not called at all: breaker open, missing ability, no key

A message never holds a key, a prompt, a transcript or a vendor's raw body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Literal, TypeVar, dataclass_transform

import attrs

T = TypeVar("T", bound=type)


@dataclass_transform(kw_only_default=True)
def _error(cls: T) -> T:
    return attrs.define(kw_only=True, auto_exc=True, slots=False, str=False)(cls)


@_error
class GwError(Exception):
    """Base of the tree. `status` is the HTTP status, `code` the stable machine-readable name."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    @property
    def message(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return self.message

    def facts(self) -> dict[str, object]:
        """The fields as JSON-ready values, for error bodies and logs."""
        return {name: value for name, raw in vars(self).items() if (value := _plain(raw)) is not None}


def _plain(value: object) -> object:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(v, (str, int, float)) for v in value):
        return list(value)
    return None


@attrs.frozen(kw_only=True)
class Problem:
    """One thing wrong with the configuration. `line` and `column` count from 1; 0 = no position known."""

    what: str
    where: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        text = place + self.what + (f"; {self.hint}" if self.hint else "")
        if not self.excerpt:
            return text
        return f"{text}\n    {self.excerpt}\n    {' ' * (self.column - 1)}^"


@_error
class ConfigError(GwError):
    """Raised with all problems at once, or with `not_found` naming the places that were searched."""

    code: ClassVar[str] = "config_invalid"
    problems: tuple[Problem, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if self.searched:
            return "no config file was found; looked at " + ", ".join(self.searched) + ". Run `gw init` to write one"
        count = len(self.problems)
        head = f"configuration validation failed ({count} problem{'s' if count != 1 else ''})"
        return "\n".join([head, *(f"  {p}".replace("\n", "\n  ") for p in self.problems)])


@_error
class RequestError(GwError, ValueError):
    status: ClassVar[int] = 422
    code: ClassVar[str] = "invalid_request"
    what: str
    param: str | None = None

    @property
    def message(self) -> str:
        return self.what


@_error
class ClientProtocolError(RequestError):
    status: ClassVar[int] = 400


@_error
class TooLarge(RequestError):
    status: ClassVar[int] = 413
    code: ClassVar[str] = "too_large"
    limit_bytes: int = 0


@_error
class AuthError(GwError):
    status: ClassVar[int] = 401
    code: ClassVar[str] = "unauthorized"
    what: str = "a valid credential is required"

    @property
    def message(self) -> str:
        return self.what


@_error
class ForbiddenError(AuthError):
    status: ClassVar[int] = 403
    code: ClassVar[str] = "forbidden"
    what: str = "this credential does not have the right"


@_error
class ReadOnlyError(GwError):
    status: ClassVar[int] = 403
    code: ClassVar[str] = "read_only"
    entity: str
    id: str

    @property
    def message(self) -> str:
        return f"{self.entity} {self.id!r} is defined in gw.yaml; change it there"


@_error
class ConflictError(GwError):
    status: ClassVar[int] = 409
    code: ClassVar[str] = "already_exists"
    what: str

    @property
    def message(self) -> str:
        return self.what


@_error
class UnknownNameError(GwError, ValueError):
    """`name` is not known; `available` lists what is."""

    status: ClassVar[int] = 404
    kind: ClassVar[str] = "name"
    name: str
    available: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        known = ", ".join(self.available[:50]) or "none"
        return f"unknown {self.kind} {self.name!r}; available: {known}"


@_error
class UnknownModelError(UnknownNameError):
    code: ClassVar[str] = "model_not_found"
    kind: ClassVar[str] = "model"


@_error
class UnknownProviderError(UnknownNameError):
    code: ClassVar[str] = "provider_not_found"
    kind: ClassVar[str] = "provider"


@_error
class UnknownProjectError(UnknownNameError):
    code: ClassVar[str] = "project_not_found"
    kind: ClassVar[str] = "project"


@_error
class UnknownKeyError(UnknownNameError):
    code: ClassVar[str] = "key_not_found"
    kind: ClassVar[str] = "key"


@_error
class BudgetExceededError(GwError):
    """402 and not 429: SDKs do not retry 402."""

    status: ClassVar[int] = 402
    code: ClassVar[str] = "budget_exceeded"
    project: str
    daily_budget: float
    spent: float

    @property
    def message(self) -> str:
        return (
            f"project {self.project!r} has reached its daily budget of ${self.daily_budget:g} "
            f"(spent or reserved ${self.spent:.6g}); it resets at midnight UTC"
        )


@_error
class Overloaded(GwError):
    status: ClassVar[int] = 503
    code: ClassVar[str] = "overloaded"
    what: str = "the gateway has reached its limit of requests in flight"
    retry_after_s: float = 1.0

    @property
    def message(self) -> str:
        return self.what


@_error
class Stopping(GwError):
    """The gateway stops and this request did not finish within the drain."""

    status: ClassVar[int] = 503
    code: ClassVar[str] = "shutting_down"
    retry_after_s: float = 1.0

    @property
    def message(self) -> str:
        return "the gateway is stopping; ask again"


@_error
class StoreError(GwError):
    status: ClassVar[int] = 503
    code: ClassVar[str] = "usage_store_unavailable"
    what: str = "the usage store is unavailable"

    @property
    def message(self) -> str:
        return self.what


@_error
class DatabaseLocked(StoreError):
    code: ClassVar[str] = "database_locked"
    what: str = "database is locked"


@_error
class StoreUnavailable(StoreError):
    pass


@_error
class ProviderError(GwError):
    """One upstream call failed. `outcome` is the word the attempt gets in the record and in metrics."""

    status: ClassVar[int] = 502
    code: ClassVar[str] = "upstream_failed"
    outcome: ClassVar[str] = "error"
    retryable: ClassVar[bool] = True
    provider: str
    detail: str = ""
    """A short, filtered explanation; no key, prompt or raw vendor body."""

    @property
    def message(self) -> str:
        return f"{self.provider}: {self.outcome.replace('_', ' ')}" + (f": {self.detail}" if self.detail else "")


@_error
class RateLimitError(ProviderError):
    """`provider` said 429, or our own bucket for it is empty (`limit_source`)."""

    status: ClassVar[int] = 429
    code: ClassVar[str] = "rate_limited"
    outcome: ClassVar[str] = "rate_limited"
    limit_source: Literal["upstream", "configured"]
    retry_after_s: float | None = None


Unreached = Literal["", "name", "address", "refused", "no_route", "tls", "timeout", "lost"]
"""Why there is no answer: no such name; an address that is never called; nobody listens; no way there; no TLS with this
peer; no connection in time; the connection was lost before an answer began."""


@_error
class ProviderUnreachable(ProviderError, ConnectionError):
    """No connection, or it broke before an answer began; `cause` says why, "" where it is not known."""

    code: ClassVar[str] = "provider_unreachable"
    outcome: ClassVar[str] = "unreachable"
    cause: Unreached = ""


@_error
class StaleConnection(ProviderUnreachable):
    """A kept connection was closed under a request that had been written whole: it may have been read, so the second
    try is an attempt of its own."""

    outcome: ClassVar[str] = "stale_connection"


@_error
class ProviderRejected(ProviderError):
    """4xx about this request. `upstream_status` is the vendor's; `fault` says whose it is.

    fault "caller": the same request would fail everywhere, so no other candidate is tried.
    fault "candidate": key, model or context length of this candidate; another may do.
    """

    code: ClassVar[str] = "upstream_rejected"
    outcome: ClassVar[str] = "rejected"
    upstream_status: int
    upstream_code: str = ""
    fault: Literal["caller", "candidate"] = "caller"

    @property
    def retryable(self) -> bool:  # type: ignore[override]  # a fact of the instance here, of the class elsewhere
        return self.fault == "candidate"


@_error
class ProviderFailed(ProviderError):
    """5xx, 408, or money run out at the vendor."""

    outcome: ClassVar[str] = "failed"
    upstream_status: int
    upstream_code: str = ""


@_error
class ProviderRefused(ProviderError):
    """Content filter or model refusal before any content was passed on."""

    code: ClassVar[str] = "upstream_refused"
    outcome: ClassVar[str] = "refused"


@_error
class KeyDecryptError(ProviderError):
    """A stored key was encrypted with another secret. Nothing has been sent; another candidate may answer."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "key_undecryptable"
    outcome: ClassVar[str] = "key_undecryptable"

    @property
    def message(self) -> str:
        return (
            f"the stored key of provider {self.provider!r} cannot be decrypted; the secret has changed: "
            "set the old GW_SECRET or store the key again"
        )


@_error
class UpstreamProtocolError(ProviderError):
    outcome: ClassVar[str] = "malformed"


@_error
class UpstreamCut(ProviderError):
    outcome: ClassVar[str] = "cut"


@_error
class UpstreamSlow(ProviderError):
    status: ClassVar[int] = 504
    code: ClassVar[str] = "upstream_too_slow"
    outcome: ClassVar[str] = "too_slow"
    after_s: float = 0.0


@_error
class PluginMissing(ProviderError, ModuleNotFoundError):
    """The engine of a local provider is not installed; another candidate may answer."""

    status: ClassVar[int] = 501
    code: ClassVar[str] = "plugin_missing"
    outcome: ClassVar[str] = "not_configured"
    provider: str = ""
    module: str
    extra: str

    def __attrs_post_init__(self) -> None:
        self.name = self.module
        self.detail = self.message

    @property
    def message(self) -> str:
        return f"No module named {self.module!r}; install it with: pip install 'gw[{self.extra}]'"


@_error
class CandidateSkipped(ProviderError):
    outcome: ClassVar[str] = "skipped"
    reason: Literal["breaker_open", "retry_after", "not_configured", "missing_ability", "busy", "disabled", "unpriced"]

    @property
    def passing(self) -> bool:
        """It may be called again in a moment."""
        return self.reason in ("breaker_open", "busy")

    @property
    def status(self) -> int:  # type: ignore[override]  # depends on the reason
        return 503 if self.passing else 502


@attrs.frozen(kw_only=True)
class Failure:
    """What became of one candidate."""

    model_id: str
    error: ProviderError


@_error
class AllCandidatesFailed(GwError):
    """Every candidate failed: 429 when all were limits, 503 when some were and the rest busy, 504 when all were too slow,
    else 502."""

    code: ClassVar[str] = "upstream_failed"
    model: str
    failures: tuple[Failure, ...]

    @property
    def status(self) -> int:  # type: ignore[override]  # depends on the failures
        if self.failures and all(isinstance(f.error, RateLimitError) for f in self.failures):
            return 429
        if self.failures and all(isinstance(f.error, UpstreamSlow) for f in self.failures):
            return 504
        if self.failures and all(_passes(f.error) for f in self.failures):
            return 503
        return 502

    @property
    def retry_after_s(self) -> float | None:
        waits = [
            f.error.retry_after_s
            for f in self.failures
            if isinstance(f.error, RateLimitError) and f.error.retry_after_s
        ]
        return min(waits) if waits else None

    @property
    def message(self) -> str:
        tried = "; ".join(
            f"{f.model_id}: {f.error.outcome}" + (f" ({f.error.detail})" if f.error.detail else "")
            for f in self.failures
        )
        return f"no candidate for {self.model!r} answered. Tried {tried or 'nothing'}"


def _passes(error: ProviderError) -> bool:
    return isinstance(error, RateLimitError) or (isinstance(error, CandidateSkipped) and error.passing)


@contextmanager
def one_error() -> Iterator[None]:
    """Re-raise a group of one exception, or of several of one class, as the first of them.

    So a hidden nursery does not show in callers' `except`.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(leaves_of(group))
        if len({type(leaf) for leaf in leaves}) != 1:
            raise
        raise leaves[0] from None


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside nested groups; an exception that is no group is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves_of(inner)
    else:
        yield error
