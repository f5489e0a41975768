"""Which callers end their forms with the file: what comes before it is then all, and can be acted on while the file still arrives."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

_MOST: Final = 1_000
"""Callers that are remembered, those seen last."""


class FormOrder:
    """Remembers of each caller how its last form ended. A caller is whatever writes forms in one way: a key and a client program."""

    def __init__(self) -> None:
        self._file_is_last: OrderedDict[Hashable, bool] = OrderedDict()

    def note(self, caller: Hashable, *, file_is_last: bool) -> None:
        self._file_is_last[caller] = file_is_last
        self._file_is_last.move_to_end(caller)
        if len(self._file_is_last) > _MOST:
            self._file_is_last.popitem(last=False)

    def is_file_last(self, caller: Hashable) -> bool:
        """Return whether the caller's next form probably ends with its file; True for a caller never seen, as most forms do."""
        return self._file_is_last.get(caller, True)
