"""One WebSocket session as ASGI `receive` and `send`, by the Sans-I/O core of `websockets` (RFC 6455, no extensions).

The Link's reader feeds the protocol (within the poller's callback where there is one), so pings are answered and a close is
seen while the app is busy elsewhere; it rests while UNREAD_BYTES of messages wait for the app. Both it and the app write, so
a write that must wait holds a lock.

How it ends: the client's close frame → the app receives `websocket.disconnect` and has LEAVE_S before it is cancelled;
client gone without one → cancelled at once; app returns → close 1000, raises → 1011; cancelled from outside → 1012.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable

import trio
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from gw.net import ws_frames
from gw.net.tcp import LOST
from gw.types.asgi import ASGIApp, Message, Scope
from gw.types.pending import Pending
from gw.web import http_errors
from gw.web.connection import UNREAD_BYTES, Connection
from gw.web.http_errors import Refused, closing_response
from gw.web.http_server_exchange import base_scope
from gw.web.http_server_head import Head

MESSAGE_BYTES = 16 * 1_048_576
"""Largest message of a client; a larger one closes with 1009."""
DENIAL_BYTES = 65_536
LEAVE_S = 5.0
"""For an app to finish after the client's close frame."""
CLOSE_S = 1.0
"""For a client to answer our close frame."""
_REASON_BYTES = 123

Take = Callable[[str | bytes | Message], Pending]
"""Of an ASGI message, or of its payload alone."""
_OPEN = State.OPEN  # looked at for every frame, and an enum's member takes a while to find

_quiet = logging.getLogger(__name__)
_quiet.setLevel(logging.ERROR)  # the library's own debug lines quote frames


class ServerWebSocket:
    """`handshake`, then `run`, then `finish`. The caller closes the transport."""

    def __init__(self, head: Head, link: Connection) -> None:
        self.request_id = uuid.uuid4().hex
        self._head = head
        self._link = link
        # The handshake's bytes are parsed and written here, so the protocol begins with frames.
        self._protocol = ServerProtocol(state=_OPEN, max_size=MESSAGE_BYTES, logger=_quiet)
        self._scope = trio.CancelScope()
        self._inbox: deque[Message] = deque([{"type": "websocket.connect"}])
        self._unread = 0
        self._inbox_changed = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._splitter = ws_frames.Splitter(masked=True, most=MESSAGE_BYTES)
        self._turn = ws_frames.FrameTurn()
        self._take_over: Take | None = None
        """Takes messages in place of `receive`, as they are read."""
        self._torn = False
        """A frame was cut in the middle; nothing may follow it."""
        self._parts: list[bytes] = []
        self._text = False
        self._accepted = False
        self._denial: Message | None = None
        self._denial_body = b""
        self._denied = False

    def handshake(self) -> Refused | None:
        """Check the upgrade request; None when it is a good one."""
        head = self._head
        fields = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers])
        request = Request(head.target, fields)
        if head.method != b"GET" or not head.body.done:
            return Refused(400, "a WebSocket handshake is a GET without a body")
        self._answer = self._protocol.accept(request)
        if self._answer.status_code == 101:
            return None
        version = [(b"sec-websocket-version", b"13"), (b"upgrade", b"websocket")]
        return Refused(self._answer.status_code, "the WebSocket handshake is malformed", headers=version)

    async def run(self, app: ASGIApp) -> None:
        """Run the app to its end; raises what it raises. Cancelled from outside, tells the client 1012 first."""
        link, ended = self._link, False
        link.on_left = self._client_left
        try:
            with self._scope:
                await app(self._asgi_scope(), self.receive, self.send)
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            link.on_left = None
            if not ended:
                with trio.move_on_after(CLOSE_S, shield=True):
                    await self._close_for_restart()

    async def finish(self, *, failed: bool) -> bool:
        """After `run`: answer or close what the app left open. False when the connection can only be cut."""
        self._unread = 0
        self._room.unpark_all()  # the reader goes on, so that it sees the client's close frame
        if self._denied:
            return True
        await self._turn.take()  # the reader may be writing a pong or the answer to a close
        self._turn.give_back()
        if self._link.dead or self._torn or (self._link.left and self._protocol.state is _OPEN):
            return False
        try:
            if not self._accepted:
                await self._link.send(http_errors.crashed(self.request_id).response())
            else:
                if self._protocol.state is _OPEN:
                    self._protocol.send_close(1011 if failed else 1000)
                await self._flush()
                with trio.move_on_after(CLOSE_S):
                    while self._protocol.close_rcvd is None and not self._protocol.eof_sent and not self._link.left:
                        await self._link.wait()
        except OSError:
            return False
        await self._link.linger()
        return True

    def _asgi_scope(self) -> Scope:
        scope = base_scope(self._head, self._link, "websocket", "ws")
        offered = [value for name, value in self._head.headers if name == b"sec-websocket-protocol"]
        names = [name.strip() for value in offered for name in value.decode("latin-1").split(",")]
        scope["subprotocols"] = [name for name in names if name]
        scope["extensions"]["websocket.http.response"] = {}
        scope["extensions"]["gw.messages"] = {"hand_to": self._hand_to, "let_go": self._let_go, "put": self._put_message}
        return scope

    # ------------------------------------------------------------------ from the client

    async def receive(self) -> Message:
        """connect, then each whole message (`bytes` or `text`), then disconnect."""
        while not self._inbox:
            await self._inbox_changed.park()
        return self._popped()

    async def _hand_to(self, take: Take) -> None:
        """`take` gets the messages from now on in place of `receive`, where they are read: a hop less each.

        Until what it leaves to wait for is done nothing is read: no ping is answered and no close seen. It raises nothing.
        """
        self._take_over = take
        while (rest := self._hand_over()) is not None:
            await rest

    def _let_go(self) -> None:
        """`receive` gets them again."""
        self._take_over = None

    def _popped(self) -> Message:
        message = self._inbox.popleft()
        if message["type"] == "websocket.disconnect":
            self._inbox.append(message)  # and ever again
        else:
            self._unread -= len(message.get("bytes") or message.get("text") or "")
            if self._unread <= UNREAD_BYTES:
                self._room.unpark_all()
        return message

    def _feed(self, data: bytes) -> Pending:
        """Take bytes from the connection. Leaves to wait for what is to be said, whoever takes messages, and room for more."""
        found = self._splitter.feed(data)
        take = self._take_over
        if take is not None and not self._inbox and len(found) == 1:  # nearly always, while somebody takes messages
            opcode, payload = found[0]
            if opcode == ws_frames.BINARY and self._protocol.state is _OPEN:
                return take(payload)
        if self._digest(found):
            return self._answer_and_go_on()
        rest = self._hand_over()
        if rest is not None or self._unread > UNREAD_BYTES:
            return self._go_on(rest)
        return None

    def _hand_over(self) -> Pending:
        """Give away what waits in the inbox, where somebody takes it, as far as it goes without waiting."""
        while (take := self._take_over) is not None and self._inbox:
            message = self._popped()
            if message["type"] == "websocket.disconnect":
                self._take_over = None
            if (rest := take(message)) is not None:
                return rest
        return None

    async def _answer_and_go_on(self) -> None:
        try:
            await self._flush()
        except OSError:
            self._link.dead = True
        await self._go_on(self._hand_over())

    async def _go_on(self, rest: Pending) -> None:
        while rest is not None:
            await rest
            rest = self._hand_over()
        while self._unread > UNREAD_BYTES:
            await self._room.park()

    def _digest(self, found: ws_frames.Found) -> bool:
        """Messages out of frames; whether the machine had a part in it, and may have something to say."""
        asked = False
        for opcode, payload in found:
            if opcode != ws_frames.MACHINE:
                if self._protocol.state is _OPEN:
                    self._message(payload, opcode == ws_frames.TEXT)
                continue
            asked = True
            self._protocol.receive_data(payload)
            for event in self._protocol.events_received():
                if isinstance(event, Frame):
                    self._take(event)
        if self._protocol.state is not _OPEN:
            asked = True  # also by what was no text
            self._closed()
        return asked

    def _take(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._text = frame.opcode is Opcode.TEXT
        if not frame.fin:
            self._parts.append(bytes(frame.data))
            return
        data = b"".join([*self._parts, frame.data]) if self._parts else bytes(frame.data)
        self._parts.clear()
        self._message(data, self._text)

    def _message(self, data: bytes, text: bool) -> None:
        if self._protocol.close_sent is not None and self._protocol.close_rcvd is None:
            return  # we have said goodbye
        if not text:
            self._put({"type": "websocket.receive", "bytes": data}, len(data))
            return
        try:
            said = data.decode()
        except UnicodeDecodeError:
            self._protocol.fail(1007, "text is not UTF-8")
        else:
            self._put({"type": "websocket.receive", "text": said}, len(said))

    def _put(self, message: Message, size: int) -> None:
        self._unread += size
        self._inbox.append(message)
        if self._take_over is None:
            self._inbox_changed.unpark_all()

    def _closed(self) -> None:
        """The protocol left OPEN because of what the client sent, or because we closed."""
        close = self._protocol.close_rcvd or (self._protocol.close_sent if self._protocol.eof_sent else None)
        if close is None or (self._inbox and self._inbox[-1]["type"] == "websocket.disconnect"):
            return
        self._put({"type": "websocket.disconnect", "code": int(close.code), "reason": close.reason}, 0)
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + LEAVE_S)

    def _client_left(self) -> None:
        if self._protocol.state is _OPEN:
            self._put({"type": "websocket.disconnect", "code": 1006, "reason": ""}, 0)
            self._scope.cancel()

    # ------------------------------------------------------------------ to the client

    async def send(self, message: Message) -> None:
        """Raises OSError when the session is over or the client does not read in time."""
        kind = message["type"]
        if kind == "websocket.send":
            data = message.get("bytes")
            if (rest := self._put_message(data if data is not None else message.get("text") or "")) is not None:
                await rest
        elif kind == "websocket.accept" and not self._accepted:
            await self._accept(message)
        elif kind == "websocket.close":
            await self._send_close(message)
        elif kind in ("websocket.http.response.start", "websocket.http.response.body") and not self._accepted:
            await self._deny(message)
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")

    async def _accept(self, message: Message) -> None:
        headers = self._answer.headers
        if message.get("subprotocol"):
            headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        for name, value in message.get("headers", ()):
            if b"\r" in name + value or b"\n" in name + value:
                raise ValueError("a response header holds a line break")
            headers[name.decode("latin-1")] = value.decode("latin-1")
        self._accepted = True
        await self._write(self._answer.serialize())
        self._link.sink = self._feed
        if self._link.buffer:
            early = bytes(self._link.buffer)
            self._link.buffer.clear()
            self._link.taken()
            self._digest(self._splitter.feed(early))
            await self._flush()

    def _put_message(self, message: str | bytes) -> Pending:
        """Send it, at once where the client takes it. Raises OSError when the session is over."""
        if self._protocol.state is not _OPEN:
            raise OSError("the session is over")
        if isinstance(message, bytes):
            out = ws_frames.from_server(ws_frames.BINARY, message)
        else:
            out = ws_frames.from_server(ws_frames.TEXT, message.encode())
        if self._turn.taken or self._torn:
            return self._put_out(out)
        try:
            sent = self._link.transport.send_now(out)
        except LOST:
            return self._put_out(out)  # fails again, and says so to the link
        if sent == len(out):
            return None
        self._turn.taken = self._torn = True
        return self._put_rest(out[sent:])

    async def _put_rest(self, out: bytes) -> None:
        """Of a frame that was begun; it is our turn."""
        try:
            await self._link.send(out)
            self._torn = False
        finally:
            self._turn.give_back()

    async def _send_close(self, message: Message) -> None:
        if not self._accepted:
            await self._answer_http(Refused(403, "the WebSocket was refused").response())
        elif self._protocol.state is _OPEN:
            reason = (message.get("reason") or "").encode()[:_REASON_BYTES].decode(errors="ignore")
            self._protocol.send_close(message.get("code") or 1000, reason)
            await self._flush()

    async def _deny(self, message: Message) -> None:
        if message["type"].endswith("start"):
            self._denial = message
            return
        if self._denial is None or self._denied:
            raise RuntimeError("a body message outside of a response")
        self._denial_body += message.get("body", b"")
        if len(self._denial_body) > DENIAL_BYTES:
            raise ValueError("the body of a denied handshake is too large")
        if not message.get("more_body", False):
            headers = self._denial.get("headers", ())
            await self._answer_http(closing_response(self._denial["status"], headers, self._denial_body))

    async def _answer_http(self, response: bytes) -> None:
        self._denied = True
        await self._link.send(response)
        await self._link.linger()

    async def _flush(self) -> None:
        """Write what the protocol has to say. Whole frames, in order, whichever task asks."""
        out = b"".join(self._protocol.data_to_send())
        if out:
            await self._put_out(out)

    async def _put_out(self, out: bytes) -> None:
        await self._turn.take()
        try:
            await self._write(out)
        finally:
            self._turn.give_back()

    async def _write(self, out: bytes) -> None:
        if self._torn:
            raise OSError("the session is over")
        self._torn = True
        await self._link.send(out)
        self._torn = False

    async def _close_for_restart(self) -> None:
        await trio.lowlevel.checkpoint()  # the reader is cancelled too; it lets go of the transport first
        if self._torn or self._link.dead or self._link.left:
            return
        try:
            if self._accepted and self._protocol.state is _OPEN:
                self._protocol.send_close(1012, "the gateway is restarting")
                await self._flush()
            elif not self._accepted and not self._denied:
                await self._link.send(http_errors.overloaded("the gateway is restarting").response())
            await self._link.transport.send_eof()
            while await self._link.transport.receive_some():
                pass  # a close with unread bytes would be a reset, and overtake the frame
        except (trio.BusyResourceError, *LOST):
            return
        finally:
            await self._link.transport.aclose()
