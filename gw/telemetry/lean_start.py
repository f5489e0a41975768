"""Imports that a daemon can do without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


def import_leanly() -> None:
    """Import libraries without what they import themselves and the daemon does not use: a seventh of its start, and 6 MB.

    structlog needs rich for colored tracebacks and asyncio for methods that are awaited. websockets
    needs the metadata of packages for versions of it that are no release.
    """
    with _instead("rich", None), _instead("asyncio", _Later("asyncio")):
        import_module("structlog")
    with _instead("importlib.metadata", _Later("importlib.metadata")):
        import_module("websockets.version")


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@contextmanager
def _instead(name: str, module: ModuleType | None) -> Iterator[None]:
    """Let who imports a module within the block get another one, or ImportError for None, unless it is loaded already."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        yield
        return
    modules[name] = module
    try:
        yield
    finally:
        del modules[name]
