"""The result of a call that does as much as it can without waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Final, TypeAlias

Pending: TypeAlias = Awaitable[None] | None
"""None when the call has finished, else an awaitable for the remainder, to be awaited by a task that may wait."""


class _Ready:
    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return iter(())  # type: ignore[return-value]  # any iterator will do, and this one is there already


READY: Final = _Ready()
"""A remainder with nothing left to do, which can be awaited any number of times: it ends a loop of callbacks."""


async def awaited(pending: Awaitable[None]) -> None:
    """Await a remainder: for the task of a nursery."""
    await pending


async def pending_error(error: BaseException) -> None:
    """Return a remainder that raises `error`: for callbacks that must not raise themselves."""
    raise error
