from pathlib import Path

from gw.config.demo import demo_settings
from gw.registry.current import CurrentCatalog
from gw.registry.merge import build


def test_a_swap_is_seen_by_those_who_ask_afterwards():
    first, second = build(demo_settings(Path("/a"))), build(demo_settings(Path("/b")))
    live = CurrentCatalog(first)
    taken = live.catalog
    live.swap(second)
    assert live.catalog is second
    assert taken is first
