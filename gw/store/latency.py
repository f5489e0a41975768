"""Percentiles from rollups: histograms of hours and days, merged per model, and kept for the hours and days that are over.

A month of a busy gateway is tens of thousands of stored histograms. Rows of all projects are therefore merged once per
bucket and model; the result stays valid until the writer adds to that bucket, which for all but the newest is never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import apsw
import attrs
import msgspec

from gw.store.rollup_versions import Changes, Grain
from gw.telemetry.histogram import Histogram

KEPT = 128
"""Merged hours and days held in memory, some 10 KB each; the oldest go first."""

_OF_BUCKETS = {
    grain: f"""
select r.bucket, r.provider, r.model_id, r.modality, r.requests, r.ttfb, r.latency
from json_each(:buckets) wanted cross join rollup_{grain} r on r.bucket = wanted.value and r.project = :project"""
    for grain in ("hour", "day")
}
_OF_ALL_PROJECTS = {grain: sql.replace(" and r.project = :project", "") for grain, sql in _OF_BUCKETS.items()}
_OF_PROJECTS = {
    grain: sql.replace("r.provider, r.model_id", "r.project, r.model_id") for grain, sql in _OF_ALL_PROJECTS.items()
}
_EXTENT = {
    grain: f"select (select min(bucket) from rollup_{grain}), (select max(bucket) from rollup_{grain})"
    for grain in ("hour", "day")
}
"""Two looks into the index; both in one select would be a walk through all of it."""


@attrs.frozen(kw_only=True)
class LatencyRow:
    """How fast something was. `requests` are all its requests; the histograms hold those that have such a time.

    They are merged when they are asked for: most reports want one of the two.
    """

    requests: int
    _ttfbs: list[bytes]
    _totals: list[bytes]

    @cached_property
    def ttfb(self) -> Histogram:
        return _merged(self._ttfbs)

    @cached_property
    def total(self) -> Histogram:
        return _merged(self._totals)


class LatencyGroup(NamedTuple):
    """One bucket of one model; the histograms in their stored form. `owner`: provider, or project where asked for."""

    bucket: int
    owner: str
    model_id: str
    modality: str
    requests: int
    ttfb: bytes
    latency: bytes


class _Sum:
    """Rows added up. Stored forms are collected and merged all at once."""

    __slots__ = ("latencies", "requests", "ttfbs")

    def __init__(self) -> None:
        self.requests = 0
        self.ttfbs: list[bytes] = []
        self.latencies: list[bytes] = []

    def add(self, row: LatencyGroup) -> None:
        self.requests += row.requests
        self.ttfbs.append(row.ttfb)
        self.latencies.append(row.latency)

    def row(self) -> LatencyRow:
        return LatencyRow(requests=self.requests, ttfbs=self.ttfbs, totals=self.latencies)


def _merged(stored: Iterable[bytes]) -> Histogram:
    histogram = Histogram()
    histogram.merge_encoded(stored)
    return histogram


class MergedBuckets:
    """The rows of all projects together. Without `changes` (nobody tells when something is added) nothing is kept.

    Used by several threads: entries are replaced whole, and a late one is at worst made again.
    """

    def __init__(self, changes: Changes | None) -> None:
        self.changes = changes
        self._kept: dict[tuple[Grain, int], tuple[int, list[LatencyGroup]]] = {}

    def rows(self, db: apsw.Connection, grain: Grain, buckets: Iterable[int]) -> Iterator[LatencyGroup]:
        if self.changes is None:
            yield from map(LatencyGroup._make, db.execute(_OF_ALL_PROJECTS[grain], _wanted(buckets)))
            return
        found: list[list[LatencyGroup]] = []
        missing: dict[int, int] = {}
        for bucket in buckets:
            version = self.changes.version(grain, bucket)
            kept = self._kept.get((grain, bucket))
            if kept is not None and kept[0] == version:
                found.append(kept[1])
            else:
                missing[bucket] = version
        if missing:
            for bucket, rows in _merge_projects(db, grain, missing).items():
                self._kept.pop((grain, bucket), None)
                self._kept[grain, bucket] = (missing[bucket], rows)
                found.append(rows)
            for name in list(self._kept)[:-KEPT]:
                self._kept.pop(name, None)
        for rows in found:
            yield from rows


def _merge_projects(db: apsw.Connection, grain: Grain, buckets: Iterable[int]) -> dict[int, list[LatencyGroup]]:
    made: dict[int, list[LatencyGroup]] = {bucket: [] for bucket in buckets}
    sums: dict[tuple[int, str, str, str], _Sum] = {}
    for row in map(LatencyGroup._make, db.execute(_OF_ALL_PROJECTS[grain], _wanted(made))):
        key = row[:4]
        if key not in sums:
            sums[key] = _Sum()
        sums[key].add(row)
    for (bucket, owner, model_id, modality), found in sums.items():
        whole = found.row()
        made[bucket].append(
            LatencyGroup(bucket, owner, model_id, modality, whole.requests, whole.ttfb.encode(), whole.total.encode())
        )
    return made


def _wanted(buckets: Iterable[int]) -> dict[str, object]:
    return {"buckets": msgspec.json.encode(list(buckets)).decode()}


def _rows(
    db: apsw.Connection, grain: Grain, since: int | None, until: int | None, project: str | None, merged: MergedBuckets
) -> Iterable[LatencyGroup]:
    """Of all buckets from `since` to `until`, both included; None = as far as there are any."""
    [(first, last)] = db.execute(_EXTENT[grain])
    if first is None:
        return ()
    buckets = range(first if since is None else max(first, since), 1 + (last if until is None else min(last, until)))
    if project is None:
        return merged.rows(db, grain, buckets)
    return map(LatencyGroup._make, db.execute(_OF_BUCKETS[grain], {**_wanted(buckets), "project": project}))


def by_model(
    db: apsw.Connection, since_day: int | None, project: str | None, merged: MergedBuckets
) -> dict[str, LatencyRow]:
    """By model id. A project's rows are few enough to be merged each time."""
    sums: dict[str, _Sum] = {}
    for row in _rows(db, "day", since_day, None, project, merged):
        if row.model_id not in sums:
            sums[row.model_id] = _Sum()
        sums[row.model_id].add(row)
    return {model_id: found.row() for model_id, found in sums.items()}


def series(
    db: apsw.Connection,
    grain: Grain,
    since: int,
    until: int,
    *,
    by: str,
    project: str | None,
    model_id: str | None,
    merged: MergedBuckets,
) -> Mapping[tuple[int, str], LatencyRow]:
    """By bucket and name; `by` is provider, model, project, modality or none (one name, "")."""
    rows: Iterable[LatencyGroup]
    if by == "project" and project is None:
        rows = map(LatencyGroup._make, db.execute(_OF_PROJECTS[grain], _wanted(range(since, until + 1))))
    else:
        rows = _rows(db, grain, since, until, project, merged)
    sums: dict[tuple[int, str], _Sum] = {}
    for row in rows:
        if model_id is not None and row.model_id != model_id:
            continue
        match by:
            case "model":
                name = row.model_id
            case "provider":
                name = row.owner
            case "modality":
                name = row.modality
            case "project":
                name = row.owner if project is None else project
            case _:
                name = ""
        key = (row.bucket, name)
        if key not in sums:
            sums[key] = _Sum()
        sums[key].add(row)
    return {key: found.row() for key, found in sums.items()}
