"""A live session from its admission to its record, for the time of a block."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import trio

from gw.errors import GwError, one_error, single
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


class SessionRecording(AbstractContextManager[None]):
    """A block that leaves a record. Entering chooses the candidates and counts the session as running; raises what `plan` raises."""

    __slots__ = ("_caller", "_session")

    def __init__(self, session: RecordedSession, caller: Caller) -> None:
        self._session, self._caller = session, caller

    def __enter__(self) -> None:
        session = self._session
        session.plan(self._caller)
        session.meter.notes_input = True
        session.in_flight.requests += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Write the record: it has every way in which a session ends. Raise the one error that a group of them stands for."""
        session = self._session
        try:
            if error is None:
                session.close(None)
            else:
                session.close(record_error(single(error), stopping=session.in_flight.stopping))
                session.planner.hand_over(session.candidates)
            one_error().__exit__(kind, error, trace)
        finally:
            session.in_flight.requests -= 1
            error = trace = None  # else they and this frame refer to each other, and keep the session


class SessionRun(AbstractAsyncContextManager[L], Generic[L]):
    """A live session for the time of a block. Entering admits it and, where it is `driven`, drives it beside the block.

    Raises admission errors and UnsupportedSetting, with a record, and what `CandidatePlanner.plan` raises, without one. Classes, since
    generators would take a kilobyte of every session more.
    """

    __slots__ = ("_driven", "_nursery", "_recording", "_session")

    def __init__(self, session: L, caller: Caller, *, driven: bool = True) -> None:
        self._session, self._driven = session, driven
        self._recording = SessionRecording(session, caller)
        self._nursery: AbstractAsyncContextManager[trio.Nursery] = trio.open_nursery()

    async def __aenter__(self) -> L:
        session = self._session
        with ExitStack() as entered:
            entered.enter_context(self._recording)
            await session.admit()
            nursery = await self._nursery.__aenter__()
            entered.pop_all()
        session.begin(nursery, driven=self._driven)
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            with ExitStack() as leaving:
                leaving.push(self._recording)
                if error is None:
                    self._session.end()
                if not await self._nursery.__aexit__(kind, error, trace) and error is not None:
                    raise error
        finally:
            error = trace = None  # as in `SessionRecording`
        return True
