"""Several utterances over one socket, one after the other or at once: each is a live session with its own record.

=========  ==================================================  ============================
Context    Event                                               Becomes
=========  ==================================================  ============================
(none)     its first text                                      open
open       FINISH, then the end of its audio                   (none)
open       dropped by the client, or the client left           (none)
open       its session fails after FINISH                      (none)
open       its session fails before FINISH                     failed; the client gets an error
failed     text                                                failed; the text is dropped
failed     FINISH                                              (none)
=========  ==================================================  ============================
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import attrs
import msgspec
import trio

from gw.dialects.websocket import WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.relay.speaking import SpeakingSession
from gw.types.ids import Caller
from gw.types.tts import SpeakEvent, SpeakLiveRequest
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ContextText, Text, TtsCommand

MAX_CONTEXTS = 20  # contexts open at once in one socket
QUEUED_MESSAGES = 256  # messages on their way to one context; when it accepts no more, the client waits


@attrs.define(eq=False)
class Context:
    """One utterance."""

    name: str
    request: SpeakLiveRequest
    encode: Callable[[list[SpeakEvent]], Sequence[Frame]]
    error_frames: Callable[[GwError], Sequence[Frame]]
    """Frames that report a failure of this context, which leaves the others alone."""
    queue: trio.MemorySendChannel[Text | TtsCommand]
    after: trio.Event | None = None
    """Hold this context's audio until then, in a protocol whose audio frames name no context."""
    finished: bool = False
    live: SpeakingSession | None = None
    """The session that speaks, once it has begun; it is kept to say what was spoken at what time."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def send(self, message: Text | TtsCommand) -> None:
        self.finished = self.finished or message is TtsCommand.FINISH
        with suppress(trio.BrokenResourceError):  # it has just ended
            await self.queue.send(message)


class Contexts:
    """The contexts of one socket; `nursery` runs their tasks."""

    def __init__(self, session: WebSocketSession, nursery: trio.Nursery, *, prewarm: bool = True) -> None:
        self._spares = PrewarmedSockets(nursery) if prewarm else None
        self._session = session
        self._nursery = nursery
        self._open: dict[str, Context] = {}
        self._failed: set[str] = set()
        self._first = True
        session.socket.busy_while(lambda: bool(self._open))

    def find(self, name: str) -> Context | None:
        return self._open.get(name)

    def knows(self, name: str) -> bool:
        """Return whether a context is open, or has failed before it was finished."""
        return name in self._open or name in self._failed

    @property
    def last(self) -> Context | None:
        """Return the open context that was opened last."""
        return next(reversed(self._open.values()), None)

    async def deliver(self, message: ContextText, open_context: Callable[[ContextText], Context]) -> None:
        """Pass text to its context, opening it at the first; text of a failed context is dropped."""
        if message.context in self._failed:
            if message.finish:
                self._failed.discard(message.context)
            return
        context = self._open.get(message.context) or open_context(message)
        if message.text:
            await context.send(Text(message.text))
        if message.finish:
            await context.send(TtsCommand.FINISH)
        elif message.flush:
            await context.send(TtsCommand.FLUSH)

    async def finish_all(self) -> None:
        for context in list(self._open.values()):
            await context.send(TtsCommand.FINISH)

    def drop_all(self) -> None:
        """End all contexts at once: the listener interrupted."""
        for name in list(self._open):
            self.drop(name)

    def drop(self, name: str) -> None:
        """End a context at once: its audio is no longer wanted."""
        context = self._open.pop(name, None)
        if context is not None:
            context.scope.cancel()

    async def wait_ended(self) -> None:
        """Wait until all contexts have ended, or the client has left, which drops them. Its frames are ignored."""
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._drop_when_left, nursery.cancel_scope)
                for context in list(self._open.values()):
                    await context.ended.wait()
                nursery.cancel_scope.cancel()

    def end_spares(self) -> None:
        """Dial no socket for another utterance: the client has left."""
        if self._spares is not None:
            self._spares.replaces = False

    async def _drop_when_left(self, scope: trio.CancelScope) -> None:
        while await self._session.socket.receive() is not None:
            pass
        self.end_spares()
        self.drop_all()
        scope.cancel()

    def open(
        self, name: str, request: SpeakLiveRequest, encode: Callable[[list[SpeakEvent]], Sequence[Frame]],
        error_frames: Callable[[GwError], Sequence[Frame]], *, after: Context | None = None,
    ) -> Context:  # fmt: skip
        """Start an utterance. Raises ClientProtocolError when too many are open."""
        if len(self._open) >= MAX_CONTEXTS:
            raise ClientProtocolError(what=f"a socket can have {MAX_CONTEXTS} contexts at once; end one first")
        queue, messages = trio.open_memory_channel[Text | TtsCommand](QUEUED_MESSAGES)
        context = Context(name, request, encode, error_frames, queue, after.ended if after is not None else None)
        self._open[name] = context
        caller = self._session.caller
        if not self._first:
            new_id = self._session.gateway.request_ids.new()
            caller = msgspec.structs.replace(caller, request_id=new_id, conversation=caller.request_id)
        self._first = False
        self._nursery.start_soon(self._run, context, messages, caller)
        return context

    async def _run(self, context: Context, messages: trio.MemoryReceiveChannel[Text | TtsCommand], caller: Caller) -> None:
        socket = self._session.socket
        try:
            with one_error(), context.scope, messages:
                speech = self._session.gateway.relay.speak_live(context.request, caller, self._spares)
                async with speech as live, trio.open_nursery() as nursery:
                    context.live = live
                    nursery.start_soon(_forward, messages, live)
                    if context.after is not None:
                        await context.after.wait()
                    while not live.done:
                        for frame in context.encode(await live.receive()):
                            await socket.send(frame)
                    nursery.cancel_scope.cancel()
        except GwError as error:
            if not context.finished:
                self._failed.add(context.name)
            for frame in context.error_frames(error):
                await socket.send(frame)
        finally:
            context.ended.set()
            context.encode = context.error_frames = _nothing  # they refer to the context
            if self._open.get(context.name) is context:
                del self._open[context.name]


def _nothing(_: object) -> Sequence[Frame]:
    return ()


async def _forward(messages: trio.MemoryReceiveChannel[Text | TtsCommand], live: SpeakingSession) -> None:
    async for message in messages:
        match message:
            case Text(text=text):
                await live.send_text(text)
            case TtsCommand.FLUSH:
                await live.flush()
            case TtsCommand.FINISH:
                await live.finish()


@asynccontextmanager
async def open_contexts(session: WebSocketSession, *, prewarm: bool = True) -> AsyncIterator[Contexts]:
    """Yield the contexts of a socket; those still open at the end are dropped. `prewarm`: expect more than one utterance."""
    session.let_scope_go()
    with one_error():
        async with trio.open_nursery() as nursery:
            contexts = Contexts(session, nursery, prewarm=prewarm)
            try:
                yield contexts
            finally:
                contexts.end_spares()
            nursery.cancel_scope.cancel()
