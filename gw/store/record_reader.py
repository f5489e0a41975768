"""Reading finished requests. Reports see what is committed.

The daemon makes its reports in a process of their own (`gw.store.report_process`), since a thread would take the interpreter
from the requests that are being served; without one (yet), a reader's thread makes them. Rows are converted there as well,
down to the JSON if it is long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from gw.policy.hedge import HedgeSpend
from gw.store import owner_spend, queries, requests, rollups
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.owner_spend import SpendOfAll
from gw.store.record_database import Readers
from gw.store.report_process import ProcessGone, ReportProcess
from gw.store.rollup_versions import BucketVersions
from gw.store.rollups import Spend
from gw.types.usage import RequestRecord

P = ParamSpec("P")
T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")


class Query(msgspec.Struct, Generic[T], frozen=True):
    """A query with its arguments, and the conversion of its result. Can be sent to another process."""

    query: Callable[..., Any]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    convert: Callable[[Any], T]

    def __call__(self, context: QueryContext) -> T:
        return self.convert(self.query(context, *self.args, **self.kwargs))


def query_as(
    convert: Callable[[X], T], query: Callable[Concatenate[QueryContext, P], X], *args: P.args, **kwargs: P.kwargs
) -> Query[T]:
    """Make a query for `RecordReader.read_together`; arguments as for `RecordReader.read_as`."""
    return Query(query, args, kwargs, convert)


def unconverted(result: X) -> X:
    return result


class _Together(msgspec.Struct, frozen=True):
    parts: tuple[Query[Any], ...]

    def __call__(self, context: QueryContext) -> tuple[Any, ...]:
        return tuple(part(context) for part in self.parts)


class RecordReader:
    """Runs the queries of `gw.store.queries`, which explains the arguments. Every method raises StoreUnavailable."""

    def __init__(
        self, readers: Readers, versions: BucketVersions | None = None, report_process: ReportProcess | None = None
    ) -> None:
        """Without `versions`, which the writer updates, no sums are cached from one report to the next."""
        self._readers = readers
        self._versions = versions
        self._merged = MergedBuckets(versions)
        self._report_process = report_process

    async def read(self, query: Callable[Concatenate[QueryContext, P], X], *args: P.args, **kwargs: P.kwargs) -> X:
        """Run a query."""
        return await self._run(Query(query, args, kwargs, unconverted))

    async def read_as(
        self, convert: Callable[[X], T], query: Callable[Concatenate[QueryContext, P], X], *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:  # fmt: skip
        """Run a query, and convert its result where it was made: `convert` is a module's function, or a partial of one."""
        return await self._run(Query(query, args, kwargs, convert))

    async def read_together(self, first: Query[T], second: Query[X], third: Query[Y]) -> tuple[T, X, Y]:
        """Run several queries in one round trip."""
        a, b, c = await self._run(_Together((first, second, third)))
        return a, b, c

    async def _run(self, job: Callable[[QueryContext], T]) -> T:
        if self._report_process is not None and (pending := self._report_process.submit(job, self._versions)) is not None:
            with suppress(ProcessGone):
                return await pending.result()
        return await self._readers.read(lambda db: job(QueryContext(db, self._merged)))

    async def request(self, record_id: str) -> RequestRecord | None:
        return await self.read(queries.request, record_id)

    async def spend(self, day: int) -> dict[str, Spend]:
        """Return what each project spent on a UTC day, including what the journal held at the start. Always in a thread."""
        return await self._readers.read(rollups.spend, day)

    async def spend_of_instance(self, day: int) -> dict[str, Spend]:
        """Return what each project spent through this gateway on a UTC day. Always in a thread, like `spend`."""
        return await self.spend(day)

    async def owner_spend(self, day: int) -> SpendOfAll:
        """Return what each project and key spent on a UTC day and before. Always in a thread, like `spend`."""
        return await self._readers.read(owner_spend.spend, day)

    async def owner_spend_of_instance(self, day: int) -> SpendOfAll:
        """Return what each project and key spent through this gateway on a UTC day and before. Always in a thread, like `spend`."""
        return await self.owner_spend(day)

    async def hedges(self, day: int) -> dict[str, HedgeSpend]:
        """Return what the hedges of each project cost on a UTC day. Always in a thread, like `spend`."""
        return await self._readers.read(requests.hedges, day)

    def close(self) -> None:
        self._readers.close()
