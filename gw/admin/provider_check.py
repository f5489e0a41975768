"""Is a provider there, and is its key good? One cheap request."""

from __future__ import annotations

import attrs
import trio

from gw.errors import GwError, ProviderError
from gw.net.http1 import Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Provider

CAP_S = 10.0
_ANSWER_LIMIT = 1_000_000


@attrs.frozen(kw_only=True)
class ProviderHealth:
    """`message` is for people and holds nothing the vendor wrote."""

    ok: bool
    latency_ms: int
    message: str

    def as_json(self) -> dict[str, object]:
        return {"status": "ok" if self.ok else "failed", "latency_ms": self.latency_ms, "message": self.message}


async def check_provider(provider: Provider, pool: Pool) -> ProviderHealth:
    """Ask the provider's health path with its key, within 10 s. Every failure is an answer, not an exception."""
    began = trio.current_time()
    ok, message = False, f"no answer within {CAP_S:g} s"
    with trio.move_on_after(CAP_S):
        try:
            ok, message = await _ask(provider, pool)
        except ProviderError as error:
            message = error.message
        except (GwError, ModuleNotFoundError) as error:
            message = str(error) if isinstance(error, GwError) else f"{error.name} is not installed"
        except ValueError:
            message = "its base_url is not an http(s) address"
    return ProviderHealth(ok=ok, latency_ms=round((trio.current_time() - began) * 1000), message=message)


async def _ask(provider: Provider, pool: Pool) -> tuple[bool, str]:
    if not provider.enabled:
        return False, "switched off in the configuration"
    if not provider.configured:
        return False, provider.key_error or "no API key"
    spec = spec_of(provider.type)
    origin = spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only)
    if spec.check is not None:
        await spec.check(
            Account(
                provider_id=provider.id, model="", origin=origin, api_key=provider.api_key, pool=pool, options=provider.options
            )
        )
        return True, "its engine is loaded" if origin.scheme == "engine" else "it answers"
    if not (spec.needs_address and spec.health_path):
        return True, "runs inside the gateway"
    path = spec.health_path.encode()
    headers = [(b"accept", b"application/json"), *spec.key_headers(provider.api_key)]
    async with pool.open(provider.id, b"GET", origin, path, headers) as response:
        await response.read(_ANSWER_LIMIT)
        return _judge(response.status, spec)


def _judge(status: int, spec: ProviderSpec) -> tuple[bool, str]:
    if status in (401, 403):
        return False, f"the key was refused (HTTP {status})"
    if status == 404:
        return False, f"nothing at {spec.health_path} (HTTP 404): check base_url"
    if 200 <= status < 300:
        return True, f"HTTP {status}"
    return False, f"HTTP {status}"
