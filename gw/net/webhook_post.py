"""One POST to an address that the operator has configured: private hosts are allowed, redirects are not followed.

No text that is returned has the path or the query of the address, since that may be a secret.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
import trio

from gw.errors import ProviderError
from gw.net.connect import Connect, Origin
from gw.net.http1 import Headers, Pool
from gw.net.recordings import split_credential

_KEPT: Final = "/%:@!$&'()*+,;=~-._?"  # characters of a path and query that stay as they are
_LONGEST_WAIT_S: Final = 3_600.0


class PostOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """`status`: of the answer, None if there was none. `why`: "" for 2xx, else why the message was not accepted."""

    status: int | None = None
    why: str = ""
    retry_after_s: float = 0.0
    """The answer's Retry-After in seconds, an hour at most; 0 = none."""


async def post(connect: Connect, url: str, headers: Headers, body: bytes, *, within_s: float) -> PostOutcome:
    """Send `body` as JSON. Never raises: every fault of the address or its server is an outcome."""
    address, credential = split_credential(url)
    try:
        parts = urlsplit(address)
        origin = Origin.parse(f"{parts.scheme}://{parts.netloc}")
        target = quote(parts.path or "/", safe=_KEPT) + (f"?{quote(parts.query, safe=_KEPT)}" if parts.query else "")
    except ValueError as error:
        return PostOutcome(why=str(error))
    fields = [(b"content-type", b"application/json"), (b"user-agent", b"gw"), *headers]
    fields += [(b"authorization", credential)] if credential else []
    pool = Pool(connect=connect)  # of its own: the providers' connections are not concerned
    try:
        with trio.move_on_after(within_s):
            async with pool.open("webhook", b"POST", origin, target.encode(), fields, body) as response:
                if 200 <= response.status < 300:
                    return PostOutcome(status=response.status)
                why = f"{origin.host} answered {response.status}"
                return PostOutcome(status=response.status, why=why, retry_after_s=_seconds(response.header(b"retry-after")))
    except ProviderError as error:
        return PostOutcome(why=error.detail)
    finally:
        await pool.aclose()
    return PostOutcome(why=f"no answer from {origin.host} within {within_s:g} s")


def _seconds(value: bytes | None) -> float:
    """Return a Retry-After in seconds; dates are left out, since no receiver of messages is known to send one."""
    return min(float(value), _LONGEST_WAIT_S) if value is not None and value.isdigit() else 0.0
