"""Several utterances over one socket, one after the other or at once: each is a live session with a record of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import attrs
import msgspec
import trio

from gw.dialects.auth import new_id
from gw.dialects.speech_messages import Text, Told, TtsCommand
from gw.dialects.websocket import Frame, WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.relay.speaking import SpeakingSession
from gw.types.caller import Caller
from gw.types.tts import SpeakEvent, SpeakLiveRequest

MOST = 20
"""Contexts at once in one socket."""
WAITING = 256
"""Pieces of text on their way to one context; when it takes no more, the client waits."""

Encode = Callable[[list[SpeakEvent]], Sequence[Frame]]


@attrs.define(eq=False)
class Context:
    """One utterance. `give` hands it what the client says of it."""

    name: str
    request: SpeakLiveRequest
    encode: Encode
    inbox: trio.MemorySendChannel[Told]
    failed: Callable[[GwError], Sequence[Frame]]
    """What the client is told of a failure, which ends this context and no other."""
    after: trio.Event | None = None
    """Its audio is sent when this has happened: the protocol has no word for whose audio it is."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def give(self, told: Told) -> None:
        with suppress(trio.BrokenResourceError):  # it has just ended
            await self.inbox.send(told)


class Contexts:
    """The contexts of one socket; `nursery` owns their tasks."""

    def __init__(self, session: WebSocketSession, nursery: trio.Nursery, *, warm: bool = True) -> None:
        """`warm`: more than one utterance is to be expected."""
        self._spares = PrewarmedSockets(nursery) if warm else None
        self._session = session
        self._nursery = nursery
        self._open: dict[str, Context] = {}
        self._first = True

    def find(self, name: str) -> Context | None:
        return self._open.get(name)

    @property
    def names(self) -> list[str]:
        return list(self._open)

    @property
    def last(self) -> Context | None:
        """The one begun last, of those that have not ended."""
        return next(reversed(self._open.values()), None)

    def drop_all(self) -> None:
        """End them at once: the listener interrupted."""
        for name in list(self._open):
            self.drop(name)

    async def all_ended(self) -> None:
        """The client says no more. One that leaves does not want the rest."""
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_left, nursery.cancel_scope)
                for context in list(self._open.values()):
                    await context.ended.wait()
                nursery.cancel_scope.cancel()

    async def _until_left(self, scope: trio.CancelScope) -> None:
        while await self._session.socket.receive() is not None:
            pass
        self.drop_all()
        scope.cancel()

    def open(
        self,
        name: str,
        request: SpeakLiveRequest,
        encode: Encode,
        failed: Callable[[GwError], Sequence[Frame]],
        *,
        after: Context | None = None,
    ) -> Context:
        """Begin an utterance. Raises ClientProtocolError when there are too many."""
        if len(self._open) >= MOST:
            raise ClientProtocolError(what=f"a socket can hold {MOST} contexts at once; end one first")
        inbox, out = trio.open_memory_channel[Told](WAITING)
        context = Context(name, request, encode, inbox, failed, after.ended if after is not None else None)
        self._open[name] = context
        who = self._session.caller
        if not self._first:
            who = msgspec.structs.replace(who, request_id=new_id())
        self._first = False
        self._nursery.start_soon(self._run, context, out, who)
        return context

    def drop(self, name: str) -> None:
        """End it at once: nobody listens to it any more."""
        context = self._open.pop(name, None)
        if context is not None:
            context.scope.cancel()

    async def _run(self, context: Context, out: trio.MemoryReceiveChannel[Told], caller: Caller) -> None:
        socket = self._session.socket
        try:
            with one_error(), context.scope, out:
                speech = self._session.gateway.relay.speak_live(context.request, caller, self._spares)
                async with speech as live, trio.open_nursery() as nursery:
                    nursery.start_soon(self._obey, context, out, live)
                    if context.after is not None:
                        await context.after.wait()
                    while not live.done:
                        for frame in context.encode(await live.receive()):
                            await socket.send(frame)
                    nursery.cancel_scope.cancel()
        except GwError as error:
            for frame in context.failed(error):
                await socket.send(frame)
        finally:
            context.ended.set()
            if self._open.get(context.name) is context:
                del self._open[context.name]

    async def _obey(self, context: Context, out: trio.MemoryReceiveChannel[Told], live: SpeakingSession) -> None:
        async for told in out:
            match told:
                case Text(text=text):
                    await live.send_text(text)
                case TtsCommand.FLUSH:
                    await live.flush()
                case TtsCommand.FINISH:
                    await live.finish()
