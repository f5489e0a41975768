"""SQL of spend by UTC day: of every project, and of every key, which no other rollup knows.

The sums change in the transaction that inserts the records, like the other rollups. They are kept forever, so that budgets for weeks,
months and in total hold after `retention_days` and after a restart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from gw.policy.spend_periods import EarlierSpend, first_day
from gw.store.requests import bounded_float, bounded_int
from gw.store.sql_connection import SqlConnection
from gw.telemetry.clock import utc_day
from gw.types.usage import RequestRecord

Owner = Literal["project", "key"]

_ADD = """
insert into owner_spend (owner, id, day, nusd) values (?, ?, ?, ?)
on conflict (owner, id, day) do update set nusd = owner_spend.nusd + excluded.nusd"""

_SUMS = """
select id,
       cast(coalesce(sum(nusd) filter (where day = :today), 0) as bigint),
       cast(coalesce(sum(nusd) filter (where day >= :week and day < :today), 0) as bigint),
       cast(coalesce(sum(nusd) filter (where day >= :month and day < :today), 0) as bigint),
       cast(coalesce(sum(nusd) filter (where day < :today), 0) as bigint)
from owner_spend where owner = :owner{among} group by id"""
"""`{among}`: a further condition."""


class OwnerSpend(NamedTuple):
    """Spend of a project or a key, today and before."""

    today: int
    earlier: EarlierSpend


class SpendOfAll(NamedTuple):
    """Spend of every project and key that has spent anything, by its id."""

    projects: dict[str, OwnerSpend]
    keys: dict[str, OwnerSpend]


def add(db: SqlConnection, records: Iterable[RequestRecord], sign: int = 1) -> None:
    """Add newly inserted records, or with `sign` -1 take back ones that were deleted. Within the caller's transaction."""
    for key, nusd in spend_of(records).items():
        db.execute(_ADD, (*key, sign * nusd))


def spend_of(records: Iterable[RequestRecord]) -> dict[tuple[Owner, str, int], int]:
    """Return owner, id and UTC day → nano-USD, without those that spent nothing."""
    sums: defaultdict[tuple[Owner, str, int], int] = defaultdict(int)
    for record in records:
        if nusd := bounded_int(record.cost_nusd or 0) + bounded_int(record.estimated_nusd):
            day = utc_day(bounded_float(record.timestamp))
            for owner, id_ in _owners(record):
                sums[owner, id_, day] += nusd
    return sums


def _owners(record: RequestRecord) -> Iterator[tuple[Owner, str]]:
    yield "project", record.project
    if record.key_id is not None:
        yield "key", record.key_id


def spend(db: SqlConnection, day: int) -> SpendOfAll:
    """Return what every project and key has spent on the UTC day and before."""
    return spend_among(db, day, "", {})


def spend_among(db: SqlConnection, day: int, among: str, values: Mapping[str, str]) -> SpendOfAll:
    """Return the same of some rows. `among`: a further condition, and its values."""
    return SpendOfAll(_sums(db, "project", day, among, values), _sums(db, "key", day, among, values))


def _sums(db: SqlConnection, owner: Owner, day: int, among: str, values: Mapping[str, str]) -> dict[str, OwnerSpend]:
    bindings = {"owner": owner, "today": day, "week": first_day("week", day), "month": first_day("month", day), **values}
    rows = db.execute(_SUMS.format(among=among), bindings)
    return {id_: OwnerSpend(today, EarlierSpend(*earlier)) for id_, today, *earlier in rows}
