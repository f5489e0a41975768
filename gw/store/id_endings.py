"""Conditions by which records are looked up whose id ends with a text."""

from __future__ import annotations

ENDS_SO = "substr(id, length(id) - length(:part) + 1) = :part"
"""The condition that an id ends with a text. PostgreSQL has an index of ends for it."""
ENDING_CHARACTERS = 4
_DAY = "cast(timestamp / 86400 as integer)"
_ENDING = f"substr(id, -{ENDING_CHARACTERS})"
"""SQLite's index of ends has _DAY and _ENDING. The days come first, so that entries of new records are neighbours in it."""
ENDS_IN_A_DAY = f"""{_ENDING} = substr(:part, -{ENDING_CHARACTERS}) and {_DAY} in (
    with recursive days (day) as (
        select (select {_DAY} from requests indexed by requests_ending order by 1 limit 1)
        union all
        select (select {_DAY} from requests indexed by requests_ending where {_DAY} > day order by 1 limit 1)
        from days where day is not null
    ) select day from days
)"""
"""A condition that follows from `ENDS_SO` for a text of ENDING_CHARACTERS or more: SQLite looks each day up in its index of ends."""
