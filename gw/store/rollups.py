"""SQL of the rollups: per UTC hour and day × project × provider × model × modality, what the reports read.

They change in the transaction that inserts the records, so their sums are always those of all records ever inserted;
pruning records leaves them. Latency goes in as mergeable histograms: time to first byte of every request that had one,
total latency of requests that were answered (a failure's or a leaving caller's total says nothing about the model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apsw
import attrs
import msgspec

from gw.store.requests import finite, whole
from gw.telemetry.clock import utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.ids import Modality
from gw.types.usage import RequestRecord

_Key = tuple[int, str, str, str, Modality]

_SUMS = (
    "requests", "errors", "fallbacks", "cancelled", "cost_nusd", "unpriced",
    "input_tokens", "cached_input_tokens", "output_tokens", "audio_seconds", "characters",
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

_RANGE = "where bucket >= :since and (:project is null or project = :project)"

_COSTS = f"""
select provider, model_id, project, modality, sum(cost_nusd), sum(requests), sum(unpriced),
       sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(audio_seconds), sum(characters)
from rollup_day {_RANGE} group by provider, model_id, project, modality order by 5 desc, 2, 3"""

_LATENCY = f"select model_id, requests, ttfb, latency from rollup_day {_RANGE}"

_TOTALS = f"""
select coalesce(sum(requests), 0), coalesce(sum(errors), 0), coalesce(sum(fallbacks), 0), coalesce(sum(cancelled), 0),
       coalesce(sum(cost_nusd), 0), coalesce(sum(unpriced), 0)
from rollup_day {_RANGE}"""

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


@attrs.frozen(kw_only=True)
class LatencyRow:
    """How fast one model was. `requests` are all its requests; the histograms hold those that have such a time."""

    requests: int
    ttfb: Histogram
    total: Histogram


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    requests: int
    errors: int
    fallbacks: int
    cancelled: int
    cost_nusd: int
    unpriced: int


class _Sums:
    """What a batch adds to one rollup row."""

    __slots__ = ("latency", "sums", "ttfb")

    def __init__(self) -> None:
        self.sums: list[float] = [0] * len(_SUMS)
        self.ttfb = Histogram()
        self.latency = Histogram()

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
        sums[9] += finite(usage.audio_seconds)
        sums[10] += whole(usage.characters)
        if record.ttfb_ms is not None:
            self.ttfb.record(record.ttfb_ms)
        if status in ("success", "fallback"):
            self.latency.record(record.total_latency_ms)

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
    names = CostRow.__struct_fields__
    rows = db.execute(_COSTS, _bindings(since_day, project))
    return [msgspec.convert(dict(zip(names, row, strict=True)), CostRow) for row in rows]


def latency(db: apsw.Connection, since_day: int | None, project: str | None) -> dict[str, LatencyRow]:
    """By model id. Little Python per row; between rows SQLite runs without the interpreter lock."""
    rows: dict[str, tuple[list[int], list[bytes], list[bytes]]] = {}
    for model_id, n, ttfb, total in db.execute(_LATENCY, _bindings(since_day, project)):
        if model_id not in rows:
            rows[model_id] = ([], [], [])
        counts, ttfbs, totals = rows[model_id]
        counts.append(n)
        ttfbs.append(ttfb)
        totals.append(total)
    return {
        model_id: LatencyRow(requests=sum(counts), ttfb=_merged(ttfbs), total=_merged(totals))
        for model_id, (counts, ttfbs, totals) in rows.items()
    }


def _merged(stored: Iterable[bytes]) -> Histogram:
    histogram = Histogram()
    histogram.merge_encoded(stored)
    return histogram


def totals(db: apsw.Connection, since_day: int | None, project: str | None) -> Totals:
    [row] = db.execute(_TOTALS, _bindings(since_day, project))
    return msgspec.convert(dict(zip(Totals.__struct_fields__, row, strict=True)), Totals)


def spend(db: apsw.Connection, day: int) -> dict[str, int]:
    return dict(db.execute(_SPEND, (day,)))


def _bindings(since_day: int | None, project: str | None) -> dict[str, object]:
    return {"since": 0 if since_day is None else since_day, "project": project}
