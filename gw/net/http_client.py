"""HTTP off the hot path: the control plane's clients (one of them the only user of httpx2) and single GETs for health checks.

Importing this module loads no library, so a command that makes no request does not pay for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs

from gw.errors import ProviderUnreachable, UpstreamCut

if TYPE_CHECKING:  # loaded only where they are used
    import httpx2

    from gw.net.http1 import Headers, Origin, Pool
    from gw.types.secret import Secret

ANSWER_LIMIT_S: Final = 30.0  # longest wait for the gateway's answer
PROBE_MAX_BYTES: Final = 1_000_000


@attrs.frozen(kw_only=True)
class Probe:
    """The response to a GET. `body` is the vendor's: it may be parsed but never shown."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = attrs.field(repr=False)


async def probe(pool: Pool, provider: str, origin: Origin, path: str, headers: Headers = ()) -> Probe:
    """GET `origin` + `path` and read up to 1 MB. Every status is a result; redirects are not followed.

    Uses the pool, which refuses the same addresses as in a real call. Sets no deadline. Raises ProviderUnreachable,
    UpstreamCut, UpstreamProtocolError.
    """
    async with pool.open(provider, b"GET", origin, path.encode("ascii"), headers) as response:
        body = await response.read(PROBE_MAX_BYTES)
        return Probe(status=response.status, headers=tuple(response.headers), body=body)


def request_blocking(
    base_url: str, token: Secret | None, method: str, path: str, *, headers: Mapping[str, str], content: bytes | None
) -> tuple[int, bytes]:
    """Send one request to a running gateway and return the status and the body.

    Like `client`, but for one answer that is read at once: Python's own library loads in a quarter of the time. Raises
    ProviderUnreachable, UpstreamCut.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = urlsplit(base_url)
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=ANSWER_LIMIT_S)
    credential = {"authorization": f"Bearer {token.reveal()}"} if token else {}
    with closing(connection):
        try:
            connection.request(method, parts.path.rstrip("/") + path, content, {**headers, **credential})
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise ProviderUnreachable(provider="gateway", detail=f"{base_url}: {error or type(error).__name__}") from error
        try:
            return response.status, response.read()
        except (OSError, HTTPException) as error:
            raise UpstreamCut(provider="gateway", detail=str(error)) from error


def client(
    base_url: str, token: Secret | None = None, *, transport: httpx2.BaseTransport | None = None
) -> httpx2.Client:
    """Return a blocking client of a running gateway: `with client(url, token) as http: http.get("/v1/costs").json()`.

    It follows no redirect, requests no content coding and ignores proxy settings of the environment, since the gateway is
    mostly on this machine. A gateway that cannot be reached raises ProviderUnreachable, which is a ConnectionError; a
    response that breaks off UpstreamCut. `transport` replaces the network in tests.
    """
    import ssl

    import httpx2

    from gw.net.translating_transport import TranslatingTransport

    # Loading the trust store takes longer than a request: plain HTTP gets an empty one, which accepts no certificate.
    verify = True if base_url.lower().startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    headers = {"accept-encoding": "identity"}
    if token:
        headers["authorization"] = f"Bearer {token.reveal()}"
    return httpx2.Client(
        base_url=base_url,
        headers=headers,
        timeout=ANSWER_LIMIT_S,
        follow_redirects=False,
        transport=TranslatingTransport(transport or httpx2.HTTPTransport(verify=verify, trust_env=False), base_url),
    )
