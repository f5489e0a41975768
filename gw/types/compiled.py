"""A mark for classes of compiled modules of which modules in Python have subclasses (docs/performance.md, "Compiled")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

C = TypeVar("C", bound=type)

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(*, allow_interpreted_subclasses: bool) -> Callable[[C], C]:
        """Return the class as it is; mypyc reads the mark when it compiles the module."""
        return lambda cls: cls
