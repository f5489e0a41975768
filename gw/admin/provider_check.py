"""Check that a provider answers and accepts its key, with one cheap request."""

from __future__ import annotations

from typing import Literal

import trio

from gw.admin.schemas import Schema
from gw.errors import GwError, ProviderError
from gw.net.http1 import Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Provider

CAP_S = 10.0
_ANSWER_LIMIT = 1_000_000


class ProviderHealth(Schema):
    """A provider that cannot be reached or refuses the key is `failed`, and the HTTP status is still 200. `message` is for
    people and contains nothing the vendor wrote."""

    status: Literal["ok", "failed"]
    latency_ms: int
    message: str

    @property
    def ok(self) -> bool:
        return self.status == "ok"


async def check_provider(provider: Provider, pool: Pool) -> ProviderHealth:
    """Request the provider's health path with its key, within 10 s. Failures are results, not exceptions."""
    began = trio.current_time()
    ok, message = False, f"no answer within {CAP_S:g} s"
    with trio.move_on_after(CAP_S):
        try:
            ok, message = await _check(provider, pool)
        except ProviderError as error:
            message = error.message
        except (GwError, ModuleNotFoundError) as error:
            message = str(error) if isinstance(error, GwError) else f"{error.name} is not installed"
        except ValueError:
            message = "its base_url is not an http(s) address"
    latency_ms = round((trio.current_time() - began) * 1_000)
    return ProviderHealth(status="ok" if ok else "failed", latency_ms=latency_ms, message=message)


async def _check(provider: Provider, pool: Pool) -> tuple[bool, str]:
    if not provider.enabled:
        return False, "switched off in the configuration"
    if not provider.configured:
        return False, provider.key_error or "no API key"
    spec = spec_of(provider.type)
    origin = spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only)
    if spec.check is not None:
        account = Account(
            provider_id=provider.id, model="", origin=origin, api_key=provider.api_key, pool=pool, options=provider.options
        )
        await spec.check(account)
        return True, "the engine is loaded" if origin.scheme == "engine" else "the server answers"
    if not (spec.needs_address and spec.health_path):
        return True, "runs inside the gateway"
    path = spec.health_path.encode()
    headers = [(b"accept", b"application/json"), *spec.key_headers(provider.api_key)]
    async with pool.open(provider.id, b"GET", origin, path, headers) as response:
        await response.read(_ANSWER_LIMIT)
        return _verdict(response.status, spec)


def _verdict(status: int, spec: ProviderSpec) -> tuple[bool, str]:
    if status == 404:
        return False, f"nothing at {spec.health_path} (HTTP 404): check base_url"
    return 200 <= status < 300, f"the key was refused (HTTP {status})" if status in (401, 403) else f"HTTP {status}"
