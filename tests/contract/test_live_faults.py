"""Every provider type's sockets against an upstream that misbehaves: a typed error in time, another candidate allowed, nothing
left open. The server knows no dialect: it shakes hands, counts the client's frames, and then does one thing wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import attrs
import pytest
import trio
import trio.testing
from websockets.frames import CloseCode, Frame, Opcode
from websockets.server import ServerProtocol

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, ProviderUnreachable, RateLimitError, UpstreamCut
from gw.errors import UpstreamProtocolError as Malformed
from gw.net.http1 import Pool
from gw.net.unreachable import ConnectFailed
from gw.net.ws import CLOSE_S
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.types.audio import PCM_16K
from gw.types.stt import ListenEnd, ListenRequest
from gw.types.tts import SpeakEnd, SpeakLiveRequest
from tests.contract.test_providers import LISTEN, SPEAK_LIVE
from tests.contract.vendors import KEY, VENDORS, rig
from tests.fakes.cells import Cells
from tests.fakes.hosting import ResettingTransport

DEADLINE_S = 30.0
"""Written by the caller around each session; longer than any wait of a provider's own."""
SOCKETS = [
    (type_, kind)
    for kind, types in (("listen", LISTEN), ("speak_live", SPEAK_LIVE))
    for type_ in types
    if spec_of(type_).needs_address and "WebSocket" in spec_of(type_).transport(kind)
]
IDS = [f"{type_} {kind}" for type_, kind in SOCKETS]
Send = Callable[[bytes], Awaitable[None]]
_BY_UTTERANCE = {"400", "403", "404"}
"""Statuses by which whisper's servers say that they have no socket; the recordings then fail with the same."""


def frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=False)


def closing(code: int) -> bytes:
    return frame(Opcode.CLOSE, code.to_bytes(2, "big") + b"why")


@attrs.frozen(kw_only=True)
class Fault:
    name: str
    says: bytes = b""
    """Once the client's first frame has come, or at once where it says nothing of itself."""
    then: Literal["", "closes", "stalls", "resets"] = ""
    error: tuple[type[ProviderError], ...] = (ProviderError,)
    connect: Exception | None = None
    answer: bytes = b""
    """In place of a handshake."""
    deadline: bool = False
    """Nobody but the caller ends it: the provider owes nothing that a clock of its own is for."""


def status(code: int, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 %d X\r\ncontent-length: 7\r\n%b\r\nrefused" % (code, lines)


FAULTS = (
    Fault(name="refused", connect=ConnectFailed("connection refused", "refused"), error=(ProviderUnreachable,)),
    Fault(name="TLS", connect=ConnectFailed("TLS: self-signed", "tls"), error=(ProviderUnreachable,)),
    *(Fault(name=str(code), answer=status(code), error=(ProviderRejected,)) for code in (400, 401, 403, 404)),
    *(Fault(name=str(code), answer=status(code), error=(ProviderFailed,)) for code in (402, 408, 500, 503, 529)),
    Fault(name="429", answer=status(429, b"retry-after: 7"), error=(RateLimitError,)),
    Fault(name="200", answer=status(200)),
    Fault(name="302", answer=status(302, b"location: http://elsewhere.test/")),
    Fault(name="no HTTP", answer=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    Fault(name="half a head", answer=b"HTTP/1.1 101 Switching"),
    Fault(name="another key", answer=b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n"),
    Fault(name="closed at once", then="closes"),
    Fault(name="reset", then="resets"),
    Fault(name="1000 in mid-turn", says=closing(1000)),
    Fault(name="1001 in mid-turn", says=closing(1001)),
    Fault(name="no code in mid-turn", says=frame(Opcode.CLOSE, b"")),
    Fault(name="1008", says=closing(1008), error=(ProviderRejected, ProviderFailed)),
    Fault(name="1011", says=closing(CloseCode.INTERNAL_ERROR), error=(ProviderFailed,)),
    Fault(name="1013", says=closing(1013), error=(ProviderFailed, RateLimitError)),
    Fault(name="4999", says=closing(4999)),
    Fault(name="bad JSON", says=frame(Opcode.TEXT, b'{"type":'), error=(Malformed,)),
    Fault(name="JSON of another form", says=frame(Opcode.TEXT, b"[1]"), error=(Malformed,)),
    Fault(
        name="members of another type", says=frame(Opcode.TEXT, b'{"type":7,"message_type":7,"audio":7,"tokens":7,"message":7}'),
        error=(Malformed,),
    ),
    Fault(name="invalid UTF-8", says=frame(Opcode.TEXT, b"\xff\xfe"), error=(Malformed,)),
    Fault(name="reserved bits", says=b"\xf1\x00", error=(Malformed, UpstreamCut)),
    Fault(name="a frame too large", says=b"\x81\x7f" + (2**40).to_bytes(8, "big"), error=(Malformed,)),
    Fault(name="half a frame", says=frame(Opcode.TEXT, b"{" * 50)[:20], then="closes", error=(UpstreamCut, Malformed)),
    Fault(name="half a message", says=frame(Opcode.TEXT, b"{", fin=False), then="closes", error=(UpstreamCut, Malformed)),
    Fault(name="a type nobody knows", says=frame(Opcode.TEXT, b'{"type":"new","message_type":"new","new":[1]}'), deadline=True),
    Fault(name="a ping and silence", says=frame(Opcode.PING, b"x"), deadline=True),
    Fault(name="silence", then="stalls", deadline=True),
)  # fmt: skip


class Upstream:
    """One bad server, on every connection."""

    def __init__(self, fault: Fault, created: bytes = b"") -> None:
        self.fault = fault
        self.handshakes = 0
        self._created = created

    async def __call__(self, stream: trio.abc.Stream) -> None:
        fault, protocol = self.fault, ServerProtocol()
        data = await stream.receive_some(65_536)
        if data.startswith(b"POST "):
            await self._create_session(stream, data)
            return
        if fault.answer or (fault.then == "closes" and not fault.says):
            await stream.send_all(fault.answer)
            return
        misbehaved = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._in_silence, stream, scope, misbehaved)
                while data:
                    protocol.receive_data(data)
                    for event in protocol.events_received():
                        if not isinstance(event, Frame):
                            self.handshakes += 1
                            protocol.send_response(protocol.accept(event))
                            await stream.send_all(b"".join(protocol.data_to_send()))
                        elif not misbehaved.is_set():
                            misbehaved.set()
                            await self._misbehave(stream, scope)
                    protocol.data_to_send()   # it answers nothing else: no close, no ping
                    data = await stream.receive_some(65_536)
                scope.cancel()

    async def _create_session(self, stream: trio.abc.Stream, data: bytes) -> None:
        """Answer the request before a socket well."""
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < size:
            body += await stream.receive_some(65_536)
        await stream.send_all(b"HTTP/1.1 201 X\r\ncontent-length: %d\r\n\r\n%b" % (len(self._created), self._created))

    async def _in_silence(self, stream: trio.abc.Stream, scope: trio.CancelScope, misbehaved: trio.Event) -> None:
        """To a client that waits for a word first; the frame with which it leaves is not answered as well."""
        await trio.sleep(1)
        if self.handshakes:
            misbehaved.set()
            with suppress(trio.BrokenResourceError, trio.BusyResourceError):
                await self._misbehave(stream, scope)

    async def _misbehave(self, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
        await stream.send_all(self.fault.says)
        if self.fault.then in ("closes", "resets"):
            scope.cancel()


async def use(made, kind: str) -> None:
    """A whole session. Raises ProviderError."""
    spec = spec_of(made.type)
    if kind == "listen":
        opening = spec.listen(ListenRequest(model="m", format=PCM_16K), made.account("stt"))
        say, last = _speak, ListenEnd
    else:
        opening = spec.speak_live(SpeakLiveRequest(model="m", voice="v", format=PCM_16K), made.account("tts"))
        say, last = _write, SpeakEnd
    async with opening as session, trio.open_nursery() as nursery:
        nursery.start_soon(say, session)
        await _read(session, last)
        nursery.cancel_scope.cancel()


async def _speak(session) -> None:
    """The reader tells of a failure, as in the relay."""
    with suppress(ProviderError):
        for piece in fsk.encode("hello there", 16_000):
            await session.send_audio(piece)
            await trio.sleep(0.02)
        await session.flush()


async def _write(session) -> None:
    with suppress(ProviderError):
        await session.send_text("Hello there. ")
        await session.flush()


async def _read(session, last) -> None:
    events = []
    while not events or not isinstance(events[-1], last):
        events += await session.receive()


@pytest.mark.parametrize(("type_", "kind"), SOCKETS, ids=IDS)
async def test_a_socket_that_fails(type_, kind, autojump_clock):
    cells = Cells(at_least=len(FAULTS))
    for fault in FAULTS:
        with cells.cell(fault.name):
            async with trio.open_nursery() as vendor:
                await meet_fault(type_, kind, fault, vendor)
                vendor.cancel_scope.cancel()
    cells.check()


def test_the_matrix_is_as_large_as_it_was():
    assert len(SOCKETS) * len(FAULTS) >= 333


async def meet_fault(type_: str, kind: str, fault: Fault, nursery: trio.Nursery) -> None:
    made = rig(type_, nursery)
    upstream = Upstream(fault, VENDORS[type_].creates_session)
    made.net.hosts.update(dict.fromkeys(made.net.hosts, fault.connect or upstream))
    made = attrs.evolve(made, pool=Pool(connect=connecting(made, fault)))
    failure: ProviderError | None = None
    began = trio.current_time()
    with trio.move_on_after(DEADLINE_S) as scope:
        try:
            await use(made, kind)
        except* ProviderError as group:
            (failure,) = _leaves(group)
    if fault.deadline and failure is None:
        assert scope.cancelled_caught
        assert trio.current_time() - began <= DEADLINE_S + CLOSE_S
    else:
        recorded = kind == "listen" and VENDORS[type_].socket_or_recordings and fault.name in _BY_UTTERANCE
        assert isinstance(failure, ProviderError if recorded else fault.error), failure
        assert failure.retryable or isinstance(failure, ProviderRejected), failure
        assert KEY not in f"{failure} {failure.facts()}"
        assert "why" not in str(failure)
    await made.pool.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert (made.net.open, made.net.live) == (0, 0)


def _leaves(group: BaseExceptionGroup) -> list[ProviderError]:
    failure: list[ProviderError] = []
    for error in group.exceptions:
        failure += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]   # type: ignore[list-item]
    return failure


def connecting(made, fault: Fault):
    async def connect(origin):
        transport = await made.net(origin)
        return ResettingTransport(transport) if fault.then == "resets" else transport

    return connect
