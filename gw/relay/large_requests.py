"""Requests whose JSON is so large that decoding and translating it would hold up every other caller.

A megabyte of small messages takes a fifth of a second. In a thread, the interpreter is shared every 5 ms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, Generic, TypeVar

import msgspec
import trio

LARGE_BYTES: Final = 256_000
_THREADS: Final = 2
"""At once: so one caller's body of many megabytes does not hold up every other large one, and few share the interpreter."""
T = TypeVar("T")
S = TypeVar("S")


class LargeRequests:
    """Threads for what is large; the rest is done at once."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(_THREADS)

    async def decode(self, decode: Callable[[bytes], T], body: bytes) -> T:
        """Return `decode(body)`, from a thread if the body is large. `decode` is a pure function."""
        if len(body) <= LARGE_BYTES:
            return decode(body)
        return await self.in_thread(partial(decode, body))

    def in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        return trio.to_thread.run_sync(function, limiter=self._limiter, abandon_on_cancel=True)


def is_large(members: Iterable[msgspec.Raw]) -> bool:
    return sum(map(len, members)) > LARGE_BYTES


class TranslatedCall(AbstractAsyncContextManager[S], Generic[S]):
    """A provider's call for a large request: entering builds it in a thread, and then enters it."""

    def __init__(self, large: LargeRequests, build: Callable[[], AbstractAsyncContextManager[S]]) -> None:
        self._large = large
        self._build: Callable[[], AbstractAsyncContextManager[S]] | None = build
        self._call: AbstractAsyncContextManager[S] | None = None

    @property
    def began(self) -> bool:
        """Return whether the vendor may have received some of the request."""
        return self._call is not None and getattr(self._call, "began", True)

    async def __aenter__(self) -> S:
        build, self._build = self._build, None  # it refers to the request, which is not kept for as long as its answer takes
        assert build is not None
        self._call = await self._large.in_thread(build)
        del build
        return await self._call.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._call is not None
        await self._call.__aexit__(kind, error, trace)
