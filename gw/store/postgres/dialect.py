"""Translation of the store's statements into PostgreSQL's SQL.

Queries are written once, in SQL that both databases read. Five things are left: placeholders, lists of them, SQLite's hints to its
planner (`indexed by`, `cross join`), the hour of a time in seconds, and the end of an id, which each database has an index of its own for.
A list of values (`in (?, ?)`) becomes an array that the planner does not look into: it would compare each value with what it knows of each
of the days that `requests` is divided by, which takes longer than looking them up.
Functions of SQLite that queries use are defined in the schema (`pg_schema`). Statements that write are written for each database.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gw.store.id_endings import ENDS_IN_A_DAY, ENDS_SO

_WORDS = re.compile(
    r"(?P<text>'(?:[^']|'')*')|:(?P<name>[a-z_]\w*)|\bin \((?P<list>\?(?:, \?)*)\)|(?P<mark>\?)|(?P<percent>%)"
    r"|(?P<hint>\bindexed by \w+)|(?P<cross>\bcross join\b)|cast\((?P<whole>timestamp) as integer\)"
    rf"|(?P<ending>{re.escape(ENDS_SO)})|(?P<in_a_day>{re.escape(ENDS_IN_A_DAY)})"
)
_ENDS_SO = "reverse(id) >= reverse(%(part)s::text) and reverse(id) < reverse(%(part)s::text) || chr(1114111)"


@lru_cache(maxsize=1_000)  # statements without their values; they are few, and each is used for every request of its report
def translate(sql: str) -> str:
    """Return the statement with psycopg's placeholders."""
    return _WORDS.sub(_translated, sql)


def _translated(match: re.Match[str]) -> str:
    text, name, whole = match["text"], match["name"], match["whole"]
    if text is not None:
        return text.replace("%", "%%")
    if name is not None:
        return f"%({name})s"
    if match["ending"]:
        return _ENDS_SO
    if match["in_a_day"]:
        return "true"
    if match["list"]:
        return f"= any(array(select unnest(array[{match['list'].replace('?', '%s')}])))"
    if match["mark"]:
        return "%s"
    if match["percent"]:
        return "%%"
    if whole is not None:
        return f"cast(floor({whole}) as bigint)"
    return "join" if match["cross"] else ""
