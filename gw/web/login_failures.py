"""The limit of failed logins: guessing the admin token is slow.

An address that has failed `FAILURES_A_MINUTE` times gets 429 until a minute's share has come back, also for the right
token.
"""

from __future__ import annotations

from typing import ClassVar

from gw.errors import Overloaded
from gw.policy.bucket import Bucket

FAILURES_A_MINUTE = 10
MAX_ADDRESSES = 1_000
"""Addresses that are remembered; beyond it the one added first is forgotten."""


class TooManyLogins(Overloaded):
    """This address has failed too often."""

    status: ClassVar[int] = 429
    code: ClassVar[str] = "too_many_attempts"


class Failures:
    """Failed logins by address. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def check(self, address: str, now: float) -> None:
        """Raises TooManyLogins."""
        bucket = self._buckets.get(address)
        if bucket is not None and not bucket.remaining(now):
            what = "too many failed logins from this address; try again later"
            raise TooManyLogins(what=what, retry_after_s=60 / FAILURES_A_MINUTE)

    def add(self, address: str, now: float) -> None:
        if address not in self._buckets and len(self._buckets) >= MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        self._buckets.setdefault(address, Bucket(FAILURES_A_MINUTE, now)).take(now)
