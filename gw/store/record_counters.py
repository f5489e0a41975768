"""Counts of the records that a process has written or passed on."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Records since the start. `finished` = committed + set aside + still waiting; `dropped` are not counted in it."""

    finished: int = 0
    committed: int = 0
    spilled: int = 0
    dropped: int = 0
    set_aside: int = 0
    retries: int = 0
    pruned: int = 0
