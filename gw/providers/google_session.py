"""A live transcription of Google Cloud: one gRPC call after the other, as the vendor ends each after five minutes. Not itself a provider.

The next call begins in a pause, or at last before the vendor's limit. It gets the audio after the last final transcript once more, so
that no word is lost, and no answer of the call before it counts any more, so that none comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from gw.errors import ProviderError, UpstreamCut
from gw.net.grpc_call import GrpcCall, GrpcEnded
from gw.types.pending import Pending
from gw.types.stt import ListenEnd, ListenEvent, ListenPace
from gw.wire import google_cloud_listen, google_cloud_speak
from gw.wire.google_cloud_listen import GoogleCloudListenClient
from gw.wire.vendor_errors import ErrorFacts, error_of, parse_retry_after

_TIMED_OUT: Final = re.compile(r"(?i)stream duration|audio timeout|long duration elapsed|timed out")
"""In the message of a status that ends a call for its time: nothing was wrong with the request."""


class GoogleListenSession:
    """A `ListenSession`. `dial` begins a call; the session's user leaves it at the end."""

    def __init__(
        self, provider: str, wire: GoogleCloudListenClient, dial: Callable[[], Awaitable[GrpcCall]], pace: ListenPace,
        secrets: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._provider = provider
        self._wire = wire
        self._dial = dial
        self._secrets = secrets
        self._sending = trio.Lock()  # audio and what keeps the call alive come from two tasks
        self._call: GrpcCall | None = None  # None while the next one is begun
        self._changed = trio.Event()  # set when that is done, or has failed
        self._failure: ProviderError | None = None
        self._finishing = self._ended = False
        self._begun_at = self._sent_at = trio.current_time()
        self.pace = pace
        self.padding_s = 0.0
        """Seconds of silence, and of audio that was sent once more."""

    async def open(self) -> None:
        """Begin the first call. Raises ProviderError; the session is left also then."""
        await self._begin(self._wire.opening())

    async def leave(self) -> None:
        if self._call is not None:
            await self._call.leave()

    async def _begin(self, opening: list[bytes]) -> None:
        self._call = call = await self._dial()
        self._begun_at = trio.current_time()
        self._changed.set()   # what follows needs somebody who reads: an upstream makes room for more in its answers
        try:
            await call.send(opening)
        except GrpcEnded as ended:
            raise self._error(ended) from None

    async def _renew(self, call: GrpcCall) -> None:
        """Replace a call by the next one."""
        self._call, self._changed = None, trio.Event()
        try:
            await call.leave()
            opening, again_s = self._wire.next_opening()
            self.padding_s += again_s
            await self._begin(opening)
        except ProviderError as error:
            self._failure = error
            raise
        finally:
            self._changed.set()

    async def _send(self, frames: Callable[[], list[bytes]], padding_s: float = 0.0) -> None:
        """Send the messages that `frames` makes, in the call that is open then; nothing once it is finished. Raises ProviderError."""
        async with self._sending:
            if self._finishing:   # while this waited for its turn
                return
            call = self._open_call()
            self._sent_at = trio.current_time()
            if self._wire.may_renew(self._sent_at - self._begun_at):
                await self._renew(call)
                call = self._open_call()
            try:
                await call.send(frames())
            except GrpcEnded as ended:
                raise self._error(ended) from None
            self.padding_s += padding_s

    def _open_call(self) -> GrpcCall:
        if self._call is None:
            raise self._failure or UpstreamCut(provider=self._provider, detail="the session has ended")
        return self._call

    async def send_audio(self, data: bytes) -> None:
        if data:
            await self._send(lambda: self._wire.audio(data))

    async def send_frame(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    async def flush(self) -> None:
        await self._send(self._wire.flush, google_cloud_listen.FLUSH_S)

    @property
    def keep_alive_at(self) -> float:
        return self._sent_at + google_cloud_listen.IDLE_S

    def keep_alive_or_pending(self) -> Pending:
        if trio.current_time() < self.keep_alive_at or self._finishing:
            return None
        self._sent_at = trio.current_time()
        return self._send(self._wire.keep_alive, google_cloud_listen.KEEP_ALIVE_S)

    async def finish(self) -> None:
        async with self._sending:
            self._finishing = True
            await self._open_call().finish()

    async def receive(self) -> list[ListenEvent]:
        if self._ended:
            raise UpstreamCut(provider=self._provider, detail="read past the end of the session")
        while True:
            call = self._call
            if call is None:
                if self._failure is not None:
                    raise self._failure
                await self._changed.wait()
                continue
            try:
                message = await call.receive()
            except (GrpcEnded, ProviderError) as ended:
                if call is self._call:
                    return self._last_events(ended)
            else:
                if call is self._call and (events := self._wire.receive(message)):
                    return events

    def _last_events(self, ended: GrpcEnded | ProviderError) -> list[ListenEvent]:
        """Return the last event if the call has ended as it should. Raises ProviderError otherwise."""
        if isinstance(ended, ProviderError):
            raise ended
        if ended.status != 0 or not self._finishing:
            raise self._error(ended) from None
        self._ended = True
        return [ListenEnd()]

    def _error(self, ended: GrpcEnded) -> ProviderError:
        if ended.status == 0:
            return UpstreamCut(provider=self._provider, detail="ended the session before it was finished")
        status = 408 if ended.status is not None and _TIMED_OUT.search(ended.message) else ended.http_status
        facts = ErrorFacts(code=ended.name, message=ended.message)
        retry_after_s = parse_retry_after(ended.retry_after, None) if ended.retry_after else None
        return error_of(self._provider, status, facts, self._secrets, retry_after_s, dialect=google_cloud_speak.ERRORS)
