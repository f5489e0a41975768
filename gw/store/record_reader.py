"""What may be asked about finished requests. Reports see what is committed.

The daemon has its reports made in a process of their own (`gw.store.report_process`), since a thread of this one takes the
interpreter from the requests that are being served; where there is none (yet), a reader's thread makes them. What the rows
become, down to the JSON where it is long, is made there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import attrs

from gw.store import queries, rollups
from gw.store.latency import LatencyRow, MergedBuckets
from gw.store.queries import QueryContext
from gw.store.report_process import ProcessGone, ReportProcess
from gw.store.requests import ANY, LogFilter, Totals
from gw.store.rollup_versions import Changes
from gw.store.rollups import CostRow
from gw.store.sqlite import ReaderPool
from gw.telemetry.clock import Clock
from gw.types.usage import RequestRecord

P = ParamSpec("P")
T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")


@attrs.frozen
class Query(Generic[T]):
    """A question with all but the desk, and what to make of the answer. Can be sent to another process."""

    query: Callable[..., Any]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    make: Callable[[Any], T]

    def __call__(self, desk: QueryContext) -> T:
        return self.make(self.query(desk, *self.args, **self.kwargs))


def work(
    make: Callable[[X], T], query: Callable[Concatenate[QueryContext, P], X], *args: P.args, **kwargs: P.kwargs
) -> Query[T]:
    """For `RecordReader.ask` and `RecordReader.together`; arguments as those of `RecordReader.show`."""
    return Query(query, args, kwargs, make)


@attrs.frozen
class _Together:
    parts: tuple[Query[Any], ...]

    def __call__(self, desk: QueryContext) -> tuple[Any, ...]:
        return tuple(part(desk) for part in self.parts)


class RecordReader:
    """Everything raises StoreUnavailable. Arguments: see `gw.store.queries`."""

    def __init__(
        self, path: Path, clock: Clock, changes: Changes | None = None, apart: ReportProcess | None = None
    ) -> None:
        """`changes`: told by who writes; without them no sums are kept from one report to the next."""
        self._path = path
        self._readers = ReaderPool(path, clock)
        self._changes = changes
        self._merged = MergedBuckets(changes)
        self._apart = apart

    async def read(self, query: Callable[Concatenate[QueryContext, P], X], *args: P.args, **kwargs: P.kwargs) -> X:
        """Ask a question of `gw.store.queries`."""
        return await self._run(Query(query, args, kwargs, as_it_is))

    async def show(
        self, make: Callable[[X], T], query: Callable[Concatenate[QueryContext, P], X], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `read`, and turn the answer into something else there: `make` is a function of a module, or a partial of one."""
        return await self._run(Query(query, args, kwargs, make))

    async def ask(self, question: Query[T]) -> T:
        return await self._run(question)

    async def together(self, first: Query[T], second: Query[X], third: Query[Y]) -> tuple[T, X, Y]:
        """Several questions on one way there and back."""
        a, b, c = await self._run(_Together((first, second, third)))
        return a, b, c

    async def _run(self, job: Callable[[QueryContext], T]) -> T:
        if self._apart is not None and (asked := self._apart.ask(job, self._changes)) is not None:
            with suppress(ProcessGone):
                return await asked.answer()
        return await self._readers.read(lambda db: job(QueryContext(db, self._merged)))

    async def costs(self, since_day: int | None = None, project: str | None = None) -> list[CostRow]:
        return await self.read(queries.costs, since_day, project)

    async def latency(self, since_day: int | None = None, project: str | None = None) -> dict[str, LatencyRow]:
        return await self.read(queries.latencies, since_day, project)

    async def totals(self, since_day: int | None = None, project: str | None = None) -> Totals:
        return await self.read(queries.totals, since_day, project)

    async def logs(
        self, limit: int = 100, before: str | None = None, wanted: LogFilter = ANY
    ) -> list[RequestRecord]:
        return await self.read(queries.log, limit, before, wanted)

    async def request(self, record_id: str) -> RequestRecord | None:
        return await self.read(queries.request, record_id)

    async def spend(self, day: int) -> dict[str, int]:
        """Project → nano-USD of one UTC day. After the start this includes what the journal held. Always in a thread."""
        return await self._readers.read(lambda db: rollups.spend(db, day))

    def close(self) -> None:
        self._readers.close()


def as_it_is(found: X) -> X:
    return found
