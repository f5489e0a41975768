"""Which hours the writer has added to, so that sums of hours that did not change need not be made again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gw.store.requests import finite
from gw.telemetry.clock import utc_hour
from gw.types.usage import RequestRecord

Grain = Literal["hour", "day"]

_REMEMBERED = 200
"""Hours (and days); when there are more, all are forgotten, and everything counts as changed just now."""


class Changes:
    """Noted by the writer after each commit; a report looks here before it reads.

    A report that looks first and reads then never takes old rows for new ones; at worst it reads once too often.
    """

    def __init__(self) -> None:
        self._count = 0
        self._forgotten = 0
        self._versions: dict[Grain, dict[int, int]] = {"hour": {}, "day": {}}

    def note(self, records: Iterable[RequestRecord]) -> None:
        """These were committed."""
        self._count += 1
        for hour in {utc_hour(finite(record.timestamp)) for record in records}:
            self._versions["hour"][hour] = self._count
            self._versions["day"][hour // 24] = self._count
        for versions in self._versions.values():
            if len(versions) > _REMEMBERED:
                versions.clear()
                self._forgotten = self._count

    def version(self, grain: Grain, bucket: int) -> int:
        """Another number when something was added since."""
        return self._versions[grain].get(bucket, self._forgotten)
