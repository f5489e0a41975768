"""Token bucket: bounds the requests a minute that one provider gets.

The bucket begins full with one minute's tokens and refills evenly, `per_minute / 60` tokens a second. So any 60 seconds
see at most twice `per_minute` grants: one burst that empties a full bucket, and the tokens refilled meanwhile. In the
long run the rate is exactly `per_minute`.
"""

from __future__ import annotations

_SLACK = 1e-9
"""A token this nearly complete counts as complete, so that waiting exactly as long as `take` returned is enough."""


class Bucket:
    """`now` is monotonic seconds; a `now` before an earlier one counts as that earlier one."""

    def __init__(self, per_minute: int, now: float, *, tokens: int | None = None) -> None:
        """`tokens`: what it begins with; None: it is full."""
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, not {per_minute}")
        self.per_minute = per_minute
        self._per_second = per_minute / 60
        self._tokens = float(per_minute if tokens is None else tokens)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token and return 0.0; of an empty bucket, return the seconds until the next token."""
        if now > self._at:
            self._refill(now)
        if self._tokens >= 1 - _SLACK:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._per_second

    def remaining(self, now: float) -> int:
        """Return the complete tokens left."""
        return self.left(now)[0]

    def left(self, now: float) -> tuple[int, float]:
        """Return the complete tokens left, and the seconds until the bucket is full again."""
        if now > self._at:
            self._refill(now)
        return int(self._tokens + _SLACK), (self.per_minute - self._tokens) / self._per_second

    def _refill(self, now: float) -> None:
        tokens = self._tokens + (now - self._at) * self._per_second
        self._tokens = tokens if tokens < self.per_minute else float(self.per_minute)
        self._at = now
