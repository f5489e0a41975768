"""Which buckets of the rollups have changed since a report was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gw.store.rollups import Grain
from gw.store.sql_connection import SqlConnection

_REMEMBERED = 200
"""Hours (and days); when there are more, all are forgotten, and every bucket counts as changed just now."""


class BucketVersions(Protocol):
    """Versions of the buckets. Can be sent to another process."""

    def of(self, db: SqlConnection, grain: Grain, buckets: Iterable[int]) -> Mapping[int, object]:
        """Return a value for each bucket that changes when something is added to it; before its rows are read."""


class RollupVersions:
    """Versions of the buckets, so that sums of hours that did not change need not be made again.

    The writer notes each commit; a report takes the version before it reads. So it never takes old rows for new ones; at
    worst it reads once too often.
    """

    def __init__(self) -> None:
        self._commits = 0
        self._forgotten_at = 0
        self._versions: dict[Grain, dict[int, int]] = {"hour": {}, "day": {}}

    def note(self, hours: Iterable[int]) -> None:
        """Note that records of these hours (UTC, since 1970) were committed."""
        self._commits += 1
        for hour in hours:
            self._versions["hour"][hour] = self._commits
            self._versions["day"][hour // 24] = self._commits
        for versions in self._versions.values():
            if len(versions) > _REMEMBERED:
                versions.clear()
                self._forgotten_at = self._commits

    def of(self, db: SqlConnection, grain: Grain, buckets: Iterable[int]) -> Mapping[int, object]:
        return {bucket: self.version(grain, bucket) for bucket in buckets}

    def version(self, grain: Grain, bucket: int) -> int:
        """Return a number that changes when something is added to the bucket."""
        return self._versions[grain].get(bucket, self._forgotten_at)
