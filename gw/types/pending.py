"""What a call that did all it could at once leaves to wait for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias

Pending: TypeAlias = Awaitable[None] | None
"""None: nothing, all is done. Else it must be awaited, by a task that may wait."""


async def done() -> None:
    """A rest that is nothing: whoever waits for it goes on."""


async def pending_error(error: BaseException) -> None:
    """A rest that raises: for who may not raise where it is called."""
    raise error
