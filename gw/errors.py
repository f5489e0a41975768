"""Every error the gateway raises deliberately. Facts are fields; the message is made from them.

    GwError
    ├── ConfigError                 configuration unusable; carries every problem with its position
    ├── RequestError (ValueError)   the client's request is at fault
    │   ├── ClientProtocolError     bytes that violate the protocol
    │   ├── UnsupportedSetting      no candidate can honour a setting
    │   └── TooLarge
    ├── AuthError                   no or wrong credential
    ├── ForbiddenError              a credential without this permission
    ├── ReadOnlyError               entry comes from gw.yaml
    ├── ConflictError               the name is taken
    ├── UnknownNameError (ValueError)
    │   ├── UnknownModelError
    │   ├── UnknownProviderError
    │   ├── UnknownProjectError
    │   ├── UnknownKeyError
    │   ├── UnknownAlertRule
    │   └── UnknownAlertReceiver
    ├── BudgetExceededError
    ├── Overloaded                  too much in flight; shed, not queued
    │   ├── TooManyAtOnce           a project or a key has as many at once as it may
    │   ├── KeyRateLimited          a key has made as many requests a minute as it may
    │   └── BudgetReserved          what is left of a budget is reserved by requests in flight
    ├── Stopping                    the drain is over
    ├── StoreError
    │   ├── DatabaseLocked
    │   ├── StoreUnavailable
    │   └── AlertsLedElsewhere      another gateway sends the alerts
    ├── AllCandidatesFailed         one failure per attempt
    └── ProviderError               one upstream call failed; `retryable` says whether the next candidate may be tried
        ├── RateLimitError
        ├── ProviderUnreachable (ConnectionError)
        │   └── StaleConnection     a kept connection was closed as we wrote to it
        ├── ProviderRejected        4xx about this request
        ├── ProviderFailed          5xx, 408, quota
        ├── ProviderRefused         content filter or model refusal before any content
        ├── KeyDecryptError         the stored key cannot be decrypted
        ├── UpstreamProtocolError   malformed or empty answer (EmptyAnswer: complete, without content)
        ├── UpstreamCut             connection ended in the middle of an answer
        ├── UpstreamSlow            the first or next event came too late
        ├── PluginMissing (ModuleNotFoundError)     the engine is not installed here
        ├── OutOfDescriptors        the gateway's own limit of open files
        └── CandidateSkipped        not called at all: breaker open, missing ability, no key

A message never holds a key, a prompt, a transcript or a vendor's raw body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import ClassVar, Literal, Self, dataclass_transform

import attrs


@dataclass_transform(kw_only_default=True)
class GwError(Exception):
    """Base of the tree. The arguments of a class statement are facts of the class, annotations are fields of an error.

    attrs completes a class when its first error is made: doing so for all of them took a twenty-fifth of the daemon's start.
    """

    status: ClassVar[int] = 500
    """HTTP status."""
    code: ClassVar[str] = "internal_error"
    """Stable machine-readable name."""

    def __init_subclass__(cls, **facts: int | str) -> None:
        super().__init_subclass__()
        for name, value in facts.items():
            setattr(cls, name, value)

    def __new__(cls, **_fields: object) -> Self:
        if "__attrs_attrs__" not in vars(cls):
            for each in reversed(cls.__mro__):
                if issubclass(each, GwError) and each is not GwError and "__attrs_attrs__" not in vars(each):
                    attrs.define(each, kw_only=True, auto_exc=True, slots=False, str=False)
        return super().__new__(cls)

    @property
    def message(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return self.message

    def facts(self) -> dict[str, object]:
        """Return the fields as JSON-ready values, for error bodies and logs."""
        return {name: value for name, raw in vars(self).items() if (value := _plain(raw)) is not None}


def _plain(value: object) -> object:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(v, (str, int, float)) for v in value):
        return list(value)
    return None


def install_extra(extra: str) -> str:
    """Return how to install an extra of gw. It is not on a package index, so only a checkout or a wheel can be named."""
    return f"install gw with its extra {extra!r}: pip install '.[{extra}]' in a checkout"


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


class ConfigError(GwError, code="config_invalid"):
    """Raised with all problems at once, or with the places that were searched for a file."""

    problems: tuple[Problem, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if self.searched:
            return "no config file was found; looked at " + ", ".join(self.searched) + ". Run `gw init` to write one"
        count = len(self.problems)
        head = f"configuration validation failed ({count} problem{'s' if count != 1 else ''})"
        return "\n".join([head, *(f"  {p}".replace("\n", "\n  ") for p in self.problems)])


class DescribedError(GwError):
    """An error whose message is a field."""

    what: str

    @property
    def message(self) -> str:
        return self.what


class RequestError(DescribedError, ValueError, status=422, code="invalid_request"):
    """The client's request is at fault."""

    param: str | None = None


class ClientProtocolError(RequestError, status=400):
    """Bytes that violate the protocol."""


class UnknownPreviousResponse(ClientProtocolError, status=400, code="previous_response_not_found"):
    """`previous_response_id` names no response that is stored."""


class UnsupportedSetting(RequestError, status=400, code="unsupported_setting"):
    """No candidate can honour a setting of the request. `settings` names each, `param` the first."""

    settings: tuple[str, ...] = ()


class NotOffered(RequestError, status=501, code="not_implemented"):
    """The vendor offers this, and the gateway does not: what to use in its place is in the message."""


class TooLarge(RequestError, status=413, code="too_large"):
    limit_bytes: int = 0


class AuthError(DescribedError, status=401, code="unauthorized"):
    what: str = "a valid credential is required"


class ForbiddenError(AuthError, status=403, code="forbidden"):
    what: str = "this credential does not have the required permission"


class ReadOnlyError(GwError, status=403, code="read_only"):
    entity: str
    id: str

    @property
    def message(self) -> str:
        return f"{self.entity} {self.id!r} is defined in gw.yaml; change it there"


class ConflictError(DescribedError, status=409, code="already_exists"):
    """The name is taken."""


class UnknownNameError(GwError, ValueError, status=404):
    """`name` is unknown; `available` lists the known names."""

    kind: ClassVar[str] = "name"
    name: str
    available: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        known = ", ".join(self.available[:50]) or "none"
        bare_names = {name.partition("/")[2]: name for name in self.available}
        near = get_close_matches(self.name, [*self.available, *bare_names], n=3)
        near = list(dict.fromkeys(bare_names.get(name, name) for name in near))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return f"unknown {self.kind} {self.name!r}; available: {known}{hint}"


class UnknownModelError(UnknownNameError, code="model_not_found", kind="model"):
    pass


class UnknownProviderError(UnknownNameError, code="provider_not_found", kind="provider"):
    pass


class UnknownProjectError(UnknownNameError, code="project_not_found", kind="project"):
    pass


class UnknownKeyError(UnknownNameError, code="key_not_found", kind="key"):
    pass


class UnknownAlertRule(UnknownNameError, code="alert_rule_not_found", kind="rule of alerts"):
    pass


class UnknownAlertReceiver(UnknownNameError, code="alert_receiver_not_found", kind="receiver of alerts"):
    pass


class NoFleet(DescribedError, status=404, code="no_fleet"):
    what: str = "this gateway runs alone: its gw.yaml has no fleet.valkey"


_PERIODS = {
    "day": ("daily", "it resets at midnight UTC"),
    "week": ("weekly", "it resets on Monday at midnight UTC"),
    "month": ("monthly", "it resets on the first of the month at midnight UTC"),
    "total": ("total", "it does not reset"),
}


def budget_kind(period: str) -> str:
    """Return the adjective for a budget of a period."""
    return _PERIODS[period][0]


class BudgetExceededError(GwError, status=402, code="budget_exceeded"):
    """Status 402 and not 429: SDKs do not retry 402."""

    project: str
    daily_budget: float | None = None
    """Set for the daily budget; `budget` is that of any period."""
    spent: float
    period: Literal["day", "week", "month", "total"] = "day"
    budget: float = 0.0
    key_id: str | None = None
    """Key whose budget it is; None for the project's."""

    def __attrs_post_init__(self) -> None:
        if self.period == "day":
            self.budget = self.daily_budget = self.daily_budget or self.budget

    @property
    def message(self) -> str:
        owner = f"project {self.project!r}" if self.key_id is None else f"key {self.key_id!r} of project {self.project!r}"
        kind, resets = _PERIODS[self.period]
        return f"{owner} has reached its {kind} budget of ${self.budget:g} (spent ${self.spent:.6g}); {resets}"


class Overloaded(DescribedError, status=503, code="overloaded"):
    what: str = "the gateway has reached its limit of requests in flight"
    retry_after_s: float = 1.0


class TooManyAtOnce(Overloaded, status=429, code="rate_limited"):
    """The project has as many requests at once as it may, and none ended while this one waited."""


class KeyRateLimited(Overloaded, status=429, code="rate_limited"):
    """The key has made as many requests in the last minute as it may."""


class BudgetReserved(Overloaded, status=503, code="budget_reserved"):
    """The requests in flight may use up what is left of a budget; when they end, there may be some left."""


class Stopping(GwError, status=503, code="shutting_down"):
    """The gateway is stopping, and this request did not finish within the drain."""

    retry_after_s: float = 1.0
    what: str = "the gateway is stopping; try again"

    @property
    def message(self) -> str:
        return self.what


class StoreError(DescribedError, status=503, code="usage_store_unavailable"):
    what: str = "the usage store is unavailable"


class DatabaseLocked(StoreError, code="database_locked"):
    what: str = "database is locked"


class StoreUnavailable(StoreError):
    """The database or its journal cannot be used."""


class AlertsLedElsewhere(StoreError):
    """Another gateway with the same database sends the alerts."""

    what: str = "another gateway sends the alerts now"


class BankUnreachable(GwError, status=503, code="fleet_unreachable"):
    """The server that counts for all gateways of a fleet cannot be reached."""

    address: str
    why: str

    @property
    def message(self) -> str:
        return f"the fleet's Valkey server at {self.address} cannot be used: {self.why}"


class KeeperUnreachable(BankUnreachable, status=503, code="keeper_unreachable"):
    """The keeper process, which counts for all workers of a gateway, cannot be reached from a worker."""

    address: str = ""

    @property
    def message(self) -> str:
        return f"the keeper process, which counts for all workers, cannot be used: {self.why}"


class DatabaseUnusable(StoreUnavailable):
    """The database cannot be used until somebody mends or replaces it: it is damaged, of another program or of a newer gw."""


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


@attrs.frozen(kw_only=True)
class Failure:
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


class one_error:
    """Re-raise a group of one exception, or of several of one class, as the first of them.

    A hidden nursery then does not show in callers' `except`. Nothing here refers to the exceptions afterwards: else they, their
    tracebacks and frames would refer to each other, and keep a whole session until a collection of cycles.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, BaseExceptionGroup):
            return
        leaves = list(leaves_of(error))
        if len({type(leaf) for leaf in leaves}) != 1:
            return
        leaf = leaves[0]
        context = leaf.__context__
        try:
            raise leaf from None
        finally:
            leaf.__context__ = context
            del error, leaves, leaf, context, trace


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups; an exception that is not a group is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves_of(inner)
    else:
        yield error
