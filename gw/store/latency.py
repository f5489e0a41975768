"""Percentiles from rollups: histograms of hours and days, merged per model, and cached for the hours and days that are over.

A month of a busy gateway is tens of thousands of stored histograms. Rows of all projects are therefore merged once per
bucket and model; the result stays valid until the writer adds to that bucket, which for all but the newest is never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import ceil
from typing import Literal, NamedTuple

import attrs
import msgspec

from gw.store.rollup_versions import BucketVersions
from gw.store.rollups import TABLES, CostRow, Grain
from gw.store.sql_connection import SqlConnection
from gw.telemetry.histogram import Histogram

MINUTES_SINCE, MODEL_MINUTES_SINCE = "minute_sums_since", "model_minutes_since"
"""Names of the meta values with the first minute that has all its requests, where there were records before there were such sums."""
CACHED = 400  # merged hours and days in memory, some 10 KB each; the oldest go first

_OF_BUCKETS = {
    grain: f"""
select r.bucket, r.provider, r.model_id, r.modality, r.requests, r.ttfb, r.latency
from json_each(:buckets) wanted cross join {table} r on r.bucket = cast(wanted.value as bigint) and r.project = :project
where r.requests <> 0 and r.bucket between :first and :last"""
    for grain, table in TABLES.items()
}
_OF_ALL_PROJECTS = {grain: sql.replace(" and r.project = :project", "") for grain, sql in _OF_BUCKETS.items()}
_OF_PROJECTS = {
    grain: sql.replace("r.provider, r.model_id", "r.project, r.model_id") for grain, sql in _OF_ALL_PROJECTS.items()
}
_EXTENT = {
    grain: f"select (select min(bucket) from {table}), (select max(bucket) from {table})"
    for grain, table in TABLES.items()
}
"""Two lookups in the index; min and max in one select would scan all of it."""


KnownVersions = dict[tuple[Grain, int], object]
"""Grain and bucket → version, which is older than what is read of the bucket."""
TimeMetric = Literal["ttfb", "latency"]


class LatencyGroup(NamedTuple):
    """One bucket of one model; the histograms in their stored form. `owner`: the provider, or the project if requested."""

    bucket: int
    owner: str
    model_id: str
    modality: str
    requests: int
    ttfb: bytes
    latency: bytes


@attrs.define(slots=False)
class LatencyRow:
    """Latency of some requests. `requests` counts all of them; the histograms have those with such a time.

    Stored forms are collected, and merged when they are needed: most reports want one of the two.
    """

    requests: int = 0
    _ttfbs: list[bytes] = attrs.field(factory=list)
    _totals: list[bytes] = attrs.field(factory=list)
    _ttfbs_ms: list[float] = attrs.field(factory=list)
    _totals_ms: list[float] = attrs.field(factory=list)

    def add(self, group: LatencyGroup) -> None:
        self.requests += group.requests
        self._ttfbs.append(group.ttfb)
        self._totals.append(group.latency)

    def add_times(self, times_ms: Collection[tuple[float | None, float | None]]) -> None:
        """Add requests: the time to the first byte and the total of each, None where it has no such time."""
        self.requests += len(times_ms)
        self._ttfbs_ms += [ttfb_ms for ttfb_ms, _ in times_ms if ttfb_ms is not None]
        self._totals_ms += [total_ms for _, total_ms in times_ms if total_ms is not None]

    def quantiles(self, metric: TimeMetric, *qs: float) -> tuple[int, list[float | None]]:
        """Return how many times were measured, and quantiles: exact ones where all times are known."""
        stored, values = (self._ttfbs, self._ttfbs_ms) if metric == "ttfb" else (self._totals, self._totals_ms)
        if stored or not values:
            histogram = self.ttfb if metric == "ttfb" else self.total
            return histogram.count, histogram.quantiles(*qs)
        ordered = sorted(values)
        return len(ordered), [ordered[max(1, ceil(q * len(ordered))) - 1] for q in qs]

    def merge(self, other: LatencyRow) -> None:
        """Add the requests of another row, before a histogram of this one is read."""
        self.requests += other.requests
        self._ttfbs += other._ttfbs
        self._totals += other._totals
        self._ttfbs_ms += other._ttfbs_ms
        self._totals_ms += other._totals_ms

    @cached_property
    def ttfb(self) -> Histogram:
        return _merged(self._ttfbs, self._ttfbs_ms)

    @cached_property
    def total(self) -> Histogram:
        return _merged(self._totals, self._totals_ms)


def _merged(stored: Iterable[bytes], values_ms: Iterable[float]) -> Histogram:
    histogram = Histogram(values_ms)
    histogram.merge_encoded(stored)
    return histogram


class MergedBuckets:
    """Cache of the rows of all projects together. Without `versions` (nothing reports what is added) nothing is cached.

    Used by several threads: entries are replaced as a whole, and a lost one is merely made again.
    """

    def __init__(self, versions: BucketVersions | None) -> None:
        self.versions = versions
        self._cache: dict[tuple[Grain, int], tuple[object, list[LatencyGroup]]] = {}
        self.waits: dict[object, tuple[object, list[tuple[str, bytes]]]] = {}
        """First audio of complete hours and days, which `gw.store.first_audio` keeps here."""
        self.costs: dict[object, tuple[object, list[CostRow] | None]] = {}
        """Version of an hour and costs of a part of it, which `gw.store.windows` keeps here."""

    def rows(self, db: SqlConnection, grain: Grain, buckets: Iterable[int], known: KnownVersions) -> Iterator[LatencyGroup]:
        """Yield the rows of the buckets. `known`: versions that were read for the same report, to which those read now are added."""
        if self.versions is None:
            yield from _groups(db, _OF_ALL_PROJECTS[grain], buckets)
            return
        wanted = list(buckets)
        if unknown := [bucket for bucket in wanted if (grain, bucket) not in known]:
            known.update(((grain, bucket), version) for bucket, version in self.versions.of(db, grain, unknown).items())
        cached: list[list[LatencyGroup]] = []
        missing: dict[int, object] = {}
        for bucket in wanted:
            version = known[grain, bucket]
            entry = self._cache.get((grain, bucket))
            if entry is not None and entry[0] == version:
                cached.append(entry[1])
            else:
                missing[bucket] = version
        if missing:
            for bucket, rows in _merge_projects(db, grain, missing).items():
                self._cache.pop((grain, bucket), None)
                self._cache[grain, bucket] = (missing[bucket], rows)
                cached.append(rows)
            for key in list(self._cache)[:-CACHED]:
                self._cache.pop(key, None)
        for rows in cached:
            yield from rows


@attrs.frozen(slots=False)
class QueryContext:
    """A connection for one report, and the merged buckets that its process caches."""

    db: SqlConnection
    merged: MergedBuckets
    versions: KnownVersions = attrs.field(factory=dict)
    """Versions of buckets that this report has read."""

    @cached_property
    def oldest(self) -> float | None:
        """Return the time of the oldest record; None without any."""
        oldest: float | None = self.db.execute("select min(timestamp) from requests").get
        return oldest

    @cached_property
    def minutes_since(self) -> int:
        """Return the first UTC minute (since 1970) from which on sums of minutes are complete."""
        return self._first_minute(MINUTES_SINCE)

    @cached_property
    def model_minutes_since(self) -> int:
        """Return the first UTC minute from which on times by minute and model are complete."""
        return self._first_minute(MODEL_MINUTES_SINCE)

    def _first_minute(self, name: str) -> int:
        stored = self.db.execute("select value from meta where name = ?", (name,)).get
        return 0 if stored is None else int(stored)


def _merge_projects(db: SqlConnection, grain: Grain, buckets: Iterable[int]) -> dict[int, list[LatencyGroup]]:
    groups: dict[int, list[LatencyGroup]] = {bucket: [] for bucket in buckets}
    rows: defaultdict[tuple[int, str, str, str], LatencyRow] = defaultdict(LatencyRow)
    for group in _groups(db, _OF_ALL_PROJECTS[grain], groups):
        rows[group[:4]].add(group)
    for key, row in rows.items():
        groups[key[0]].append(LatencyGroup(*key, row.requests, row.ttfb.encode(), row.total.encode()))
    return groups


def _groups(
    db: SqlConnection, sql: str, buckets: Iterable[int], project: str | None = None
) -> Iterator[LatencyGroup]:
    wanted = list(buckets)
    if not wanted:
        return iter(())
    # The bounds are for PostgreSQL's planner, which does not look into the list.
    bindings: dict[str, object] = {"buckets": msgspec.json.encode(wanted).decode(), "first": min(wanted), "last": max(wanted)}
    if project is not None:
        bindings["project"] = project
    return map(LatencyGroup._make, db.execute(sql, bindings))


def _rows(
    context: QueryContext, grain: Grain, since: int | None, until: int | None, project: str | None
) -> Iterable[LatencyGroup]:
    """Return the rows of all buckets from `since` to `until`, both included; None = no bound."""
    db = context.db
    [(first, last)] = db.execute(_EXTENT[grain])
    if first is None:
        return ()
    buckets = range(first if since is None else max(first, since), 1 + (last if until is None else min(last, until)))
    if project is None:
        return context.merged.rows(db, grain, buckets, context.versions)
    return _groups(db, _OF_BUCKETS[grain], buckets, project)


def latencies(context: QueryContext, since_day: int | None, project: str | None) -> dict[str, LatencyRow]:
    """Return latency by model id. A project's rows are few enough to be merged each time."""
    rows: defaultdict[str, LatencyRow] = defaultdict(LatencyRow)
    for group in _rows(context, "day", since_day, None, project):
        rows[group.model_id].add(group)
    return dict(rows)


_NAME: Mapping[str, Callable[[LatencyGroup], str]] = {
    "model": lambda group: group.model_id,
    "model and modality": lambda group: f"{group.model_id} ({group.modality})",
    "provider": lambda group: group.owner,
    "modality": lambda group: group.modality,
    "none": lambda group: "",
}


def bucket_groups(
    context: QueryContext, grain: Grain, since: int | None, until: int | None, by: str, project: str | None
) -> Iterable[LatencyGroup]:
    """Return the rows of the buckets from `since` to `until`, both included, for `group_name` to be split by `by`."""
    if by == "project" and project is None:
        [(first, last)] = context.db.execute(_EXTENT[grain])
        if first is None:
            return ()
        start, end = first if since is None else max(first, since), last if until is None else min(last, until)
        return _groups(context.db, _OF_PROJECTS[grain], range(start, end + 1))
    return _rows(context, grain, since, until, project)


def group_name(by: str, project: str | None) -> Callable[[LatencyGroup], str]:
    """Return the function from a row to the name it counts for."""
    if by == "project":
        return _NAME["provider"] if project is None else lambda _: project  # the owner is the project
    return _NAME[by]


def latency_points(
    context: QueryContext, grain: Grain, since: int, until: int, *, by: str, project: str | None, model_id: str | None
) -> Mapping[tuple[int, str], LatencyRow]:
    """Return latency by bucket and name; `by` is provider, model, project, modality or none (one name, "")."""
    name = group_name(by, project)
    rows: defaultdict[tuple[int, str], LatencyRow] = defaultdict(LatencyRow)
    for group in bucket_groups(context, grain, since, until, by, project):
        if model_id is None or group.model_id == model_id:
            rows[group.bucket, name(group)].add(group)
    return dict(rows)
