"""Rules for every live session over a WebSocket."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import gw.providers
from gw.providers.ws_session import ListenSocket


def _descendants(cls):
    return {cls}.union(*map(_descendants, cls.__subclasses__()))


def test_a_session_that_overrides_one_way_of_reading_overrides_both():
    """The relay calls `for_each_batch`, a test `receive`."""
    for module in iter_modules(gw.providers.__path__, "gw.providers."):
        import_module(module.name)
    classes = _descendants(ListenSocket)
    assert len(classes) > 1
    for cls in classes - {ListenSocket}:
        assert ("receive" in vars(cls)) == ("for_each_batch" in vars(cls)), cls
