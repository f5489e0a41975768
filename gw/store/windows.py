"""Figures of any stretch of time: complete hours and days from the rollups, the incomplete hours at its ends from their records.

So the figures are exact to the second, and the work does not grow with the length of the stretch. Points closer together
than an hour are made of records, which are read by their time. Where nothing is asked for but the modality, sums of minutes
stand in for records, and for times those by minute and model do so, too. Where the records of an incomplete hour have been deleted
(`retention_days`), all of that hour counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any, Literal, get_args

import msgspec

from gw.store import minute_sums, model_minutes, requests, rollups
from gw.store.latency import LatencyRow, QueryContext, bucket_groups, group_name
from gw.store.minute_table import MINUTE_S, Minutes
from gw.store.requests import Totals
from gw.store.rollups import CostRow, Grain, Point
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.store.window_pieces import DAY_S, HOUR_S, Buckets, Piece, Rows, TimeWindow, pieces, pieces_by_step

_SECONDS: Mapping[Grain, int] = {"hour": HOUR_S, "day": DAY_S}

_KEPT_S = 600.0
_MOST_KEPT = 64
"""Stretches of records whose costs are kept. With 24 models and 20 projects one has 100 KB."""
_RANGE = "requests indexed by requests_{index} where {condition}timestamp >= :since and timestamp < :until"
_HAS_PARTS = "(instr(attempts, '\"pricing_source\":') > 0 and json_array_length(attempts) > 1)"
"""Only requests whose cost is divided between vendors have attempts with a source of their own (`RequestRecord.parts`)."""
_PARTS = f"case when {_HAS_PARTS} then attempts end"
_COSTS = f"""
select provider, model_id, project, modality, coalesce(sum(cost_nusd), 0), count(*),
       count(*) filter (where cost_nusd is null), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens),
       sum(coalesce(nullif(audio_seconds, 0), json_extract(measured, '$.audio_seconds'), 0.0)),
       sum(coalesce(nullif(characters, 0), json_extract(measured, '$.characters'), 0)),
       coalesce(sum(wasted_nusd), 0), sum(estimated_nusd), count(*) filter (where pricing_source <> ''),
       sum(saved_nusd), case when {_HAS_PARTS} then 1 else 0 end
from {{records}} group by 1, 2, 3, 4, 17"""
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
    together = Totals(requests=0, errors=0, refused=0, fallbacks=0, cancelled=0, cost_nusd=0, unpriced=0, wasted_nusd=0, saved_nusd=0)
    for piece in pieces(context, window, minutes_since=context.minutes_since if project is None else None):
        if isinstance(piece, Rows):
            together += requests.between(context.db, piece.since, piece.until, project)[0]
        elif isinstance(piece, Minutes):
            together += minute_sums.totals(context.db, piece)
        else:
            together += rollups.totals(context.db, piece.first, project, until=piece.last, grain=piece.grain)
    return together


def costs(context: QueryContext, window: TimeWindow, project: str | None) -> list[CostRow]:
    """Return costs per provider, model and project, the highest first."""
    sums: dict[tuple[str, ...], CostRow] = {}
    for piece in pieces(context, window):
        for row in _kept_cost_rows(context, piece, project):
            key = (row.provider, row.model_id, row.project, row.modality)
            sums[key] = sums[key] + row if key in sums else row
    return sorted(sums.values(), key=lambda row: (-row.cost_nusd, row.model_id, row.project, row.provider, row.modality))


def _kept_cost_rows(context: QueryContext, piece: Piece, project: str | None) -> Iterable[CostRow]:
    """Return costs. Those of records are kept by ten minutes while their hour does not change, from the second report on."""
    versions, kept = context.merged.versions, context.merged.costs
    if not isinstance(piece, Rows) or versions is None:
        return _cost_rows(context.db, piece, project)
    first, end = ceil(piece.since / _KEPT_S) * _KEPT_S, piece.until // _KEPT_S * _KEPT_S
    if first >= end:
        return _cost_rows(context.db, piece, project)
    hour = int(piece.since // HOUR_S)
    key, version = (project, first, end), versions.of(context.db, "hour", [hour])[hour]  # before the records are read
    seen, rows = kept.pop(key, (None, None))
    kept[key] = version, rows if seen == version else None
    for oldest in list(kept)[:-_MOST_KEPT]:
        kept.pop(oldest, None)
    if seen != version:  # the first report, or an hour that is being added to
        return _cost_rows(context.db, piece, project)
    if rows is None:
        rows = list(_cost_rows(context.db, Rows(first, end), project))
        kept[key] = version, rows
    ends = (Rows(piece.since, first), Rows(end, piece.until))
    return [*rows, *(row for rest in ends if rest.since < rest.until for row in _cost_rows(context.db, rest, project))]


def _cost_rows(db: SqlConnection, piece: Piece, project: str | None) -> Iterator[CostRow]:
    assert not isinstance(piece, Minutes)  # which know no models
    if isinstance(piece, Buckets):
        yield from rollups.costs(db, piece.first, project, until=piece.last, grain=piece.grain)
        return
    records, bindings = _from_records(piece, project)
    any_divided = False
    for *row, is_divided in db.execute(_COSTS.format(records=records), bindings):
        any_divided = any_divided or bool(is_divided)
        if not is_divided:
            yield struct_of(CostRow, row)
    if not any_divided:
        return  # without another look at all of them
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
    minutes_since = context.minutes_since if _in_sums(by, project, model_id) else None
    for piece in pieces_by_step(context, window, step_s, minutes_since=minutes_since):
        if isinstance(piece, Rows):
            values = _counted(context.db, piece, step_s, metric, by, project, model_id)
        else:
            values = _rolled_up(context.db, piece, step_s, metric, by, project, model_id)
        for key, value in values:
            sums[key] += value
    return [WindowPoint(bucket, name, value) for (bucket, name), value in sorted(sums.items())]


def _rolled_up(
    db: SqlConnection, piece: Buckets | Minutes, step_s: int, metric: Metric, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[tuple[int, str], int]]:
    field = "cost_nusd" if metric == "cost" else metric
    for point in _points_of(db, piece, by=by, project=project, model_id=model_id):
        yield (point.bucket * _seconds(piece) // step_s, point.name), getattr(point, field)


def _in_sums(by: str, project: str | None, model_id: str | None) -> bool:
    """Return whether sums of minutes know enough."""
    return by in ("none", "modality") and project is None and model_id is None


def _timed_since(context: QueryContext, by: str, project: str | None, model_id: str | None) -> int | None:
    """Return the first minute whose times by modality, or by model, know enough; None if they never do."""
    if _in_sums(by, project, model_id):
        return context.minutes_since
    return context.model_minutes_since if project is None and by != "project" else None


def _seconds(piece: Buckets | Minutes) -> int:
    """Return the length of its buckets."""
    return MINUTE_S if isinstance(piece, Minutes) else _SECONDS[piece.grain]


def _points_of(db: SqlConnection, piece: Buckets | Minutes, *, by: str, project: str | None, model_id: str | None) -> list[Point]:
    if isinstance(piece, Minutes):
        return minute_sums.points(db, piece, by=by)
    first, last = (0 if piece.first is None else piece.first), (2**40 if piece.last is None else piece.last)
    return rollups.points(db, piece.grain, first, last, by=by, project=project, model_id=model_id)


def _counted(
    db: SqlConnection, piece: Rows, step_s: int, metric: Metric, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield what is to be added up. With steps shorter than an hour that is a part for each record: thousands of groups are added up
    faster here than by a `group by`.
    """
    by_vendor = metric == "cost" and (by in ("provider", "model") or model_id is not None)
    records, bindings = _from_records(piece, project, None if by_vendor else model_id)
    bucket = f"cast(timestamp as integer) / {step_s}"  # of a time after 1970
    value, count, groups = _COUNTS[metric], "1", ""
    if step_s >= HOUR_S:
        value = f"count(*) filter (where {value})" if metric == "errors" else f"sum({value})"
        count, groups = "count(*)", f" group by {bucket}, {_BY[by]}" if by != "none" else f" group by {bucket}"
    if not by_vendor:
        for step, name, counted in db.execute(f"select {bucket}, {_BY[by]}, {value} from {records}{groups}", bindings):
            yield (step, name), counted
        return
    columns = f"{bucket}, {_BY[by]}, {value}, model_id, project, modality, {_PARTS}, {count}"
    groups += f", model_id, project, modality, {_PARTS}" if groups else ""
    for step, name, counted, model, owner, modality, attempts, alike in db.execute(f"select {columns} from {records}{groups}", bindings):
        if attempts is None:
            if model_id in (None, model):
                yield (step, name), counted
            continue
        for part in requests.parts_of(attempts):
            if model_id in (None, part.model_id):
                names = {"provider": part.provider_id, "model": part.model_id, "project": owner, "modality": modality}
                yield (step, names.get(by, "")), (part.cost_nusd or 0) * alike


# ---- a window compared with the one before


class WindowFigures(msgspec.Struct, frozen=True):
    """`latency` by modality, and of all together under ""."""

    totals: Totals
    latency: Mapping[str, LatencyRow]


class Trend(msgspec.Struct, frozen=True):
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
    rows = latency_points(context, window, step_s, **split)
    return Trend(_counts(context, window, step_s, project), {bucket: row for (bucket, _), row in rows.items()})


def _counts(context: QueryContext, window: TimeWindow, step_s: int, project: str | None) -> Mapping[Metric, Mapping[int, int]]:
    """Return all metrics by step, reading once what `points` would read for each."""
    sums: dict[Metric, defaultdict[int, int]] = {metric: defaultdict(int) for metric in _METRICS}
    for piece in pieces_by_step(context, window, step_s, minutes_since=context.minutes_since if project is None else None):
        if isinstance(piece, Rows):
            rows = _counted_by_step(context.db, piece, step_s, project)
        else:
            rows = (
                (point.bucket * _seconds(piece) // step_s, point.requests, point.errors, point.cost_nusd)
                for point in _points_of(context.db, piece, by="none", project=project, model_id=None)
            )
        for step, *values in rows:
            for metric, value in zip(_METRICS, values, strict=True):
                sums[metric][step] += value
    return sums


def _counted_by_step(db: SqlConnection, piece: Rows, step_s: int, project: str | None) -> Iterator[tuple[int, int, int, int]]:
    records, bindings = _from_records(piece, project)
    errors = f"count(*) filter (where {_COUNTS['errors']})"
    sql = f"select cast(timestamp as integer) / {step_s}, count(*), {errors}, coalesce(sum(cost_nusd), 0) from {records} group by 1"
    yield from db.execute(sql, bindings)


# ---- latency


def latencies(context: QueryContext, window: TimeWindow, project: str | None) -> dict[str, LatencyRow]:
    """Return latency by model id."""
    return latency_by(context, window, "model", project)


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
    chosen = pieces_by_step(context, window, step_s, minutes_since=_timed_since(context, by, project, model_id))
    for bucket, name, row in _timed(context, chosen, step_s, by, project, model_id):
        rows[bucket, name].merge(row)
    return dict(rows)


def latency_by(context: QueryContext, window: TimeWindow, by: str, project: str | None) -> dict[str, LatencyRow]:
    """Return latency of a window by name."""
    rows: defaultdict[str, LatencyRow] = defaultdict(LatencyRow)
    chosen = pieces(context, window, minutes_since=_timed_since(context, by, project, None))
    for _, name, row in _timed(context, chosen, DAY_S, by, project, None):
        rows[name].merge(row)
    return dict(rows)


def _timed(
    context: QueryContext, chosen: Iterable[Piece], step_s: int, by: str, project: str | None, model_id: str | None
) -> Iterator[tuple[int, str, LatencyRow]]:
    name = group_name(by, project)
    for piece in chosen:
        if isinstance(piece, Rows):
            yield from _timed_rows(context.db, piece, step_s, by, project, model_id)
            continue
        if isinstance(piece, Minutes):
            in_sums = _in_sums(by, project, model_id)
            groups = minute_sums.groups(context.db, piece) if in_sums else model_minutes.groups(context.db, piece, model_id)
        else:
            groups = bucket_groups(context, piece.grain, piece.first, piece.last, by, project)
        for group in groups:
            if model_id is None or group.model_id == model_id:
                row = LatencyRow()
                row.add(group)
                yield group.bucket * _seconds(piece) // step_s, name(group), row


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
