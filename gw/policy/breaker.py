"""Circuit breaker: stop calling a provider that fails, and try it again with one call at a time.

    closed ── `failures` in a row ──> open ── after open_s ──> half open ── trial succeeds ──> closed
                                       ^                          │
                                       └────── trial fails ───────┘
    closed ── `suspect`: another gateway's opened ──> half open

Every `allow` that returns true is followed by exactly one of `success`, `failure` or `abandoned`. A call may have begun
before the breaker opened and report after: while it is open, such late reports change nothing. During a trial they
cannot be distinguished from the trial's own.
"""

from __future__ import annotations

from gw.types.gate_view import BreakerState


def gate_name(provider_id: str, owner: str) -> str:
    """Return the name of a provider's gate. `owner`: a project whose calls use its own key; "" for all others."""
    return f"{provider_id} ({owner})" if owner else provider_id


class Breaker:
    """`failures` in a row open it for `open_s` seconds. `now` is monotonic seconds."""

    def __init__(self, failures: int, open_s: float) -> None:
        if failures < 1 or open_s < 0:
            raise ValueError(f"failures must be at least 1 and open_s not negative, not {failures} and {open_s}")
        self._limit = failures
        self._open_s = open_s
        self._failures = 0
        self._opened_at: float | None = None
        self._trial = False

    def allow(self, now: float) -> bool:
        """Return whether a call may begin. When half open, true makes it the one trial."""
        if self._opened_at is None:
            return True
        if self._trial or self.state(now) == "open":
            return False
        self._trial = True
        return True

    def success(self) -> None:
        if self._opened_at is None or self._trial:
            self._failures, self._opened_at, self._trial = 0, None, False

    def failure(self, now: float) -> bool:
        """Note a failed call; return whether it opened the breaker, which was closed."""
        if self._opened_at is None:
            self._failures += 1
            if self._failures >= self._limit:
                self._opened_at = now
                return True
        elif self._trial:
            self._opened_at, self._trial = now, False
        return False

    def suspect(self, now: float) -> None:
        """Let one trial call decide, since the breaker of another gateway has opened; a breaker that is open stays so."""
        if self._opened_at is None:
            self._failures, self._opened_at = self._limit, now - self._open_s

    def abandoned(self) -> None:
        """Note a call that ended without a result (its caller left): the place of a trial is free again."""
        self._trial = False

    def state(self, now: float) -> BreakerState:
        if self._opened_at is None:
            return "closed"
        return "half_open" if self._trial or now - self._opened_at >= self._open_s else "open"
