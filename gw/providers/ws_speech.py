"""Live speech over a WebSocket: a `SocketSession` that sends text and receives audio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from gw.net.ws import WebSocket
from gw.providers.ws_session import CloseError, Frames, SessionWire, SocketSession, why_closed
from gw.types.audio import AudioFormat
from gw.types.tts import SpeakEvent


class SpeakWire(SessionWire[SpeakEvent], Protocol):
    def text(self, text: str) -> Frames: ...

    def clear(self) -> Frames: ...


class QueueingWire(SpeakWire, Protocol):
    due: list[SpeakEvent]
    """Events that no frame brings."""


class FrameQueueWire(QueueingWire, Protocol):
    def next_frame(self) -> str | None: ...


class SpeakSocket(SocketSession[SpeakWire, SpeakEvent]):
    """A `SpeakSession`."""

    __slots__ = ("format",)

    def __init__(
        self, ws: WebSocket, wire: SpeakWire, provider: str, fmt: AudioFormat, *,
        on_close: Callable[[], list[SpeakEvent]] | None = None, close_error: CloseError = why_closed,
    ) -> None:
        super().__init__(ws, wire, provider, on_close=on_close, close_error=close_error)
        self.format = fmt

    async def keep_alive(self, idle_s: float, frames: Callable[[], Frames]) -> None:
        """Send `frames()` whenever nothing has been sent for `idle_s`, until cancelled."""
        while True:
            await trio.sleep_until(self.sent_at + idle_s)
            if trio.current_time() >= self.sent_at + idle_s:
                self.sent_at = trio.current_time()
                await self.send_frames(frames())

    async def send_text(self, text: str) -> None:
        await self.send_frames(self._wire.text(text) if text else ())

    async def clear(self) -> None:
        await self.send_frames(self._wire.clear())


class QueueingSpeakSocket(SpeakSocket):
    """A `SpeakSocket` whose wire also has events that no frame brings: a waiting `receive` is interrupted for them."""

    _wire: QueueingWire
    _receiving: trio.CancelScope | None = None

    async def send_frames(self, frames: Frames) -> None:
        await super().send_frames(frames)
        self._interrupt_receive()

    def _interrupt_receive(self) -> None:
        if self._wire.due and self._receiving is not None:
            self._receiving.cancel()

    async def receive(self) -> list[SpeakEvent]:
        while not self._wire.due:
            with trio.CancelScope() as self._receiving:
                return await super().receive()
        events, self._wire.due = self._wire.due, []
        return events


class FrameQueueSocket(QueueingSpeakSocket):
    """A `QueueingSpeakSocket` whose wire queues its frames too, since both tasks may have some: who holds the lock sends them."""

    _wire: FrameQueueWire

    def __init__(
        self, ws: WebSocket, wire: FrameQueueWire, provider: str, fmt: AudioFormat, *, close_error: CloseError = why_closed
    ) -> None:
        super().__init__(ws, wire, provider, fmt, close_error=close_error)
        self._sending = trio.Lock()

    async def send_frames(self, frames: Frames = None) -> None:
        """Send what the wire has queued."""
        self._interrupt_receive()
        async with self._sending:
            while (frame := self._wire.next_frame()) is not None:
                self.sent_at = trio.current_time()
                await super().send_frames(frame)

    async def receive(self) -> list[SpeakEvent]:
        events = await super().receive()
        await self.send_frames()
        return events
