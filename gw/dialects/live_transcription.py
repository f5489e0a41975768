"""A live transcription between a client and `Relay.listen`, for every dialect that has one.

A client's frames go to the session where they are read, and events to the client where the provider is read: while neither side
makes the other wait, no task is woken between them, and the connection's task waits for the provider.

============  =========================================  ==============================================
State         Client                                     Provider
============  =========================================  ==============================================
admitted      waits for the handshake                    is being dialled; audio is kept for it
streaming     `Audio`, `Forward`, `Control.FLUSH`        events → frames
finishing     `Control.FINISH`; its frames are read on   the remaining events, then the end of the session
left          has closed: nothing is sent to it any more has `FAREWELL_S` (relay) to end the session
closed        normal close, or an error from the relay   released
============  =========================================  ==============================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from gw.dialects.client_socket import Socket
from gw.dialects.request_io import Headers
from gw.dialects.websocket import WebSocketSession
from gw.relay.listening import ListeningSession
from gw.types.pending import Pending, awaited, pending_error
from gw.types.stt import ListenEvent, ListenRequest
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, DelayedReply, DirectReply, Forward

T = TypeVar("T")

ANSWER_S = 2.0  # time for a transcript to become final after a flush; after it a `DelayedReply` is sent, unless one is owed
_OWED_S = 0.1  # between two looks for whether one still is


async def listen(
    session: WebSocketSession, request: ListenRequest, protocol: ListenProtocol, *, subprotocol: str | None = None,
    headers: Headers | None = None, early: Sequence[ClientMessage] = (),
) -> None:  # fmt: skip
    """Serve a whole session. Raises GwError: before the handshake when it is not admitted, later what ended it.

    A handshake that was answered before (the dialect names its model in a frame) is not answered again; `early` holds the
    client's messages since then.
    """
    socket, sender = session.socket, _EventSender(session.socket, protocol)
    async with session.gateway.relay.listen(request, session.caller, driven=False) as live:
        if not socket.accepted:
            await session.accept(subprotocol, headers)
            headers = None
            for frame in protocol.opening():
                await socket.send(frame)
        session.let_scope_go()
        socket.busy_while(live.owes_transcript)
        messages = _ClientMessages(socket, live, protocol)
        try:
            messages.begin(early)
            await live.serve(sender.send)
        finally:
            messages.end()
    await socket.close()


class _EventSender:
    """Sends a session's events to its client."""

    __slots__ = ("_protocol", "_socket")

    def __init__(self, socket: Socket, protocol: ListenProtocol) -> None:
        self._socket = socket
        self._protocol = protocol

    def send(self, events: list[ListenEvent]) -> Pending:
        frames, socket = self._protocol.encode(events), self._socket
        return socket.send_or_pending(frames[0]) if len(frames) == 1 else _each(frames, socket.send_or_pending)


class _ClientMessages:
    """Passes a client's messages on to its session. Classes, since compiled functions within a function make a cycle with what they use."""

    __slots__ = ("_binary_is_audio", "_live", "_protocol", "_send_audio", "_socket")

    def __init__(self, socket: Socket, live: ListeningSession, protocol: ListenProtocol) -> None:
        self._socket = socket
        self._live = live
        self._protocol = protocol
        self._binary_is_audio, self._send_audio = protocol.binary_is_audio, live.send_audio_or_pending

    def begin(self, early: Sequence[ClientMessage]) -> None:
        """Handle the messages of `early`, then those that come, until the client leaves or `end`. What fails ends the session."""
        pending = _each(early, self._handle)
        if pending is None and self._socket.can_deliver:
            pending = self._socket.deliver(self._take, self._left)
            if pending is not None:
                self._live.start_soon(awaited, pending)
        else:
            self._live.start_soon(self._read_after, pending)

    def end(self) -> None:
        self._socket.stop_delivery()

    def _left(self) -> None:
        try:
            self._socket.check_left()
        except Exception as error:  # the session's, and not that of whoever calls back
            self._live.start_soon(pending_error, error)
        else:
            self._live.caller_left()

    async def _read_after(self, pending: Pending) -> None:
        if pending is not None:
            await pending
        await self._socket.for_each_message(self._take)
        self._live.caller_left()

    def _take(self, frame: Frame) -> Pending:
        if self._binary_is_audio and isinstance(frame, bytes) and frame:  # nearly always
            self._protocol.audio_bytes += len(frame)
            send_audio = self._send_audio
            return send_audio(frame)
        return _each(self._protocol.receive(frame), self._handle)

    def _handle(self, message: ClientMessage) -> Pending:
        live, socket = self._live, self._socket
        match message:
            case Audio(data=data):
                return live.send_audio_or_pending(data)
            case Forward(frame=frame):
                return live.send_frame(frame)
            case DirectReply(frame=frame):
                return socket.send_or_pending(frame)
            case DelayedReply():
                live.start_soon(_reply_later, socket, live, message)
            case Control.FLUSH:
                return live.flush()
            case Control.FINISH:
                return live.finish()
        return None


def _each(items: Sequence[T], handle: Callable[[T], Pending]) -> Pending:
    """Handle items in order, as many as possible without waiting."""
    for n, item in enumerate(items):
        if (pending := handle(item)) is not None:
            return _remaining(pending, items[n + 1 :], handle)
    return None


async def _remaining(pending: Awaitable[None], items: Sequence[T], handle: Callable[[T], Pending]) -> None:
    await pending
    for item in items:
        if (more := handle(item)) is not None:
            await more


async def _reply_later(socket: Socket, live: ListeningSession, reply: DelayedReply) -> None:
    await trio.sleep(ANSWER_S)
    # Speech was heard: its transcript comes, from this provider or the next one, or the session fails.
    while live.owes_transcript():  # noqa: ASYNC110  # the debt ends in many ways, also by audio that turns out to be noise
        await trio.sleep(_OWED_S)
    for frame in reply.frames():
        await socket.send(frame)
