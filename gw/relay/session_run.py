"""A live session from its admission to its record, for the time of a block.

Generators, of which compiled modules hold none, and so no methods of the sessions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

import trio

from gw.errors import GwError, one_error
from gw.relay.candidate_list import Candidates
from gw.relay.candidates import CandidatePlanner
from gw.relay.in_flight import InFlight
from gw.relay.live_session import LiveSession
from gw.relay.meter import Meter, record_error
from gw.types.ids import Caller

L = TypeVar("L", bound=LiveSession[Any, Any, Any])


class RecordedSession(Protocol):
    """A session of any kind, as far as its record goes."""

    planner: CandidatePlanner
    candidates: Candidates
    in_flight: InFlight
    meter: Meter

    def plan(self, caller: Caller) -> None: ...

    def close(self, error: GwError | None) -> None:
        """Make the record, unless there is one. Without an error its caller has left."""


@contextmanager
def recorded(session: RecordedSession, caller: Caller) -> Iterator[None]:
    """Choose the candidates, and count the session as running; leaving writes its record. Raise what `CandidatePlanner.plan` raises."""
    session.plan(caller)
    session.meter.notes_input = True
    session.in_flight.requests += 1
    try:
        with one_error():
            yield
    except BaseException as raised:  # a record has every way in which a session ends
        session.close(record_error(raised, stopping=session.in_flight.stopping))
        session.planner.hand_over(session.candidates)
        raise
    else:
        session.close(None)
    finally:
        session.in_flight.requests -= 1


@asynccontextmanager
async def run_session(session: L, caller: Caller) -> AsyncIterator[L]:
    """Admit the session and drive it beside the block; leaving writes its record.

    Raise admission errors and UnsupportedSetting, with a record, and what `CandidatePlanner.plan` raises, without one.
    """
    with recorded(session, caller):
        await session.admit()
        async with trio.open_nursery() as nursery:
            session.drive(nursery)
            yield session
            nursery.cancel_scope.cancel()
