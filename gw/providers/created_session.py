"""Live sessions that a request over HTTP creates, whose answer has the address of their socket. Not itself a provider.

    entered ──POST the settings──▶ created ──connect to the address──▶ open

Both steps happen when the context manager is entered: the deadline of the attempt covers them, and leaving early ends either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import SplitResult, urlsplit

import attrs

from gw.errors import UpstreamProtocolError
from gw.net.connect import Origin
from gw.net.http1 import Headers
from gw.net.ws import WebSocket
from gw.providers import job_call
from gw.providers.http_call import Classify
from gw.providers.spec import Account
from gw.providers.ws_session import open_socket

_SCHEMES = {"ws": "http", "wss": "https"}


@asynccontextmanager
async def open_created_socket(
    account: Account, path: bytes, headers: Headers, body: bytes, classify: Classify, url_of: Callable[[bytes], str], domain: str
) -> AsyncIterator[WebSocket]:
    """Send `body` to `path`, and connect to the address that `url_of` finds in the answer.

    The address may be at the host of the account or below `domain`, the vendor's own. It has a token of its own, so that the
    socket gets no key. Raises the rejection for a status that is not one of success, UpstreamProtocolError for another address,
    and what `open_socket` raises.
    """
    content = (b"content-type", b"application/json")
    answer = await job_call.fetch(account, b"POST", path, [content, *headers], classify, body)
    at, target = _socket_address(account, url_of(answer), domain)
    async with open_socket(at, target, ()) as socket:
        yield socket


def _socket_address(account: Account, url: str, domain: str) -> tuple[Account, str]:
    """Return the account at the host of `url`, and its path and query. The error does not repeat `url`: it has a token."""
    parts = _parts(url)
    if parts is None or not parts.hostname or parts.scheme not in _SCHEMES or "@" in parts.netloc:
        raise UpstreamProtocolError(provider=account.provider_id, detail="the address of the session is not one of a WebSocket")
    origin, host = account.origin, parts.hostname.lower()
    if host != origin.host and not host.endswith("." + domain):
        raise UpstreamProtocolError(provider=account.provider_id, detail="the address of the session is at another host")
    scheme = _SCHEMES[parts.scheme]
    if origin.scheme == "https" and scheme != "https":
        raise UpstreamProtocolError(provider=account.provider_id, detail="the address of the session is not encrypted")
    port = parts.port or {"http": 80, "https": 443}[scheme]
    at = Origin(scheme=scheme, host=host, port=port, public_only=origin.public_only)
    return attrs.evolve(account, origin=at), parts.path + (f"?{parts.query}" if parts.query else "")


def _parts(url: str) -> SplitResult | None:
    """Return the parts of an address of printable ASCII with a valid port; None for any other."""
    try:
        parts = urlsplit(url)
        return parts if url.isascii() and url.isprintable() and " " not in url and parts.port != 0 else None
    except ValueError:
        return None
