"""SQL of the rollups: per UTC hour and day × project × provider × model × modality, what the reports read.

They change in the transaction that inserts the records, so their sums are always those of all records ever inserted;
pruning records leaves them. Latency goes in as mergeable histograms: time to first byte of every request that had one,
total latency of requests that were answered (a failure's or a leaving caller's total says nothing about the model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apsw
import msgspec

from gw.store.requests import Totals, finite, seconds_and_characters, whole
from gw.store.rollup_versions import Grain
from gw.telemetry.clock import utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.ids import Modality
from gw.types.usage import RequestRecord

_Key = tuple[int, str, str, str, Modality]

_SUMS = (
    "requests", "errors", "fallbacks", "cancelled", "cost_nusd", "unpriced",
    "input_tokens", "cached_input_tokens", "output_tokens", "audio_seconds", "characters",
    "wasted_nusd",
)  # fmt: skip
_KEYS = ("bucket", "project", "provider", "model_id", "modality")
_ALL = (*_KEYS, *_SUMS, "ttfb", "latency")


def _find_sql(table: str) -> str:
    return f"select ttfb, latency from {table} where {' and '.join(f'{key} = ?' for key in _KEYS)}"


def _add_sql(table: str) -> str:
    return f"""
insert into {table} ({", ".join(_ALL)}) values ({", ".join("?" * len(_ALL))})
on conflict ({", ".join(_KEYS)}) do update set
{", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)}, ttfb = excluded.ttfb, latency = excluded.latency"""


_SQL = {table: (_find_sql(table), _add_sql(table)) for table in ("rollup_hour", "rollup_day")}

_SPAN = """
with span(bucket) as (
  select max(:since, (select min(bucket) from {table}))
  union all select bucket + 1 from span where bucket < min(:until, (select max(bucket) from {table})))
"""
_FROM = "from {table} r where r.bucket between :since and :until"
_FROM_OF_PROJECT = "from span cross join {table} r on r.bucket = span.bucket and r.project = :project where true"
"""One seek per bucket; the key begins with the bucket, so a range of buckets holds all projects."""


def _range_sql(select: str, table: str, rest: str = "") -> tuple[str, str]:
    """The statement for all projects, and that for one."""
    everything = f"{select} {_FROM.format(table=table)} {rest}"
    one = f"{_SPAN.format(table=table)} {select} {_FROM_OF_PROJECT.format(table=table)} {rest}"
    return everything, one


_COSTS = _range_sql(
    """
select provider, model_id, project, modality, sum(cost_nusd), sum(requests), sum(unpriced),
       sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(audio_seconds), sum(characters),
       sum(wasted_nusd)""",
    "rollup_day",
    "group by provider, model_id, project, modality order by 5 desc, 2, 3",
)
_TALLIES = """
coalesce(sum(requests), 0), coalesce(sum(errors), 0), coalesce(sum(fallbacks), 0), coalesce(sum(cancelled), 0),
coalesce(sum(cost_nusd), 0), coalesce(sum(unpriced), 0), coalesce(sum(wasted_nusd), 0)"""
_TOTALS = {
    grain: _range_sql(f"select {_TALLIES}", table)
    for grain, table in (("hour", "rollup_hour"), ("day", "rollup_day"))
}
BY = {"provider": "provider", "model": "model_id", "project": "r.project", "modality": "modality", "none": "''"}
"""What a series can be split by."""
_POINTS = {
    (grain, by): _range_sql(
        f"select r.bucket, {column}, {_TALLIES}",
        table,
        "and (:model_id is null or model_id = :model_id) group by 1, 2 order by 1, 2",
    )
    for grain, table in (("hour", "rollup_hour"), ("day", "rollup_day"))
    for by, column in BY.items()
}
_EVER = (-(2**62), 2**62)

_SPEND = "select project, sum(cost_nusd) from rollup_day where bucket = ? group by project"


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one model cost one project. `unpriced` of the `requests` have no known cost and are not in `cost_nusd`."""

    provider: str
    model_id: str
    project: str
    modality: Modality
    cost_nusd: int
    requests: int
    unpriced: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    audio_seconds: float
    characters: int
    wasted_nusd: int


class Point(Totals, frozen=True, kw_only=True):
    """The totals of one UTC hour or day (`bucket`, since 1970) and one `name` of what a series is split by."""

    bucket: int
    name: str


class _Sums:
    """What a batch adds to one rollup row."""

    __slots__ = ("_latencies", "_ttfbs", "latency", "sums", "ttfb")

    def __init__(self) -> None:
        self.sums: list[float] = [0] * len(_SUMS)
        self.ttfb = Histogram()
        self.latency = Histogram()
        self._ttfbs: list[float] = []
        self._latencies: list[float] = []

    def add(self, record: RequestRecord) -> None:
        usage, cost, status, sums = record.usage, record.cost_nusd, record.status, self.sums
        sums[0] += 1
        sums[1] += status == "error"
        sums[2] += status == "fallback"
        sums[3] += status == "cancelled"
        sums[4] += 0 if cost is None else whole(cost)
        sums[5] += cost is None
        sums[6] += whole(usage.input_tokens)
        sums[7] += whole(usage.cached_input_tokens)
        sums[8] += whole(usage.output_tokens)
        if usage.audio_seconds or usage.characters or record.measured is not None:
            seconds, characters = seconds_and_characters(record)
            sums[9] += seconds
            sums[10] += characters
        if record.wasted_nusd:
            sums[11] += whole(record.wasted_nusd)
        if record.ttfb_ms is not None:
            self._ttfbs.append(record.ttfb_ms)
        if status in ("success", "fallback"):
            self._latencies.append(record.total_latency_ms)

    def settle(self) -> None:
        """After the last `add`: the latencies go into their histograms, all at once."""
        self.ttfb.record_all(self._ttfbs)
        self.latency.record_all(self._latencies)

    def merge(self, other: _Sums) -> None:
        self.sums = [mine + theirs for mine, theirs in zip(self.sums, other.sums, strict=True)]
        self.ttfb.merge(other.ttfb)
        self.latency.merge(other.latency)


def add(db: apsw.Connection, records: Iterable[RequestRecord]) -> None:
    """Add newly inserted records to the rollups of their hour and day. Within the caller's transaction."""
    hours: dict[_Key, _Sums] = {}
    for record in records:
        hour = utc_hour(finite(record.timestamp))
        key = (hour, record.project, record.provider, record.model_id, record.modality)
        group = hours.get(key)
        if group is None:
            group = hours[key] = _Sums()
        group.add(record)
    days: dict[_Key, _Sums] = {}
    for (hour, project, provider, model_id, modality), group in hours.items():
        group.settle()
        days.setdefault((hour // 24, project, provider, model_id, modality), _Sums()).merge(group)
    _upsert(db, "rollup_hour", hours)
    _upsert(db, "rollup_day", days)


def _upsert(db: apsw.Connection, table: str, groups: Mapping[_Key, _Sums]) -> None:
    find_sql, add_sql = _SQL[table]
    for key, group in groups.items():
        for ttfb, latency in db.execute(find_sql, key):
            group.ttfb.merge_encoded([ttfb])
            group.latency.merge_encoded([latency])
        db.execute(add_sql, (*key, *group.sums, group.ttfb.encode(), group.latency.encode()))


def costs(db: apsw.Connection, since_day: int | None, project: str | None) -> list[CostRow]:
    rows = db.execute(_COSTS[project is not None], _bindings(since_day, None, project))
    return [
        CostRow(
            provider=provider,
            model_id=model_id,
            project=owner,
            modality=modality,
            cost_nusd=cost_nusd,
            requests=requests,
            unpriced=unpriced,
            input_tokens=input_tokens,
            cached_input_tokens=cached_input_tokens,
            output_tokens=output_tokens,
            audio_seconds=audio_seconds,
            characters=characters,
            wasted_nusd=wasted_nusd,
        )
        for provider, model_id, owner, modality, cost_nusd, requests, unpriced, input_tokens, cached_input_tokens,
            output_tokens, audio_seconds, characters, wasted_nusd in rows
    ]  # fmt: skip


def totals(
    db: apsw.Connection, since: int | None, project: str | None, *, until: int | None = None, grain: Grain = "day"
) -> Totals:
    """Of all buckets from `since` to `until`, both included; None = no bound."""
    [row] = db.execute(_TOTALS[grain][project is not None], _bindings(since, until, project))
    return Totals.of(row)


def points(
    db: apsw.Connection,
    grain: Grain,
    since: int,
    until: int,
    *,
    by: str,
    project: str | None = None,
    model_id: str | None = None,
) -> list[Point]:
    """By bucket and name, in that order; `by` is a key of `BY`. Buckets without requests are left out."""
    bindings = {**_bindings(since, until, project), "model_id": model_id}
    return [
        Point(
            bucket=bucket,
            name=name,
            requests=requests,
            errors=errors,
            fallbacks=fallbacks,
            cancelled=cancelled,
            cost_nusd=cost_nusd,
            unpriced=unpriced,
            wasted_nusd=wasted_nusd,
        )
        for bucket, name, requests, errors, fallbacks, cancelled, cost_nusd, unpriced, wasted_nusd in db.execute(
            _POINTS[grain, by][project is not None], bindings
        )
    ]


def spend(db: apsw.Connection, day: int) -> dict[str, int]:
    return dict(db.execute(_SPEND, (day,)))


def _bindings(since: int | None, until: int | None, project: str | None) -> dict[str, object]:
    first, last = _EVER
    return {
        "since": first if since is None else since,
        "until": last if until is None else until,
        "project": project,
    }
