"""Figures of any stretch of time: complete hours and days from the rollups, the incomplete hours at its ends from their records.

So the figures are exact to the second, and the work does not grow with the length of the stretch. Points closer together
than an hour are made of records alone, which are read by their time. Where the records of an incomplete hour have been
deleted (`retention_days`), all of that hour counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, inf
from typing import Any, Literal, get_args

import attrs
import msgspec

from gw.store import requests, rollups
from gw.store.latency import LatencyRow, QueryContext, bucket_groups, group_name
from gw.store.requests import Totals
from gw.store.rollups import CostRow, Grain
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of

HOUR_S, DAY_S = 3_600, 86_400
_SECONDS: Mapping[Grain, int] = {"hour": HOUR_S, "day": DAY_S}

_RANGE = "requests indexed by requests_{index} where {condition}timestamp >= :since and timestamp < :until"
_HAS_PARTS = "(instr(attempts, '\"pricing_source\":') > 0 and json_array_length(attempts) > 1)"
"""Only requests whose cost is divided between vendors have attempts with a source of their own (`RequestRecord.parts`)."""
_PARTS = f"case when {_HAS_PARTS} then attempts end"
_COSTS = f"""
select provider, model_id, project, modality, coalesce(sum(cost_nusd), 0), count(*),
       count(*) filter (where cost_nusd is null), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens),
       sum(coalesce(nullif(audio_seconds, 0), json_extract(measured, '$.audio_seconds'), 0.0)),
       sum(coalesce(nullif(characters, 0), json_extract(measured, '$.characters'), 0)),
       coalesce(sum(wasted_nusd), 0), sum(estimated_nusd), count(*) filter (where pricing_source <> '')
from {{records}} and not {_HAS_PARTS} group by 1, 2, 3, 4"""
_COUNTS = {
    "requests": "1",
    "errors": "status = 'error' and not refused",
    "cost": "coalesce(cost_nusd, 0)",
}
Metric = Literal["requests", "errors", "cost"]
_METRICS: tuple[Metric, ...] = get_args(Metric)
_BY = {
    "provider": "provider", "model": "model_id", "model and modality": "model_id || ' (' || modality || ')'", "project": "project",
    "modality": "modality", "none": "''",
}  # fmt: skip


@attrs.frozen
class TimeWindow:
    """Times from `since` (included) to `until` (not included), in Unix seconds; None = no bound."""

    since: float | None = None
    until: float | None = None


@attrs.frozen
class Buckets:
    """Rollup rows of complete hours or days, both ends included."""

    grain: Grain
    first: int | None
    last: int | None


@attrs.frozen
class Rows:
    """Records that began in [since, until)."""

    since: float
    until: float


Piece = Buckets | Rows


def pieces(db: SqlConnection, window: TimeWindow, coarsest: Grain = "day") -> list[Piece]:
    """Divide a window into rollups and records, in no particular order."""
    since, until = -inf if window.since is None else window.since, inf if window.until is None else window.until
    first_hour, end_hour = _ceil(since / HOUR_S), _floor(until / HOUR_S)
    found: list[Piece] = []
    if first_hour > end_hour:  # within one hour
        return [_records(db, since, until)] if since < until else []
    if since < first_hour * HOUR_S:
        found.append(_records(db, since, first_hour * HOUR_S))
    if end_hour * HOUR_S < until:
        found.append(_records(db, end_hour * HOUR_S, until))
    if coarsest == "hour":
        return [*found, *_buckets("hour", first_hour, end_hour)]
    first_day, end_day = _ceil(first_hour / 24), _floor(end_hour / 24)
    if first_day >= end_day:
        return [*found, *_buckets("hour", first_hour, end_hour)]
    found += _buckets("hour", first_hour, first_day * 24)
    found += _buckets("day", first_day, end_day)
    return [*found, *_buckets("hour", end_day * 24, end_hour)]


def _ceil(value: float) -> float:
    return value if value in (inf, -inf) else ceil(value)


def _floor(value: float) -> float:
    return value if value in (inf, -inf) else value // 1


def _buckets(grain: Grain, first: float, end: float) -> Iterable[Buckets]:
    if first < end:
        yield Buckets(grain, None if first == -inf else int(first), None if end == inf else int(end) - 1)


def _records(db: SqlConnection, since: float, until: float) -> Piece:
    """Return the records, or all of their hour if some of them may have been deleted. Within one hour."""
    oldest = db.execute("select min(timestamp) from requests").get
    if oldest is None or since < oldest:
        hour = int(since // HOUR_S)
        return Buckets("hour", hour, hour)
    return Rows(since, until)


def _from_records(piece: Rows, project: str | None, model_id: str | None = None) -> tuple[str, dict[str, object]]:
    """Return what to read, and its bindings."""
    conditions = "".join(
        f"{name} = :{name} and " for name, value in (("model_id", model_id), ("project", project)) if value is not None
    )
    index = "model_id" if model_id is not None else "project" if project is not None else "time"
    records = _RANGE.format(index=index, condition=conditions)
    return records, {"since": piece.since, "until": piece.until, "project": project, "model_id": model_id}


# ---- sums


def totals(context: QueryContext, window: TimeWindow, project: str | None) -> Totals:
    """Return the sums of a window."""
    together = Totals(requests=0, errors=0, refused=0, fallbacks=0, cancelled=0, cost_nusd=0, unpriced=0, wasted_nusd=0)
    for piece in pieces(context.db, window):
        if isinstance(piece, Rows):
            together += requests.between(context.db, piece.since, piece.until, project)[0]
        else:
            together += rollups.totals(context.db, piece.first, project, until=piece.last, grain=piece.grain)
    return together


def costs(context: QueryContext, window: TimeWindow, project: str | None) -> list[CostRow]:
    """Return costs per provider, model and project, the highest first."""
    sums: dict[tuple[str, ...], CostRow] = {}
    for piece in pieces(context.db, window):
        for row in _cost_rows(context.db, piece, project):
            key = (row.provider, row.model_id, row.project, row.modality)
            sums[key] = sums[key] + row if key in sums else row
    return sorted(sums.values(), key=lambda row: (-row.cost_nusd, row.model_id, row.project))


def _cost_rows(db: SqlConnection, piece: Piece, project: str | None) -> Iterator[CostRow]:
    if isinstance(piece, Buckets):
        yield from rollups.costs(db, piece.first, project, until=piece.last, grain=piece.grain)
        return
    records, bindings = _from_records(piece, project)
    for row in db.execute(_COSTS.format(records=records), bindings):
        yield struct_of(CostRow, row)
    divided = f"{requests.SELECT.partition(' from ')[0]} from {records} and {_HAS_PARTS}"
    yield from rollups.cost_rows(requests.record_of(row) for row in db.execute(divided, bindings))


# ---- points over time


class WindowPoint(msgspec.Struct, frozen=True):
    """A count or a cost in nano-USD of one `name` in the step that begins at `bucket` times its length."""

    bucket: int
    name: str
    value: int


def points(
    context: QueryContext, window: TimeWindow, step_s: int, metric: Metric, *, by: str, project: str | None,
    model_id: str | None,
) -> list[WindowPoint]:  # fmt: skip
    """Return a metric by step and name. `step_s` divides an hour or is one, or is a day."""
    sums: defaultdict[tuple[int, str], int] = defaultdict(int)
    for piece in _pieces_by_step(context.db, window, step_s):
        if isinstance(piece, Rows):
            values = _counted(context.db, piece, step_s, metric, by, project, model_id)
        else:
            values = _rolled_up(context.db, piece, step_s, metric, by, project, model_id)
        for key, value in values:
            sums[key] += value
    return [WindowPoint(bucket, name, value) for (bucket, name), value in sorted(sums.items())]


def _pieces_by_step(db: SqlConnection, window: TimeWindow, step_s: int) -> Iterable[Piece]:
    """Divide a window so that no piece of a rollup spans several steps."""
    if step_s >= HOUR_S:
        return pieces(db, window, "day" if step_s >= DAY_S else "hour")
    oldest = db.execute("select min(timestamp) from requests").get
    since, until = window.since or 0.0, inf if window.until is None else window.until
    if oldest is None or since >= oldest:
        return [Rows(since, until)]
    border = max(since, _first_complete_hour(db, oldest) * HOUR_S)
    if border >= until:
        return [Buckets("hour", int(since // HOUR_S), ceil(until / HOUR_S) - 1)]
    return [*_buckets("hour", since // HOUR_S, border // HOUR_S), Rows(border, until)]


def _first_complete_hour(db: SqlConnection, oldest: float) -> int:
    """Return the hour of the oldest record, or the next one if records of that hour have been deleted."""
    hour = int(oldest // HOUR_S)
    left = requests.between(db, hour * HOUR_S, (hour + 1) * HOUR_S, None)[0].requests
    return hour + (left < rollups.totals(db, hour, None, until=hour, grain="hour").requests)


def _rolled_up(
    db: SqlConnection, piece: Buckets, step_s: int, metric: Metric, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[tuple[int, str], int]]:
    field = "cost_nusd" if metric == "cost" else metric
    first, last = (0 if piece.first is None else piece.first), (2**40 if piece.last is None else piece.last)
    for point in rollups.points(db, piece.grain, first, last, by=by, project=project, model_id=model_id):
        yield (point.bucket * _SECONDS[piece.grain] // step_s, point.name), getattr(point, field)


def _counted(
    db: SqlConnection, piece: Rows, step_s: int, metric: Metric, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield each record's part. Adding them up here is faster than a `group by` with thousands of groups."""
    by_vendor = metric == "cost" and (by in ("provider", "model") or model_id is not None)
    records, bindings = _from_records(piece, project, None if by_vendor else model_id)
    bucket = f"cast(timestamp as integer) / {step_s}"  # of a time after 1970
    if not by_vendor:
        for step, name, value in db.execute(f"select {bucket}, {_BY[by]}, {_COUNTS[metric]} from {records}", bindings):
            yield (step, name), value
        return
    columns = f"{bucket}, {_BY[by]}, {_COUNTS[metric]}, model_id, project, modality, {_PARTS}"
    for step, name, value, model, owner, modality, attempts in db.execute(f"select {columns} from {records}", bindings):
        if attempts is None:
            if model_id in (None, model):
                yield (step, name), value
            continue
        for part in requests.parts_of(attempts):
            if model_id in (None, part.model_id):
                names = {"provider": part.provider_id, "model": part.model_id, "project": owner, "modality": modality}
                yield (step, names.get(by, "")), part.cost_nusd or 0


# ---- a window compared with the one before


@attrs.frozen
class WindowFigures:
    """`latency` by modality, and of all together under ""."""

    totals: Totals
    latency: Mapping[str, LatencyRow]


@attrs.frozen
class Trend:
    """Figures by step; steps without requests are left out."""

    counts: Mapping[Metric, Mapping[int, int]]
    latency: Mapping[int, LatencyRow]


def figures(context: QueryContext, window: TimeWindow, project: str | None) -> WindowFigures:
    """Return the sums and times of a window."""
    by_modality = latency_by(context, window, "modality", project)
    together = LatencyRow()
    for row in by_modality.values():
        together.merge(row)
    return WindowFigures(totals(context, window, project), {**by_modality, "": together})


def trend(context: QueryContext, window: TimeWindow, step_s: int, project: str | None) -> Trend:
    """Return figures over time; for `step_s` see `points`."""
    split: Any = {"by": "none", "project": project, "model_id": None}
    counts: dict[Metric, Mapping[int, int]] = {
        metric: {point.bucket: point.value for point in points(context, window, step_s, metric, **split)} for metric in _METRICS
    }
    rows = latency_points(context, window, step_s, **split)
    return Trend(counts, {bucket: row for (bucket, _), row in rows.items()})


# ---- latency


def latencies(context: QueryContext, window: TimeWindow, project: str | None) -> dict[str, LatencyRow]:
    """Return latency by model id."""
    named = _timed(context, pieces(context.db, window), DAY_S, "model", project, None)
    rows: defaultdict[str, LatencyRow] = defaultdict(LatencyRow)
    for _, name, row in named:
        rows[name].merge(row)
    return dict(rows)


def latencies_apart(context: QueryContext, window: TimeWindow, project: str | None) -> dict[str, LatencyRow]:
    """Return latency by model id; the modalities of a model that has several are apart, as `<model id> (<modality>)`."""
    rows = latency_by(context, window, "model and modality", project)
    modalities = Counter(model_of(name) for name in rows)
    return {name if modalities[model_of(name)] > 1 else model_of(name): row for name, row in rows.items()}


def model_of(name: str) -> str:
    """Return the model id of a name of `latencies_apart`."""
    return name.removesuffix(" (stt)").removesuffix(" (llm)").removesuffix(" (tts)")


def latency_points(
    context: QueryContext, window: TimeWindow, step_s: int, *, by: str, project: str | None, model_id: str | None
) -> Mapping[tuple[int, str], LatencyRow]:
    """Return latency by step and name; for `step_s` and `by` see `points`."""
    rows: defaultdict[tuple[int, str], LatencyRow] = defaultdict(LatencyRow)
    chosen = _pieces_by_step(context.db, window, step_s)
    for bucket, name, row in _timed(context, chosen, step_s, by, project, model_id):
        rows[bucket, name].merge(row)
    return dict(rows)


def latency_by(context: QueryContext, window: TimeWindow, by: str, project: str | None) -> dict[str, LatencyRow]:
    """Return latency of a window by name."""
    rows: defaultdict[str, LatencyRow] = defaultdict(LatencyRow)
    for _, name, row in _timed(context, pieces(context.db, window), DAY_S, by, project, None):
        rows[name].merge(row)
    return dict(rows)


def _timed(
    context: QueryContext, chosen: Iterable[Piece], step_s: int, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[int, str, LatencyRow]]:
    for piece in chosen:
        if isinstance(piece, Buckets):
            name = group_name(by, project)
            for group in bucket_groups(context, piece.grain, piece.first, piece.last, by, project):
                if model_id is None or group.model_id == model_id:
                    row = LatencyRow()
                    row.add(group)
                    yield group.bucket * _SECONDS[piece.grain] // step_s, name(group), row
            continue
        yield from _timed_rows(context.db, piece, step_s, by, project, model_id)


def _timed_rows(
    db: SqlConnection, piece: Rows, step_s: int, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[int, str, LatencyRow]]:
    records, bindings = _from_records(piece, project, model_id)
    total = "case when status in ('success', 'fallback') then total_latency_ms end"
    sql = f"select cast(timestamp as integer) / {step_s}, {_BY[by]}, ttfb_ms, {total} from {records}"
    times: defaultdict[tuple[int, str], list[tuple[float | None, float | None]]] = defaultdict(list)
    for bucket, name, ttfb_ms, total_ms in db.execute(sql, bindings):
        times[bucket, name].append((ttfb_ms, total_ms))
    for (bucket, name), pairs in times.items():
        row = LatencyRow()
        row.add_times(pairs)
        yield bucket, name, row
