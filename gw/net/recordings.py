"""Recordings and callbacks at addresses that callers name: what may be connected to, and how long it may take.

A caller's address is not to be trusted. It is connected to only where it lies in the public internet, judged by the numeric
address of the connection itself, so a name that resolves to something else a moment later gains nothing; a redirect is
judged again. `serve.recording_hosts` names the exceptions. No credential goes along.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import quote, unquote, urljoin, urlsplit

import trio

from gw.errors import ClientProtocolError, ProviderError, ProviderUnreachable, TooLarge
from gw.net.connect import Connect, Origin
from gw.net.http1 import Headers, HttpResponse, Pool

FETCH_S: Final = 60.0
"""For a whole recording, redirects included."""
REDIRECTS_MAX: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEPT: Final = "/%:@!$&'()*+,;=~-._?"  # characters of a path and query that stay as they are

Begin: TypeAlias = Callable[[str, str], None]
"""Called with the file name and the content type, before the first piece."""
Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class RecordingNotFetched(ClientProtocolError, status=400, code="recording_not_fetched"):
    """The recording at the address that the request names cannot be had."""


def check_url(url: str, param: str) -> None:
    """Raise ClientProtocolError for an address that is never called, whatever its name resolves to."""
    _split(url, param, ())


def split_credential(url: str) -> tuple[str, bytes]:
    """Return an address without its user and password, and the value of the header that carries them."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not at:
        return url, b""
    return f"{scheme}{separator}{host}{slash}{path}", b"Basic " + b64encode(unquote(user).encode())


def _split(url: str, param: str, private_hosts: Collection[str]) -> tuple[Origin, bytes]:
    """Return where to connect, and path and query. Raises ClientProtocolError."""
    if url[:5].lower() == "data:":
        what = f"{param} is a data: URL, which is not accepted: send the audio itself as the request's body or file"
        raise ClientProtocolError(what=what, param=param)
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError("it must begin with http:// or https://")
        origin = Origin.parse(f"{parts.scheme}://{parts.netloc}")
    except ValueError as error:
        raise ClientProtocolError(what=f"{param} is not an address of a recording: {error}", param=param) from None
    listed = origin.host.rstrip(".") in {host.lower().rstrip(".") for host in private_hosts}
    public = Origin(scheme=origin.scheme, host=origin.host, port=origin.port, public_only=not listed)
    target = quote(parts.path or "/", safe=_KEPT) + (f"?{quote(parts.query, safe=_KEPT)}" if parts.query else "")
    return public, target.encode()


@asynccontextmanager
async def _opened(
    connect: Connect, method: bytes, origin: Origin, target: bytes, headers: Headers, body: bytes = b""
) -> AsyncIterator[HttpResponse]:
    """Open a connection of its own: callers' hosts get no place in the pool of the providers."""
    pool = Pool(connect=connect)
    try:
        async with pool.open("recording", method, origin, target, headers, body) as response:
            yield response
    finally:
        await pool.aclose()


async def fetch(
    connect: Connect, url: str, param: str, begin: Begin, write: Write, *, max_bytes: int, private_hosts: Collection[str]
) -> None:
    """Read the recording at `url` into `write`. Raises ClientProtocolError, RecordingNotFetched and TooLarge, with `param`."""
    with trio.move_on_after(FETCH_S) as scope:
        for _ in range(REDIRECTS_MAX + 1):
            origin, target = _split(url, param, private_hosts)
            try:
                async with _opened(connect, b"GET", origin, target, [(b"accept", b"*/*"), (b"user-agent", b"gw")]) as response:
                    location = response.header(b"location")
                    if response.status in _REDIRECTS and location:
                        url = urljoin(url, location.decode("latin-1"))
                        continue
                    await _read(response, origin, target, param, begin, write, max_bytes)
                    return
            except ProviderError as error:
                raise _not_fetched(origin, param, _why(error, origin)) from None
        raise _not_fetched(origin, param, f"more than {REDIRECTS_MAX} redirects")
    if scope.cancelled_caught:
        raise _not_fetched(origin, param, f"it was not complete after {FETCH_S:g} s")


async def _read(
    response: HttpResponse, origin: Origin, target: bytes, param: str, begin: Begin, write: Write, max_bytes: int
) -> None:
    content_type = (response.header(b"content-type") or b"").decode("latin-1")
    if response.status != 200:
        raise _not_fetched(origin, param, f"its server answered {response.status}")
    if content_type.lower().startswith("text/html"):
        raise _not_fetched(origin, param, "it is a page (text/html), not a recording: give the address of the audio file")
    begin(target.partition(b"?")[0].rpartition(b"/")[2].decode(), content_type)
    size = 0
    while data := await response.receive_some():
        size += len(data)
        if size > max_bytes:
            what = f"the recording at {origin} is larger than serve.max_body_mb allows ({max_bytes / 1e6:g} MB)"
            raise TooLarge(what=what, param=param, limit_bytes=max_bytes)
        await write(data)
    if not size:
        raise _not_fetched(origin, param, "it is empty")


def _why(error: ProviderError, origin: Origin) -> str:
    if isinstance(error, ProviderUnreachable) and error.cause == "address" and origin.public_only:
        return "its address is private; the operator can list the host in serve.recording_hosts"
    return error.detail


def _not_fetched(origin: Origin, param: str, why: str) -> RecordingNotFetched:
    what = f"{param}: the recording at {origin} cannot be fetched: {why}; send the audio itself, or another address"
    return RecordingNotFetched(what=what, param=param)


async def post(
    connect: Connect, url: str, headers: Headers, body: bytes, *, within_s: float,
    private_hosts: Collection[str], method: bytes = b"POST",
) -> int | str:
    """Send a callback, and return the status of its answer, or why there is none. Redirects are not followed."""
    try:
        origin, target = _split(url, "callback", private_hosts)
        with trio.move_on_after(within_s):
            async with _opened(connect, method, origin, target, headers, body) as response:
                return response.status
    except ClientProtocolError as error:
        return error.what
    except ProviderError as error:
        return _why(error, origin)
    return f"no answer within {within_s:g} s"
