"""SQL of the rollups: per UTC hour and day × project × provider × model × modality, what the reports read.

They change in the transaction that inserts the records, so their sums are always those of all records ever inserted;
pruning records leaves them. Latency goes in as mergeable histograms: time to first byte of every request that had one,
total latency of requests that were answered (the total of a failure or an aborted request says nothing about the model).

A request counts once, for the model that answered it or was tried last. Its units and its cost count for the vendor that
charges for them, which after a failover is another one for each part (`AttemptRecord.pricing_source`).

A sum more is a column of the schema, a name in `SUMS` with its value in `_values`, and a field of the rows that show it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from gw.store.requests import Totals, bounded_float, bounded_int, seconds_and_characters
from gw.store.row_times import RecentRows, RowTimes
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.telemetry.clock import utc_hour
from gw.types.ids import Modality
from gw.types.usage import AttemptRecord, RequestRecord

Grain = Literal["hour", "day"]
_Key = tuple[int, str, str, str, Modality]

SUMS = (
    "requests", "errors", "refused", "fallbacks", "cancelled", "cost_nusd", "unpriced", "input_tokens",
    "cached_input_tokens", "output_tokens", "audio_seconds", "characters", "wasted_nusd", "estimated_nusd", "calls",
    "saved_nusd",
)  # fmt: skip
"""Columns that are added up, in the order of `_values`."""
KEYS = ("bucket", "project", "provider", "model_id", "modality")
_ALL = (*KEYS, *SUMS, "ttfb", "latency")
TABLES: Mapping[Grain, str] = {"hour": "rollup_hour", "day": "rollup_day"}
SECONDS: Mapping[Grain, int] = {"hour": 3_600, "day": 86_400}
TOTALS: Mapping[Grain, str] = {"hour": "totals_hour", "day": "totals_day"}
"""The same of all projects together, without times: what is shown of all reads a twentieth of the rows. In SQLite, views."""
TOTALS_KEYS = ("bucket", "provider", "model_id", "modality")
TOTALS_SUMS = (
    "requests", "errors", "refused", "fallbacks", "cancelled", "cost_nusd", "unpriced", "output_tokens", "wasted_nusd", "calls",
    "saved_nusd",
)  # fmt: skip


_Values = tuple[float, ...]
_Part = tuple[str, str, _Values]
"""Provider, model, and values that count for them."""


def _values(record: RequestRecord, parts: list[AttemptRecord]) -> _Values:
    """Return what counts for the model that answered. With `parts`, units and costs count elsewhere."""
    usage, cost, status = record.usage, record.cost_nusd, record.status
    is_error, fell_back = record.failed, record.fell_back
    if parts:
        return (1, is_error, record.refused, fell_back, status == "cancelled", *_NO_PART)
    seconds, characters = 0.0, 0
    if usage.audio_seconds or usage.characters or record.measured is not None:
        seconds, characters = seconds_and_characters(record)
    return (
        1,
        is_error,
        record.refused,
        fell_back,
        status == "cancelled",
        0 if cost is None else bounded_int(cost),
        cost is None,
        bounded_int(usage.input_tokens),
        bounded_int(usage.cached_input_tokens),
        bounded_int(usage.output_tokens),
        seconds,
        characters,
        bounded_int(record.wasted_nusd) if record.wasted_nusd else 0,
        bounded_int(record.estimated_nusd) if record.estimated_nusd else 0,
        bool(record.pricing_source),
        bounded_int(record.saved_nusd) if record.saved_nusd else 0,
    )


_NO_PART = (0,) * (len(SUMS) - 5)


def _part(part: AttemptRecord, *, unpriced: bool) -> _Part:
    """Return what counts for the vendor of this part. `unpriced`: the request counts as one without a known cost here."""
    units = (part.input_tokens, part.cached_input_tokens, part.output_tokens)
    values = (
        *(0, 0, 0, 0, 0),
        bounded_int(part.cost_nusd or 0),
        unpriced,
        *map(bounded_int, units),
        bounded_float(part.audio_seconds or 0.0),
        bounded_int(part.characters or 0),
        bounded_int(part.wasted_nusd or 0),
        bounded_int(part.estimated_nusd),
        1,
        bounded_int(part.saved_nusd),
    )
    return part.provider_id, part.model_id, values


def _split(parts: list[AttemptRecord]) -> Iterator[_Part]:
    """Yield each vendor with its part of a request.

    A request with several parts of unknown cost counts as unpriced once, for the last of them.
    """
    last_unknown = next((part for part in reversed(parts) if part.cost_nusd is None), None)
    for part in parts:
        yield _part(part, unpriced=part is last_unknown)


_FIND = {
    table: f"select ttfb, latency from {table} where {' and '.join(f'{key} = ?' for key in KEYS)}"
    for table in TABLES.values()
}
_ADD = {
    table: f"""
insert into {table} ({", ".join(_ALL)}) values ({", ".join("?" * len(_ALL))})
on conflict ({", ".join(KEYS)}) do update set
{", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)}, ttfb = excluded.ttfb, latency = excluded.latency"""
    for table in TABLES.values()
}
_DELETE_EMPTY: Mapping[Grain, str] = {
    grain: f"delete from {table} where {' and '.join(f'{key} = ?' for key in KEYS)} and {' and '.join(f'{name} = 0' for name in SUMS)}"
    for grain, table in TABLES.items()
}
SPAN = """
with recursive span(bucket) as (
  select bucket from (select max(:since, (select min(bucket) from {table})) as bucket) s where bucket <= :until
  union all select bucket + 1 from span where bucket < min(:until, (select max(bucket) from {table})))
"""
_FROM = "from {table} r where r.bucket between :since and :until"
_FROM_OF_PROJECT = "from span cross join {table} r on r.bucket = span.bucket and r.project = :project where true"
"""One seek per bucket; the key begins with the bucket, so a range of buckets holds all projects."""


def _range_sql(select: str, table: str, clauses: str = "", *, together: str = "") -> tuple[str, str]:
    """Return the statement for all projects, which reads `together` if there is one, and that for one project."""
    everything = f"{select} {_FROM.format(table=together or table)} {clauses}"
    one = f"{SPAN.format(table=table)} {select} {_FROM_OF_PROJECT.format(table=table)} {clauses}"
    return everything, one


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of one model for one project. `requests` were answered by it, `calls` are those it may charge for.

    `unpriced` requests have no known cost, or a part without: it is not in `cost_nusd`, and counts against budgets by
    `estimated_nusd`.
    """

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
    estimated_nusd: int
    calls: int
    saved_nusd: int

    def __add__(self, other: CostRow) -> CostRow:
        """Add the sums of another project."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__[4:]}
        return msgspec.structs.replace(self, **sums)


class Point(Totals, frozen=True, kw_only=True):
    """The totals of one UTC hour or day (`bucket`, since 1970) and one `name` by which a series is split."""

    bucket: int
    name: str


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Units and money of one model over a range of days, as a bill shows them. `model` is its id, or the vendor's name."""

    model: str
    calls: int
    """Calls that the vendor may charge for."""
    cost_nusd: int
    unpriced: int
    """Requests without a known price, whose cost is not in the sum."""
    input_tokens: int
    output_tokens: int
    audio_seconds: float
    characters: int

    def units(self, name: str) -> Decimal:
        value: float = getattr(self, name)
        return round(Decimal(value), 6)

    def __add__(self, other: ModelUsage) -> ModelUsage:
        fields = self.__struct_fields__[1:]
        return ModelUsage(model=self.model, **{name: getattr(self, name) + getattr(other, name) for name in fields})


_COST_KEYS = CostRow.__struct_fields__[:4]
_COSTS = {
    grain: _range_sql(
        f"select {', '.join(_COST_KEYS)}, {', '.join(f'sum({name})' for name in CostRow.__struct_fields__[4:])}",
        table,
        f"group by {', '.join(_COST_KEYS)} order by 5 desc, 2, 3",
    )
    for grain, table in TABLES.items()
}
_TALLIES = ", ".join(f"coalesce(sum({name}), 0)" for name in Totals.__struct_fields__)
_TOTALS = {grain: _range_sql(f"select {_TALLIES}", table, together=TOTALS[grain]) for grain, table in TABLES.items()}
_POINT_KEYS = f"{len(Point.__struct_fields__) - 1}, {len(Point.__struct_fields__)}"
"""Positions of `bucket` and `name` among the columns of a `Point`."""
BY = {"provider": "provider", "model": "model_id", "project": "r.project", "modality": "modality", "none": "''"}
"""Columns that a series can be split by."""
_POINTS = {
    (grain, by): _range_sql(
        f"select {_TALLIES}, r.bucket, {column}",
        table,
        f"and (:model_id is null or model_id = :model_id) group by {_POINT_KEYS} order by {_POINT_KEYS}",
        together="" if by == "project" else TOTALS[grain],
    )
    for grain, table in TABLES.items()
    for by, column in BY.items()
}
_EVER = (-(2**62), 2**62)
_SPEND = "select project, sum(cost_nusd + estimated_nusd), sum(estimated_nusd) from rollup_day where bucket = ? group by project"
_MODEL_USAGE = f"""
select model_id, {", ".join(f"sum({name})" for name in ModelUsage.__struct_fields__[1:])} from rollup_day
where bucket between ? and ? and modality = ? and provider = ? group by model_id having sum(calls) <> 0 order by model_id"""
_DAYS = "select min(bucket), max(bucket) from rollup_day where modality = ? and provider = ?"


# ---- writing


class BucketSums(RowTimes):
    """Values that a batch adds to one rollup row."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[float] = [0] * len(SUMS)

    def add(self, values: _Values) -> None:
        self.sums = list(map(operator.add, self.sums, values))

    def merge(self, other: BucketSums) -> None:
        self.sums = list(map(operator.add, self.sums, other.sums))
        self.merge_times(other)


def add(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Add newly inserted records to the rollups of their hour and day. Within the caller's transaction."""
    hours = by_hour(records)
    days = by_day(hours)  # before `_upsert` adds what is stored already
    _upsert(db, "hour", hours, recent)
    _upsert(db, "day", days, recent)


def subtract(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Take deleted records without times (interrupted ones have none) out of the rollups. Within the caller's transaction."""
    hours = by_hour(records)
    grains: tuple[tuple[Grain, dict[_Key, BucketSums]], ...] = (("hour", hours), ("day", by_day(hours)))
    for grain, groups in grains:
        for group in groups.values():
            group.sums = [-value for value in group.sums]
        _upsert(db, grain, groups, recent)
        db.executemany(_DELETE_EMPTY[grain], groups)


def by_hour(records: Iterable[RequestRecord]) -> dict[_Key, BucketSums]:
    """Return what records add to each row of the hours."""
    hours: dict[_Key, BucketSums] = {}
    for record in records:
        hour = utc_hour(bounded_float(record.timestamp))
        parts = record.parts
        key = (hour, record.project, record.provider, record.model_id, record.modality)
        group = hours.get(key)
        if group is None:
            group = hours[key] = BucketSums()
        group.add(_values(record, parts))
        group.add_times(record)
        for provider, model_id, values in _split(parts) if parts else ():
            hours.setdefault((hour, record.project, provider, model_id, record.modality), BucketSums()).add(values)
    for group in hours.values():
        group.fill_histograms()
    return hours


def by_day(hours: Mapping[_Key, BucketSums]) -> dict[_Key, BucketSums]:
    """Return what they add to each row of the days."""
    days: dict[_Key, BucketSums] = {}
    for (hour, project, provider, model_id, modality), group in hours.items():
        days.setdefault((hour // 24, project, provider, model_id, modality), BucketSums()).merge(group)
    return days


def _upsert(db: SqlConnection, grain: Grain, groups: Mapping[_Key, BucketSums], recent: RecentRows) -> None:
    table = TABLES[grain]
    for key, group in groups.items():
        ends_at = (key[0] + 1) * SECONDS[grain]
        blobs = recent.add(table, ends_at, key, group.histograms)
        if blobs is None:
            blobs = recent.read(table, ends_at, key, group.histograms, db.execute(_FIND[table], key))
        db.execute(_ADD[table], (*key, *group.sums, *blobs))


# ---- reading


def costs(
    db: SqlConnection, since: int | None, project: str | None, *, until: int | None = None, grain: Grain = "day"
) -> list[CostRow]:
    """Return the costs of all buckets from `since` to `until`, both included; None = no bound."""
    rows = db.execute(_COSTS[grain][project is not None], _bindings(since, until, project))
    return [struct_of(CostRow, row) for row in rows]


def cost_rows(records: Iterable[RequestRecord]) -> Iterator[CostRow]:
    """Yield what `records` add to the rollups, as costs; a model occurs as often as records or parts count for it."""
    for record in records:
        parts = record.parts
        for provider, model_id, values in ((record.provider, record.model_id, _values(record, parts)), *_split(parts)):
            sums = {name: +value for name, value in zip(SUMS, values, strict=True)}  # a flag becomes a number
            named = {"provider": provider, "model_id": model_id, "project": record.project, "modality": record.modality}
            yield struct_of(CostRow, [(named | sums)[name] for name in CostRow.__struct_fields__])


def totals(
    db: SqlConnection, since: int | None, project: str | None, *, until: int | None = None, grain: Grain = "day"
) -> Totals:
    """Return the totals of all buckets from `since` to `until`, both included; None = no bound."""
    [row] = db.execute(_TOTALS[grain][project is not None], _bindings(since, until, project))
    return struct_of(Totals, row)


def points(
    db: SqlConnection, grain: Grain, since: int, until: int, *, by: str, project: str | None = None,
    model_id: str | None = None,
) -> list[Point]:  # fmt: skip
    """Return totals by bucket and name, in that order; `by` is a key of `BY`. Buckets without requests are left out."""
    bindings = {**_bindings(since, until, project), "model_id": model_id}
    return [struct_of(Point, row) for row in db.execute(_POINTS[grain, by][project is not None], bindings)]


class Spend(NamedTuple):
    """Nano-USD as budgets count them; `estimated` is the part of `total` that stands in for unknown costs."""

    total: int
    estimated: int = 0


def spend(db: SqlConnection, day: int) -> dict[str, Spend]:
    """Return what each project spent on a UTC day."""
    return {project: Spend(*sums) for project, *sums in db.execute(_SPEND, (day,))}


def usage_by_model(
    db: SqlConnection, first_day: int, last_day: int, modality: Modality, providers: Collection[str]
) -> list[ModelUsage]:
    """Return the usage of each provider's models by id; both days included, counted from 1970-01-01."""
    return [
        struct_of(ModelUsage, row)
        for provider in providers
        for row in db.execute(_MODEL_USAGE, (first_day, last_day, modality, provider))
    ]


def recorded_days(db: SqlConnection, modality: Modality, providers: Collection[str]) -> tuple[int, int] | None:
    """Return the first and the last UTC day with a request of these providers, None without any."""
    ranges = [db.execute(_DAYS, (modality, provider)).get for provider in providers]
    days = [pair for pair in ranges if pair[0] is not None]
    return (min(first for first, _ in days), max(last for _, last in days)) if days else None


def _bindings(since: int | None, until: int | None, project: str | None) -> dict[str, object]:
    first, last = _EVER
    return {"since": first if since is None else since, "until": last if until is None else until, "project": project}
