"""What the front page shows of one day: its totals, its times to first byte, and the hours it is made of."""

from __future__ import annotations

from collections.abc import Mapping

import apsw
import attrs

from gw.store import latency, requests, rollups
from gw.store.latency import MergedBuckets
from gw.store.requests import Totals
from gw.store.rollups import Point
from gw.telemetry.clock import DAY_S, utc_day, utc_hour
from gw.telemetry.histogram import Histogram

_HOUR_S = 3_600


@attrs.frozen(kw_only=True)
class Figures:
    """`ttfb` by modality; of all of them together under ""."""

    totals: Totals
    ttfb: Mapping[str, Histogram]


@attrs.frozen(kw_only=True)
class Days:
    """`hours`: UTC hour → its totals and times to first byte; hours without requests are left out."""

    today: Figures
    yesterday: Figures
    hours: Mapping[int, tuple[Point, Histogram]]


def read(db: apsw.Connection, now: float, hours: int, project: str | None, merged: MergedBuckets) -> Days:
    """Today, yesterday up to the same time of day, and the last `hours` hours."""
    hour = utc_hour(now)
    points = rollups.points(db, "hour", hour - hours + 1, hour, by="none", project=project)
    speeds = latency.series(
        db, "hour", hour - hours + 1, hour, by="none", project=project, model_id=None, merged=merged
    )
    return Days(
        today=_today(db, utc_day(now), project, merged),
        yesterday=_until_the_same_time(db, now, project, merged),
        hours={point.bucket: (point, speeds[point.bucket, ""].ttfb) for point in points},
    )


def _today(db: apsw.Connection, day: int, project: str | None, merged: MergedBuckets) -> Figures:
    found = latency.series(db, "day", day, day, by="modality", project=project, model_id=None, merged=merged)
    return Figures(
        totals=rollups.totals(db, day, project, until=day),
        ttfb=_with_all({modality: row.ttfb for (_, modality), row in found.items()}),
    )


def _until_the_same_time(db: apsw.Connection, now: float, project: str | None, merged: MergedBuckets) -> Figures:
    """Whole hours from the rollup, the one that was begun from its records."""
    first, begun = 24 * (utc_day(now) - 1), utc_hour(now) - 24
    ttfb: dict[str, Histogram] = {}
    whole = rollups.totals(db, first, project, until=begun - 1, grain="hour")
    speeds = latency.series(db, "hour", first, begun - 1, by="modality", project=project, model_id=None, merged=merged)
    for (_, modality), row in speeds.items():
        ttfb.setdefault(modality, Histogram()).merge(row.ttfb)
    rest, times = requests.between(db, begun * _HOUR_S, now - DAY_S, project)
    for modality, ttfb_ms in times:
        ttfb.setdefault(modality, Histogram()).record(ttfb_ms)
    return Figures(totals=whole + rest, ttfb=_with_all(ttfb))


def _with_all(ttfb: dict[str, Histogram]) -> dict[str, Histogram]:
    together = Histogram()
    for histogram in ttfb.values():
        together.merge(histogram)
    return {**ttfb, "": together}
