"""A bounded set whose members expire."""

from __future__ import annotations


class ExpiringSet:
    """Remembers at most `limit` values, each until its time, in order of addition. Times in Unix seconds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._expires_at: dict[bytes, float] = {}

    def __contains__(self, value: bytes) -> bool:
        return value in self._expires_at

    def __len__(self) -> int:
        return len(self._expires_at)

    def add(self, value: bytes, expires_at: float, now: float) -> bool:
        """Drop the oldest values as far as they have expired, and add `value`; return False when the set is full."""
        while self._expires_at and next(iter(self._expires_at.values())) <= now:
            self.drop_oldest()
        if len(self._expires_at) >= self._limit:
            return False
        self._expires_at[value] = expires_at
        return True

    def drop_oldest(self) -> None:
        del self._expires_at[next(iter(self._expires_at))]
