"""Makes the sums and times by minute, and the rows of turns, of the last days of a database that had none, in both databases.

Its SQL is that of the schema's version in which these tables were added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Protocol

import attrs

from gw.store import first_audio
from gw.store.sql_connection import SqlConnection
from gw.telemetry.clock import DAY_S
from gw.telemetry.histogram import Histogram

DAYS = 3
"""Complete days, and the present one: a report with a point for each minute is of a day, and is compared with the day before."""
SUM_COLUMNS = (
    *("bucket", "modality", "requests", "errors", "refused", "fallbacks", "cancelled"),
    *("cost_nusd", "unpriced", "wasted_nusd", "ttfb", "latency"),
)
MODEL_COLUMNS = ("bucket", "model_id", "provider", "modality", "requests", "ttfb", "latency")
TURN_COLUMNS = ("began", "project", "stack", "wait_ms")
_MINUTE = "cast(timestamp as integer) / 60"
_SUMS = f"""
select {_MINUTE}, modality, count(*), count(*) filter (where status = 'error' and not refused), count(*) filter (where refused),
       count(*) filter (where status = 'fallback' or fallback_from is not null), count(*) filter (where status = 'cancelled'),
       coalesce(sum(cost_nusd), 0), count(*) filter (where cost_nusd is null or pricing_source like '%unpriced%'),
       coalesce(sum(wasted_nusd), 0)
from requests where timestamp >= {{since}} group by 1, 2"""
_TIMES = f"""
select {_MINUTE}, modality, ttfb_ms, case when status in ('success', 'fallback') then total_latency_ms end
from requests where timestamp >= {{since}} and attempts not like '%"cache":"hit"%'"""
_MODEL_TIMES = f"""
select {_MINUTE}, model_id, provider, modality, ttfb_ms, case when status in ('success', 'fallback') then total_latency_ms end,
       attempts like '%"cache":"hit"%' from requests where timestamp >= {{since}}"""
_TURNS = """
select turn_id, session_id, project, id, timestamp, modality, model_id, ttfb_ms, heard from requests
where timestamp >= {since} and turn_id is not null order by turn_id, session_id, project, timestamp, seq"""


class Streamed(Protocol):
    """Runs a statement, and yields its rows without keeping all of them in memory."""

    def __call__(self, sql: str, /) -> Iterator[Any]: ...


@attrs.frozen
class Backfill:
    """`since`: first second (UTC, since 1970) of what is made."""

    since: int
    _stream: Streamed

    @property
    def minute(self) -> int:
        return self.since // 60

    def sums(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows of SUM_COLUMNS."""
        times: defaultdict[tuple[int, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for minute, modality, ttfb_ms, total_ms in self._stream(_TIMES.format(since=self.since)):
            for values, value in zip(times[minute, modality], (ttfb_ms, total_ms), strict=True):
                if value is not None:
                    values.append(value)
        for row in self._stream(_SUMS.format(since=self.since)):
            yield (*row, *(Histogram(values).encode() for values in times[row[0], row[1]]))

    def model_times(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows of MODEL_COLUMNS."""
        counts: Counter[tuple[Any, ...]] = Counter()
        times: defaultdict[tuple[Any, ...], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for *key, ttfb_ms, total_ms, is_cached in self._stream(_MODEL_TIMES.format(since=self.since)):
            counts[tuple(key)] += 1
            for values, value in zip(times[tuple(key)], (ttfb_ms, total_ms), strict=True):
                if value is not None and not is_cached:
                    values.append(value)
        for row, requests in counts.items():
            yield (*row, requests, *(Histogram(values).encode() for values in times[row]))

    def turns(self) -> Iterator[first_audio.TurnWait]:
        """Yield the turns that began since then. Of those that may have begun before, their first requests are read, too."""
        rows = self._stream(_TURNS.format(since=self.since - DAY_S))
        for (_, _, project), requests in groupby(rows, key=lambda row: tuple(row[:3])):
            turn = first_audio.turn_of([row[3:] for row in requests], project)
            if turn is not None and turn.began >= self.since:
                yield turn


def backfill(db: SqlConnection, stream: Streamed) -> Backfill | None:
    """Return what is to be made; None for a database without records, which will have all of it from now on."""
    newest: float | None = db.execute("select max(timestamp) from requests").get
    return None if newest is None else Backfill(int(newest // DAY_S - DAYS) * DAY_S, stream)


def minutes_of(turns: Iterable[first_audio.TurnWait]) -> Iterator[tuple[int, bytes]]:
    """Yield each minute in which turns began, and their waits."""
    waits: defaultdict[int, list[float]] = defaultdict(list)
    for turn in turns:
        waits[int(turn.began // 60)].append(turn.wait_ms)
    for minute, values in waits.items():
        yield minute, Histogram(values).encode()
