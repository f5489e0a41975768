"""Speech of a project with `pronunciations`: the vendor gets the text respelled, and the caller gets the times of its own words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Generic, TypeVar

import trio

from gw.policy.respelling import PronunciationTable, RespelledText, for_language
from gw.providers.spec import Account, ProviderSpec, SpeakSession, SpeakStream
from gw.registry.catalog import Catalog, Model
from gw.relay.candidate_list import Candidates
from gw.types.audio import AudioFormat
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest

HOLD_S: Final = 0.5
"""Text that may still become a word of the table waits so long for what follows; language models pause for less between two pieces."""
_MOST_TABLES: Final = 1_000
S = TypeVar("S")


class Respellings:
    """The tables of all projects, each made when it is first needed. A swapped catalog starts over."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._tables: dict[tuple[str, str], PronunciationTable | None] = {}

    def begin(
        self, candidates: Candidates, spec: ProviderSpec, account: Account, model: Model, request: SpeakRequest | SpeakLiveRequest
    ) -> RespelledText | None:
        """Return the text that a candidate is sent, which is empty yet; None where the project has no table for the request."""
        table = self.table(candidates, spec, account, model, request)
        return None if table is None else RespelledText(table)

    def table(
        self, candidates: Candidates, spec: ProviderSpec, account: Account, model: Model, request: SpeakRequest | SpeakLiveRequest
    ) -> PronunciationTable | None:
        """Return what a candidate's text is respelled by; None for nothing."""
        entries = candidates.project.pronunciations
        if not entries:
            return None
        phonemes = None if spec.phonemes is None else spec.phonemes(request, account)
        if phonemes is not None and any(entry.ipa for entry in entries):
            return PronunciationTable(for_language(entries, request.language or model.default_language), phonemes)
        return self._plain(candidates, request.language or model.default_language or "")

    def _plain(self, candidates: Candidates, language: str) -> PronunciationTable | None:
        if candidates.catalog is not self._catalog or len(self._tables) >= _MOST_TABLES:
            self._catalog, self._tables = candidates.catalog, {}
        key = (candidates.project.id, language)
        if key not in self._tables:
            entries = for_language(candidates.project.pronunciations, language)
            self._tables[key] = PronunciationTable(entries) if entries else None
        return self._tables[key]


class RespelledCall(AbstractAsyncContextManager[S], Generic[S]):
    """A call whose stream or session gets, and returns, the caller's own words."""

    def __init__(
        self, call: AbstractAsyncContextManager[S], wrap: Callable[[S, RespelledText], S], respelled: RespelledText
    ) -> None:
        self._call, self._wrap, self._respelled = call, wrap, respelled
        self.abort: Callable[[], None] | None = getattr(call, "abort", None)

    @property
    def began(self) -> bool:
        return getattr(self._call, "began", True)

    async def __aenter__(self) -> S:
        return self._wrap(await self._call.__aenter__(), self._respelled)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._call.__aexit__(kind, error, trace)


def with_respelling(
    call: AbstractAsyncContextManager[S], wrap: Callable[[S, RespelledText], S], respelled: RespelledText | None
) -> AbstractAsyncContextManager[S]:
    """Return a call that respells, or the same one if there is nothing to respell."""
    return call if respelled is None else RespelledCall(call, wrap, respelled)


class RespelledStream:
    """A `SpeakStream` whose word times are those of the caller's words."""

    def __init__(self, stream: SpeakStream, respelled: RespelledText) -> None:
        self._stream, self._respelled = stream, respelled
        self.format: AudioFormat = stream.format

    async def receive(self) -> list[SpeakEvent]:
        while not (events := self._respelled.mapped(await self._stream.receive())):
            pass
        self.format = self._stream.format
        return events


class RespelledSession:
    """A `SpeakSession` that is sent the caller's text, in pieces that are cut anywhere."""

    def __init__(self, session: SpeakSession, respelled: RespelledText) -> None:
        self._session, self._respelled = session, respelled
        self.format: AudioFormat = session.format
        self._sending = trio.Lock()  # the caller's task sends, and the one that releases what is held
        self._fed_at = 0.0
        self._held = trio.Event()
        """Set when something is held; the task that releases it waits for that."""

    async def send_text(self, text: str) -> None:
        async with self._sending:
            self._fed_at = trio.current_time()
            out = self._respelled.feed(text)
            if self._respelled.holds:
                self._held.set()
            if out:
                await self._session.send_text(out)

    async def _send_held(self) -> None:
        if out := self._respelled.end():
            await self._session.send_text(out)

    async def flush(self) -> None:
        async with self._sending:
            await self._send_held()
            await self._session.flush()

    async def finish(self) -> None:
        async with self._sending:
            await self._send_held()
            await self._session.finish()

    async def clear(self) -> None:
        async with self._sending:
            self._respelled.clear()
            await self._session.clear()

    async def receive(self) -> list[SpeakEvent]:
        while not (events := self._respelled.mapped(await self._session.receive())):
            pass
        return events

    async def release_held(self) -> None:
        """Send what is held for HOLD_S, whenever that is so. Returns only by being cancelled; raises what the session raises."""
        while True:
            await self._held.wait()
            self._held = trio.Event()
            while self._respelled.holds:
                await trio.sleep_until(self._fed_at + HOLD_S)
                async with self._sending:
                    if trio.current_time() >= self._fed_at + HOLD_S:
                        await self._send_held()
