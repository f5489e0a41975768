"""A live session from its admission to its record, for the time of a block.

A generator, which no compiled module holds, and so not a method of the sessions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from gw.errors import one_error
from gw.relay.live_session import LiveSession
from gw.relay.meter import record_error
from gw.types.ids import Caller

L = TypeVar("L", bound=LiveSession[Any, Any, Any])


@asynccontextmanager
async def run_session(session: L, caller: Caller) -> AsyncIterator[L]:
    """Admit the session and drive it beside the block; leaving writes its record.

    Raise admission errors and UnsupportedSetting, with a record, and what `CandidatePlanner.plan` raises, without one.
    """
    session.plan(caller)
    session.meter.notes_input = True
    session.in_flight.requests += 1
    try:
        with one_error():
            await session.admit()
            async with trio.open_nursery() as nursery:
                session.drive(nursery)
                yield session
                nursery.cancel_scope.cancel()
    except BaseException as raised:
        session.close(record_error(raised, stopping=session.in_flight.stopping))
        session.planner.hand_over(session.candidates)
        raise
    else:
        session.close(None)
    finally:
        session.in_flight.requests -= 1
