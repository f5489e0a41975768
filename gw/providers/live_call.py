"""Live sessions over a WebSocket, whatever their dialect: frames out, frames in, and why one closed. Not itself a provider.

What differs between dialects is a pure listener or speaker of `gw.wire`, which turns audio, text and orders into frames and
frames into events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import trio

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamCut
from gw.net.ws import WebSocket, WsClosed
from gw.types.audio import AudioFormat
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
    if not frames:
        return
    try:
        for frame in (frames,) if isinstance(frames, (str, bytes)) else frames:
            await (ws.send_bytes(frame) if isinstance(frame, bytes) else ws.send_text(frame))
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


class Listening:
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
        self.sent_at = trio.current_time()
        await send(self._ws, self._provider, self._wire.audio(data) if data else ())

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
                raise why_closed(self._provider, closed, self._next_codes) from None
            self.heard_at = trio.current_time()
            if events := self._wire.receive(frame):
                return events


class Speaking:
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
