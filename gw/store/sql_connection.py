"""Interface of a connection that queries run on, as far as they use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class SqlRows(Protocol):
    """Rows of a statement."""

    def __iter__(self) -> Iterator[Any]: ...

    @property
    def get(self) -> Any:
        """Return the first row, or its value if it has one column; None without rows."""


class SqlConnection(Protocol):
    """Runs statements with `?` or `:name` for their values. Used by one thread at a time."""

    def execute(self, statements: str, bindings: Any = None, /) -> SqlRows: ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], /) -> SqlRows: ...
