"""What a store has, read by the queries of the reports."""

from __future__ import annotations

from gw.store import queries
from gw.store.requests import ANY


async def costs(store, since_day=None, project=None):
    return await store.read(queries.costs, since_day, project)


async def latency(store, since_day=None, project=None):
    return await store.read(queries.latencies, since_day, project)


async def totals(store, since_day=None, project=None):
    return await store.read(queries.totals, since_day, project)


async def logs(store, limit=100, before=None, log_filter=ANY):
    return await store.read(queries.log, limit, before, log_filter)
