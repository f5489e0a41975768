"""Live sessions over a WebSocket, whatever their dialect: frames out, frames in, and why one closed. Not itself a provider.

What differs between dialects is a pure listener or speaker of `gw.wire`, which turns audio, text and orders into frames and
frames into events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import trio

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamCut
from gw.net.ws import WebSocket, WsClosed
from gw.types.audio import AudioFormat
from gw.types.pending import Pending
from gw.types.stt import ListenEvent
from gw.types.tts import SpeakEvent

Frame = str | bytes
Frames = Frame | Sequence[Frame] | None
"""What an order becomes on the wire: one frame, several or none."""

_BUSY = (1011, 1012, 1013)


class ListenWire(Protocol):
    """The client's side of one transcription session."""

    ended: bool

    def audio(self, data: bytes) -> Frames: ...

    def flush(self) -> Frames: ...

    def passed(self, frame: str) -> Frames:
        """A control frame of a caller who speaks this dialect."""
        ...

    def finish(self) -> Frames: ...

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Raises ProviderError for what the vendor calls one."""
        ...


class ClosedWire(ListenWire, Protocol):
    """That of a vendor which ends a session by closing the socket, without a last frame."""

    def closed(self) -> list[ListenEvent]:
        """The last events, or none when that is not how it ends."""
        ...


class SpeakWire(Protocol):
    """The client's side of one speech session."""

    ended: bool

    def text(self, text: str) -> Frames: ...

    def flush(self) -> Frames: ...

    def clear(self) -> Frames: ...

    def passed(self, frame: str) -> Frames: ...

    def finish(self) -> Frames: ...

    def receive(self, frame: Frame) -> list[SpeakEvent]: ...

    def closed(self) -> list[SpeakEvent]:
        """The vendor has closed the socket in peace: the last events, or none when that is not how it ends."""
        ...


async def send(ws: WebSocket, provider: str, frames: Frames) -> None:
    """Raises ProviderError."""
    if (rest := put(ws, provider, frames)) is not None:
        await rest


def put(ws: WebSocket, provider: str, frames: Frames) -> Pending:
    """As `send`; what of it is left to wait for."""
    if not frames:
        return None
    try:
        if isinstance(frames, (str, bytes)):
            rest = ws.put(frames)
            return None if rest is None else _put_others(ws, provider, rest, ())
        for n, frame in enumerate(frames):
            if (rest := ws.put(frame)) is not None:
                return _put_others(ws, provider, rest, frames[n + 1 :])
    except WsClosed as closed:
        raise why_closed(provider, closed) from None
    return None


async def _put_others(ws: WebSocket, provider: str, rest: Awaitable[None], frames: Sequence[Frame]) -> None:
    try:
        await rest
        for frame in frames:
            await ws.send(frame)
    except WsClosed as closed:
        raise why_closed(provider, closed) from None


def why_closed(provider: str, closed: WsClosed, next_codes: Collection[int] = ()) -> ProviderError:
    """A session that the vendor closed before its end. What it wrote beside the code is its own, and stays out.

    `next_codes`: the vendor's own codes for what another one may do better.
    """
    detail = f"closed the session with code {closed.code}"
    if closed.code in _BUSY or closed.code in next_codes:
        return ProviderFailed(provider=provider, detail=detail, upstream_status=101)
    if closed.code == 1008:
        return ProviderRejected(provider=provider, detail=detail, upstream_status=101, fault="candidate")
    return UpstreamCut(provider=provider, detail=detail)


class ListenSocket:
    """A `ListenSession`."""

    def __init__(
        self, ws: WebSocket, wire: ListenWire, provider: str, *, next_codes: Collection[int] = ()
    ) -> None:
        self._next_codes = next_codes
        self._ws = ws
        self._wire = wire
        self._provider = provider
        self.sent_at = trio.current_time()
        """When audio was sent last."""
        self.heard_at = trio.current_time()

    async def send_audio(self, data: bytes) -> None:
        if (rest := self.hear(data)) is not None:
            await rest

    def hear(self, data: bytes) -> Pending:
        """As `send_audio`; what of it is left to wait for."""
        self.sent_at = trio.current_time()
        return put(self._ws, self._provider, self._wire.audio(data)) if data else None

    async def flush(self) -> None:
        await send(self._ws, self._provider, self._wire.flush())

    async def send_frame(self, frame: str) -> None:
        await send(self._ws, self._provider, self._wire.passed(frame))

    async def finish(self) -> None:
        await send(self._ws, self._provider, self._wire.finish())

    async def receive(self) -> list[ListenEvent]:
        if self._wire.ended:
            raise UpstreamCut(provider=self._provider, detail="read past the end of the session")
        while True:
            try:
                frame = await self._ws.receive()
            except WsClosed as closed:
                return self._over(closed)
            if events := self._heard(frame):
                return events

    async def each(self, take: Callable[[list[ListenEvent]], Pending]) -> None:
        """In place of `receive`: `take` gets the events where they are read. Returns when the session has ended."""

        def took(frame: Frame) -> Pending:
            events = self._heard(frame)
            return take(events) if events else None

        try:
            await self._ws.each(took, lambda: self._wire.ended)
        except WsClosed as closed:
            if (rest := take(self._over(closed))) is not None:
                await rest

    def _heard(self, frame: Frame) -> list[ListenEvent]:
        self.heard_at = trio.current_time()
        return self._wire.receive(frame)

    def _over(self, closed: WsClosed) -> list[ListenEvent]:
        """The vendor has closed the socket: the last events, where that is how it ends. Raises ProviderError."""
        raise why_closed(self._provider, closed, self._next_codes) from None


class ListeningUntilClosed(ListenSocket):
    """A session that the vendor ends by closing the socket."""

    def __init__(self, ws: WebSocket, wire: ClosedWire, provider: str) -> None:
        super().__init__(ws, wire, provider)
        self._last = wire.closed

    def _over(self, closed: WsClosed) -> list[ListenEvent]:
        if closed.code in (1000, 1005) and (last := self._last()):
            return last
        return super()._over(closed)


class SpeakSocket:
    """A `SpeakSession`."""

    def __init__(self, ws: WebSocket, wire: SpeakWire, provider: str, fmt: AudioFormat) -> None:
        self.format = fmt
        self._ws = ws
        self._wire = wire
        self._provider = provider

    async def send_text(self, text: str) -> None:
        await send(self._ws, self._provider, self._wire.text(text) if text else ())

    async def flush(self) -> None:
        await send(self._ws, self._provider, self._wire.flush())

    async def clear(self) -> None:
        await send(self._ws, self._provider, self._wire.clear())

    async def send_frame(self, frame: str) -> None:
        await send(self._ws, self._provider, self._wire.passed(frame))

    async def finish(self) -> None:
        await send(self._ws, self._provider, self._wire.finish())

    async def receive(self) -> list[SpeakEvent]:
        if self._wire.ended:
            raise UpstreamCut(provider=self._provider, detail="read past the end of the session")
        while True:
            try:
                frame = await self._ws.receive()
            except WsClosed as closed:
                if closed.code in (1000, 1005) and (last := self._wire.closed()):
                    return last
                raise why_closed(self._provider, closed) from None
            if events := self._wire.receive(frame):
                return events
