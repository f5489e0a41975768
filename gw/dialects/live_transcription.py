"""A live transcription between a client and `Relay.listen`, for every dialect that has one.

A dialect gives `ListenProtocol`: what a client's frame says, and how events are told. A client's
frames are taken to the session where they are read, and its events told where the provider is read: while neither side makes
the other wait, no task is woken between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Protocol, TypeAlias, TypeVar

import msgspec
import trio

from gw.dialects.request_io import Headers
from gw.dialects.websocket import Frame, WebSocketSession
from gw.errors import one_error
from gw.relay.listening import ListeningSession
from gw.types.pending import Pending
from gw.types.stt import ListenEvent, ListenRequest

T = TypeVar("T")

ANSWER_S = 2.0
"""For what was heard to become final after a flush; whoever has nothing to say by then heard nothing."""
FAREWELL_S = 2.0
"""For the provider to end the session, and to say what it bills, after the client has closed."""


class HeardAudio(msgspec.Struct, frozen=True):
    """Audio."""

    data: bytes


class Forward(msgspec.Struct, frozen=True):
    """A control frame that an upstream of the same dialect is given as it is."""

    frame: str


class ListenReply(msgspec.Struct, frozen=True):
    """Answer the client at once."""

    frame: Frame


class DelayedReply(msgspec.Struct, frozen=True):
    """Say what `frames` finds then, `ANSWER_S` from now."""

    frames: Callable[[], Sequence[Frame]]


class Control(Enum):
    FLUSH = auto()
    """Make what was heard so far final."""
    FINISH = auto()
    """No more audio will come."""
    LEAVE = auto()
    """End at once; nobody waits for what is left."""


ClientMessage: TypeAlias = HeardAudio | Forward | ListenReply | DelayedReply | Control


class ListenProtocol(Protocol):
    """The server's side of a dialect, for one session."""

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """What a client's frame says. Raises ClientProtocolError."""
        ...

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]: ...

    def opening(self) -> Sequence[Frame]:
        """What is said when the handshake has been answered."""
        ...

    def closing(self) -> Sequence[Frame]:
        """What is said after the last event."""
        ...


async def listen(
    session: WebSocketSession,
    request: ListenRequest,
    ears: ListenProtocol,
    *,
    subprotocol: str | None = None,
    headers: Headers | None = None,
    early: Sequence[ClientMessage] = (),
) -> None:
    """Serve a whole session. Raises GwError: before the handshake is answered what admission says, later what ended it.

    A handshake that was answered before (the dialect names its model in a frame) is not answered again; `early` is what the
    client has said since.
    """
    socket = session.socket

    def tell(events: list[ListenEvent]) -> Pending:
        frames = ears.encode(events)
        return socket.put(frames[0]) if len(frames) == 1 else _each(frames, socket.put)

    async with session.gateway.relay.listen(request, session.caller) as live:
        if not socket.accepted:
            await session.accept(subprotocol, headers)
            for frame in ears.opening():
                await socket.send(frame)
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hear, session, live, ears, early, nursery)
                await live.for_each_batch(tell)
                nursery.cancel_scope.cancel()
        if live.done:
            for frame in ears.closing():
                await socket.send(frame)
    await socket.close()


async def _hear(
    session: WebSocketSession, live: ListeningSession, ears: ListenProtocol, early: Sequence[ClientMessage], nursery: trio.Nursery
) -> None:
    def do(said: ClientMessage) -> Pending:
        return _do(said, session, live, nursery)

    def take(frame: Frame) -> Pending:
        said = ears.receive(frame)
        if len(said) == 1 and isinstance(said[0], HeardAudio):  # nearly always
            return live.send_audio_or_pending(said[0].data)
        return _each(said, do)

    if (rest := _each(early, do)) is not None:
        await rest
    await session.socket.each(take)
    nursery.cancel_scope.deadline = trio.current_time() + FAREWELL_S
    await live.finish()


def _each(things: Sequence[T], do: Callable[[T], Pending]) -> Pending:
    """One after the other, as far as it goes without waiting."""
    for n, thing in enumerate(things):
        if (rest := do(thing)) is not None:
            return _others(rest, things[n + 1 :], do)
    return None


async def _others(rest: Awaitable[None], things: Sequence[T], do: Callable[[T], Pending]) -> None:
    await rest
    for thing in things:
        if (left := do(thing)) is not None:
            await left


def _do(said: ClientMessage, session: WebSocketSession, live: ListeningSession, nursery: trio.Nursery) -> Pending:
    match said:
        case HeardAudio(data=data):
            return live.send_audio_or_pending(data)
        case Forward(frame=frame):
            return live.send_frame(frame)
        case ListenReply(frame=frame):
            return session.socket.put(frame)
        case DelayedReply():
            nursery.start_soon(_say_later, session, said)
        case Control.FLUSH:
            return live.flush()
        case Control.FINISH:
            return live.finish()
        case Control.LEAVE:
            nursery.cancel_scope.cancel()
    return None


async def _say_later(session: WebSocketSession, said: DelayedReply) -> None:
    await trio.sleep(ANSWER_S)
    for frame in said.frames():
        await session.socket.send(frame)
