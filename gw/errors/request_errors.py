"""Errors about a request or its caller: what is wrong with it, who may not do it, and what there is no room for."""

from __future__ import annotations

from difflib import get_close_matches
from typing import ClassVar, Literal

from gw.errors.error_base import DescribedError, GwError


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


class RegionNotAllowed(ForbiddenError, code="region_not_allowed"):
    """No model that could answer is at a provider of the regions that the project or the request allows."""


class SignInRefused(DescribedError, status=403, code="sign_in_refused"):
    """An answer of an OpenID provider, or whoever it is about, is not accepted. `reason`: one word for pages and logs."""

    what: str
    reason: str


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
