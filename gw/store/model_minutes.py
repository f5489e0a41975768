"""Times of all projects together by minute and model: for the line of one model over a day, and for the comparison of models."""

from __future__ import annotations

from collections.abc import Iterable

from gw.store.latency import LatencyGroup
from gw.store.minute_table import Minutes, MinuteTable
from gw.store.rollups import SPAN
from gw.store.sql_connection import SqlConnection

TABLE = MinuteTable(
    "model_minute", keys=("model_id", "provider", "modality"), sums=("requests",),
    key_of=lambda record: (record.model_id, record.provider, record.modality), values_of=lambda record: (1,),
)  # fmt: skip
_COLUMNS = "select r.bucket, r.provider, r.model_id, r.modality, r.requests, r.ttfb, r.latency"
_GROUPS = f"{_COLUMNS} from {TABLE.name} r where bucket between :since and :until and requests <> 0"
_OF_MODEL = f"""{SPAN.format(table=TABLE.name)} {_COLUMNS} from span
cross join {TABLE.name} r on r.bucket = span.bucket and r.model_id = :model_id where requests <> 0"""
"""One seek per minute: the key begins with the minute, so a range of minutes holds all models."""


def groups(db: SqlConnection, span: Minutes, model_id: str | None) -> Iterable[LatencyGroup]:
    """Return the rows of minutes, of one model or of all."""
    last = 2**62 if span.last is None else span.last
    bindings = {"since": span.first, "until": last, "model_id": model_id}
    return map(LatencyGroup._make, db.execute(_GROUPS if model_id is None else _OF_MODEL, bindings))
