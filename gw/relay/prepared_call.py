"""The call of a candidate, ready to be opened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, NoReturn, TypeVar

import msgspec

from gw.errors import ProviderError, RateLimitError
from gw.policy.respelling import RespelledText
from gw.providers.spec import ProviderSpec
from gw.registry.catalog import Model, Provider
from gw.relay.limits import Gate
from gw.types.usage import CacheUse

S = TypeVar("S")

OpenCall = Callable[[], AbstractAsyncContextManager[S]]
"""A candidate's call, still to be opened."""


def _begun() -> NoReturn:
    raise RuntimeError("this call has begun already")


class PreparedCall(msgspec.Struct, Generic[S], eq=False):
    """A candidate's call, ready to be opened; its gate has been entered."""

    model: Model
    provider: Provider
    spec: ProviderSpec
    gate: Gate
    open: OpenCall[S]
    beside: int = 0
    """Calls of the candidate that ran when this one began."""
    ignored_settings: tuple[str, ...] = ()
    addons: tuple[str, ...] = ()
    """Options of the request that the vendor bills on top."""
    channels: int = 1
    """Channels that the vendor bills one by one."""
    voice: str | None = None
    """Voice of the speech, if it is not the one that the caller named; "" = the vendor's own default."""
    cache: CacheUse = ""
    """Whether the phrase cache answers in place of the vendor; "" where it was not asked."""
    respelled: RespelledText | None = None
    """The text as the vendor is sent it, where the project's pronunciations may change it."""
    takes_own: bool = False
    """Whether the vendor gets the caller's settings and control frames as they are."""

    def begin(self) -> AbstractAsyncContextManager[S]:
        """Return the call to enter, once. What made it is not kept: it refers to the request, which may be long."""
        open_call, self.open = self.open, _begun
        return open_call()

    def leave(self, now: float, error: ProviderError | None, *, answered: bool) -> None:
        """Leave the gate. `error`: how the call ended, as far as it may say something of the vendor."""
        if error is not None and isinstance(error, RateLimitError) and self.spec.full_at_429 and error.limit_source == "upstream":
            error.slots_full = True
        self.gate.leave(now, error, answered=answered, beside=self.beside)
