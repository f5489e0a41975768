"""Live speech between a client and `Relay.speak_live`, for every dialect that has it.

A dialect gives a `Mouth`: what a client's frame says, and how events are told. As `gw.dialects.listening`, the other way
round: text up, audio down.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol, TypeAlias

import msgspec
import trio

from gw.dialects.asgi import Headers
from gw.dialects.listening import FAREWELL_S, Reply
from gw.dialects.socket import Frame, Session
from gw.errors import one_error
from gw.relay.speaking import Speaking
from gw.types.tts import SpeakEvent, SpeakLiveRequest


class Text(msgspec.Struct, frozen=True):
    """More to speak. `frame` is the client's, for an upstream of the same dialect; "" = there is none to pass on."""

    text: str
    frame: str = ""


class Order(Enum):
    FLUSH = auto()
    CLEAR = auto()
    """The listener interrupted: drop what was not spoken."""
    FINISH = auto()
    LEAVE = auto()


Told: TypeAlias = Text | Reply | Order


class Mouth(Protocol):
    """The server's side of a dialect, for one session."""

    def receive(self, frame: Frame) -> Sequence[Told]:
        """What a client's frame says. Raises ClientProtocolError."""
        ...

    def encode(self, events: list[SpeakEvent]) -> Sequence[Frame]: ...

    def opening(self) -> Sequence[Frame]: ...

    def closing(self) -> Sequence[Frame]: ...


async def speak(
    session: Session,
    request: SpeakLiveRequest,
    mouth: Mouth,
    *,
    subprotocol: str | None = None,
    headers: Headers | None = None,
    early: Sequence[Told] = (),
) -> None:
    """Serve a whole session. Raises as `listening.listen`."""
    socket = session.socket
    async with session.gateway.relay.speak_live(request, session.caller) as live:
        if not socket.accepted:
            await session.accept(subprotocol, headers)
            for frame in mouth.opening():
                await socket.send(frame)
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hear, session, live, mouth, early, nursery.cancel_scope)
                while not live.done:
                    for frame in mouth.encode(await live.receive()):
                        await socket.send(frame)
                nursery.cancel_scope.cancel()
        if live.done:
            for frame in mouth.closing():
                await socket.send(frame)
    await socket.close()


async def _hear(
    session: Session, live: Speaking, mouth: Mouth, early: Sequence[Told], scope: trio.CancelScope
) -> None:
    for told in early:
        await obey(told, session, live, scope)
    while (frame := await session.socket.receive()) is not None:
        for told in mouth.receive(frame):
            await obey(told, session, live, scope)
    # Nobody listens any more: what was not spoken is not wanted.
    scope.deadline = trio.current_time() + FAREWELL_S
    await live.clear()
    await live.finish()


async def obey(told: Told, session: Session, live: Speaking, scope: trio.CancelScope) -> None:
    match told:
        case Text(text=text, frame=""):
            await live.send_text(text)
        case Text(text=text, frame=frame):
            await live.send_frame(frame, text)
        case Reply(frame=answer):
            await session.socket.send(answer)
        case Order.FLUSH:
            await live.flush()
        case Order.CLEAR:
            await live.clear()
        case Order.FINISH:
            await live.finish()
        case Order.LEAVE:
            scope.cancel()
