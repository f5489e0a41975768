"""A task that runs as long as a block does. Not itself a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVarTuple, Unpack

import trio

from gw.errors import one_error

Args = TypeVarTuple("Args")


@asynccontextmanager
async def background(task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args) -> AsyncIterator[None]:
    """Run `task(*args)` during the block and cancel it at the end. Its failure cancels the block and is raised here."""
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task, *args)
            yield
            nursery.cancel_scope.cancel()
