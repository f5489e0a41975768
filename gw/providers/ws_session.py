"""Live sessions over a WebSocket, for every dialect: frames out, frames in, and why one closed. Not itself a provider.

What differs between dialects is a pure listener or speaker of `gw.wire` (a "wire" below), which turns audio, text and
commands into frames, and frames into events. A session ends in one of three ways:

    last frame               the wire sets `ended`; reading further raises UpstreamCut
    close frame, 1000        `on_close` returns the last events, for vendors that end a session like this; else UpstreamCut
    close frame, other code  the error of `close_error`: `why_closed`, or the vendor's own table of codes
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamCut
from gw.net.http1 import Headers
from gw.net.prewarm import open_warm
from gw.net.wakeup import clock_of_run
from gw.net.ws import WebSocket, WsClosed
from gw.providers.spec import Account
from gw.types.compiled import mypyc_attr
from gw.types.pending import READY, Pending
from gw.types.stt import ListenEvent, ListenPace

Frame = str | bytes
Frames = Frame | Sequence[Frame] | None
"""The wire form of a command: one frame, several or none."""

_BUSY = (1011, 1012, 1013)
NORMAL_CLOSES = (1000, 1005)
E = TypeVar("E")
W = TypeVar("W", bound="SessionWire[Any]")
CloseError = Callable[[str, WsClosed], ProviderError]


class SessionWire(Protocol[E]):
    """The client's side of one session."""

    ended: bool

    def flush(self) -> Frames: ...

    def forward(self, frame: str) -> Frames:
        """Return a control frame of a client that speaks this dialect as it goes to the vendor."""

    def finish(self) -> Frames: ...

    def receive(self, frame: Frame) -> list[E]:
        """Raises ProviderError for an error of the vendor's."""


class ListenWire(SessionWire[ListenEvent], Protocol):
    def audio(self, data: bytes) -> Frames: ...


def open_socket(
    account: Account, path: str, headers: Headers, *, prewarmed: bool = False
) -> AbstractAsyncContextManager[WebSocket]:
    """Connect to `path` below the provider's address. `prewarmed`: use, and then replace, the socket dialled ahead."""
    ahead = account.prewarmed if prewarmed else None
    connect = account.pool.connect
    headers = [*headers, *account.headers]
    return open_warm(ahead, account.provider_id, account.origin, path.encode(), headers=headers, connect=connect)


def _send_or_pending(ws: WebSocket, provider: str, frames: Frames) -> Pending:
    """Send what can be sent without blocking. Raises ProviderError, here or when awaited."""
    if not frames:
        return None
    try:
        if isinstance(frames, (str, bytes)):
            pending = ws.send_or_pending(frames)
            return None if pending is None else _send_remainder(ws, provider, pending, ())
        for n, frame in enumerate(frames):
            if (pending := ws.send_or_pending(frame)) is not None:
                return _send_remainder(ws, provider, pending, frames[n + 1 :])
    except WsClosed as closed:
        raise why_closed(provider, closed) from None
    return None


async def _send_remainder(ws: WebSocket, provider: str, pending: Awaitable[None], frames: Sequence[Frame]) -> None:
    try:
        await pending
        for frame in frames:
            await ws.send(frame)
    except WsClosed as closed:
        raise why_closed(provider, closed) from None


def why_closed(
    provider: str, closed: WsClosed, next_codes: Collection[int] = (), refused_codes: Collection[int] = ()
) -> ProviderError:
    """Return the error for a session that the vendor closed before its end. The vendor's own reason is left out.

    `next_codes`: vendor close codes after which the next provider is tried. `refused_codes`: those about what the caller sent.
    """
    detail = f"closed the session with code {closed.code}"
    if closed.code in _BUSY or closed.code in next_codes:
        return ProviderFailed(provider=provider, detail=detail, upstream_status=101)
    if closed.code in refused_codes:
        code = str(closed.code)
        return ProviderRejected(provider=provider, detail=detail, upstream_status=400, upstream_code=code, fault="request")
    if closed.code == 1008:
        return ProviderRejected(provider=provider, detail=detail, upstream_status=101, fault="candidate")
    return UpstreamCut(provider=provider, detail=detail)


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketSession(Generic[W, E]):
    """The half that listening and speaking share. `on_close`: returns the last events after a normal close, or []."""

    __slots__ = ("_close_error", "_now", "_on_close", "_provider", "_wire", "_ws", "sent_at")

    def __init__(
        self, ws: WebSocket, wire: W, provider: str, *,
        on_close: Callable[[], list[E]] | None = None, close_error: CloseError = why_closed,
    ) -> None:
        self._ws = ws
        self._wire = wire
        self._provider = provider
        self._on_close = on_close
        self._close_error = close_error
        self._now = clock_of_run()
        self.sent_at = self._now()  # time of the last audio or keep-alive sent

    async def send_frames(self, frames: Frames) -> None:
        """Raises ProviderError."""
        if (pending := _send_or_pending(self._ws, self._provider, frames)) is not None:
            await pending

    async def flush(self) -> None:
        await self.send_frames(self._wire.flush())

    async def send_frame(self, frame: str) -> None:
        await self.send_frames(self._wire.forward(frame))

    async def finish(self) -> None:
        await self.send_frames(self._wire.finish())

    async def receive(self) -> list[E]:
        self._check_not_ended()
        while True:
            try:
                frame = await self._ws.receive()
            except WsClosed as closed:
                return self._last_events(closed)
            if events := self._wire.receive(frame):
                return events

    def _check_not_ended(self) -> None:
        if self._wire.ended:
            raise UpstreamCut(provider=self._provider, detail="read past the end of the session")

    def _last_events(self, closed: WsClosed) -> list[E]:
        """Return the last events if the close is how this vendor ends a session. Raises ProviderError otherwise."""
        if closed.code in NORMAL_CLOSES and self._on_close is not None and (events := self._on_close()):
            return events
        raise self._close_error(self._provider, closed) from None


@mypyc_attr(allow_interpreted_subclasses=True)
class ListenSocket(SocketSession[ListenWire, ListenEvent]):
    """A `ListenSession`. `idle_s`: after so long without audio `idle_frames` keep it alive."""

    __slots__ = ("_handle", "_idle_frames", "_idle_s", "flush_padding_s", "idle_padding_s", "pace", "padding_s")

    def __init__(
        self, ws: WebSocket, wire: ListenWire, provider: str, pace: ListenPace, *,
        on_close: Callable[[], list[ListenEvent]] | None = None, close_error: CloseError = why_closed,
        idle_s: float = math.inf, idle_frames: Callable[[], Frames] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(ws, wire, provider, on_close=on_close, close_error=close_error)
        self.pace = pace
        self._handle: Callable[[list[ListenEvent]], Pending] | None = None
        """Takes the events of each frame where it is read, while `for_each_batch` runs."""
        self._idle_s, self._idle_frames = idle_s, idle_frames
        self.padding_s = self.flush_padding_s = self.idle_padding_s = 0.0
        """Silence that was sent beside the caller's audio, and that of each flush and of each keep-alive, in seconds of billed audio."""

    @property
    def keep_alive_at(self) -> float:
        return self.sent_at + self._idle_s

    def keep_alive_or_pending(self) -> Pending:
        if (now := self._now()) < self.keep_alive_at:
            return None
        self.sent_at = now
        self.padding_s += self.idle_padding_s
        return _send_or_pending(self._ws, self._provider, self._idle_frames())

    async def flush(self) -> None:
        self.padding_s += self.flush_padding_s
        await super().flush()

    async def send_audio(self, data: bytes) -> None:
        if (pending := self.send_audio_or_pending(data)) is not None:
            await pending

    def send_audio_or_pending(self, data: bytes) -> Pending:
        now = self._now
        self.sent_at = now()
        if not data:
            return None
        frames = self._wire.audio(data)
        if not frames or not isinstance(frames, bytes):
            return _send_or_pending(self._ws, self._provider, frames)
        try:  # as `_send_or_pending` does, in place: most frames of live audio come here
            pending = self._ws.send_or_pending(frames)
        except WsClosed as closed:
            raise why_closed(self._provider, closed) from None
        return None if pending is None else _send_remainder(self._ws, self._provider, pending, ())

    def has_unread(self) -> bool:
        return self._ws.has_unread()

    async def for_each_batch(self, handle: Callable[[list[ListenEvent]], Pending]) -> None:
        self._handle = handle
        try:
            while not self._wire.ended:
                await self._ws.for_each_message(self._on_frame)
        except WsClosed as closed:
            if (pending := handle(self._last_events(closed))) is not None:
                await pending
        finally:
            self._handle = None

    def _on_frame(self, frame: Frame) -> Pending:
        wire, handle = self._wire, self._handle
        assert handle is not None
        pending = handle(wire.receive(frame))
        return READY if pending is None and wire.ended else pending


class _OpenedListening(AbstractAsyncContextManager[ListenSocket]):
    """A class, since a generator for each of thousands of sessions takes three times the memory."""

    holds_no_scope = True
    __slots__ = ("_opening", "_session_of", "_socket")

    def __init__(
        self, socket: AbstractAsyncContextManager[WebSocket], session_of: Callable[[WebSocket], ListenSocket], opening: Frames
    ) -> None:
        self._socket, self._opening = socket, opening
        self._session_of: Callable[[WebSocket], ListenSocket] | None = session_of

    async def __aenter__(self) -> ListenSocket:
        session_of, self._session_of = self._session_of, None  # with what it refers to it takes 500 bytes
        assert session_of is not None
        ws = await self._socket.__aenter__()
        try:
            session = session_of(ws)
            await session.send_frames(self._opening)
        except BaseException as error:
            await self._socket.__aexit__(type(error), error, error.__traceback__)
            raise
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._socket.__aexit__(kind, error, traceback)


def open_listen_socket(
    account: Account, path: str, headers: Headers, wire: ListenWire, pace: ListenPace, *, opening: Frames = None,
    on_close: Callable[[], list[ListenEvent]] | None = None, close_error: CloseError = why_closed,
    idle_s: float = math.inf, idle_frames: Callable[[], Frames] = lambda: None,
) -> AbstractAsyncContextManager[ListenSocket]:  # fmt: skip
    """Connect, send the `opening` frames, and yield the session. `idle_s`, `idle_frames`: see `ListenSocket`."""

    def session_of(ws: WebSocket) -> ListenSocket:
        return ListenSocket(
            ws, wire, account.provider_id, pace, on_close=on_close, close_error=close_error, idle_s=idle_s, idle_frames=idle_frames
        )

    return _OpenedListening(open_socket(account, path, headers), session_of, opening)
