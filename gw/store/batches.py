"""A batch of finished records and their rollups in one transaction, and what becomes of a record that has a fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import apsw

from gw.store import (
    attempt_rollups,
    first_audio,
    minute_sums,
    model_minutes,
    owner_spend,
    requests,
    rollups,
    turn_joins,
)
from gw.store.core_share import BetweenSteps, keep_the_core
from gw.store.row_times import RecentRows
from gw.types.usage import RequestRecord

BATCH = 500  # records in one transaction, about 20 ms of work
VALUE_FAULTS: tuple[type[Exception], ...] = (ValueError, TypeError, AttributeError, ArithmeticError)
_RECORD_FAULTS = (
    *VALUE_FAULTS,
    *(apsw.ConstraintError, apsw.MismatchError, apsw.RangeError, apsw.TooBigError),
)
"""Faults of one record. Any other is of the database, and concerns all records."""


def write_batch(
    db: apsw.Connection, records: Sequence[RequestRecord], *, ends_interrupted: bool = False, recent: RecentRows | None = None,
    between: BetweenSteps = keep_the_core,
) -> int:  # fmt: skip
    """Insert records and their rollups in one transaction; return how many were new. Blocks; all or nothing.

    With `ends_interrupted`, a record takes the place of the one that a replay made up when it knew of no end. `recent`: histograms of
    the rows that this connection wrote last, if it is the only one that writes. `between` is called between two tables.
    """
    if not records:
        return 0
    if recent is None:
        recent = RecentRows()
    db.execute("begin immediate")
    try:
        if ends_interrupted:
            ended = [record.id for record in records if record.error_code != "interrupted"]
            _take_back(db, requests.take_interrupted(db, ended), recent)
        fresh = requests.insert(db, records)
        between()
        rollups.add(db, fresh, recent)
        between()
        attempt_rollups.add(db, fresh)
        between()
        minute_sums.TABLE.add(db, fresh, recent)
        between()
        model_minutes.TABLE.add(db, fresh, recent)
        between()
        owner_spend.add(db, fresh)
        again = turn_joins.written_again(records, fresh)
        joined = turn_joins.join_turns(db, turn_joins.joined_rows(records, again))
        first_audio.add(db, [*fresh, *(record for record in again if record.id in joined)])
        between()
        db.execute("commit")
    except BaseException:
        recent.clear()
        if db.in_transaction:
            db.execute("rollback")
        raise
    return len(fresh)


def _take_back(db: apsw.Connection, records: Sequence[RequestRecord], recent: RecentRows) -> None:
    if records:
        rollups.subtract(db, records, recent)
        attempt_rollups.subtract(db, records)
        minute_sums.TABLE.subtract(db, records, recent)
        model_minutes.TABLE.subtract(db, records, recent)
        owner_spend.add(db, records, sign=-1)


def write_possible(
    db: apsw.Connection, records: Sequence[RequestRecord], recent: RecentRows | None = None, between: BetweenSteps = keep_the_core
) -> tuple[int, list[tuple[RequestRecord, Exception]]]:
    """Insert the records that can be written; return how many were new, and the refused ones with their faults. Blocks."""
    return in_halves(partial(write_batch, db, recent=recent, between=between), records, _RECORD_FAULTS)


def in_halves(
    write: Callable[[Sequence[RequestRecord]], int], records: Sequence[RequestRecord], faults: tuple[type[Exception], ...]
) -> tuple[int, list[tuple[RequestRecord, Exception]]]:
    """Write the records that can be written; return how many were new, and the refused ones with their faults.

    A batch that fails is halved until the faulty record is alone. Blocks; repeating it changes nothing.
    """
    try:
        return write(records), []
    except faults as error:
        if len(records) == 1:
            return 0, [(records[0], error)]
    half = len(records) // 2
    new, refused = in_halves(write, records[:half], faults)
    more_new, more_refused = in_halves(write, records[half:], faults)
    return new + more_new, refused + more_refused


def describe_fault(error: Exception) -> str:
    """Return one line about the fault of a record."""
    return f"{type(error).__name__}: {error}"
