"""State of the sign-ins of one gateway: the OpenID provider with its caches, and what must not be used a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

import attrs

from gw.errors import SignInRefused
from gw.gateway import Gateway
from gw.net.openid_provider import OpenIdProvider
from gw.registry.credentials import ExpiringSet

MAX_USED: Final = 10_000  # states and logout tokens that were used, some 150 bytes each; beyond it no other is accepted for a while


@attrs.define(eq=False)
class SignIns:
    """The provider of the current settings, and used states."""

    _used: ExpiringSet = attrs.field(factory=lambda: ExpiringSet(MAX_USED), init=False)
    _provider: OpenIdProvider | None = attrs.field(default=None, init=False)

    def provider(self, gateway: Gateway) -> OpenIdProvider:
        """Return the provider of the settings. Raises SignInRefused where there is none."""
        oidc = gateway.settings.auth.oidc
        if not oidc.issuer:
            raise SignInRefused(what="this gateway has no OpenID provider (auth.oidc)", reason="off")
        if self._provider is None or self._provider.settings != oidc:
            self._provider = OpenIdProvider(oidc, gateway.pool, gateway.clock)
        return self._provider

    @contextmanager
    def once(self, value: str, expires_at: float, now: float) -> Iterator[None]:
        """Refuse what was used before, or is in use.

        What fails inside was no use, so that failures take no memory, and can be tried again. Raises SignInRefused.
        """
        key = sha256(value.encode()).digest()
        if key in self._used or not self._used.add(key, expires_at, now):
            raise SignInRefused(what="this answer was used before", reason="replay")
        is_used = False
        try:
            yield
            is_used = True
        finally:
            if not is_used:
                self._used.discard(key)
