"""Lists as a model reads them: few rows, few members, and a cursor for the next page.

A list of the API is cut to a page here. Its order is the API's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from gw.admin.downloads import iso

Json = dict[str, Any]

MOST_ROWS = 20
_EMPTY: tuple[object, ...] = (None, "", [], {})


class UnknownCursor(Exception):
    """The cursor is not one that a result had."""


@attrs.frozen(kw_only=True)
class RowPages:
    """The place of the rows in an operation's answer, and how they are paged.

    `member`: of the answer, a list or a map by id; "" = the answer itself is the list, or the map with `entries` as its name.
    `columns`: members of a row that are sent unless `fields` names others; () = all of them.
    `before`: the member whose value, as the query field `before`, continues the list; "" = the API sends the whole list.
    """

    member: str = ""
    entries: str = "items"
    columns: tuple[str, ...] = ()
    before: str = ""
    page: int = MOST_ROWS
    leave_out: tuple[str, ...] = ()
    """Other members of the answer, which repeat the rows or draw charts."""

    def query(self, arguments: Mapping[str, Any]) -> Json:
        """Return the query fields of a page; one row more than it has shows whether there is another page."""
        if not self.before:
            return {}
        cursor = arguments.get("cursor")
        return {"limit": self.size(arguments) + 1} | ({} if cursor is None else {"before": cursor})

    def size(self, arguments: Mapping[str, Any]) -> int:
        return int(arguments.get("limit", self.page))

    def result(self, answer: Any, arguments: Mapping[str, Any]) -> Json:
        """Return one page: the rows with the members wanted, and `next_cursor` if there are more. Raises UnknownCursor."""
        name = self.member or self.entries
        rows = answer[self.member] if self.member else answer
        kept = {key: value for key, value in answer.items() if key not in (name, *self.leave_out)} if self.member else {}
        start, size = self._start(arguments), self.size(arguments)
        wanted = arguments.get("fields") or self.columns
        if isinstance(rows, Mapping):
            items: Any = {key: _row(value, wanted) for key, value in [*rows.items()][start : start + size]}
        else:
            items = [_row(row, wanted) for row in rows[start : start + size]]
        result = {name: items, **kept}
        if start + size < len(rows):
            last = rows[start + size - 1][self.before] if self.before else start + size
            result["next_cursor"] = str(last)
        return result

    def _start(self, arguments: Mapping[str, Any]) -> int:
        cursor = arguments.get("cursor")
        if self.before or cursor is None:
            return 0
        if not str(cursor).isdecimal():
            raise UnknownCursor
        return int(cursor)


def _row(row: Any, wanted: Sequence[str]) -> Any:
    """Return the wanted members that have a value, times in ISO 8601."""
    if not isinstance(row, Mapping):
        return row
    names: Collection[str] = wanted or row.keys()
    shown = {name: row[name] for name in names if name in row and row[name] not in _EMPTY}
    return {**shown, "timestamp": iso(shown["timestamp"])} if "timestamp" in shown else shown


def cut(result: Json, keep: Collection[str] = ()) -> Json:
    """Return a result whose lists of objects and maps have at most MOST_ROWS; `left_off` counts the rest of each.

    The members `keep` are whole.
    """
    left_off = {}
    for name, value in result.items():
        if name not in keep and isinstance(value, (list, dict)) and len(value) > MOST_ROWS and _has_objects(value):
            left_off[name] = len(value) - MOST_ROWS
            result = {**result, name: value[:MOST_ROWS] if isinstance(value, list) else dict([*value.items()][:MOST_ROWS])}
    return {**result, "left_off": left_off} if left_off else result


def _has_objects(value: Any) -> bool:
    return any(isinstance(item, dict) for item in (value.values() if isinstance(value, dict) else value))
