"""What holds for every live session over a WebSocket."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import gw.providers
from gw.providers.ws_session import ListenSocket


def _descendants(cls):
    return {cls}.union(*map(_descendants, cls.__subclasses__()))


def test_who_reads_in_its_own_way_does_so_in_both_ways():
    """The relay calls `each`, whoever holds one session alone `receive`."""
    for module in iter_modules(gw.providers.__path__, "gw.providers."):
        import_module(module.name)
    found = _descendants(ListenSocket)
    assert len(found) > 2
    for cls in found:
        assert ("receive" in vars(cls)) == ("each" in vars(cls)), cls
