"""Compiled modules: which edition of gw runs, and a mark for classes of which modules in Python have subclasses.

`hatch_build.py` compiles the modules of the hot path with mypyc where a wheel for one platform is built; everywhere else they are
plain Python. docs/notes/measurements.md ("Compiled") says what may stand in such a module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

C = TypeVar("C", bound=type)
Edition: TypeAlias = Literal["compiled", "python"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(*, allow_interpreted_subclasses: bool) -> Callable[[C], C]:
        """Return the class as it is; mypyc reads the mark when it compiles the module."""
        return lambda cls: cls


def edition_of(cls: type) -> Edition:
    """Return whether the module of this class is compiled."""
    file = sys.modules[cls.__module__].__file__ or ""
    return "python" if file.endswith((".py", ".pyc")) else "compiled"
